"""Classes by value: local classes, and classes of `__main__` or of a module that cannot be imported.

The receiver builds a class in two steps, because its methods may refer to it: first the bare class with its name, bases
and metaclass, then its attributes. The copies in different spaces (see `spaces`) share a tracker id.

A class inside a value is sent in two parts. One is its tracker id, by which the receiving space finds the copy that it
may already have. The other is its definition, a stream of its own. The definition is pickled once, and all values share
it until the class changes.
"""

from __future__ import annotations

import _pickle as pickle
import abc
import enum
import importlib
import sys
import types
import weakref
from itertools import count

from ..exceptions import cause_class_of, dual_class
from .functions_by_value import global_names
from .pickler import ATOMS, ByValuePickler, dump, importable, reduces, reduces_named
from .spaces import adopt, find_copy, track, tracked_or_none

TYPE_CHECKING = False
if TYPE_CHECKING:
    import typing
    from typing import Any, Iterator

_versions = count(1)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement, or by a C module at run time

# The __module__ of FunctionType and similar types is `builtins`, but they are found only in `types`.
_NAMED_IN_TYPES = {cls: name for name, cls in vars(types).items() if isinstance(cls, type) and not importable(cls)}


@reduces(type, abc.ABCMeta, enum.EnumMeta)
def _reduce_class(cls: type, pickler: ByValuePickler) -> Any:
    if cls in _NAMED_IN_TYPES:
        return getattr, (types, _NAMED_IN_TYPES[cls])
    if not cls.__flags__ & _HEAP_TYPE or importable(cls):
        return NotImplemented
    cause_class = cause_class_of(cls)
    if cause_class is not None:
        return dual_class, (cause_class,)
    pickler.sent_by_value = True
    if pickler.definitions:
        return _reduce_to_definition(cls, pickler)
    arguments = (track(cls).tracker_id, type(cls), cls.__name__, cls.__bases__, _first_attributes(cls), _members(cls))
    return _make_class, arguments, _class_state(cls), None, None, _fill_class


def _reduce_to_definition(cls: type, pickler: ByValuePickler) -> Any:
    tracked = track(cls)
    definition = tracked.definition
    if definition is None or not definition.fits(cls):
        definition = Definition(cls, next(_versions))
        definition.data, definition.buffers, definition.contained, _ = dump(cls)
        tracked.definition = definition
    for record in definition.contained:
        pickler.keep(record)
    # A receiver cannot tell which records the references in a definition keep alive, so it must not send this
    # definition on. Without a version it will not.
    version = None if definition.contained else definition.version
    parts = [pickle.PickleBuffer(part) for part in (definition.data, *definition.buffers)]
    return _load_class, (tracked.tracker_id, version, *parts)


def _load_class(tracker_id: str, version: int | None, data: bytes, *buffers: bytes) -> type:
    """Return the class with this id in the space that is being loaded into, updated unless it is an original."""
    tracked = find_copy(tracker_id)
    cls: type | None = None if tracked is None else tracked.ref()
    if tracked is not None and cls is not None:
        latest = tracked.definition
        if tracked.original or latest is not None and latest.version == version and latest.fits(cls):
            return cls
    built: type = pickle.loads(data, buffers=buffers)
    if version is not None:
        definition = Definition(built, version)
        definition.data, definition.buffers = data, buffers
        tracked = tracked_or_none(built)
        if tracked is not None:
            tracked.definition = definition
    return built


class Definition:
    """The stream of one class, kept until the class changes.

    A change is found without pickling, by comparing fingerprints. A fingerprint covers attributes set, deleted or
    replaced on the class and its bases; changes of a list, dict or set that is an attribute; and changes of the globals
    that the methods use. Changes deeper inside these are not found. They are sent with the next change that is found.
    """

    __slots__ = ("version", "data", "buffers", "contained", "_watched", "_fingerprint", "_alive")

    def __init__(self, cls: type, version: int):
        """version: a new number; for a copy, that of the definition from which it was built."""
        self.version = version
        self.data, self.buffers, self.contained = b"", (), ()  # type: tuple[Any, tuple[Any, ...], tuple[Any, ...]]
        self._watched = tuple(_watched(cls))
        self._fingerprint = self._take_fingerprint(cls)
        # A fingerprint holds ids. An id may be reused once its object is gone, so all these objects must still exist.
        self._alive = tuple(ref for index, _ in self._watched for ref in _references(cls.__mro__[index]))

    def fits(self, cls: type) -> bool:
        """Whether the class is the same as when this definition was made."""
        for ref in self._alive:
            if ref() is None:
                return False
        return self._take_fingerprint(cls) == self._fingerprint

    def _take_fingerprint(self, cls: type) -> tuple[Any, ...]:
        bases = cls.__mro__
        parts: list[Any] = [*map(id, bases)]
        for index, names in self._watched:
            if index < len(bases):
                attributes = vars(bases[index])
                parts += map(id, tuple(attributes.values()))
                for name in names:
                    _add_to_fingerprint(parts, attributes.get(name))
        return tuple(parts)


