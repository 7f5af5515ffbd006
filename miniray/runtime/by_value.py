"""Pickling by value what pickle itself only knows by name: functions, classes, modules that nobody can import.

Lambdas, nested functions, local classes and what `__main__` defines have no name under which another process would find
them. So they are taken apart (code, defaults, the globals that the code uses, closure cells; the attributes of a class) and put
together again as copies. What can be imported travels by name, as in plain pickle. This is what cloudpickle does for Ray,
and its limits are kept, because a program meets them there: two closures over one variable each get a cell of their
own, an enum's members are made again from their values only, an open file travels as its text.

Functions copied in one stream share one copy of their module's globals; two streams never do.

A class inside a value is sent in two parts: its definition, a stream of its own that is made once and shared by every value
until the class changes, and its tracker id, by which the receiving space (see `spaces`) notices that it has it already.
"""
from __future__ import annotations

import abc
import builtins
import collections
import dataclasses
import enum
import io
import marshal
import pickle
import sys
import threading
import types
import typing
import weakref
from importlib import import_module
from itertools import count
from opcode import EXTENDED_ARG, opmap
from typing import Any, Callable, Iterator, Optional

from .spaces import ByIdentity, Tracked, adopt, find, track

# What is immutable, holds nothing, and is known to marshal.
ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None), type(Ellipsis)})

_versions = count(1)
_by_value_modules: set[str] = set()
_HEAP_TYPE = 1 << 9                 # Py_TPFLAGS_HEAPTYPE: made by a class statement (or by a C module at run time)


