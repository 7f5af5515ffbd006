"""Classes by value: local ones, and those that `__main__` or a module nobody can import defines.

A class is made anew in two steps, since its methods may lead back to it: first with its name, bases and metaclass
alone, then its attributes. Its copies in different spaces (see `spaces`) know each other by its tracker id.

A class inside a value is sent in two parts: its definition, a stream of its own that is made once and shared by every
value until the class changes, and its tracker id, by which the receiving space notices that it has it already.
"""

from __future__ import annotations

import abc
import enum
import pickle
import types
import typing
import weakref
from itertools import count
from typing import Any, Iterator

from .functions_by_value import global_names
from .pickler import ATOMS, ByValuePickler, dump, importable, reduces
from .spaces import adopt, find, known, track

_versions = count(1)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement (or by a C module at run time)

# FunctionType and its like live in `builtins` by their module, but can only be had from `types`.
_NAMED_IN_TYPES = {cls: name for name, cls in vars(types).items() if isinstance(cls, type) and not importable(cls)}


@reduces(type, abc.ABCMeta, enum.EnumMeta)
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


def _load_class(tracker_id: str, version: int | None, data: bytes, *buffers: bytes) -> type:
    """The class of that id in the space that is being loaded into, brought up to date if it is not an original."""
    tracked = find(tracker_id)
    if tracked is not None and (cls := tracked.ref()) is not None:
        latest = tracked.definition
        if tracked.original or latest is not None and latest.version == version and latest.fits(cls):
            return cls
    cls = pickle.loads(data, buffers=buffers)
    if version is not None:
        definition = Definition(cls, version)
        definition.data, definition.buffers = data, buffers
        tracked = known(cls)
        if tracked is not None:
            tracked.definition = definition
    return cls


class Definition:
    """A class pickled by itself, kept for as long as the class is what it was.

    Whether it still is can be seen without pickling: attributes set, deleted or bound anew on the class and on its
    bases, changes of a list, dict or set that is an attribute, and changes of the globals that its methods use.
    Changes deeper inside those are not seen: they reach a space that has the class already, or a definition already
    made, with the next change that is.
    """

    __slots__ = ("version", "data", "buffers", "contained", "_watched", "_prints", "_seen")

    def __init__(self, cls: type, version: int):
        """version: a number of its own, except for copies, which have that of the definition they were built from."""
        self.version = version
        self.data, self.buffers, self.contained = b"", (), ()  # type: tuple[Any, tuple, tuple]
        self._watched = tuple(_watched(cls))
        self._prints = self._look(cls)
        # An id may be given again to another object, so none of those that had one may have gone in the meantime.
        self._seen = tuple(ref for index, _ in self._watched for ref in _references(cls.__mro__[index]))

    def fits(self, cls: type) -> bool:
        """Whether the class is what it was when this was made."""
        for seen in self._seen:
            if seen() is None:
                return False
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
    """For each base that is not importable its place in the mro, and the attributes whose id alone is not enough."""
    for index, base in enumerate(cls.__mro__):
        if base is cls or not importable(base):
            yield index, [name for name, value in tuple(vars(base).items()) if _is_watched(name, value)]


def _is_watched(name: str, value: Any) -> bool:
    kind = type(value)
    if kind in ATOMS:
        return not name.startswith("__")  # __doc__ and the like are not assigned to again
    function = _function_of(value)
    return kind in (list, dict, set) or function is not None and bool(global_names(function.__code__))


def _function_of(value: Any) -> types.FunctionType | None:
    """The function that an attribute of a class is, or is made of; of a property the one that reads it."""
    kind = type(value)
    if kind is staticmethod or kind is classmethod:
        value = value.__func__
    elif kind is property:
        value = value.fget
    return value if type(value) is types.FunctionType else None


