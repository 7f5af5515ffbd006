"""The arguments of a call, in the form in which they go from `.remote()` to the worker."""

from __future__ import annotations

from collections.abc import Callable

from ..core.records import ENDED, READY, ObjectRecord
from .errors import loaded
from .serialization import COPY, Serialized, serialize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The exact types whose values are sent as they are, because they cannot be told from a copy. bytes of any length too.
PLAIN: frozenset[type] = frozenset({int, float, str, bytes, bool, type(None), complex})


class Arguments:
    """The stored arguments of a call.

    values: the positional arguments, then the keyword arguments. Each is an immutable value, a Serialized, or the
    ObjectRecord of a reference, whose value is looked up when the task runs. names: the keywords of the last values.
    """

    __slots__ = ("values", "names")

    def __init__(self, values: list[Any], names: tuple[str, ...]):
        self.values, self.names = values, names


def pack(
    args: tuple[Any, ...], kwargs: dict[str, Any], ref_type: type, taker: str = ""
) -> tuple[Arguments, tuple[ObjectRecord, ...], tuple[Any, ...]]:
    """Take a snapshot of the arguments of a call.

    ref_type: the class of references. taker: the name of the function, for the text of an error.
    Returns the arguments to store; the records of the references that are arguments themselves; and the records of the
    references inside other arguments. If all arguments are positional and of the types in PLAIN, the runtime does not
    call this, but stores the tuple of arguments itself.
    Raises TypeError for an argument that cannot be sent, with the path to the culprit; ValueError for a reference of a
    session that has ended.
    """
    deps: list[ObjectRecord] = []
    contained: list[ObjectRecord] = []
    stored: list[Any] = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind is ref_type:
            record = value._record
            if record.status is ENDED or record.number < 0:
                raise ValueError(f"{value!r} names no object of this session, so its value cannot be found")
            deps.append(record)
            value = record
        elif kind not in PLAIN:
            value = serialize(value, "the argument", taker)
            if type(value) is Serialized and value.contained:
                contained.extend(value.contained)
        stored.append(value)
    packed = Arguments(stored, tuple(kwargs) if kwargs else ())
    return packed, tuple(deps) if deps else (), tuple(contained) if contained else ()


def unpack(stored: Any, value_of: Callable[[ObjectRecord], Any]) -> tuple[tuple[Any, ...] | list[Any], dict[str, Any]]:
    """Return fresh copies of stored arguments, with which to call the function.

    value_of: looks up the value of an ObjectRecord.
    Raises RaySystemError if an argument cannot be rebuilt.
    """
    if type(stored) is tuple:
        return stored, {}

    values = stored.values.copy()
    for place, value in enumerate(values):
        kind = type(value)
        if kind is ObjectRecord:
            held = value.value
            if value.status is READY and type(held) in PLAIN and value.locations is None:
                values[place] = held  # small and immutable, so there is nothing to fetch or to copy
            else:
                values[place] = value_of(value)
        elif kind is Serialized:
            values[place] = value.data.copy() if value.form == COPY else loaded(value)
    if not stored.names:
        return values, {}
    first = len(values) - len(stored.names)
    return values[:first], dict(zip(stored.names, values[first:]))
