"""The pickler that everything sent goes through: pickle's own, taught to take what cannot be imported.

How a kind of object is taken apart stands in the modules that register with `reduces`: functions_by_value,
classes_by_value and special_values. This is what cloudpickle does for Ray, and its limits are kept, because a program
meets them there: two closures over one variable each get a cell of their own, an enum's members are made again from
their values only, an open file travels as its text.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
import types
from typing import Any, Callable

# What is immutable, holds nothing, and is known to marshal.
ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None), type(Ellipsis)})

Reducer = Callable[[Any, "ByValuePickler"], Any]

_reducers: dict[type, Reducer] = {}  # by exact type; `type` stands for the metaclasses without an entry
_custom: dict[type, Reducer] = {}  # what util.register_serializer has been told; comes first
_by_value_modules: set[str] = set()
_thread = threading.local()  # .pickler: the innermost run of dump() on this thread


def reduces(*kinds: type) -> Callable[[Reducer], Reducer]:
    """Decorates a function that takes objects of exactly these types apart.

    It is given the object and the pickler, and answers as Pickler.reducer_override does.
    """

    def register(reducer: Reducer) -> Reducer:
        _reducers.update(dict.fromkeys(kinds, reducer))
        return reducer

    return register


def dump(value: Any, definitions: bool = False) -> tuple[bytes, tuple[bytes, ...], tuple, bool]:
    """Pickle value with protocol 5 and buffers out of band.

    definitions: see ByValuePickler.
    Returns the stream, the buffers (each copied once, unless it is bytes already), the records that `contain` was
    told of, and whether anything went by value, so that the stream has to be loaded into a `Space`.
    Raises whatever pickle or a hook of the user's raises. No lock is held: hooks may call anything, this function too.
    """
    file = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    pickler = ByValuePickler(file, 5, buffer_callback=buffers.append)
    pickler.definitions = definitions
    outer = getattr(_thread, "pickler", None)
    _thread.pickler = pickler
    try:
        pickler.dump(value)
    finally:
        _thread.pickler = outer
    contained = () if pickler.contained is None else tuple(pickler.contained.values())
    return file.getvalue(), tuple(map(_frozen, buffers)), contained, pickler.sent_by_value


def contain(record: Any) -> bool:
    """Called by the __reduce__ of an ObjectRef or an ActorHandle: its record has to outlive the stream being written.

    False when no stream of ours is being written on this thread, as under the user's own pickle.dumps.
    """
    pickler: ByValuePickler | None = getattr(_thread, "pickler", None)
    if pickler is None:
        return False
    pickler.keep(record)
    return True


def _frozen(buffer: pickle.PickleBuffer) -> bytes:
    with buffer.raw() as raw:
        owner = raw.obj
        if type(owner) is bytes and len(owner) == len(raw):
            return owner
        return bytes(raw)


class ByValuePickler(pickle.Pickler):
    """A pickler that also takes what cannot be imported."""

    # No __init__: one of these is made for every value that is sent.
    definitions = False
    """Send a class by reference to its definition, which needs protocol 5, instead of in the stream itself."""
    sent_by_value = False
    """Set when the stream has to be loaded into a space (see `Space.load`)."""
    contained: dict[int, Any] | None = None
    """The records that `contain` was called with during the run, by identity."""
    namespaces: dict[int, dict[str, Any]] | None = None
    """What becomes of the globals of the functions in the stream, by the identity of those."""

    def keep(self, record: Any) -> None:
        """Note a record in contained."""
        if self.contained is None:
            self.contained = {}
        self.contained[id(record)] = record

    def namespace(self, globals_: dict[str, Any]) -> dict[str, Any]:
        """The one dict that becomes, in the stream, the globals of every function whose globals these are."""
        if self.namespaces is None:
            self.namespaces = {}
        key = id(globals_)
        if key not in self.namespaces:
            # What a relative import inside a function needs. The rest is added by each function for itself.
            names = ("__name__", "__package__", "__path__", "__file__")
            self.namespaces[key] = {name: globals_[name] for name in names if name in globals_}
        return self.namespaces[key]

    def reducer_override(self, obj: Any) -> Any:
        """Asked by pickle about everything but plain builtin values, before it looks for a way of its own."""
        kind = type(obj)
        reducer = _custom.get(kind) or _reducers.get(kind)
        if reducer is None:
            if not issubclass(kind, type):
                return NotImplemented
            reducer = _reducers[type]
        return reducer(obj, self)


def importable(obj: Any, name: str | None = None) -> bool:
    """Whether a fresh process would find this very object by its module and its (qualified) name.

    On the way there are modules and classes only: an actor class, which stands where its plain class was, shows the class's
    functions as its own, and in a worker those of the copy that is just being made.
    """
    module_name = getattr(obj, "__module__", None)
    if not isinstance(module_name, str) or module_name == "__main__" or is_sent_by_value(module_name):
        return False
    found: Any = sys.modules.get(module_name)
    if found is None:
        return False
    try:
        for part in (name or obj.__qualname__).split("."):
            if not isinstance(found, (types.ModuleType, type)):
                return False
            found = getattr(found, part)
    except Exception:  # AttributeError as a rule; a module's own __getattr__ may raise anything
        return False
    return found is obj


def register_pickle_by_value(module: types.ModuleType) -> None:
    """Send what this module (and those below it) defines by value, though it could be imported.

    ValueError for what is not a module, or is not imported.
    """
    if not isinstance(module, types.ModuleType):
        raise ValueError(f"Input should be a module object, got {module!r} instead")
    if module.__name__ not in sys.modules:
        raise ValueError(f"{module} was not imported correctly, import it before registering it")
    _by_value_modules.add(module.__name__)


def unregister_pickle_by_value(module: types.ModuleType) -> None:
    """Take register_pickle_by_value back. ValueError when it was not registered."""
    if not isinstance(module, types.ModuleType):
        raise ValueError(f"Input should be a module object, got {module!r} instead")
    if module.__name__ not in _by_value_modules:
        raise ValueError(f"{module} is not registered for pickle by value")
    _by_value_modules.discard(module.__name__)


def is_sent_by_value(module_name: str) -> bool:
    """Whether register_pickle_by_value was told of this module, or of a package that it is in."""
    if not _by_value_modules:
        return False
    while module_name:
        if module_name in _by_value_modules:
            return True
        module_name = module_name.rpartition(".")[0]
    return False


def register_serializer(cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]) -> None:
    """Send values of exactly this class as serializer(value), and make them again with deserializer.

    serializer answers with something that can be sent; deserializer is sent along, by value if need be.
    Ray: ray.util.register_serializer.
    """
    _custom[cls] = lambda value, _: (deserializer, (serializer(value),))


def deregister_serializer(cls: type) -> None:
    """Take register_serializer back. Nothing happens for a class without one."""
    _custom.pop(cls, None)
