"""For tests of Ray programs: the `ray` alias, and a plugin (`miniray.testing.plugin`) that pytest finds by itself.

The alias is imported when it is asked for: pytest imports this package in every run on an interpreter that has miniray.
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
