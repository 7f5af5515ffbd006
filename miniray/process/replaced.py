"""Attributes of standard library modules that miniray has replaced while a session runs, and their original values."""

from __future__ import annotations

import importlib
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

saved: list[tuple[Any, str, Any]] = []  # an object, the name of its attribute, and the attribute's original value

of_a_simulation: list[tuple[Any, str, Any]] = []  # the same for what a simulation replaces; see `runtime.simulated`


class Place:
    """The module of a replaced built-in function: the `__self__` of its replacement. It can be pickled and copied."""

    def __init__(self, module: types.ModuleType):
        self.module = module

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.module.__name__,)


def replace(owner: Any, name: str, value: Any) -> None:
    """Set an attribute, and remember its original value."""
    saved.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def restore_all() -> None:
    """Restore every original value, the last replacement first."""
    while saved:
        owner, name, original = saved.pop()
        setattr(owner, name, original)


def is_guard(function: Any) -> bool:
    """Whether this function replaces something that is no plain function, such as a built-in function or a method of an
    object, and should be treated as that."""
    return any(
        not isinstance(original, types.FunctionType) and vars(owner).get(name) is function
        for owner, name, original in [*saved, *of_a_simulation]
        if type(owner) is not dict
    )


def place_of(original: Any) -> tuple[Any, str] | None:
    """The module or class and the name under which this original belongs, if it is replaced at present; otherwise None.

    What a class only inherited does not belong to it: `object.__new__` is still found in `object`.
    """
    for owner, name, value in [*saved, *of_a_simulation]:
        if type(owner) is dict:  # the globals of a module that had imported it
            continue
        inherited = isinstance(owner, type) and any(vars(base).get(name) is value for base in owner.__mro__[1:])
        if value is original and not inherited:
            return owner, name
    return None
