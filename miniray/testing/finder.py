"""One package under another's name: a finder for `sys.meta_path` that hands out the other's own modules.

It imports nothing of miniray: Ray's workers get it by value, where miniray need not be installed.
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
    """Finds `alias` and `alias.*`, and loads what `target` has of these names: the very modules, not copies.

    missing: makes the ModuleNotFoundError for a name that the target does not have. own: parts of the alias that are
    left to the finders behind this one.
    """

    def __init__(
        self, alias: str, target: str, missing: Callable[[str], ModuleNotFoundError], own: frozenset[str] = frozenset()
    ):
        self.alias, self.target, self.missing, self.own = alias, target, missing, own
        self._specs: dict[str, ModuleSpec | None] = {}  # of modules that are just being handed out

    def install(self) -> None:
        """Answer from now on, before all others.

        What the target has imported already is handed out under the alias at once: to load such a module once more
        would make the import system write it on its parent, where by now a function of the same name may stand, as
        `util.placement_group` does.
        """
        sys.meta_path.insert(0, self)
        self._hand_out_what_is_there()

    def _hand_out_what_is_there(self) -> None:
        for name, module in list(sys.modules.items()):
            package, _, rest = name.partition(".")
            if package == self.target and rest.partition(".")[0] not in self.own:
                sys.modules[self.alias + name[len(self.target) :]] = module

    def remove(self) -> None:
        """Answer no more; what was handed out is not found under the alias any longer."""
        sys.meta_path.remove(self)
        self.take_modules()

    def take_modules(self) -> dict[str, ModuleType]:
        """Take everything of the alias's name out of `sys.modules`."""
        return {
            name: sys.modules.pop(name)
            for name in list(sys.modules)
            if name == self.alias or name.startswith(f"{self.alias}.")
        }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec that this finder loads itself; None for names that are not its own."""
        package, _, rest = fullname.partition(".")
        if package != self.alias or rest.partition(".")[0] in self.own:
            return None
        try:
            found = importlib.util.find_spec(self.target_of(fullname))
        except ModuleNotFoundError:  # a part of something that is missing itself
            found = None
        if found is None:
            raise self.missing(fullname)
        return ModuleSpec(fullname, self, is_package=found.submodule_search_locations is not None)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The target's module, imported if it was not."""
        module = importlib.import_module(self.target_of(spec.name))
        self._specs[spec.name] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run already. The import system has just written the alias's spec on it: it gets its own back."""
        module.__spec__ = self._specs.pop(module.__spec__.name)  # type: ignore[union-attr]
        self._hand_out_what_is_there()  # a package brings parts with it, as `util` its `placement_group`

    def target_of(self, name: str) -> str:
        """`ray.util.queue` as the target calls it."""
        return self.target + name[len(self.alias) :]
