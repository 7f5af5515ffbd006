"""Reducers for single kinds of objects that pickle refuses, or pickles differently from Ray."""

from __future__ import annotations

import _pickle as pickle
import collections
import io
import sys
import types
import weakref

from ..process import replaced
from ..process.standard_streams import WorkerStream
from .pickler import ByValuePickler, reduces, reduces_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@reduces(io.TextIOWrapper)
def _reduce_text_file(file: Any, pickler: ByValuePickler) -> Any:
    """Send a file that is open for reading as a StringIO with its text, at the same position."""
    if file is sys.stdout or file is sys.stderr:
        return getattr, (sys, "stdout" if file is sys.stdout else "stderr")
    if file is sys.stdin:
        raise pickle.PicklingError("Cannot pickle standard input")
    if file.closed:
        raise pickle.PicklingError("Cannot pickle a closed file")
    mode = getattr(file, "mode", None)
    if not isinstance(mode, str) or not hasattr(file, "name"):
        raise pickle.PicklingError(f"Cannot pickle {file!r}: it is not a file on a disk")
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
    text.name = file.name
    return _itself, (text,)


@reduces(WorkerStream)
def _reduce_stream(stream: WorkerStream, pickler: ByValuePickler) -> Any:
    """As any file that is open for writing. In Ray's workers, too, it is not what `sys.stdout` is in the driver."""
    raise pickle.PicklingError(f"Cannot pickle {stream!r}: it is not open for reading (mode {stream.mode})")


def _itself(value: Any) -> Any:
    return value


@reduces(types.MappingProxyType)
def _reduce_proxy(proxy: Any, pickler: ByValuePickler) -> Any:
    return types.MappingProxyType, (dict(proxy),)


@reduces(types.GetSetDescriptorType)
def _reduce_descriptor(descriptor: Any, pickler: ByValuePickler) -> Any:
    return getattr, (descriptor.__objclass__, descriptor.__name__)


@reduces(property)
def _reduce_property(prop: property, pickler: ByValuePickler) -> Any:
    return property, (prop.fget, prop.fset, prop.fdel, prop.__doc__)


@reduces(staticmethod, classmethod)
def _reduce_wrapper(method: Any, pickler: ByValuePickler) -> Any:
    return type(method), (method.__func__,)


@reduces(memoryview)
def _reduce_view(view: memoryview, pickler: ByValuePickler) -> Any:
    return bytes, (view.tobytes(),)


@reduces(weakref.WeakSet)
def _reduce_weak_set(members: weakref.WeakSet[Any], pickler: ByValuePickler) -> Any:
    return weakref.WeakSet, (list(members),)


# A view of a dict is sent with the items that it shows, without the rest of the dict.
_ordered: Any = collections.OrderedDict()


@reduces(type({}.keys()), type(_ordered.keys()))
def _reduce_keys(keys: Any, pickler: ByValuePickler) -> Any:
    return _make_keys, (_dict_of(keys), list(keys))


@reduces(type({}.values()), type(_ordered.values()))
def _reduce_values(values: Any, pickler: ByValuePickler) -> Any:
    return _make_values, (_dict_of(values), list(values))


@reduces(type({}.items()), type(_ordered.items()))
def _reduce_items(items: Any, pickler: ByValuePickler) -> Any:
    return _make_items, (_dict_of(items), list(items))


def _dict_of(view: Any) -> type:
    return collections.OrderedDict if type(view).__name__.startswith("odict") else dict


def _make_keys(kind: Any, keys: list[Any]) -> Any:
    return kind.fromkeys(keys).keys()


def _make_values(kind: Any, values: list[Any]) -> Any:
    return kind(enumerate(values)).values()


def _make_items(kind: Any, items: list[tuple[Any, Any]]) -> Any:
    return kind(items).items()


# The markers that the module dataclasses compares by identity.
@reduces_named("dataclasses", "_MISSING_TYPE", "_KW_ONLY_TYPE", "_FIELD_BASE")
def _reduce_marker(marker: Any, pickler: ByValuePickler) -> Any:
    dataclasses = sys.modules["dataclasses"]
    for name, value in vars(dataclasses).items():
        if value is marker:
            return getattr, (dataclasses, name)
    return NotImplemented


@reduces(types.BuiltinFunctionType)
def _reduce_original(function: Any, pickler: ByValuePickler) -> Any:
    """Send a built-in function that the session has replaced, such as one from an earlier `from time import sleep`.

    Its name now leads to the replacement, so pickle could not find it. It is sent as the place of the replacement.
    """
    place = replaced.place_of(function)
    return NotImplemented if place is None else (getattr, place)
