"""Tools for tests of Ray programs: the `ray` alias, faults, simulation (`simulate` and `explore`), and a pytest plugin
(`miniray.testing.plugin`).

They are imported on first use, because pytest imports this package in every run where miniray is installed, to load
the plugin.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from .alias import alias_ray, unalias_ray
    from .exploration import Exploration, ExplorationFailure, explore
    from .fault_plan import FaultPlan
    from .simulation import reachable, simulate, sometimes

_MODULES = {
    "alias_ray": "alias",
    "unalias_ray": "alias",
    "explore": "exploration",
    "Exploration": "exploration",
    "ExplorationFailure": "exploration",
    "FaultPlan": "fault_plan",
    "simulate": "simulation",
    "sometimes": "simulation",
    "reachable": "simulation",
}
__all__ = [
    "Exploration",
    "ExplorationFailure",
    "FaultPlan",
    "alias_ray",
    "explore",
    "reachable",
    "simulate",
    "sometimes",
    "unalias_ray",
]


def __getattr__(name: str) -> _typing.Any:
    if name in _MODULES:
        import importlib

        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
