"""Values in and out: what a task, an actor or an object gets is a copy, made the way Ray makes it.

`serialize` turns a value into what is stored, `deserialize` turns that into a fresh value each time. In between it is
immutable, so that one stored value serves every reader:

- What is immutable through and through is stored as it is: nobody can tell it from a copy.
- Of a list, dict or set of such things a private copy is kept; when lists and dicts are nested in it, the bytes that
  marshal makes of it. As in Ray, which tries msgpack first, two places in it that held the same list no longer share
  it, and a bytearray has become bytes.
- Everything else goes through pickle (protocol 5) and keeps its inner sharing. Buffers, as numpy's arrays have, are
  copied once and handed out read-only from then on. Functions and classes without an importable name go by value, see
  `pickler`.
"""

from __future__ import annotations

import io
import marshal
import pickle
from typing import Any, Callable

from ..exceptions import RayError
from . import classes_by_value, functions_by_value, other_kinds  # noqa: F401, they register with the pickler
from .pickler import ATOMS, ByValuePickler, contain, deregister_serializer, dump, importable, register_serializer
from .spaces import Space, current_space

__all__ = [
    "Captured",
    "Serialized",
    "Space",
    "capture",
    "contain",
    "current_space",
    "deregister_serializer",
    "deserialize",
    "dumps",
    "loads",
    "register_serializer",
    "serialize",
    "size_of",
]


class Serialized:
    """A stored value that is not immutable by itself. Never changed once made.

    form says what data is: COPY: a list, dict or set of immutable things, of which a copy is all that is needed.
    PLAIN: bytes of marshal.
    PICKLED: a pickle stream. BY_VALUE: a pickle stream that has to be loaded into a space. ERROR: that of a RayError, which is
    raised where it is a task's result, an argument, or what was put (see `failures.loaded`).
    buffers: the stream's out-of-band buffers. contained: one record for each distinct reference inside (see `contain`).
    size: bytes of all that.
    """

    __slots__ = ("data", "buffers", "contained", "size", "form")

    def __init__(self, data: Any, buffers: tuple[bytes, ...], contained: tuple, size: int, form: str):
        self.data, self.buffers, self.contained, self.size, self.form = data, buffers, contained, size, form


COPY, PLAIN, PICKLED, BY_VALUE, ERROR = "copy", "plain", "pickled", "by value", "error"


def serialize(value: Any, subject: str = "the value", taker: Any = None) -> Any:
    """What is to be stored for value: itself when it is immutable through and through, else a Serialized.

    A bytearray or a memoryview becomes bytes. Bytes are never copied.
    TypeError for what pickle refuses, with the way to the culprit inside the value; subject and taker go into its
    text: "Could not serialize {subject} {value!r} for a task or actor {taker}". PicklingError for what is nested too
    deeply. Anything else that a hook of the user's raises (__reduce__, __getstate__, a registered serializer) comes
    out unchanged, as in Ray.
    """
    kind = type(value)
    if kind in ATOMS:
        return value
    if (kind is tuple or kind is frozenset) and _is_immutable(value):
        return value
    try:
        if kind is list or kind is dict or kind is set:
            return _store_plain(value)
        if kind is bytearray or kind is memoryview:
            return _to_bytes(value)
        stored = _store(value)
        if isinstance(value, RayError):
            stored.form = ERROR
        return stored
    except TypeError as error:
        from .inspect_serializability import explain, shown  # only needed on the way to an error

        whose = "" if taker is None else f" for a task or actor {taker}"
        raise TypeError(explain(value, f"{subject} {shown(value)}{whose}", error)) from error


def deserialize(stored: Any) -> Any:
    """The value that serialize stored, a fresh one each time; built in the current space.

    Raises what the value's own hooks raise, and what pickle does when they do not fit (an exception whose __init__
    does not take its args).
    """
    if type(stored) is not Serialized:
        return stored
    form = stored.form
    if form == COPY:
        return stored.data.copy()
    if form == PICKLED:
        return pickle.loads(stored.data, buffers=stored.buffers)
    if form == PLAIN:
        return marshal.loads(stored.data)
    return current_space().load(stored.data, stored.buffers)


def size_of(stored: Any) -> int:
    """Bytes that a stored value takes: exact for bytes and streams, an estimate for the rest."""
    kind = type(stored)
    if kind is Serialized:
        return stored.size
    if kind is bytes or kind is str:
        return len(stored)
    if kind is tuple or kind is frozenset:
        return 8 + sum(map(size_of, stored))
    return 8


# ------------------------------------------------------------------------------------------------- what needs no pickle


def _is_immutable(value: tuple | frozenset) -> bool:
    for item in value:
        kind = type(item)
        if kind not in ATOMS and not ((kind is tuple or kind is frozenset) and _is_immutable(item)):
            return False
    return True


def _to_bytes(value: bytearray | memoryview) -> bytes:
    if type(value) is memoryview and not value.c_contiguous:
        raise BufferError("memoryview: underlying buffer is not C-contiguous")
    return bytes(value)