def dump(value: Any, definitions: bool = False) -> tuple[bytes, tuple[bytes, ...], tuple, bool]:
    """Pickle value with protocol 5 and buffers out of band.

    definitions: see ByValuePickler.
    Returns the stream, the buffers (each copied once, unless it is bytes already), the records that `contain` was told of,
    and whether anything went by value, so that the stream has to be loaded into a `Space`.
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
    pickler: Optional[ByValuePickler] = getattr(_thread, "pickler", None)
    if pickler is None:
        return False
    pickler.keep(record)
    return True


_thread = threading.local()         # .pickler: the innermost run of dump() on this thread


def _frozen(buffer: pickle.PickleBuffer) -> bytes:
    with buffer.raw() as raw:
        owner = raw.obj
        if type(owner) is bytes and len(owner) == len(raw):
            return owner
        return bytes(raw)


class _EmptyCell:
    """Stands in a stream for the contents of a closure cell that has none yet."""


class ByValuePickler(pickle.Pickler):
    """A pickler that also takes what cannot be imported."""

    # No __init__: one of these is made for every value that is sent.
    definitions = False
    """Send a class by reference to its definition, which needs protocol 5, instead of in the stream itself."""
    sent_by_value = False
    """Set when the stream has to be loaded into a space (see `Space.load`)."""
    contained: Optional[dict[int, Any]] = None
    """The records that `contain` was called with during the run, by identity."""
    namespaces: Optional[dict[int, dict[str, Any]]] = None
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
        kind = type(obj)
        reduce = custom_reducers.get(kind) or _REDUCERS.get(kind)
        if reduce is not None:
            return reduce(obj, self)
        if issubclass(kind, type):
            return _reduce_class(obj, self)
        return NotImplemented


def importable(obj: Any, name: Optional[str] = None) -> bool:
    """Whether a fresh process would find this very object by its module and its (qualified) name."""
    module_name = getattr(obj, "__module__", None)
    if not isinstance(module_name, str) or module_name == "__main__" or _is_registered(module_name):
        return False
    found: Any = sys.modules.get(module_name)
    if found is None:
        return False
    try:
        for part in (name or obj.__qualname__).split("."):
            found = getattr(found, part)
    except Exception:       # AttributeError as a rule; a module's own __getattr__ may raise anything
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


def _is_registered(module_name: str) -> bool:
    if not _by_value_modules:
        return False
    while module_name:
        if module_name in _by_value_modules:
            return True
        module_name = module_name.rpartition(".")[0]
    return False


# ---------------------------------------------------------------------------------------------------------- functions

_LOAD_GLOBAL = opmap["LOAD_GLOBAL"]
_GLOBAL_OPERATIONS = frozenset({_LOAD_GLOBAL, opmap["STORE_GLOBAL"], opmap["DELETE_GLOBAL"]})
_LOAD_GLOBAL_SHIFT = 1 if sys.version_info >= (3, 11) else 0     # since 3.11 the lowest bit says "push a NULL first"
_names_of_code: ByIdentity[tuple[str, ...]] = ByIdentity()


def global_names(code: types.CodeType) -> tuple[str, ...]:
    """The globals that this code, or code nested in it, reads, sets or deletes; in order of first use.

    As in cloudpickle, names read by the body of a nested class statement are not among them: those are not compiled as globals.
    """
    names = _names_of_code.get(code)
    if names is None:
        names = _names_of_code.setdefault(code, tuple(dict.fromkeys(_walk_global_names(code))))
    return names


def _walk_global_names(code: types.CodeType) -> Iterator[str]:
    steps = code.co_code
    high_bits = 0
    for operation, argument in zip(steps[::2], steps[1::2]):
        argument |= high_bits
        high_bits = argument << 8 if operation == EXTENDED_ARG else 0
        if operation in _GLOBAL_OPERATIONS:
            yield code.co_names[argument >> _LOAD_GLOBAL_SHIFT if operation == _LOAD_GLOBAL else argument]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _walk_global_names(constant)


def _reduce_function(function: types.FunctionType, pickler: ByValuePickler) -> Any:
    if importable(function):
        return NotImplemented
    pickler.sent_by_value = True
    # From here on classes go into this stream too, so that their methods share their globals with this function.
    pickler.definitions = False
    code, globals_ = function.__code__, function.__globals__
    state = {
        "globals": {name: globals_[name] for name in global_names(code) if name in globals_},
        "cells": [_contents(cell) for cell in function.__closure__ or ()],
        "attributes": dict(function.__dict__),
        "slots": {name: getattr(function, name) for name in _FUNCTION_SLOTS},
    }
    # The function is made first and filled afterwards: its globals and cells may well lead back to it.
    return _make_function, (code, pickler.namespace(globals_)), state, None, None, _fill_function


_FUNCTION_SLOTS = ["__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__", "__annotations__"]
if sys.version_info >= (3, 12):
    _FUNCTION_SLOTS.append("__type_params__")


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:      # what Python raises for an empty one
        return _EmptyCell


def _make_function(code: types.CodeType, namespace: dict[str, Any]) -> types.FunctionType:
    namespace.setdefault("__builtins__", builtins)
    return types.FunctionType(code, namespace, None, None, tuple(types.CellType() for _ in code.co_freevars))


def _fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    function.__globals__.update(state["globals"])
    for cell, contents in zip(function.__closure__ or (), state["cells"]):
        if contents is not _EmptyCell:
            cell.cell_contents = contents
    function.__dict__.update(state["attributes"])
    for name, value in state["slots"].items():
        setattr(function, name, value)


def _reduce_code(code: types.CodeType, pickler: ByValuePickler) -> Any:
    try:
        return marshal.loads, (marshal.dumps(code),)
    except ValueError:      # a tool has put constants in that no compiler makes
        return _make_code, (marshal.dumps(code.replace(co_consts=())), code.co_consts)


def _make_code(data: bytes, constants: tuple) -> types.CodeType:
    return marshal.loads(data).replace(co_consts=constants)


def _reduce_method(method: types.MethodType, pickler: ByValuePickler) -> Any:
    function, owner = method.__func__, method.__self__
    found = getattr(owner if isinstance(owner, type) else type(owner), getattr(function, "__name__", ""), None)
    if found is function or getattr(found, "__func__", None) is function:
        return NotImplemented           # by its name, of the copy's own class
    return types.MethodType, (function, owner)


# ------------------------------------------------------------------------------------------------------------- classes


class Definition:
    """A class pickled by itself, kept for as long as the class is what it was.

    Whether it still is can be seen without pickling: attributes set, deleted or bound anew on the class and on its bases, changes of
    a list, dict or set that is an attribute, and changes of the globals that its methods use. Changes deeper inside those are not
    seen: they reach a space that has the class already, or a definition already made, with the next change that is.
    """

    __slots__ = ("version", "data", "buffers", "contained", "_watched", "_prints")

    def __init__(self, cls: type, version: int):
        """version: a number of its own, except for copies, which have that of the definition they were built from."""
        self.version = version
        self.data, self.buffers, self.contained = b"", (), ()       # type: tuple[Any, tuple, tuple]
        self._watched = tuple(_watched(cls))
        self._prints = self._look(cls)

    def fits(self, cls: type) -> bool:
        """Whether the class is what it was when this was made."""
        return self._look(cls) == self._prints

    def _look(self, cls: type) -> tuple:
        bases = cls.__mro__
        prints: list[Any] = [*map(id, bases)]
        for index, names in self._watched:
            if index < len(bases):
                attributes = vars(bases[index])
                prints += map(id, tuple(attributes.values()))
                for name in names:
                    _add_print(prints, attributes.get(name))
        return tuple(prints)


def _watched(cls: type) -> Iterator[tuple[int, list[str]]]:
    """For each base that is not importable: its place in the mro, and the attributes of which the id alone does not tell enough."""
    for index, base in enumerate(cls.__mro__):
        if base is cls or not importable(base):
            yield index, [name for name, value in tuple(vars(base).items()) if _is_watched(name, value)]


def _is_watched(name: str, value: Any) -> bool:
    kind = type(value)
    if kind in ATOMS:
        return not name.startswith("__")        # __doc__ and the like are not assigned to again
    function = value.__func__ if kind is staticmethod or kind is classmethod else value
    return kind in (list, dict, set) or type(function) is types.FunctionType and bool(global_names(function.__code__))


def _add_print(prints: list[Any], value: Any) -> None:
    """Only ids and immutable things: the table of definitions outlives the class, and must not keep it alive."""
    kind = type(value)
    if kind in ATOMS:
        prints.append((kind, value))            # an id of a number says nothing once the number was freed
    elif kind is list or kind is set:
        prints.append((*map(id, value),))
    elif kind is dict:
        prints.append((*map(id, value), *map(id, value.values())))
    else:
        function = value.__func__ if kind is staticmethod or kind is classmethod else value
        if type(function) is types.FunctionType:
            globals_ = function.__globals__
            for name in global_names(function.__code__):
                used = globals_.get(name)
                prints.append((type(used), used) if type(used) in ATOMS else id(used))


def _reduce_class(cls: type, pickler: ByValuePickler) -> Any:
    if cls in _NAMED_IN_TYPES:
        return getattr, (types, _NAMED_IN_TYPES[cls])
    if not cls.__flags__ & _HEAP_TYPE or importable(cls):
        return NotImplemented
    pickler.sent_by_value = True
    if pickler.definitions:
        return _reduce_to_definition(cls, pickler)
    arguments = (track(cls).tracker_id, type(cls), cls.__name__, cls.__bases__, _seed(cls), _members(cls))
    return _make_class, arguments, _class_state(cls), None, None, _fill_class


# FunctionType and its like live in `builtins` by their module, but can only be had from `types`.
_NAMED_IN_TYPES = {cls: name for name, cls in vars(types).items() if isinstance(cls, type) and not importable(cls)}


def _reduce_to_definition(cls: type, pickler: ByValuePickler) -> Any:
    tracked = track(cls)
    definition = tracked.definition
    if definition is None or not definition.fits(cls):
        definition = Definition(cls, next(_versions))
        definition.data, definition.buffers, definition.contained, _ = dump(cls)
        tracked.definition = definition
    for record in definition.contained:
        pickler.keep(record)
    # Who builds the class from a definition with references cannot say what they keep alive, and must not pass it on.
    version = None if definition.contained else definition.version
    parts = [pickle.PickleBuffer(part) for part in (definition.data, *definition.buffers)]
    return _load_class, (tracked.tracker_id, version, *parts)


def _load_class(tracker_id: str, version: Optional[int], data: bytes, *buffers: bytes) -> type:
    """The class of that id in the space that is being loaded into, brought up to date if it is not an original."""
    tracked = find(tracker_id)
    if tracked is not None and (cls := tracked.ref()) is not None:
        known = tracked.definition
        if tracked.original or known is not None and known.version == version and known.fits(cls):
            return cls
    cls = pickle.loads(data, buffers=buffers)
    if version is not None:
        definition = Definition(cls, version)
        definition.data, definition.buffers = data, buffers
        track(cls).definition = definition
    return cls


def _seed(cls: type) -> dict[str, Any]:
    """The part of the class body that has to be there when the metaclass runs."""
    attributes = vars(cls)
    names = ("__module__", "__orig_bases__", "_is_protocol")
    seed = {name: attributes[name] for name in names if name in attributes}
    if isinstance(cls, enum.EnumMeta):
        seed["__qualname__"] = cls.__qualname__     # of other copies it is the bare name, as in Ray
    if "__slots__" in attributes:
        # From the descriptors: __slots__ itself may be an iterator that is used up, and has private names unmangled.
        seed["__slots__"] = (*_slots_of(cls), *(name for name in ("__dict__", "__weakref__") if name in attributes))
    return seed


def _slots_of(cls: type) -> tuple[str, ...]:
    return tuple(name for name, value in vars(cls).items()
                 if type(value) is types.MemberDescriptorType and value.__objclass__ is cls)


def _members(cls: type) -> Optional[dict[str, Any]]:
    """Of an enum with members: their names (aliases too) and values. None for any other class."""
    if not isinstance(cls, enum.EnumMeta):
        return None
    return {name: member.value for name, member in cls.__members__.items()}


_MADE_BY_ENUM = ("_member_names_", "_member_map_", "_value2member_map_", "_member_type_", "_unhashable_values_",
                 "_hashable_values_", "_unhashable_values_map_")


def _class_state(cls: type) -> dict[str, Any]:
    """What _fill_class puts into the class: its attributes, but for those that come with its creation."""
    attributes = dict(vars(cls))
    for name in ("__dict__", "__weakref__", "__module__", "_abc_impl", *_slots_of(cls)):
        attributes.pop(name, None)
    if isinstance(cls, enum.EnumMeta):
        for name in (*_MADE_BY_ENUM, *cls.__members__):
            attributes.pop(name, None)
    registered = []
    if isinstance(cls, abc.ABCMeta):
        registered = [known for ref in abc._get_dump(cls)[0] if (known := ref()) is not None]   # type: ignore[attr-defined]
    return {"attributes": attributes, "registered": registered}


def _make_class(tracker_id: str, metaclass: type, name: str, bases: tuple[type, ...], seed: dict[str, Any],
                members: Optional[dict[str, Any]]) -> type:
    """The space's class of that id; a new one, still without its attributes, when it has none."""
    tracked = find(tracker_id)
    cls = None if tracked is None else tracked.ref()
    if cls is not None:
        return cls
    if metaclass is _TYPED_DICT:
        # It refuses dict for a base, though dict is the only base that it leaves.
        cls = type.__new__(metaclass, name, bases, seed)
    else:
        cls = types.new_class(name, bases, {"metaclass": metaclass}, lambda body: _execute(body, seed, members))
    adopt(cls, tracker_id)
    return cls


