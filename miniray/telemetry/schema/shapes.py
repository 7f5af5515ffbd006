"""What the values of a recording look like: the shapes of its JSON, and a reader that checks a text against one.

A shape is a Python value: `int`, `float` (any finite number), `str` or `bool`; COUNT for a whole number from 0 on; a
frozenset of texts; `[shape]` for a list of any length; `(shape, shape)` for a list of that length; `{str: shape}` for
an object with any names; a `Fields` for an object with these names, others being ignored; an `AnyOf`; and ANYTHING.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

ANYTHING, COUNT = object(), object()
MOST = 1 << 63  # the whole numbers of SQLite
MOST_US = 253_402_300_799_000_000  # the year 9999, which is the last that Python's calendar has


class Malformed(ValueError):
    """A text is no JSON, or has another shape. The text says what it should be."""


@dataclass(frozen=True)
class Fields:
    """An object with these names. optional: those that may be missing."""

    of: dict[str, Any]
    optional: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AnyOf:
    """One of several shapes. said: all of them, for errors."""

    shapes: tuple[Any, ...]
    said: str


STREAM = Fields({"items": COUNT, "taken": COUNT, "produced": COUNT, "ended": bool, "refs": int, "waits": bool})
_AWAITED = [(frozenset({"object", "stream"}), int)]
_RULES = [(str, str, [str])]

SHAPES: dict[str, Any] = {
    "amounts": {str: float},
    "awaited": _AWAITED,
    "bounds": [float],
    "details": Fields(
        {"deps": [int], "cancel_requested": bool, "stream": STREAM}, frozenset({"deps", "cancel_requested", "stream"})
    ),
    "devices": {str: {str: float}},
    "fields": {str: ANYTHING},
    "groups": {str: Fields({"limit": COUNT})},
    "list": [ANYTHING],
    "numbers": [int],
    "selector": _RULES,
    "strategy": AnyOf(
        (
            (frozenset({"DEFAULT", "SPREAD"}),),
            (frozenset({"PLACEMENT_GROUP"}), int, int),
            (frozenset({"NODE_AFFINITY"}), str, bool),
            (frozenset({"NODE_LABEL"}), _RULES, _RULES),
        ),
        "a strategy: its name, and what belongs to it",
    ),
    "texts": {str: str},
    "totals": Fields(
        {
            "attempts_dropped": COUNT,
            "attempts": [(str, bool, bool, COUNT)],
            "worker_failures": [(bool, str, int)],
            "sizes": [COUNT],
            "sizes_sum": float,
        },
        frozenset({"attempts_dropped", "attempts", "worker_failures", "sizes", "sizes_sum"}),
    ),
    "waits": Fields(
        {
            "workers": [(int, int, bool, _AWAITED)],
            "driver": [(int, bool, _AWAITED)],
            "drains": [(int, float)],
            "program_waits": bool,
        },
        frozenset({"workers", "driver", "drains", "program_waits"}),
    ),
}
"""By the name that follows `json:` in the schema."""


def parsed(text: str, shape: Any) -> Any:
    """The value of a JSON text that has a shape; lone surrogates in it are spelled out. Raises Malformed."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise Malformed(f"is no JSON ({problem})") from None
    if "\\ud" in text or "\\uD" in text:
        value = _printable(value)
    if not fits(value, shape):
        raise Malformed(f"should be {said(shape)}")
    return value


def fits(value: Any, shape: Any) -> bool:
    """Whether a value of `json.loads` has a shape."""
    if shape is int:
        return type(value) is int and -MOST <= value < MOST
    if shape is float:
        return type(value) is int and -MOST <= value < MOST or type(value) is float and math.isfinite(value)
    if shape is str or shape is bool:
        return type(value) is shape
    if type(shape) is frozenset:
        return type(value) is str and value in shape
    if type(shape) is list:
        return type(value) is list and all([fits(one, shape[0]) for one in value])
    if type(shape) is tuple:
        return type(value) is list and len(value) == len(shape) and all(map(fits, value, shape))
    if type(shape) is dict:
        return type(value) is dict and all([fits(one, shape[str]) for one in value.values()])
    if type(shape) is Fields:
        return type(value) is dict and all(
            fits(value[name], inner) if name in value else name in shape.optional for name, inner in shape.of.items()
        )
    if type(shape) is AnyOf:
        return any(fits(value, one) for one in shape.shapes)
    if shape is COUNT:
        return type(value) is int and 0 <= value < MOST
    return True


def said(shape: Any) -> str:
    """A shape in words."""
    if shape in (int, float, str, bool):
        return {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false"}[shape]
    if type(shape) is frozenset:
        return " or ".join(sorted(shape))
    if type(shape) is list:
        return f"a list, each item {said(shape[0])}"
    if type(shape) is tuple:
        return f"a list of {', '.join(map(said, shape))}"
    if type(shape) is dict:
        return f"an object, each value {said(shape[str])}"
    if type(shape) is Fields:
        return f"an object with {', '.join(f'{name} ({said(inner)})' for name, inner in shape.of.items())}"
    if type(shape) is AnyOf:
        return shape.said
    if shape is COUNT:
        return "a whole number from 0 on"
    return "anything"


def _printable(value: Any) -> Any:
    """The value with every lone surrogate spelled out, as `numbers.storable` does it."""
    if type(value) is str:
        return value.encode(errors="backslashreplace").decode()
    if type(value) is list:
        return [_printable(one) for one in value]
    if type(value) is dict:
        return {_printable(name): _printable(one) for name, one in value.items()}
    return value
