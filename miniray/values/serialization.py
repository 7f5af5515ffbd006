"""Values in and out: everything that a task, an actor or an object receives is a copy, made as Ray makes it.

`serialize` turns a value into its stored form, and `deserialize` turns the stored form into a value, a fresh one at
each call. A stored form never changes, so one stored form serves every reader.

Theory of operation

When. The arguments of a call are serialized at `.remote()`, a result when the function returns, the value of a `put` at
once, and an exception when the task has raised it. The stored form is a snapshot: a later change of the original does
not reach it. Each receiver deserializes for itself: each attempt of a task, each `get`.

Three ways to store, the cheapest first. (1) An immutable value (a number, a string, bytes, None, or a tuple or
frozenset of these) is stored as it is, because no program can tell it from a copy. (2) For a list, dict or set of
immutable values, a private copy is stored; if lists and dicts are nested, the bytes that marshal makes of them. Ray
uses msgpack for this, and the effect on the value is the same: two references to one inner list become two lists, and a
bytearray becomes bytes. (3) Everything else goes through pickle, which preserves both.

Buffers. An object such as a numpy array hands its memory to pickle's protocol 5 separately from the stream (PEP 574).
Each buffer is copied once (see `buffers`). All copies of the object then refer to the same memory, and so they are
read-only.

By name or by value. If another process could import a function or a class, the stream holds only its name. Otherwise
the stream holds its definition: a function's code with the globals and the closure that the code uses, a class's
attributes and bases (see `pickler`, `functions_by_value` and `classes_by_value`; the other special kinds are in
`other_kinds`). A stream with a definition has the form BY_VALUE.

Spaces. In Ray each process builds its own copies of such functions and classes. Here each worker, each actor and the
driver has a `Space` that holds its copies, and `deserialize` builds in the space of the code that is running. So an
instance that comes back to the driver is of the driver's own class again (see `spaces`).

Remote functions and actor classes are not serialized at each call. `capture` takes the snapshot once per session, and
`Captured.load` builds the copy once in each space.

References inside values. Pickling an ObjectRef or an actor handle calls `contain` with its record. The stored form
lists these records in `contained`, and the core keeps their objects and actors alive for as long as the stored form
exists.

Errors. Pickle says only "cannot pickle '_thread.lock' object". So after a failure, `inspect_serializability.explain`
pickles the parts of the value one by one, and the TypeError gives the path to the culprit: ['clients'][1].connection.
A RayError has the form ERROR or TASK_ERROR; `errors.loaded` raises it in place of returning it.

User code (hooks of pickle, metaclasses, imports) can run in every function here, on any thread. No lock is held then.
"""

from __future__ import annotations

import _pickle as pickle  # the part of pickle that is written in C; the rest is not needed
import io
import marshal
import threading

from ..exceptions import RayError, RayTaskError
from . import classes_by_value, functions_by_value, other_kinds  # noqa: F401, they register reducers
from .pickler import ATOMS, ByValuePickler, contain, deregister_serializer, dump, importable, register_serializer
from .spaces import Space, current_space, loads_into_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

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
    "serialize_error",
    "size_of",
]


class Serialized:
    """The stored form of a value that is not immutable. It never changes.

    form decides what data is:
    - COPY: a list, dict or set of immutable values. Its reader needs only a shallow copy.
    - PLAIN: bytes of marshal.
    - PICKLED: a pickle stream.
    - BY_VALUE: a pickle stream that must be loaded into a space.
    - ERROR, TASK_ERROR: such a stream for a RayError, and for a RayTaskError. Where the value is used, the error is
      raised (see `errors.loaded`).

    buffers: the buffers that belong to the stream. contained: one record for each distinct reference inside (see
    `contain`). size: bytes of data and buffers together.
    """

    __slots__ = ("data", "buffers", "contained", "size", "form")

    def __init__(self, data: Any, buffers: tuple[Any, ...], contained: tuple[Any, ...], size: int, form: str):
        self.data, self.buffers, self.contained = data, buffers, contained  # Python builds a tuple for more than three
        self.size, self.form = size, form


COPY, PLAIN, PICKLED, BY_VALUE, ERROR, TASK_ERROR = "copy", "plain", "pickled", "by value", "error", "task error"


