"""Scheduling strategies and placement groups, recognised without importing their classes from the layers above."""

from __future__ import annotations

from typing import Any


class _StrategyMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return getattr(type(value), "__miniray_strategy__", False) is True


class SchedulingStrategy(metaclass=_StrategyMeta):
    """Whatever stands for a place to run; options know no more of it. Its class has `__miniray_strategy__ = True`."""


class _PlacementGroupMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return type(value).__name__ == "PlacementGroup"


class PlacementGroup(metaclass=_PlacementGroupMeta):
    """Stands for the class of that name in `miniray.util`, which is above this module and may not be imported here."""

    id: Any
    is_empty: bool
