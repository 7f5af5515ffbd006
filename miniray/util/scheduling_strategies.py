"""Where a task or an actor shall run: the values of the option scheduling_strategy that are objects.

The strings are "DEFAULT" (pack nodes until they are half full, then spread) and "SPREAD".
Ray: python/ray/util/scheduling_strategies.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

from miniray.ids import NodeID

if TYPE_CHECKING:
    from miniray.util.placement_group import PlacementGroup


class PlacementGroupSchedulingStrategy:
    """Run inside a placement group, with the resources that it has reserved."""

    __miniray_strategy__ = True

    def __init__(
        self,
        placement_group: PlacementGroup,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,
    ):
        """placement_group_bundle_index: which bundle, -1 for any. placement_group_capture_child_tasks: whether what the
        task or actor starts runs in the group too, unless it says otherwise; None is no.

        Whether the group has that bundle, and room in it, is checked at `.remote()`.
        """
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks


class NodeAffinitySchedulingStrategy:
    """Run on one node, and wait there for resources."""

    __miniray_strategy__ = True

    def __init__(
        self, node_id: str, soft: bool, _spill_on_unavailable: bool = False, _fail_on_unavailable: bool = False
    ):
        """node_id: hex text, or a NodeID. soft: run elsewhere if the node does not exist or could never run this; if
        not soft that is an error (TaskUnschedulableError, ActorUnschedulableError).

        _spill_on_unavailable: go elsewhere also when the node is merely busy; needs soft. _fail_on_unavailable: fail
        then; needs not soft. ValueError when they do not go together, and for an id that cannot be a node's.
        """
        if not isinstance(node_id, str):
            node_id = node_id.hex()
        self.node_id = node_id
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable
        try:
            nil = NodeID.from_hex(node_id).is_nil()
        except ValueError as error:
            raise ValueError(f"{node_id!r} is not a node's id; nodes() lists them as 'NodeID'") from error
        if nil:
            raise ValueError(f"{node_id!r} is the id that names nothing; nodes() lists those of the nodes as 'NodeID'")
        if _spill_on_unavailable and not soft:
            raise ValueError("_spill_on_unavailable is only for soft=True")
        if _fail_on_unavailable and soft:
            raise ValueError("_fail_on_unavailable is only for soft=False")


class In:
    """The node has the label, with one of these values."""

    def __init__(self, *values: str):
        """ValueError for no values, or one that is no string."""
        self.values = _checked(values, "In")


class NotIn:
    """The node does not have the label, or has it with another value than these."""

    def __init__(self, *values: str):
        """ValueError for no values, or one that is no string."""
        self.values = _checked(values, "NotIn")


class Exists:
    """The node has the label, with whatever value."""


class DoesNotExist:
    """The node does not have the label."""


LabelMatch = Union[In, NotIn, Exists, DoesNotExist]


class NodeLabelSchedulingStrategy:
    """Run on a node whose labels meet conditions, as in `NodeLabelSchedulingStrategy({"zone": In("a", "b")})`."""

    __miniray_strategy__ = True

    def __init__(self, hard: dict[str, LabelMatch] | None, *, soft: dict[str, LabelMatch] | None = None):
        """hard: must hold, or else the task waits for such a node. soft: nodes that meet these too come first.

        ValueError when both are empty, and for all but dicts from label keys to In, NotIn, Exists or DoesNotExist.
        """
        self.hard = _conditions(hard, "hard")
        self.soft = _conditions(soft, "soft")
        if not self.hard and not self.soft:
            raise ValueError("a NodeLabelSchedulingStrategy needs a condition, hard or soft")


SchedulingStrategyT = Union[
    None, str, PlacementGroupSchedulingStrategy, NodeAffinitySchedulingStrategy, NodeLabelSchedulingStrategy
]


def _checked(values: tuple[Any, ...], operator: str) -> list[str]:
    if not values:
        raise ValueError(f"{operator} needs values, as in {operator}('a', 'b')")
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"the values of {operator} must be strings, and {value!r} is not")
    return list(values)


def _conditions(conditions: Any, which: str) -> dict[str, LabelMatch]:
    if conditions is None:
        return {}
    if not isinstance(conditions, dict):
        raise ValueError(f"'{which}' must be a dict, as in {{'zone': In('a')}}, and {conditions!r} is not")
    for key, operator in conditions.items():
        if not isinstance(key, str):
            raise ValueError(f"the keys of '{which}' must be strings, and {key!r} is not")
        if not isinstance(operator, (In, NotIn, Exists, DoesNotExist)):
            raise ValueError(f"'{which}' needs In, NotIn, Exists or DoesNotExist for {key!r}, not {operator!r}")
    return dict(conditions)