_TYPED_DICT: type = type(typing.TypedDict("_Any", {}))     # type: ignore[operator]


def _execute(body: Any, seed: dict[str, Any], members: Optional[dict[str, Any]]) -> None:
    """The class statement's body, as far as it is needed at once."""
    for name, value in (*seed.items(), *(members or {}).items()):
        body[name] = value      # one by one: an enum's body notices its members by __setitem__


def _fill_class(cls: type, state: dict[str, Any]) -> None:
    if track(cls).original:
        return
    for name, value in state["attributes"].items():
        # type's own: a metaclass may forbid or rewrite what a program assigns (an enum does), but here nothing is new.
        type.__setattr__(cls, name, value)
    for registered in state["registered"]:
        cls.register(registered)        # type: ignore[attr-defined]


def _reduce_typevar(variable: typing.TypeVar, pickler: ByValuePickler) -> Any:
    if importable(variable, variable.__name__):
        return NotImplemented
    pickler.sent_by_value = True
    options = {"covariant": variable.__covariant__, "contravariant": variable.__contravariant__}
    if getattr(variable, "__infer_variance__", False):
        options["infer_variance"] = True
    return _make_typevar, (track(variable).tracker_id, variable.__name__, variable.__constraints__, variable.__bound__,
                           options, variable.__module__)


