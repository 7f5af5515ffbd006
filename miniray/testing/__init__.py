"""Tools for tests of Ray programs: the `ray` alias, faults, and a pytest plugin (`miniray.testing.plugin`).

The alias is imported on first use, because pytest imports this package in every run where miniray is installed, to load
the plugin.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from .alias import alias_ray, unalias_ray

__all__ = ["alias_ray", "unalias_ray"]


def __getattr__(name: str) -> _typing.Any:
    if name in __all__:
        from . import alias

        return getattr(alias, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
