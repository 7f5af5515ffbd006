"""Scheduling strategies: where a task or an actor runs. Ray: python/ray/util/scheduling_strategies.py.

The option `scheduling_strategy` takes one of these objects, "DEFAULT" (pack nodes until they are half full, then
spread) or "SPREAD".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

from miniray.ids import NodeID

if TYPE_CHECKING:
    from miniray.util.placement_group import PlacementGroup


class PlacementGroupSchedulingStrategy:
    """Run in a placement group, on the resources that it has reserved."""

    __miniray_strategy__ = True

    def __init__(
        self,
        placement_group: PlacementGroup,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,
    ):
        """placement_group_bundle_index: the bundle in which to run; -1 for any.

        placement_group_capture_child_tasks: whether tasks and actors that this one submits run in the group too, unless
        their own options place them elsewhere; None means as for the caller. `.remote()` raises ValueError if the group
        does not exist, or if the bundle cannot hold the request.
        """
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks


class NodeAffinitySchedulingStrategy:
    """Run on a given node, and wait until it has free resources."""

    __miniray_strategy__ = True

    def __init__(
        self, node_id: str, soft: bool, _spill_on_unavailable: bool = False, _fail_on_unavailable: bool = False
    ):
        """node_id: the node's id, in hex or as a NodeID. soft: if the node does not exist or could never run the task,
        run elsewhere. Otherwise that is an error (TaskUnschedulableError or ActorUnschedulableError).

        _spill_on_unavailable: run elsewhere even if the node is only busy; requires soft=True. _fail_on_unavailable:
        fail if the node is busy; requires soft=False. Raises ValueError for a wrong combination, and for an invalid id.
        """
        if not isinstance(node_id, str):
            node_id = node_id.hex()
        self.node_id = node_id
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable
        if NodeID.from_hex(node_id).is_nil():
            raise ValueError(f"{node_id!r} is not a node's id; nodes() lists the ids as 'NodeID'")
        if _spill_on_unavailable and not soft:
            raise ValueError("_spill_on_unavailable is only for soft=True")
        if _fail_on_unavailable and soft:
            raise ValueError("_fail_on_unavailable is only for soft=False")


class In:
    """The node has the label, with one of these values."""

    def __init__(self, *values: str):
        """Raises ValueError if there are no values, or one is not a string."""
        self.values = _checked(values, "In")


class NotIn:
    """The node does not have the label, or has it with a value other than these."""

    def __init__(self, *values: str):
        """Raises ValueError if there are no values, or one is not a string."""
        self.values = _checked(values, "NotIn")


class Exists:
    """The node has the label, with any value."""


class DoesNotExist:
    """The node does not have the label."""


LabelMatch = Union[In, NotIn, Exists, DoesNotExist]


class NodeLabelSchedulingStrategy:
    """Run on a node whose labels meet conditions: `NodeLabelSchedulingStrategy({"zone": In("a", "b")})`."""

    __miniray_strategy__ = True

    def __init__(self, hard: dict[str, LabelMatch] | None, *, soft: dict[str, LabelMatch] | None = None):
        """hard: conditions that the node must meet; the task waits until there is such a node. soft: conditions that
        nodes should meet, too; such nodes are preferred.

        Raises ValueError if both are empty, or unless each is a dict from label keys to In, NotIn, Exists or
        DoesNotExist.
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
        raise ValueError(f"{operator} needs values, such as {operator}('a', 'b')")
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"the values of {operator} must be strings, not {value!r}")
    return list(values)


def _conditions(conditions: Any, which: str) -> dict[str, LabelMatch]:
    if conditions is None:
        return {}
    if not isinstance(conditions, dict):
        raise ValueError(f"'{which}' must be a dict, such as {{'zone': In('a')}}, not {conditions!r}")
    for key, operator in conditions.items():
        if not isinstance(key, str):
            raise ValueError(f"the keys of '{which}' must be strings, not {key!r}")
        if not isinstance(operator, (In, NotIn, Exists, DoesNotExist)):
            raise ValueError(f"'{which}' needs In, NotIn, Exists or DoesNotExist for {key!r}, not {operator!r}")
    return dict(conditions)