def _make_typevar(tracker_id: str, name: str, constraints: tuple, bound: Any, options: dict[str, bool],
                  module: Optional[str]) -> typing.TypeVar:
    tracked = find(tracker_id)
    variable = None if tracked is None else tracked.ref()
    if variable is None:
        variable = typing.TypeVar(name, *constraints, bound=bound, **options)       # type: ignore[misc]
        variable.__module__ = module
        adopt(variable, tracker_id)
    return variable


# --------------------------------------------------------------------------- what else pickle does not take, or not so


def _reduce_module(module: types.ModuleType, pickler: ByValuePickler) -> Any:
    name = module.__name__
    if sys.modules.get(name) is module and not _is_registered(name):
        return import_module, (name,)
    # __builtins__ may have been filled with anything, and is the same everywhere.
    contents = {key: value for key, value in vars(module).items() if key != "__builtins__"}
    return types.ModuleType, (name,), contents, None, None, _fill_module


def _fill_module(module: types.ModuleType, contents: dict[str, Any]) -> None:
    vars(module).update(contents, __builtins__=builtins)


def _reduce_text_file(file: Any, pickler: ByValuePickler) -> Any:
    """The text of a file that is open for reading, as a StringIO at the same position."""
    if file is sys.stdout or file is sys.stderr:
        return getattr, (sys, "stdout" if file is sys.stdout else "stderr")
    if file is sys.stdin:
        raise pickle.PicklingError("Cannot pickle standard input")
    if file.closed:
        raise pickle.PicklingError("Cannot pickle a closed file")
    mode = getattr(file, "mode", None)
    if not isinstance(mode, str) or not hasattr(file, "name"):
        raise pickle.PicklingError(f"Cannot pickle {file!r}: it is no file on a disk")
    if file.isatty():
        raise pickle.PicklingError(f"Cannot pickle {file!r}: it is a terminal")
    if "r" not in mode and "+" not in mode:
        raise pickle.PicklingError(f"Cannot pickle {file!r}: it is not open for reading (mode {mode})")
    try:
        position = file.tell()
        file.seek(0)
        text = io.StringIO(file.read())
        file.seek(position)
    except OSError as error:
        raise pickle.PicklingError(f"Cannot pickle {file!r}: it cannot be read") from error
    text.seek(position)
    text.name = file.name       # type: ignore[attr-defined]
    return _itself, (text,)