def _watched(cls: type) -> Iterator[tuple[int, list[str]]]:
    """Yield, for each base sent by value, its index in the mro and the attributes that need more than an id."""
    for index, base in enumerate(cls.__mro__):
        if base is cls or not importable(base):
            yield index, [name for name, value in tuple(vars(base).items()) if _is_watched(name, value)]


def _is_watched(name: str, value: Any) -> bool:
    kind = type(value)
    if kind in ATOMS:
        return not name.startswith("__")  # nobody assigns to __doc__ and similar attributes
    function = _function_of(value)
    return kind in (list, dict, set) or function is not None and bool(global_names(function.__code__))


def _function_of(value: Any) -> types.FunctionType | None:
    """Return the function in an attribute of a class, if there is one; for a property, its getter."""
    kind = type(value)
    if kind is staticmethod or kind is classmethod:
        value = value.__func__
    elif kind is property:
        value = value.fget
    return value if type(value) is types.FunctionType else None


def _add_to_fingerprint(parts: list[Any], value: Any) -> None:
    """Append ids and immutable values only: a definition may outlive the class, and must not keep it alive."""
    kind = type(value)
    if kind in ATOMS:
        parts.append((kind, value))
    elif kind is list or kind is set:
        parts.append((*map(id, value),))
    elif kind is dict:
        parts.append((*map(id, value), *map(id, value.values())))
    elif (function := _function_of(value)) is not None:
        globals_ = function.__globals__
        for name in global_names(function.__code__):
            used = globals_.get(name)
            parts.append((type(used), used) if type(used) in ATOMS else id(used))


def _references(cls: type) -> Iterator[weakref.ref[Any]]:
    """Yield weak references to the objects whose ids are in a fingerprint: attributes, and globals that methods use."""
    for value in tuple(vars(cls).values()):
        function = _function_of(value)
        values = [value]
        if function is not None:
            values = [function, *map(function.__globals__.get, global_names(function.__code__))]
        for item in values:
            if type(item).__weakrefoffset__:  # numbers, strings and others have no weak references
                yield weakref.ref(item)


def _first_attributes(cls: type) -> dict[str, Any]:
    """Return the part of the class body that the metaclass needs when it makes the class."""
    attributes = vars(cls)
    names = ("__module__", "__orig_bases__", "_is_protocol")
    first = {name: attributes[name] for name in names if name in attributes}
    if isinstance(cls, enum.EnumMeta):
        first["__qualname__"] = cls.__qualname__  # copies of other classes have the bare name, as in Ray
    return first


def _slots_of(cls: type) -> tuple[str, ...]:
    """Return the names in `__slots__`, whose descriptors are not sent: as in Ray, a copy keeps what was in the slots in
    its `__dict__`.

    A private name is not the name of its descriptor, so that one is sent, and the receiver fails to find it.
    """
    names = vars(cls).get("__slots__", ())
    return (names,) if isinstance(names, str) else tuple(names)


def _members(cls: type) -> dict[str, Any] | None:
    """Return the names (with aliases) and values of an enum's members, or None for any other class."""
    if not isinstance(cls, enum.EnumMeta):
        return None
    members: dict[str, Any] = dict(cls.__members__)
    return {name: member.value for name, member in members.items()}


_REGISTERED = "_miniray_registered"  # attribute of a copy: the virtual subclasses that came with it
# Since Python 3.14, a class holds a function that evaluates its annotations, and their values once it was called. The
# function's closure has the whole class, with what cannot be sent. The values are sent instead (see `_annotations`).
_ANNOTATE, _ANNOTATIONS = "__annotate_func__", "__annotations_cache__"
NOT_SENT = (
    "__dict__",
    "__weakref__",
    "_abc_impl",
    _REGISTERED,
    _ANNOTATE,
    _ANNOTATIONS,
)  # attributes of a class that are never sent
_MADE_BY_ENUM = (
    "_member_names_",
    "_member_map_",
    "_value2member_map_",
    "_member_type_",
    "_unhashable_values_",
    "_hashable_values_",
    "_unhashable_values_map_",
)