def _add_print(prints: list[Any], value: Any) -> None:
    """Only ids and immutable things: the table of definitions outlives the class, and must not keep it alive."""
    kind = type(value)
    if kind in ATOMS:
        prints.append((kind, value))
    elif kind is list or kind is set:
        prints.append((*map(id, value),))
    elif kind is dict:
        prints.append((*map(id, value), *map(id, value.values())))
    elif (function := _function_of(value)) is not None:
        globals_ = function.__globals__
        for name in global_names(function.__code__):
            used = globals_.get(name)
            prints.append((type(used), used) if type(used) in ATOMS else id(used))


def _references(cls: type) -> Iterator[weakref.ref]:
    """Weak ones to what the prints of a class tell by an id: its attributes, and the globals that its methods use."""
    for value in tuple(vars(cls).values()):
        function = _function_of(value)
        values = [value]
        if function is not None:
            values = [function, *map(function.__globals__.get, global_names(function.__code__))]
        for one in values:
            if type(one).__weakrefoffset__:  # numbers, texts and the like cannot be referred to weakly
                yield weakref.ref(one)


def _seed(cls: type) -> dict[str, Any]:
    """The part of the class body that has to be there when the metaclass runs."""
    attributes = vars(cls)
    names = ("__module__", "__orig_bases__", "_is_protocol")
    seed = {name: attributes[name] for name in names if name in attributes}
    if isinstance(cls, enum.EnumMeta):
        seed["__qualname__"] = cls.__qualname__  # of other copies it is the bare name, as in Ray
    if "__slots__" in attributes:
        # From the descriptors: __slots__ itself may be an iterator that is used up, and has private names unmangled.
        seed["__slots__"] = (*_slots_of(cls), *(name for name in ("__dict__", "__weakref__") if name in attributes))
    return seed


def _slots_of(cls: type) -> tuple[str, ...]:
    return tuple(
        name
        for name, value in vars(cls).items()
        if type(value) is types.MemberDescriptorType and value.__objclass__ is cls
    )


def _members(cls: type) -> dict[str, Any] | None:
    """Of an enum with members: their names (aliases too) and values. None for any other class."""
    if not isinstance(cls, enum.EnumMeta):
        return None
    members: dict[str, Any] = dict(cls.__members__)
    return {name: member.value for name, member in members.items()}


_REGISTERED = "_miniray_registered"  # of a copy: the virtual subclasses that came with it
NOT_SENT = ("__dict__", "__weakref__", "_abc_impl", _REGISTERED)  # of the attributes of a class
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
    """What _fill_class puts into the class: its attributes, but for those that come with its creation."""
    attributes = dict(vars(cls))
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


def _make_class(
    tracker_id: str,
    metaclass: type,
    name: str,
    bases: tuple[type, ...],
    seed: dict[str, Any],
    members: dict[str, Any] | None,
) -> type:
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


_TYPED_DICT: type = type(typing.TypedDict("_Any", {}))  # type: ignore[operator]


def _execute(body: Any, seed: dict[str, Any], members: dict[str, Any] | None) -> None:
    """The class statement's body, as far as it is needed at once."""
    for name, value in (*seed.items(), *(members or {}).items()):
        body[name] = value  # one by one: an enum's body notices its members by __setitem__


def _fill_class(cls: type, state: dict[str, Any]) -> None:
    tracked = known(cls)
    if tracked is not None and tracked.original:
        return
    for name, value in state["attributes"].items():
        # type's own: a metaclass may forbid or rewrite what a program assigns (an enum does), but here nothing is new.
        type.__setattr__(cls, name, value)
    for registered in state["registered"]:
        cls.register(registered)  # type: ignore[attr-defined]
    if state["registered"]:  # the registry holds none of them, and this may come before the first of their instances
        type.__setattr__(cls, _REGISTERED, tuple(state["registered"]))


@reduces(typing.TypeVar)
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
    tracker_id: str, name: str, constraints: tuple, bound: Any, options: dict[str, bool], module: str | None
) -> typing.TypeVar:
    tracked = find(tracker_id)
    variable = None if tracked is None else tracked.ref()
    if variable is None:
        variable = typing.TypeVar(name, *constraints, bound=bound, **options)  # type: ignore[misc]
        variable.__module__ = module  # type: ignore[assignment]
        adopt(variable, tracker_id)
    return variable
