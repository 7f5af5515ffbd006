"""Tools for tests of Ray programs: the `ray` alias, faults, simulation (`simulate` and `explore`), and a pytest plugin
(`miniray.testing.plugin`).

They are imported on first use, because pytest imports this package in every run where miniray is installed, to load
the plugin.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from .alias import alias_ray, unalias_ray
    from .exploring.exploration import Exploration, ExplorationFailure, explore
    from .exploring.fault_plan import FaultPlan
    from .exploring.simulation import reachable, simulate, sometimes

_MODULES = {
    "alias_ray": "alias",
    "unalias_ray": "alias",
    "explore": "exploring.exploration",
    "Exploration": "exploring.exploration",
    "ExplorationFailure": "exploring.exploration",
    "FaultPlan": "exploring.fault_plan",
    "simulate": "exploring.simulation",
    "sometimes": "exploring.simulation",
    "reachable": "exploring.simulation",
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