def _class_state(cls: type) -> dict[str, Any]:
    """Return what _fill_class needs: the attributes that are set after the creation, and the virtual subclasses."""
    attributes = dict(vars(cls))
    if attributes.get(_ANNOTATE) is not None or _ANNOTATIONS in attributes:
        attributes["__annotations__"] = _annotations(cls, attributes)
    for name in (*NOT_SENT, "__module__", *_slots_of(cls)):
        attributes.pop(name, None)
    if isinstance(cls, enum.EnumMeta):
        for name in (*_MADE_BY_ENUM, *cls.__members__):
            attributes.pop(name, None)
    registered = []
    if isinstance(cls, abc.ABCMeta):
        refs = abc._get_dump(cls)[0]  # type: ignore[attr-defined]
        registered = [subclass for ref in refs if (subclass := ref()) is not None]
    return {"attributes": attributes, "registered": registered}


def _annotations(cls: type, attributes: dict[str, Any]) -> dict[str, Any]:
    """The annotations of a class that has some, on Python 3.14. If a name in them has no value yet, all are strings.

    `cls.__annotations__` would keep them in the class, which would then look changed (see Definition).
    """
    kept: dict[str, Any] | None = attributes.get(_ANNOTATIONS)
    if kept is not None:
        return kept
    annotate: Any = attributes[_ANNOTATE]
    try:
        values: dict[str, Any] = annotate(1)  # annotationlib.Format.VALUE
        return values
    except NameError:
        library: Any = importlib.import_module("annotationlib")  # there is none before 3.14
        values = library.call_annotate_function(annotate, library.Format.STRING, owner=cls)
        return values


def _make_class(
    tracker_id: str,
    metaclass: type,
    name: str,
    bases: tuple[type, ...],
    first_attributes: dict[str, Any],
    members: dict[str, Any] | None,
) -> type:
    """Return the class with this id in the space. If there is none, make it, still without its other attributes."""
    tracked = find_copy(tracker_id)
    cls: type | None = None if tracked is None else tracked.ref()
    if cls is not None:
        return cls
    if metaclass is getattr(sys.modules.get("typing"), "_TypedDictMeta", None):
        # This metaclass refuses dict as a base, although dict is the only base of the classes that it makes.
        cls = type.__new__(metaclass, name, bases, first_attributes)
    elif metaclass is type:  # the same class as below, in a fifth of the time
        cls = type(name, bases, {**first_attributes, **(members or {})})
    else:
        cls = types.new_class(
            name, bases, {"metaclass": metaclass}, lambda body: _execute(body, first_attributes, members)
        )
    adopt(cls, tracker_id)
    return cls


def _execute(body: Any, first_attributes: dict[str, Any], members: dict[str, Any] | None) -> None:
    """Do what the body of the class statement would do with these attributes and members."""
    for name, value in (*first_attributes.items(), *(members or {}).items()):
        body[name] = value  # one by one, because the body of an enum finds its members through __setitem__


def _fill_class(cls: type, state: dict[str, Any]) -> None:
    tracked = tracked_or_none(cls)
    if tracked is not None and tracked.original:
        return
    for name, value in state["attributes"].items():
        # Bypass the metaclass, which may refuse or rewrite an assignment, as that of an enum does. Nothing here is new.
        type.__setattr__(cls, name, value)
    for registered in state["registered"]:
        cls.register(registered)  # type: ignore[attr-defined]
    if state["registered"]:  # the registry holds them weakly, and their first instances may arrive later
        type.__setattr__(cls, _REGISTERED, tuple(state["registered"]))


@reduces_named("typing", "TypeVar")
def _reduce_typevar(variable: typing.TypeVar, pickler: ByValuePickler) -> Any:
    if importable(variable, variable.__name__):
        return NotImplemented
    pickler.sent_by_value = True
    options = {"covariant": variable.__covariant__, "contravariant": variable.__contravariant__}
    if getattr(variable, "__infer_variance__", False):
        options["infer_variance"] = True
    return _make_typevar, (
        track(variable).tracker_id,
        variable.__name__,
        variable.__constraints__,
        variable.__bound__,
        options,
        variable.__module__,
    )


def _make_typevar(
    tracker_id: str, name: str, constraints: tuple[Any, ...], bound: Any, options: dict[str, bool], module: str | None
) -> typing.TypeVar:
    tracked = find_copy(tracker_id)
    variable: typing.TypeVar | None = None if tracked is None else tracked.ref()
    if variable is None:
        variable = importlib.import_module("typing").TypeVar(name, *constraints, bound=bound, **options)
        variable.__module__ = module
        adopt(variable, tracker_id)
    return variable
