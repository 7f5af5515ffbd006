"""Stand-ins for scheduling strategies and placement groups, whose classes belong to a higher layer.

The checks of options use these classes with `isinstance` only. The real classes are in `miniray.util`.
"""

from __future__ import annotations


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _StrategyMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return getattr(type(value), "__miniray_strategy__", False) is True


class SchedulingStrategy(metaclass=_StrategyMeta):
    """Any object whose class has `__miniray_strategy__ = True`. It says where a task or an actor may run."""


class _PlacementGroupMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return type(value).__name__ == "PlacementGroup"


class PlacementGroup(metaclass=_PlacementGroupMeta):
    """Any object whose class is called PlacementGroup, as in `miniray.util.placement_group`."""

    id: Any
    is_empty: bool
