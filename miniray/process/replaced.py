"""What miniray has replaced in modules of the standard library while a session runs, so that it can be put back."""

from __future__ import annotations

import types
from typing import Any

saved: list[tuple[Any, str, Any]] = []  # an object, an attribute's name, and the value that `restore_all` puts back


def replace(owner: Any, name: str, value: Any) -> None:
    """Set an attribute, and remember what it was."""
    saved.append((owner, name, getattr(owner, name)))
    setattr(owner, name, value)


def restore_all() -> None:
    """Put everything back, the last replacement first."""
    while saved:
        owner, name, original = saved.pop()
        setattr(owner, name, original)


def is_guard(function: Any) -> bool:
    """Whether this function stands in for a built-in function, and is to be treated as one."""
    return any(
        isinstance(original, types.BuiltinFunctionType) and vars(owner).get(name) is function
        for owner, name, original in saved
    )


def place_of(original: Any) -> tuple[Any, str] | None:
    """The module and the name under which an original was found, if it is replaced now."""
    for owner, name, value in saved:
        if value is original:
            return owner, name
    return None
