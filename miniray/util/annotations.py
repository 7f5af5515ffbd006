"""Decorators by which Ray, and libraries built on it, say how stable a function or class is. Ray: ray.util.annotations.

They add a note to the docstring, and mark what they decorate with `_annotated` (its name), `_annotated_type` and
`_annotated_api_group`. Each is used bare or with keyword arguments.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from enum import Enum
from typing import Any, Callable, TypeVar

_T = TypeVar("_T")


class RayDeprecationWarning(DeprecationWarning):
    """Something deprecated was called. Shown once for each module that does, where Python hides other such warnings."""


warnings.simplefilter("module", RayDeprecationWarning)


class AnnotationType(Enum):
    """Which of the decorators was used."""

    PUBLIC_API = "PublicAPI"
    DEVELOPER_API = "DeveloperAPI"
    DEPRECATED = "Deprecated"
    UNKNOWN = "Unknown"


def PublicAPI(*args: Any, stability: str = "stable", api_group: str = "Others") -> Any:
    """For users. stability: "stable", or "beta" or "alpha" for what may still change; AssertionError for any other word."""
    assert stability in ("stable", "beta", "alpha"), stability

    def mark(thing: _T) -> _T:
        if stability != "stable":
            _note(thing, f"**PublicAPI ({stability}):** it may still change before it becomes stable.")
        return _marked(thing, AnnotationType.PUBLIC_API, api_group)

    return mark(args[0]) if args else mark


def DeveloperAPI(*args: Any, **kwargs: Any) -> Any:
    """For libraries that are built on this one. Keyword arguments are accepted and say nothing."""

    def mark(thing: _T) -> _T:
        _note(thing, "**DeveloperAPI:** it may change from one minor version to the next.")
        return _marked(thing, AnnotationType.DEVELOPER_API)

    return mark(args[0]) if args else mark


def Deprecated(*args: Any, message: str = "", warning: bool = False) -> Any:
    """To be used no more. message: what to use instead. warning: give a RayDeprecationWarning at each call, or each time
    that an object of the class is made."""
    said = "This API is deprecated and may be removed." + (f"\n{message}" if message else "")

    def mark(thing: Any) -> Any:
        _note(thing, ".. warning::\n\n    **DEPRECATED**: " + said.replace("\n", "\n    "))
        if warning and inspect.isclass(thing):
            thing.__init__ = _warning(thing.__init__, said)  # type: ignore[method-assign]
        elif warning:
            thing = _warning(thing, said)
        return _marked(thing, AnnotationType.DEPRECATED)

    return mark(args[0]) if args else mark


def _warning(function: Callable[..., Any], text: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def warns(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(text, RayDeprecationWarning, stacklevel=2)
        return function(*args, **kwargs)

    return warns


def _note(thing: Any, note: str) -> None:
    """Add a paragraph to a docstring, as far in as its other paragraphs are."""
    text = (thing.__doc__ or "").rstrip()
    indents = [len(line) - len(line.lstrip()) for line in text.split("\n")[1:] if line.strip()]
    margin = " " * min(indents, default=0)
    thing.__doc__ = f"{text}\n\n" + "\n".join((margin + line).rstrip() for line in note.split("\n")) + f"\n{margin}"


def _marked(thing: Any, kind: AnnotationType, group: str = "Others") -> Any:
    thing._annotated, thing._annotated_type, thing._annotated_api_group = thing.__name__, kind, group
    return thing
