"""Decorators that declare how stable an API is, for libraries built on Ray. Ray: ray.util.annotations.

A decorator adds a note to the docstring of the function or class and sets three attributes on it: `_annotated` (its
name), `_annotated_type` and `_annotated_api_group`. Each can be used bare or with keyword arguments.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from enum import Enum
from typing import Any, Callable, TypeVar

_T = TypeVar("_T")


class RayDeprecationWarning(DeprecationWarning):
    """A call of a deprecated API. Shown once per calling module; Python hides most DeprecationWarnings."""


warnings.simplefilter("module", RayDeprecationWarning)


class AnnotationType(Enum):
    """The decorator that was used."""

    PUBLIC_API = "PublicAPI"
    DEVELOPER_API = "DeveloperAPI"
    DEPRECATED = "Deprecated"
    UNKNOWN = "Unknown"


def PublicAPI(*args: Any, stability: str = "stable", api_group: str = "Others") -> Any:
    """Mark an API for users. stability: "stable", or "beta" or "alpha" if it may still change.

    Raises AssertionError for any other stability.
    """
    assert stability in ("stable", "beta", "alpha"), stability

    def mark(thing: _T) -> _T:
        if stability != "stable":
            _note(thing, f"**PublicAPI ({stability}):** it may still change before it becomes stable.")
        return _marked(thing, AnnotationType.PUBLIC_API, api_group)

    return mark(args[0]) if args else mark


def DeveloperAPI(*args: Any, **kwargs: Any) -> Any:
    """Mark an API for developers of libraries. Keyword arguments are accepted and have no effect."""

    def mark(thing: _T) -> _T:
        _note(thing, "**DeveloperAPI:** it may change from one minor version to the next.")
        return _marked(thing, AnnotationType.DEVELOPER_API)

    return mark(args[0]) if args else mark


def Deprecated(*args: Any, message: str = "", warning: bool = False) -> Any:
    """Mark an API as deprecated. message: what to use instead. warning: issue a RayDeprecationWarning at each call, or
    at each creation of an object of the class."""
    text = "This API is deprecated and may be removed." + (f"\n{message}" if message else "")

    def mark(thing: Any) -> Any:
        _note(thing, ".. warning::\n\n    **DEPRECATED**: " + text.replace("\n", "\n    "))
        if warning and inspect.isclass(thing):
            thing.__init__ = _warning(thing.__init__, text)  # type: ignore[method-assign]
        elif warning:
            thing = _warning(thing, text)
        return _marked(thing, AnnotationType.DEPRECATED)

    return mark(args[0]) if args else mark


def _warning(function: Callable[..., Any], text: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def warns(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(text, RayDeprecationWarning, stacklevel=2)
        return function(*args, **kwargs)

    return warns


def _note(thing: Any, note: str) -> None:
    """Add a paragraph to a docstring, with the indentation of its other paragraphs."""
    text = (thing.__doc__ or "").rstrip()
    indents = [len(line) - len(line.lstrip()) for line in text.split("\n")[1:] if line.strip()]
    margin = " " * min(indents, default=0)
    thing.__doc__ = f"{text}\n\n" + "\n".join((margin + line).rstrip() for line in note.split("\n")) + f"\n{margin}"


def _marked(thing: _T, kind: AnnotationType, group: str = "Others") -> _T:
    marked: Any = thing
    marked._annotated, marked._annotated_type, marked._annotated_api_group = marked.__name__, kind, group
    return thing
