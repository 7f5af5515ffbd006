"""Arguments of a call: what `.remote()` was given, as it travels to the worker."""
from __future__ import annotations

from typing import Any

from ..core.records import ObjectRecord
from .serialization import Serialized, deserialize, serialize

# Exact types that nobody can tell a copy of: they travel as they are. bytes too, however long.
PLAIN = frozenset({int, float, str, bytes, bool, type(None), complex})


class Arguments:
    """Positional and keyword arguments, each as stored: an immutable value itself, a Serialized, or the ObjectRecord of a
    reference, which is resolved when the task runs."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args: list, kwargs: dict[str, Any]):
        self.args, self.kwargs = args, kwargs


def pack(args: tuple, kwargs: dict[str, Any], ref_type: type) -> tuple[Any, tuple, tuple]:
    """Take a snapshot of a call's arguments. ref_type: the class of references.

    Returns what to store, the records of the references that stand as arguments themselves, and the records inside others.
    Raises TypeError, naming the path, for what cannot be sent. When every argument is immutable, what is stored is the tuple.
    """
    deps: list[ObjectRecord] = []
    contained: list[ObjectRecord] = []

    def one(value: Any) -> Any:
        if type(value) is ref_type:
            deps.append(value._record)
            return value._record
        if type(value) in PLAIN:
            return value
        stored = serialize(value)
        if type(stored) is Serialized and stored.contained:
            contained.extend(stored.contained)
        return stored

    packed = Arguments([one(value) for value in args], {name: one(value) for name, value in kwargs.items()})
    return packed, tuple(deps), tuple(contained)


def unpack(stored: Any, value_of) -> tuple[tuple | list, dict[str, Any]]:
    """The arguments as the function is called with them: fresh copies. value_of: gives the value of an ObjectRecord."""
    if type(stored) is tuple:
        return stored, {}

    def one(value: Any) -> Any:
        kind = type(value)
        if kind is Serialized:
            return deserialize(value)
        if kind is ObjectRecord:
            return value_of(value)
        return value

    return [one(value) for value in stored.args], {name: one(value) for name, value in stored.kwargs.items()}