def _store_plain(value: list | dict | set) -> Serialized:
    # First the copy, then the look at it: another thread may be changing the value.
    copied = value.copy()
    size = _size_of_atoms(copied)
    if size >= 0 and type(copied) is dict:
        of_values = _size_of_atoms(copied.values())
        size = -1 if of_values < 0 else size + of_values
    if size >= 0:
        return Serialized(copied, (), (), size, COPY)
    if isinstance(copied, set):
        return _store(copied)
    try:
        plain = _copy_inside(copied, {id(value)})
        data = marshal.dumps(copied) if plain else b""
    except (_Cycle, RecursionError, ValueError):  # ValueError: deeper than marshal goes
        return _store(value)  # pickle can follow a cycle
    if not plain:
        return _store(copied)
    return Serialized(data, (), (), len(data), PLAIN)


def _size_of_atoms(items: Any) -> int:
    """Bytes, about, of some immutable things; -1 when not all are."""
    size = 8 * len(items)
    if size > 200 and _NUMBERS.issuperset(map(type, items)):  # twice as fast as the loop, once there are many
        return size
    for item in items:
        kind = type(item)
        if kind is str or kind is bytes:
            size += len(item)
        elif kind not in ATOMS:
            return -1
    return size


_NUMBERS = frozenset({int, float, bool, type(None)})


class _Cycle(Exception):
    """A list or a dict holds itself."""


def _copy_inside(copied: list | dict, above: set[int]) -> bool:
    """Replace, in a copy, all lists and dicts inside by copies of their own, and buffers by bytes.

    above: ids of the lists and dicts that the original is in, itself included.
    Returns whether everything is now plain, so that marshal takes it.
    """
    plain = True
    if type(copied) is dict:
        items: Any = copied.items()
        for key in copied:
            if type(key) not in ATOMS and not (type(key) is tuple and _is_immutable(key)):
                plain = False
    else:
        items = enumerate(copied)
    for place, item in items:
        kind = type(item)
        if kind in ATOMS:
            continue
        if kind is list or kind is dict:
            identity = id(item)
            if identity in above:
                raise _Cycle
            inner = copied[place] = item.copy()
            above.add(identity)
            if not _copy_inside(inner, above):
                plain = False
            above.discard(identity)
        elif kind is bytearray or kind is memoryview:
            copied[place] = _to_bytes(item)
        elif not ((kind is tuple or kind is frozenset) and _is_immutable(item)):
            plain = False
    return plain


# ------------------------------------------------------------------------------------------------------ what is pickled


def _store(value: Any, definitions: bool = True) -> Serialized:
    try:
        data, buffers, contained, by_value = dump(value, definitions)
    except RecursionError as error:
        raise pickle.PicklingError(_TOO_DEEP) from error
    return Serialized(data, buffers, contained, len(data) + sum(map(len, buffers)), BY_VALUE if by_value else PICKLED)


_TOO_DEEP = "Could not pickle the object: it is nested too deeply"


def dumps(value: Any, protocol: int | None = None, buffer_callback: Callable | None = None) -> bytes:
    """value in one stream of bytes, with everything that is sent by value written out in it. Raises as pickle does.

    The arguments are those of pickle.dumps; the protocol is 5 unless told otherwise.
    """
    file = io.BytesIO()
    try:
        ByValuePickler(file, 5 if protocol is None else protocol, buffer_callback=buffer_callback).dump(value)
    except RecursionError as error:
        raise pickle.PicklingError(_TOO_DEEP) from error
    return file.getvalue()


def loads(data: Any, *, buffers: Any = ()) -> Any:
    """The value of a stream of `dumps`, built in the current space."""
    return current_space().load(data, buffers)


# ------------------------------------------------------------------------------------------------------------- captures


class Captured:
    """A function or class as it was at one moment, for every space to have its own copy of.

    contained: records of the references that its globals, closure and defaults hold (see `contain`).
    size: bytes that its definition takes; 0 when it travels by name.
    """

    __slots__ = ("_target", "_stored", "contained", "size", "__weakref__")

    def __init__(self, target: Any, stored: Serialized | None):
        self._target, self._stored = target, stored
        self.contained: tuple = () if stored is None else stored.contained
        self.size: int = 0 if stored is None else stored.size

    def load(self, space: Space) -> Any:
        """The copy that belongs to space, made at the first call. What can be imported is itself everywhere.

        Load a function before its arguments: then a class that both hold is as it came with the arguments, as in Ray.
        """
        stored = self._stored
        if stored is None:
            return self._target
        made = space.loaded.get(self)
        if made is None:  # with buffers of its own: arrays that it closes over can be written to, as in Ray
            made = space.load(stored.data, tuple(map(bytearray, stored.buffers)), once=self)
        return made


def capture(target: Any) -> Captured:
    """Take a function or class as it is now: its globals and closure are copied.

    TypeError when they hold what cannot be sent, with the way to it. Other errors as `serialize`.
    """
    if importable(target):
        return Captured(target, None)
    try:
        return Captured(None, _store(target, definitions=False))
    except TypeError as error:
        from .inspect_serializability import explain

        name = f"{target.__module__}.{target.__qualname__}"
        subject = f"the actor class {name}.__init__" if isinstance(target, type) else f"the function {name}"
        raise TypeError(explain(target, subject, error)) from error
