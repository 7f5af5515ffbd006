"""The pickler for everything that is sent. It extends pickle's own to objects that cannot be imported.

The reducers for the single kinds of objects are in the modules that register with `reduces`: functions_by_value,
classes_by_value and other_kinds. They do what cloudpickle does for Ray, and have the same limits, because programs
written for Ray meet them: two closures over one variable each get their own cell, the members of an enum are rebuilt
from their values alone, and an open file is sent as its text.
"""

from __future__ import annotations

import _pickle as pickle
import copyreg
import io
import sys
import threading
import types
from operator import attrgetter

from .buffers import frozen
from .spaces import loads_into_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Reducer = Callable[[Any, "ByValuePickler"], Any]

# Types whose values are immutable, hold no other values, and are supported by marshal.
ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None), type(Ellipsis)})

_PLAIN_REDUCE: Any = object.__reduce__

_reducers: dict[type, Reducer] = {}  # by exact type; `type` stands for the metaclasses without an entry
_named: dict[str, dict[str, Reducer]] = {}  # by module and name, until an object of that type is sent
_custom: dict[type, Reducer] = {}  # from util.register_serializer; these come first
_by_value_modules: set[str] = set()
_thread = threading.local()  # .pickler: that of the innermost dump() on this thread


def reduces(*kinds: type) -> Callable[[Reducer], Reducer]:
    """Decorator: register the reducer for objects of exactly these types.

    The reducer is called with the object and the pickler, and returns what Pickler.reducer_override may return.
    """

    def register(reducer: Reducer) -> Reducer:
        _reducers.update(dict.fromkeys(kinds, reducer))
        return reducer

    return register


def reduces_named(module: str, *names: str) -> Callable[[Reducer], Reducer]:
    """Decorator: the same for types of a module that the program may never import, by their names there."""

    def register(reducer: Reducer) -> Reducer:
        _named.setdefault(module, {}).update(dict.fromkeys(names, reducer))
        return reducer

    return register


def dump(
    value: Any, definitions: bool = False, in_band: bool = False
) -> tuple[bytes, tuple[Any, ...], tuple[Any, ...], bool]:
    """Pickle a value with protocol 5 and its buffers separately.

    definitions: see ByValuePickler. in_band: write the buffers into the stream, so that each copy has its own.
    Returns the stream; the buffers (each copied once, see `buffers.frozen`); the records with which `contain` was
    called; and whether anything was sent by value, so that the stream must be loaded into a `Space`.
    Raises what pickle or a user's hook raises. No lock is held: a hook may call anything, this function included.
    """
    file = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    pickler = ByValuePickler(file, 5, buffer_callback=None if in_band else buffers.append)
    pickler.definitions = definitions
    outer = getattr(_thread, "pickler", None)
    _thread.pickler = pickler
    try:
        pickler.dump(value)
    finally:
        _thread.pickler = outer
    contained = () if pickler.contained is None else tuple(pickler.contained.values())
    return file.getvalue(), tuple(map(frozen, buffers)), contained, pickler.sent_by_value


def contain(record: Any) -> bool:
    """Note that the stream that this thread is writing holds a reference to this record.

    Called by the __reduce__ of an ObjectRef or an ActorHandle. Code that stores the stream must keep the record alive.
    Returns False if `dump` is not running on this thread, as under the user's own pickle.dumps.
    """
    pickler: ByValuePickler | None = getattr(_thread, "pickler", None)
    if pickler is None:
        return False
    pickler.keep(record)
    return True


