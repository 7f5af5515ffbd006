"""Arguments of a call: what `.remote()` was given, as it travels to the worker."""

from __future__ import annotations

from typing import Any

from ..core.records import ENDED, READY, ObjectRecord
from .errors import loaded
from .serialization import Serialized, serialize

# Exact types that nobody can tell a copy of: they travel as they are. bytes too, however long.
PLAIN: frozenset[type] = frozenset({int, float, str, bytes, bool, type(None), complex})


class Arguments:
    """Positional and then keyword arguments, each as stored: an immutable value itself, a Serialized, or the ObjectRecord of a
    reference, which is resolved when the task runs. names: those of the keyword arguments, which come last."""

    __slots__ = ("values", "names")

    def __init__(self, values: list, names: tuple[str, ...]):
        self.values, self.names = values, names


def pack(args: tuple, kwargs: dict[str, Any], ref_type: type, taker: str = "") -> tuple[Any, tuple, tuple]:
    """Take a snapshot of a call's arguments. ref_type: the class of references. taker: the function, for an error's text.

    Returns what to store, the records of the references that stand as arguments themselves, and the records inside others.
    Raises TypeError, naming the path, for what cannot be sent; ValueError for a reference of a session that has ended. When
    every argument is immutable, what is stored is the tuple.
    """
    deps: list[ObjectRecord] = []
    contained: list[ObjectRecord] = []
    stored = [*args, *kwargs.values()]
    for place, value in enumerate(stored):
        kind = type(value)
        if kind is ref_type:
            record = stored[place] = value._record
            if record.status is ENDED or record.number < 0:
                raise ValueError(f"{value!r} names no object of this session, so nobody could answer for it")
            deps.append(record)
        elif kind not in PLAIN:
            one = stored[place] = serialize(value, "the argument", taker)
            if type(one) is Serialized and one.contained:
                contained.extend(one.contained)
    packed = Arguments(stored, tuple(kwargs))
    return packed, tuple(deps), tuple(contained)


def unpack(stored: Any, value_of) -> tuple[tuple | list, dict[str, Any]]:
    """The arguments as the function is called with them: fresh copies. value_of: gives the value of an ObjectRecord.
    Raises RaySystemError for one that cannot be rebuilt."""
    if type(stored) is tuple:
        return stored, {}

    values = stored.values.copy()
    for place, value in enumerate(values):
        kind = type(value)
        if kind is ObjectRecord:
            held = value.value
            if value.status is READY and type(held) in PLAIN and value.locations is None:
                values[place] = held  # small and immutable: there is nothing to fetch or to copy
            else:
                values[place] = value_of(value)
        elif kind is Serialized:
            values[place] = loaded(value)
    if not stored.names:
        return values, {}
    first = len(values) - len(stored.names)
    return values[:first], dict(zip(stored.names, values[first:]))
