"""`mock.patch` and pytest's `monkeypatch`, as tests of local code use them, also for what tasks call.

A remote function travels by value, also one of an importable module: the task has a copy of the globals that it uses.
A patch of the module would reach the copy only if it was made before the first call, and the task would then have a
copy of the mock. Under the pytest plugin the copies follow the module: while an attribute of a module is patched, the
functions of this module that tasks run see the patched object itself, and afterwards the original again.

    with mock.patch("shop.fetch", return_value=b"") as fetch:
        ray.get(load.remote("x"))       # shop.load calls fetch
    fetch.assert_called_once_with("x")

On Ray a worker is a process, and no patch reaches it.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any
from unittest import mock

import pytest
from pytest import MonkeyPatch

from ..values import functions_by_value

_patched: set[tuple[str, str]] = set()  # every attribute (module's name, attribute) that was ever patched
_functions: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()  # those that tasks run, built by `_fill_function`
_undo: list[Callable[[], None]] = []


def install() -> None:
    """Let patches reach the functions that tasks run, from now on. Does nothing if it is installed.

    Raises RuntimeError if this Python's mock or this pytest lacks one of the internal names that this module changes: a
    patch that silently reaches no task would make a test pass or fail for the wrong reason.
    """
    if _undo:
        return
    missing = _missing()
    if missing:
        raise RuntimeError(
            f"miniray's pytest plugin cannot let patches reach tasks: {', '.join(missing)} does not exist in Python "
            f"{sys.version.split()[0]} with pytest {pytest.__version__}. Use another version of pytest, or turn the "
            "plugin off with `-p no:miniray.testing.plugin`, and report this to miniray."
        )
    functions_by_value.filled = _follow
    _undo.append(lambda: setattr(functions_by_value, "filled", None))
    patch: Any = mock._patch
    enter, leave = patch.__enter__, patch.__exit__

    @wraps(enter)
    def __enter__(self: Any) -> Any:
        result = enter(self)
        _changed(self.target, self.attribute)
        return result

    @wraps(leave)
    def __exit__(self: Any, *error: Any) -> Any:
        target = getattr(self, "target", None)
        result = leave(self, *error)
        _changed(target, self.attribute)
        return result

    _replace(patch, __enter__=__enter__, __exit__=__exit__)
    put, undo = MonkeyPatch.setattr, MonkeyPatch.undo

    @wraps(put)
    def setattr_(self: Any, *args: Any, **kwargs: Any) -> None:
        put(self, *args, **kwargs)
        if self._setattr:
            _changed(*self._setattr[-1][:2])

    @wraps(undo)
    def undo_(self: Any) -> None:
        made = list(self._setattr)
        undo(self)
        for target, name, _ in made:
            _changed(target, name)

    _replace(MonkeyPatch, setattr=setattr_, undo=undo_)


def _missing() -> list[str]:
    """The internal names that this module uses and that do not exist here."""
    found = []
    patch: Any = getattr(mock, "_patch", None)
    if not (hasattr(patch, "__enter__") and hasattr(patch, "__exit__")):
        found.append("unittest.mock._patch with __enter__ and __exit__")
    else:
        made = mock.patch.object(types.SimpleNamespace(name=1), "name")
        if not isinstance(made, patch) or getattr(made, "attribute", None) != "name" or not hasattr(made, "getter"):
            found.append("unittest.mock._patch with attribute and getter")
    monkeypatch = MonkeyPatch()
    target = types.SimpleNamespace(name=1)
    monkeypatch.setattr(target, "name", 2)
    changes: Any = getattr(monkeypatch, "_setattr", None)
    if not isinstance(changes, list) or not changes or tuple(changes[-1][:2]) != (target, "name"):
        found.append("pytest.MonkeyPatch._setattr")
    monkeypatch.undo()
    return found


def uninstall() -> None:
    """Undo `install`."""
    while _undo:
        _undo.pop()()
    _patched.clear()


def _replace(owner: Any, **methods: Any) -> None:
    for name, method in methods.items():
        original = getattr(owner, name)
        setattr(owner, name, method)
        _undo.append(lambda name=name, original=original: setattr(owner, name, original))  # type: ignore[misc]


def _changed(target: Any, name: str) -> None:
    """An attribute has been patched, or restored: let the functions of its module follow."""
    if isinstance(target, types.ModuleType):
        _patched.add((target.__name__, name))
        for function in list(_functions):
            if function.__globals__.get("__name__") == target.__name__:
                _take(function, target, name)


def _follow(function: types.FunctionType) -> None:
    """A task has received this function: give it the present values of what was patched in its module."""
    _functions.add(function)
    module = sys.modules.get(function.__globals__.get("__name__", ""))
    for where, name in tuple(_patched):
        if module is not None and where == module.__name__:
            _take(function, module, name)


def _take(function: types.FunctionType, module: types.ModuleType, name: str) -> None:
    globals_ = function.__globals__
    if name in globals_ and globals_ is not vars(module) and name in vars(module):
        globals_[name] = vars(module)[name]
