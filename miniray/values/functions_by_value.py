"""Functions by value: lambdas, nested functions, functions of `__main__`; and modules that cannot be imported.

Another process could not find such a function by its name. So it is sent in parts: its code, defaults and closure
cells, and those of its module's globals that the code uses. The receiver builds a copy from these.

Functions in one stream share one copy of their module's globals. Functions in two streams never share any.
"""

from __future__ import annotations

import builtins
import functools
import marshal
import sys
import types
import weakref
from importlib import import_module
from opcode import EXTENDED_ARG, opmap

from ..process.replaced import Place, place_of
from .pickler import ByValuePickler, importable, is_sent_by_value, reduces
from .spaces import ByIdentity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

_LOAD_GLOBAL = opmap["LOAD_GLOBAL"]
_GLOBAL_OPERATIONS = frozenset({_LOAD_GLOBAL, opmap["STORE_GLOBAL"], opmap["DELETE_GLOBAL"]})
_LOAD_GLOBAL_SHIFT = 1 if sys.version_info >= (3, 11) else 0  # since 3.11 the lowest bit means "push a NULL first"
filled: Callable[[types.FunctionType], None] | None = None  # called with each copy that has got its globals
_names_of_code: ByIdentity[tuple[str, ...]] = ByIdentity()


def global_names(code: types.CodeType) -> tuple[str, ...]:
    """Return the globals that this code, or code nested in it, reads, sets or deletes, in the order of their first use.

    As in cloudpickle, names that the body of a nested class statement reads are missing: Python does not compile them
    as globals.
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


@reduces(types.FunctionType)
def _reduce_function(function: types.FunctionType, pickler: ByValuePickler) -> Any:
    if importable(function):
        return NotImplemented
    place = place_of(function)
    if place is not None:  # as for a built-in function that the session has replaced
        return getattr, place
    pickler.sent_by_value = True
    # From here on, classes are written into this stream, so that their methods share their globals with this function.
    pickler.definitions = False
    code, globals_ = function.__code__, function.__globals__
    state = {
        "globals": {name: globals_[name] for name in global_names(code) if name in globals_},
        "cells": [_contents(cell) for cell in function.__closure__ or ()],
        "attributes": dict(function.__dict__),
        "slots": {name: getattr(function, name) for name in _FUNCTION_SLOTS},
    }
    # The receiver makes the function first and fills it afterwards, because its globals and cells may refer to it.
    return _make_function, (code, pickler.namespace(globals_)), state, None, None, _fill_function


_FUNCTION_SLOTS = [
    "__name__",
    "__qualname__",
    "__module__",
    "__doc__",
    "__defaults__",
    "__kwdefaults__",
    "__annotations__",
]
if sys.version_info >= (3, 12):
    _FUNCTION_SLOTS.append("__type_params__")


class _EmptyCell:
    """Represents, in a stream, the contents of a closure cell that is still empty."""


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the cell is empty
        return _EmptyCell


def _make_function(code: types.CodeType, namespace: dict[str, Any]) -> types.FunctionType:
    namespace.setdefault("__builtins__", builtins)
    return types.FunctionType(code, namespace, None, None, tuple(types.CellType() for _ in code.co_freevars))


def _fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    function.__globals__.update(state["globals"])
    for cell, contents in zip(function.__closure__ or (), state["cells"]):
        if contents is not _EmptyCell:
            cell.cell_contents = contents
    if filled is not None:
        filled(function)
    function.__dict__.update(state["attributes"])
    for name, value in state["slots"].items():
        setattr(function, name, value)


@reduces(types.CodeType)
def _reduce_code(code: types.CodeType, pickler: ByValuePickler) -> Any:
    try:
        return _load_code, (marshal.dumps(code),)
    except ValueError:  # a tool has inserted constants that no compiler makes
        return _make_code, (marshal.dumps(code.replace(co_consts=())), code.co_consts)


_loaded: weakref.WeakValueDictionary[bytes, types.CodeType] = weakref.WeakValueDictionary()


def _load_code(data: bytes) -> types.CodeType:
    """Return the code in these bytes of marshal. Copies of a function share it, as closures do: it never changes."""
    code = _loaded.get(data)
    if code is None:
        code = _loaded[data] = marshal.loads(data)
    return code


def _make_code(data: bytes, constants: tuple[Any, ...]) -> types.CodeType:
    code: types.CodeType = marshal.loads(data)
    return code.replace(co_consts=constants)


@reduces(types.MethodType)
def _reduce_method(method: types.MethodType, pickler: ByValuePickler) -> Any:
    if isinstance(method.__self__, Place):  # stands in for a built-in function
        return getattr, (method.__self__.module, method.__name__)
    function, owner = method.__func__, method.__self__
    return types.MethodType, (function, owner)


@reduces(types.CellType)
def _reduce_cell(cell: types.CellType, pickler: ByValuePickler) -> Any:
    held = _contents(cell)
    return types.CellType, () if held is _EmptyCell else (held,)


@reduces(type(functools.lru_cache(len)))
def _reduce_cached(function: Any, pickler: ByValuePickler) -> Any:
    if function.__module__ != "__main__":
        return NotImplemented
    return pickler.in_main(function, function.__qualname__)


@reduces(types.ModuleType)
def _reduce_module(module: types.ModuleType, pickler: ByValuePickler) -> Any:
    name = module.__name__
    if sys.modules.get(name) is module and not is_sent_by_value(name):
        return import_module, (name,)
    # __builtins__ is the same everywhere, and may hold values that cannot be sent.
    contents = {key: value for key, value in vars(module).items() if key != "__builtins__"}
    return types.ModuleType, (name,), contents, None, None, _fill_module


def _fill_module(module: types.ModuleType, contents: dict[str, Any]) -> None:
    vars(module).update(contents, __builtins__=builtins)
