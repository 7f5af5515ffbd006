"""From the options of a call to a scheduling class: what it needs, what it holds, and where it may go."""
from __future__ import annotations

from typing import Any, Mapping

from .core.records import SchedulingClass, amounts, units
from .core.scheduler import fits
from .runtime.base import Runtime
from .runtime.context import current

_OPERATORS = {"In": "in", "NotIn": "not_in", "Exists": "exists", "DoesNotExist": "absent"}


def scheduling_class(runtime: Runtime, options: Mapping[str, Any], need: dict[str, float],
                     hold: dict[str, float]) -> SchedulingClass:
    """The class for a demand and the options that say where. Raises ValueError for a bundle that is not there, or a demand that
    no bundle of its placement group can ever meet."""
    strategy = strategy_of(runtime, options)
    if strategy[0] == "PLACEMENT_GROUP":
        _check_bundle(runtime, strategy, need)
    return runtime.scheduling_class(need, hold, strategy, selector_of(options.get("label_selector")))


def captures_children(options: Mapping[str, Any]) -> bool:
    """Whether what the task submits goes into its placement group too."""
    strategy = options.get("scheduling_strategy")
    if getattr(strategy, "placement_group_capture_child_tasks", None):
        return True
    return bool(options.get("placement_group_capture_child_tasks"))


def inherits_group(options: Mapping[str, Any]) -> bool:
    """Whether the call runs in its parent's placement group: it says nothing itself, and the parent captures its children."""
    if options.get("scheduling_strategy") is not None or options.get("placement_group") not in (None, "default"):
        return False
    execution = current.get()
    return execution is not None and execution.worker.bundle is not None and _captures(execution)


def _captures(execution: Any) -> bool:
    spec = execution.worker.actor.creation.spec if execution.worker.actor is not None else execution.task.spec
    return spec.capture_child_tasks


def strategy_of(runtime: Runtime, options: Mapping[str, Any]) -> tuple:
    """The core's form of a strategy, as SchedulingClass describes it."""
    strategy = options.get("scheduling_strategy")
    group = options.get("placement_group")
    if strategy is None and group not in (None, "default"):
        return _in_group(runtime, group, options.get("placement_group_bundle_index", -1))
    if strategy is None:
        execution = current.get()
        if execution is not None and execution.worker.bundle is not None and _captures(execution):
            lease = execution.worker.lease or execution.worker.actor.lease
            return ("PLACEMENT_GROUP", lease.strategy[1], -1)
        return ("DEFAULT",)
    if isinstance(strategy, str):
        return (strategy,)
    kind = type(strategy).__name__
    if kind == "PlacementGroupSchedulingStrategy":
        if strategy.placement_group is None:
            return ("DEFAULT",)
        return _in_group(runtime, strategy.placement_group, strategy.placement_group_bundle_index)
    if kind == "NodeAffinitySchedulingStrategy":
        return ("NODE_AFFINITY", strategy.node_id, bool(strategy.soft))
    return ("NODE_LABEL", _label_rules(strategy.hard), _label_rules(strategy.soft))


def _in_group(runtime: Runtime, group: Any, index: int | None) -> tuple:
    number = int(group.id.hex()[:-8], 16)
    return ("PLACEMENT_GROUP", number, -1 if index is None else index)


def _label_rules(rules: Mapping[str, Any] | None) -> tuple:
    found = []
    for key, rule in (rules or {}).items():
        found.append((key, _OPERATORS[type(rule).__name__], tuple(getattr(rule, "values", ()))))
    return tuple(found)


def selector_of(selector: Mapping[str, str] | None) -> tuple:
    """Ray's text form of label conditions ("a", "!a", "in(a, b)", "!in(a, b)") as the core's."""
    found = []
    for key, text in (selector or {}).items():
        operator = "not_in" if text.startswith("!") else "in"
        text = text.lstrip("!")
        values = [part.strip() for part in text[3:-1].split(",")] if text.startswith("in(") else [text]
        found.append((key, operator, tuple(values)))
    return tuple(found)


def _check_bundle(runtime: Runtime, strategy: tuple, need: dict[str, float]) -> None:
    group = runtime.cluster.placement_groups.get(strategy[1])
    if group is None:
        raise ValueError("the placement group does not exist in this session")
    index = strategy[2]
    if index >= len(group.bundles) or index < -1:
        raise ValueError(f"placement group bundle index {index} is invalid: valid are -1 (any) to {len(group.bundles) - 1}")
    wanted = units(need)
    for bundle in group.bundles if index < 0 else (group.bundles[index],):
        if fits(bundle.total, wanted):
            return
    raise ValueError(f"the task or actor asks for {need}, which no bundle of its placement group can ever give: "
                     f"{[amounts(bundle.total) for bundle in group.bundles]}")
