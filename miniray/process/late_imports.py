"""What a session does to a module of the standard library as soon as the program imports it.

A session replaces functions of some modules. Importing such a module only in order to replace something in it would
make every program pay for it, and most programs need neither `logging` nor `random`. So a session says what it wants to
do with the module, and this is done at once if the module has been imported, and otherwise right after its import.
"""

from __future__ import annotations

import sys
from importlib import import_module

from . import imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_waiting: dict[str, Callable[[Any], None]] = {}  # by the name of a module: the function to call with it


class _Finder:
    """Stands first in `sys.meta_path` while a session waits for an import. The other finders do its work."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module that a session waits for, with a `_Loader`; None for every other module."""
        if name not in _waiting:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = None if finder is _Finder or find is None else find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """Loads a module as the module's own loader does, and then calls the function that waits for it. Before the first
    line of the module runs, the module has its own loader again."""

    def __init__(self, loader: Any):
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        """The rest of the module's own loader: tools such as `runpy` get a `_Loader` from `find_spec`, and ask it for
        the module's code."""
        return getattr(self.loader, name)

    def create_module(self, spec: Any) -> Any:
        """See importlib.abc.Loader."""
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """See importlib.abc.Loader. Other threads that import the module wait until this returns."""
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        act = _waiting.get(module.__name__)
        if act is not None:
            act(module)


def when_imported(name: str, act: Callable[[Any], None]) -> None:
    """Call `act` with this module: at once if it has been imported, and otherwise as soon as it is, on the thread that
    imports it. `act` may be called twice, if another thread is importing the module just now."""
    _waiting[name] = act
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
    if name in sys.modules or name in imports.being_imported():
        act(import_module(name))  # waits for a thread that is importing it


def no_longer(name: str) -> Any:
    """Stop waiting for this module. Returns the module, or None if it has not been imported."""
    _waiting.pop(name, None)
    if not _waiting and _Finder in sys.meta_path:
        sys.meta_path.remove(_Finder)
    return sys.modules.get(name)