def serialize(value: Any, subject: str = "the value", taker: Any = None) -> Any:
    """Return the stored form of a value: the value itself if it is immutable, otherwise a Serialized.

    A bytearray, a memoryview or an instance of a subclass of bytes becomes bytes. Bytes are never copied. Raises
    TypeError if pickle refuses the value, with the path to the culprit inside it. subject and taker are for its text:
    "Could not serialize {subject} {value!r} for a task or actor {taker}". Raises PicklingError if the value is nested
    too deeply. Any other exception of a user's hook (__reduce__, __getstate__, a registered serializer) is raised
    unchanged, as in Ray.
    """
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is list:
        copied = value.copy()  # first, as in `_store_plain`
        if _NUMBERS.issuperset(map(type, copied)):  # the same form as there, and quicker
            return Serialized(copied, (), (), 8 * len(copied), COPY)
    immutable = kind is tuple or kind is frozenset
    try:
        immutable = immutable and _is_immutable(value)
    except RecursionError:
        immutable = False  # pickle will say that it is nested too deeply
    if immutable:
        return value
    try:
        if kind is list or kind is dict or kind is set:
            return _store_plain(value)
        if kind is bytearray or kind is memoryview:
            return _to_bytes(value)
        if isinstance(value, bytes):  # as in Ray, an instance of a subclass arrives as plain bytes, without attributes
            return memoryview(value).tobytes()
        stored = _store(value)
        if isinstance(value, RayError):
            stored.form = TASK_ERROR if isinstance(value, RayTaskError) else ERROR
        return stored
    except TypeError as error:
        from .inspect_serializability import explain, shown  # only needed for an error

        receiver = "" if taker is None else f" for a task or actor {taker}"
        raise TypeError(explain(value, f"{subject} {shown(value)}{receiver}", error)) from error


def deserialize(stored: Any) -> Any:
    """Return the value of a stored form, a fresh copy at each call, built in the current space.

    Raises what the value's own hooks raise, and what pickle raises if they do not match (such as an exception whose
    __init__ does not accept its args).
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
    """Return the size of a stored form in bytes: exact for bytes and streams, an estimate for everything else."""
    kind = type(stored)
    if kind is Serialized:
        return stored.size  # type: ignore[no-any-return]
    if kind is bytes or kind is str:
        return len(stored)
    if kind is tuple or kind is frozenset:
        return 8 + sum(map(size_of, stored))
    return 8


# --- Values that need no pickle -----------------------------------------------------------------------------------


def _is_immutable(value: tuple[Any, ...] | frozenset[Any]) -> bool:
    for item in value:
        kind = type(item)
        if kind not in ATOMS and not ((kind is tuple or kind is frozenset) and _is_immutable(item)):
            return False
    return True


def _to_bytes(value: bytearray | memoryview) -> bytes:
    if type(value) is memoryview and not value.c_contiguous:
        raise BufferError("memoryview: underlying buffer is not C-contiguous")
    return bytes(value)


def _store_plain(value: list[Any] | dict[Any, Any] | set[Any]) -> Serialized:
    # Copy before looking at the items, because another thread may be changing the value.
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
    except (_Cycle, RecursionError, ValueError):  # ValueError: nested too deeply for marshal
        return _store(value)  # pickle can handle a cycle
    if not plain:
        return _store(copied)
    return Serialized(data, (), (), len(data), PLAIN)


def _size_of_atoms(items: Any) -> int:
    """Return the approximate size in bytes of some values, or -1 if not all of them are atoms."""
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
    """A list or a dict contains itself."""


def _copy_inside(copied: list[Any] | dict[Any, Any], above: set[int]) -> bool:
    """Replace all lists and dicts inside a copy by copies, and buffers by bytes.

    above: the ids of the original and of the lists and dicts around it.
    Returns whether everything is now plain, so that marshal accepts it. Raises _Cycle if the original contains itself.
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


# --- Values that are pickled --------------------------------------------------------------------------------------


def serialize_error(error: BaseException) -> Serialized:
    """Return the stored form of an exception that a task has raised. As in Ray, an array in it can be written to by who
    catches it: each copy has its own memory. Raises what pickle or a user's hook raises."""
    return _store(error, in_band=True)


