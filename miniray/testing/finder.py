"""A finder for `sys.meta_path` that makes one package importable under another package's name.

This module imports nothing from miniray: Ray's workers get it by value, and they may not have miniray installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class Alias(MetaPathFinder, Loader):
    """Finds `alias` and `alias.*`, and loads the modules of `target` under these names: the same objects, not copies.

    missing: returns the ModuleNotFoundError for a name that the target does not have. own: parts of the alias package
    that this finder leaves to the finders after it.
    """

    def __init__(
        self, alias: str, target: str, missing: Callable[[str], ModuleNotFoundError], own: frozenset[str] = frozenset()
    ):
        self.alias, self.target, self.missing, self.own = alias, target, missing, own
        self._specs: dict[str, ModuleSpec | None] = {}  # the original specs, between create_module and exec_module

    def install(self) -> None:
        """Put this finder before all others, and register the target's imported modules under the alias.

        A module that is already imported must not be loaded again under its alias. The import system would bind it to
        its parent package, over a function of the same name: `util.placement_group` is both.
        """
        sys.meta_path.insert(0, self)
        self._register_imported()

    def _register_imported(self) -> None:
        for name, module in list(sys.modules.items()):
            package, _, rest = name.partition(".")
            if package == self.target and rest.partition(".")[0] not in self.own:
                sys.modules[self.alias + name[len(self.target) :]] = module

    def remove(self) -> None:
        """Remove this finder, and all modules that are registered under the alias."""
        sys.meta_path.remove(self)
        self.take_modules()

    def take_modules(self) -> dict[str, ModuleType]:
        """Remove all modules under the alias from `sys.modules`, and return them by name."""
        return {
            name: sys.modules.pop(name)
            for name in list(sys.modules)
            if name == self.alias or name.startswith(f"{self.alias}.")
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec that this finder loads, or None for a name that it leaves to others. Raises `missing(fullname)`."""
        package, _, rest = fullname.partition(".")
        if package != self.alias or rest.partition(".")[0] in self.own:
            return None
        try:
            found = importlib.util.find_spec(self.target_of(fullname))
        except ModuleNotFoundError:  # the parent package does not exist either
            found = None
        if found is None:
            raise self.missing(fullname)
        return ModuleSpec(fullname, self, is_package=found.submodule_search_locations is not None)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The target's module, imported if necessary."""
        module = importlib.import_module(self.target_of(spec.name))
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec, which the import system has just replaced.

        The module itself has already run.
        """
        module.__spec__ = self._specs.pop(module.__spec__.name)  # type: ignore[union-attr]
        self._register_imported()  # a package imports some of its parts, as `util` imports `placement_group`

    def target_of(self, name: str) -> str:
        """The name of an aliased module in the target: `miniray.util.queue` for `ray.util.queue`."""
        return self.target + name[len(self.alias) :]
