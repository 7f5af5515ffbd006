"""From the options of a call to a scheduling class: resources to start, resources to hold, eligible nodes.

A task may also run in the placement group of the task that submits it. So a call's placement can depend on its caller:
`depends_on_caller` tells, and only then is the specification of a remote function made again for each call.
"""

from __future__ import annotations

from ..core.records import SchedulingClass, amounts, units
from ..core.scheduler import fits
from ..options.stand_ins import PlacementGroup
from ..process import accelerators, environment
from ..runtime.runtime import Runtime
from ..process.context import Execution
from ..process.worker_process import caller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

# The core's word for each of Ray's classes of label conditions.
_OPERATORS = {"In": "in", "NotIn": "not_in", "Exists": "exists", "DoesNotExist": "absent"}


def scheduling_class(
    runtime: Runtime, options: Mapping[str, Any], need: dict[str, float], hold: dict[str, float], name: str
) -> SchedulingClass:
    """The scheduling class for these options. need, hold: amounts by resource name, to start and while running. name:
    of the function or class, for the text of an error.

    Raises ValueError for a bundle that does not exist, and for a demand that no bundle of its placement group can ever
    meet.
    """
    strategy = strategy_of(runtime, options)
    if strategy[0] == "PLACEMENT_GROUP":
        _check_bundle(runtime, strategy, need, name)
    if not accelerators.VARIABLES.keys().isdisjoint(hold):
        environment.install()  # each worker reads its own devices in variables such as CUDA_VISIBLE_DEVICES
    return runtime.scheduling_class(need, hold, strategy, selector_of(options.get("label_selector")))


def captures_children(options: Mapping[str, Any]) -> bool:
    """Whether the children of a task with these options run in its group; by default as for its caller."""
    if not _may_be_in_group(options):
        return False
    strategy = options.get("scheduling_strategy")
    asked = (options if strategy is None else vars(strategy)).get("placement_group_capture_child_tasks")
    return captures(caller()) if asked is None else bool(asked)


def inherits_group(options: Mapping[str, Any]) -> bool:
    """Whether the call runs in the placement group of its caller. It does if it names no placement itself, and either
    the caller captures its children or the call asks to be captured."""
    if options.get("scheduling_strategy") is not None or options.get("placement_group", "default") != "default":
        return False
    return lease_in_group(caller()) is not None and captures_children(options)


def depends_on_caller(options: Mapping[str, Any]) -> bool:
    """Whether the placement of the call, or of its children, depends on its caller and not on its options alone."""
    return inherits_group(options) or _may_be_in_group(options) and captures(caller())


def lease_in_group(execution: Execution | None) -> SchedulingClass | None:
    """The scheduling class for which this task's or actor's worker was leased, if its lease is in a placement group."""
    if execution is None:
        return None
    worker = execution.worker.actor.worker if execution.worker.actor is not None else execution.worker
    return worker.lease if worker is not None and worker.bundle is not None else None


def captures(execution: Execution | None) -> bool:
    """Whether the children of the running task run in its placement group; always False for the driver (None)."""
    if execution is None:
        return False
    actor = execution.worker.actor
    return (actor.creation.spec if actor is not None else execution.task.spec).capture_child_tasks


def strategy_of(runtime: Runtime, options: Mapping[str, Any]) -> tuple[Any, ...]:
    """The scheduling strategy in the core's form, which SchedulingClass describes."""
    strategy = options.get("scheduling_strategy")
    if inherits_group(options):
        return ("PLACEMENT_GROUP", lease_in_group(caller()).strategy[1], -1)  # type: ignore[union-attr]
    if strategy is None:
        return _in_group(options.get("placement_group"), options.get("placement_group_bundle_index", -1))
    if isinstance(strategy, str):
        return (strategy,)
    if _is_of_group(strategy):
        return _in_group(strategy.placement_group, strategy.placement_group_bundle_index)
    if type(strategy).__name__ == "NodeAffinitySchedulingStrategy":
        return ("NODE_AFFINITY", strategy.node_id, bool(strategy.soft))
    return ("NODE_LABEL", _label_rules(strategy.hard), _label_rules(strategy.soft))


def _is_of_group(strategy: Any) -> bool:
    return type(strategy).__name__ == "PlacementGroupSchedulingStrategy"


def _may_be_in_group(options: Mapping[str, Any]) -> bool:
    strategy = options.get("scheduling_strategy")
    return strategy is None or _is_of_group(strategy)


def _in_group(group: Any, index: int | None) -> tuple[Any, ...]:
    """The strategy for running in a placement group. None, "default" and the empty group mean no group.

    Raises AssertionError if `group` is anything else; ValueError for a bundle index without a group; TypeError for None
    as index.
    """
    if group is None or group == "default" or isinstance(group, PlacementGroup) and group.is_empty:
        if index not in (None, -1):
            raise ValueError(
                f"'placement_group_bundle_index' is {index}, but there is no placement group that could have bundles"
            )
        return ("DEFAULT",)
    if index is None:
        raise TypeError("'placement_group_bundle_index' must be an integer (-1 for any bundle), not None")
    assert isinstance(group, PlacementGroup), f"'placement_group' must be a placement group, not {group!r}"
    return ("PLACEMENT_GROUP", int(group.id.hex()[:-8], 16), index)


def _label_rules(rules: Mapping[str, Any] | None) -> tuple[Any, ...]:
    """The conditions of a NodeLabelSchedulingStrategy as the core's (key, operator, values)."""
    found = []
    for key, rule in (rules or {}).items():
        found.append((key, _OPERATORS[type(rule).__name__], tuple(getattr(rule, "values", ()))))
    return tuple(found)


def selector_of(selector: Mapping[str, str] | None) -> tuple[Any, ...]:
    """A label selector as the core's (key, operator, values). Conditions are "a", "!a", "in(a,b)", "!in(a,b)".

    As in Ray, a space after a comma belongs to the value that follows it, so that no label matches.
    """
    found = []
    for key, text in (selector or {}).items():
        operator = "not_in" if text.startswith("!") else "in"
        text = text.lstrip("!")
        values = text[3:-1].split(",") if text.startswith("in(") else [text]
        found.append((key, operator, tuple(values)))
    return tuple(found)


def _check_bundle(runtime: Runtime, strategy: tuple[Any, ...], need: dict[str, float], name: str) -> None:
    """Raise ValueError unless the placement group has this bundle, and the demand fits into it once it is empty."""
    group = runtime.cluster.placement_groups.get(strategy[1])
    if group is None:
        raise ValueError("the placement group does not exist in this session")
    index = strategy[2]
    if index >= len(group.bundles) or index < -1:
        raise ValueError(
            f"placement group bundle index {index} is invalid. Valid placement group indexes: "
            f"0-{len(group.bundles) - 1}, and -1 for any"
        )
    wanted = units(need)
    for bundle in group.bundles if index < 0 else (group.bundles[index],):
        if fits(bundle.total, wanted):
            return
    raise ValueError(
        f"Cannot schedule {name} with the placement group because the resource request {_whole(need)} cannot fit into "
        f"any bundles for the placement group, {[amounts(bundle.total) for bundle in group.bundles]}."
    )


def _whole(need: dict[str, float]) -> dict[str, float]:
    """The amounts as the user wrote them: whole numbers as integers."""
    return {name: int(amount) if amount % 1 == 0 else amount for name, amount in need.items()}