def _itself(value: Any) -> Any:
    return value


def _values_view(values: list) -> Any:
    return dict(enumerate(values)).values()


def _keys_view(mapping: type, keys: list) -> Any:
    return mapping.fromkeys(keys).keys()        # type: ignore[attr-defined]


def _items_view(mapping: type, items: list) -> Any:
    return mapping(items).items()


def _ordered_values_view(values: list) -> Any:
    return collections.OrderedDict(enumerate(values)).values()


# The markers that dataclasses compares by identity.
_MARKER_TYPES = tuple(type(marker) for marker in (dataclasses.MISSING, dataclasses.KW_ONLY,
                                                  dataclasses._FIELD))        # type: ignore[attr-defined]


def _reduce_marker(marker: Any, pickler: ByValuePickler) -> Any:
    for name, value in vars(dataclasses).items():
        if value is marker:
            return getattr, (dataclasses, name)
    return NotImplemented


_ordered: Any = collections.OrderedDict()

# By exact type; each is given the value and the pickler, and answers as reducer_override does.
_REDUCERS: dict[type, Callable[[Any, ByValuePickler], Any]] = {
    type: _reduce_class,
    types.FunctionType: _reduce_function,
    types.CodeType: _reduce_code,
    types.MethodType: _reduce_method,
    types.ModuleType: _reduce_module,
    types.CellType: lambda cell, _: (types.CellType, () if (held := _contents(cell)) is _EmptyCell else (held,)),
    types.MappingProxyType: lambda proxy, _: (types.MappingProxyType, (dict(proxy),)),
    types.GetSetDescriptorType: lambda descriptor, _: (getattr, (descriptor.__objclass__, descriptor.__name__)),
    property: lambda prop, _: (property, (prop.fget, prop.fset, prop.fdel, prop.__doc__)),
    staticmethod: lambda method, _: (staticmethod, (method.__func__,)),
    classmethod: lambda method, _: (classmethod, (method.__func__,)),
    memoryview: lambda view, _: (bytes, (view.tobytes(),)),
    weakref.WeakSet: lambda members, _: (weakref.WeakSet, (list(members),)),
    typing.TypeVar: _reduce_typevar,
    io.TextIOWrapper: _reduce_text_file,
    type({}.keys()): lambda view, _: (_keys_view, (dict, list(view))),
    type({}.values()): lambda view, _: (_values_view, (list(view),)),
    type({}.items()): lambda view, _: (_items_view, (dict, list(view))),
    type(_ordered.keys()): lambda view, _: (_keys_view, (collections.OrderedDict, list(view))),
    type(_ordered.values()): lambda view, _: (_ordered_values_view, (list(view),)),
    type(_ordered.items()): lambda view, _: (_items_view, (collections.OrderedDict, list(view))),
    **{kind: _reduce_marker for kind in _MARKER_TYPES},
}

# What util.register_serializer has been told; looked up before everything else.
custom_reducers: dict[type, Callable[[Any, ByValuePickler], Any]] = {}