def _store(value: Any, definitions: bool = True, in_band: bool = False) -> Serialized:
    try:
        data, buffers, contained, by_value = dump(value, definitions, in_band)
    except RecursionError as error:
        raise pickle.PicklingError(_TOO_DEEP) from error
    return Serialized(data, buffers, contained, len(data) + sum(map(len, buffers)), BY_VALUE if by_value else PICKLED)


_TOO_DEEP = "Could not pickle the object: it is nested too deeply"


def dumps(value: Any, protocol: int | None = None, buffer_callback: Callable[[Any], Any] | None = None) -> bytes:
    """Return the value as one pickle stream, which holds the full definition of everything that is sent by value.

    The arguments are those of pickle.dumps, with protocol 5 as the default. Raises what pickle raises.
    """
    file = io.BytesIO()
    try:
        ByValuePickler(file, 5 if protocol is None else protocol, buffer_callback=buffer_callback).dump(value)
    except RecursionError as error:
        raise pickle.PicklingError(_TOO_DEEP) from error
    return file.getvalue()


def loads(data: Any, *, buffers: Any = ()) -> Any:
    """Return the value of a stream that `dumps` made, built in the current space."""
    return current_space().load(data, buffers)


# --- Captures -----------------------------------------------------------------------------------------------------


_checked_here = threading.local()  # those that this thread is checking


class Captured:
    """A snapshot of a function or class, of which each space loads its own copy.

    by_name: the function or class itself if it can be imported, and is sent by name; otherwise None.
    contained: the records of the references in its globals, closure and defaults (see `contain`).
    size: the bytes of its definition, or 0 if it is sent by name.
    """

    __slots__ = ("by_name", "_stored", "_subject", "_sound", "contained", "size", "__weakref__")

    def __init__(self, by_name: Any, stored: Serialized | None, subject: str = ""):
        """subject: the function or class, for the text of an error."""
        self.by_name, self._stored, self._subject = by_name, stored, subject
        self._sound: tuple[bool, ...] = ()  # where it has been loaded: in the driver, in a worker
        self.contained: tuple[Any, ...] = () if stored is None else stored.contained
        self.size: int = 0 if stored is None else stored.size

    def load(self, space: Space) -> Any:
        """Return the copy in this space, built at the first call. An importable target has no copies.

        Raises RuntimeError if a value that the target refers to cannot be rebuilt, as Ray does.

        Load a function before its arguments: if both hold the same class, the definition that came with the arguments
        is the one that counts, as in Ray.
        """
        stored = self._stored
        if stored is None:
            return self.by_name
        made = space.loaded.get(self)
        if made is None:  # copy the buffers, because arrays in the closure are writable, as in Ray
            try:
                made = space.load(stored.data, tuple(map(bytearray, stored.buffers)), once=self)
            except Exception as error:
                import traceback  # only for an error

                text = "".join(traceback.format_exception(error))
                raise RuntimeError(
                    f"The {self._subject} failed to import on the worker. A value that it refers to cannot be rebuilt "
                    f"there:\n\n{text}"
                ) from None
        return made

    def check(self) -> None:
        """Raise what a value raises here that the target refers to and that cannot be rebuilt.

        For a target that arrives inside another value and is not called yet. It is loaded once, and not kept: its own
        workers load it when they need it. On Ray, it comes as a whole with whatever refers to it.
        """
        stored, driver = self._stored, loads_into_driver()
        if stored is None or driver in self._sound:
            return
        checking: set[Captured] = vars(_checked_here).setdefault("captured", set())
        if self in checking:
            return  # it refers to itself
        checking.add(self)
        try:
            current_space().load(stored.data, tuple(map(bytearray, stored.buffers)))
        finally:
            checking.discard(self)
        self._sound += (driver,)


def capture(target: Any) -> Captured:
    """Take a snapshot of a function or class, with its globals and closure.

    Raises TypeError if they hold a value that cannot be sent, with the path to it. Other errors as in `serialize`.
    """
    if importable(target):
        return Captured(target, None)
    try:
        kind = "actor with name" if isinstance(target, type) else "remote function"
        return Captured(None, _store(target, definitions=False), f"{kind} {target.__name__}")
    except TypeError as error:
        from .inspect_serializability import explain

        name = f"{getattr(target, '__ray_actor_class__', target).__module__}.{target.__qualname__}"
        subject = f"the actor class {name}.__init__" if isinstance(target, type) else f"the function {name}"
        raise TypeError(explain(target, subject, error)) from error
