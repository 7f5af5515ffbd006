"""What a report says about an error of the program. The error's own methods may fail, and must not spoil the report."""

from __future__ import annotations

from typing import Any


def text_of(error: Any) -> str:
    """The class and the text of an error."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception as problem:
        return f"{name} (its text cannot be shown: its __str__ raises {type(problem).__name__})"


def repr_of(value: Any) -> str:
    """The representation of a value of the program."""
    try:
        return repr(value)
    except Exception as problem:
        return f"<{type(value).__name__}, whose __repr__ raises {type(problem).__name__}>"


def of_every_error(error: BaseException, name: str) -> Any:
    """An attribute that every error has, such as `__traceback__`, even if a property of the program has its name."""
    return getattr(BaseException, name).__get__(error)


def attribute_of(error: Any, name: str, default: Any = None) -> Any:
    """An attribute of an error. A property that fails counts as absent."""
    try:
        return getattr(error, name, default)
    except Exception:
        return default