class ByValuePickler(pickle.Pickler):
    """A pickler that also accepts objects that cannot be imported."""

    # There is no __init__, to save its time: one pickler is made for every value that is sent.
    definitions = False
    """Whether the definition of a class is a stream of its own (needs protocol 5), instead of a part of this stream."""
    sent_by_value = False
    """Whether the stream must be loaded into a space (see `Space.load`)."""
    contained: dict[int, Any] | None = None
    """The records with which `contain` was called, by their id()."""
    namespaces: dict[int, dict[str, Any]] | None = None
    """For each dict of globals, by its id(): the dict that represents it in the stream."""

    def keep(self, record: Any) -> None:
        """Add a record to contained."""
        if self.contained is None:
            self.contained = {}
        self.contained[id(record)] = record

    def namespace(self, globals_: dict[str, Any]) -> dict[str, Any]:
        """Return the dict that represents these globals in the stream, one for all functions that share them."""
        if self.namespaces is None:
            self.namespaces = {}
        key = id(globals_)
        if key not in self.namespaces:
            # A relative import inside a function needs these names. Each function adds the globals that it uses.
            names = ("__name__", "__package__", "__path__", "__file__")
            self.namespaces[key] = {name: globals_[name] for name in names if name in globals_}
        return self.namespaces[key]

    def reducer_override(self, obj: Any) -> Any:
        """Return how to pickle an object. Pickle asks about every object except plain built-in values."""
        kind = type(obj)
        reducer = _custom.get(kind) or _reducers.get(kind)
        if reducer is None:
            if kind.__module__ in _named:
                reducer = _named[kind.__module__].get(kind.__name__)
                if reducer is not None:
                    _reducers[kind] = reducer
                    return reducer(obj, self)
            if not issubclass(kind, type):
                return NotImplemented if kind.__reduce__ is _PLAIN_REDUCE else self._by_own_reduce(obj, kind)
            reducer = _reducers[type]
        return reducer(obj, self)

    def _by_own_reduce(self, obj: Any, kind: type) -> Any:
        """For an object with a `__reduce__` of its own. If it returns the name of a global of `__main__`, the global is
        found in the driver only (see `in_main`); in any other case pickle does what it always does."""
        if kind.__module__ != "__main__" or kind in copyreg.dispatch_table:
            return NotImplemented
        reduced = obj.__reduce_ex__(5)
        if not isinstance(reduced, str) or getattr(obj, "__module__", None) != "__main__":
            return reduced
        return self.in_main(obj, reduced)

    def in_main(self, obj: Any, name: str) -> Any:
        """How to send an object of `__main__` that pickle sends by its name alone. In Ray the name leads nowhere in a
        worker, which has a `__main__` of its own."""
        try:
            found = attrgetter(name)(sys.modules["__main__"])
        except AttributeError:
            found = None
        if found is not obj:
            return name  # pickle raises its own error
        self.sent_by_value = True
        return _in_main, (name,)


def _in_main(name: str) -> Any:
    main = sys.modules["__main__"]
    if not loads_into_driver():
        raise AttributeError(f"Can't get attribute {name!r} on {main!r}: a worker has a __main__ of its own")
    return attrgetter(name)(main)


def importable(obj: Any, name: str | None = None) -> bool:
    """Whether a fresh process would find this very object by its module and its (qualified) name.

    Every step of the name must lead through a module or a class. An actor class is neither: it has replaced the plain
    class under its name, and passes on the functions of that class, or of a copy that is still being built.
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
    except Exception:  # usually AttributeError, but a module's own __getattr__ may raise anything
        return False
    return found is obj


def register_pickle_by_value(module: types.ModuleType) -> None:
    """Send everything that this module and its submodules define by value, although it could be imported.

    Raises ValueError for an object that is not a module, and for a module that has not been imported.
    """
    if not isinstance(module, types.ModuleType):
        raise ValueError(f"Input should be a module object, got {module!r} instead")
    if module.__name__ not in sys.modules:
        raise ValueError(f"{module} was not imported correctly, import it before registering it")
    _by_value_modules.add(module.__name__)


def unregister_pickle_by_value(module: types.ModuleType) -> None:
    """Undo register_pickle_by_value. Raises ValueError if the module is not registered."""
    if not isinstance(module, types.ModuleType):
        raise ValueError(f"Input should be a module object, got {module!r} instead")
    if module.__name__ not in _by_value_modules:
        raise ValueError(f"{module} is not registered for pickle by value")
    _by_value_modules.discard(module.__name__)


def is_sent_by_value(module_name: str) -> bool:
    """Whether this module, or a package around it, is registered with register_pickle_by_value."""
    if not _by_value_modules:
        return False
    while module_name:
        if module_name in _by_value_modules:
            return True
        module_name = module_name.rpartition(".")[0]
    return False


def register_serializer(cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]) -> None:
    """Send instances of exactly this class as serializer(value), and rebuild them with deserializer.

    serializer must return a value that can be sent. deserializer is sent along, by value if necessary.
    Ray: ray.util.register_serializer.
    """
    _custom[cls] = lambda value, _: (deserializer, (serializer(value),))


def deregister_serializer(cls: type) -> None:
    """Undo register_serializer. Does nothing for a class without a serializer."""
    _custom.pop(cls, None)
