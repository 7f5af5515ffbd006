"""The alias: `import ray` gives miniray, also where Ray is installed, until it is taken back.

What is handed out are miniray's own module objects, so that a class is the same whichever way it was imported;
`ray.__name__` stays "miniray". Without the alias `import ray` is untouched.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

from ..observe.metrics import metrics
from .finder import Alias
from .installed import Installed

PORTABILITY = "chapters/13_to_ray/README.md"
# What people import from Ray that is not Ray Core: named here, so that `from ray import data` can be answered too.
LIBRARIES = frozenset({"air", "data", "job_submission", "llm", "rllib", "serve", "train", "tune", "workflow"})
# What else `ray` itself has and miniray has not, so that the answer to it is more than that it is not there.
NOT_HERE = frozenset({"LoggingConfig", "cross_language", "internal", "java_actor_class", "java_function", "widgets"})


def missing(name: str) -> ModuleNotFoundError:
    """For a part of Ray that miniray does not have."""
    return ModuleNotFoundError(
        f"No module named {name!r}: `ray` is miniray here, which is Ray Core and its observability, and has no {name}. "
        f"What is there, and what to do about the rest, is on the portability page, {PORTABILITY}.",
        name=name,
    )


class _Libraries(MetaPathFinder):
    """`from ray import data` asks for a part of miniray, since that is what `ray` calls itself."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        package, _, rest = fullname.partition(".")
        if package == "miniray" and rest in LIBRARIES:
            raise missing(f"ray.{rest}")


_package = sys.modules["miniray"]
_alias, _libraries = Alias("ray", "miniray", missing), _Libraries()
_installed, OWN_VERSION = Installed("ray", _package.__ray_version__), _package.__version__
_own_names = vars(_package)["__getattr__"]
_times = 0  # how often it was asked for, and not yet taken back
_real: dict[str, ModuleType] = {}  # Ray's own modules that were there before


def alias_ray() -> "_Undo":
    """From now on `import ray` gives miniray, in this process, until `unalias_ray` was called as often as this.

    The return value undoes it at the end of a `with`. Modules of a real Ray that were imported before are set aside
    until then; who holds one already keeps it. Meanwhile `ray.__version__`, and what importlib.metadata says, is the version
    of the Ray whose answers are given; metrics are as lenient as Ray's: an undeclared tag, or a name that is registered twice,
    passes.
    """
    global _times
    _times += 1
    if _times == 1:
        _real.update(_alias.take_modules())
        _alias.install()
        sys.meta_path[:0] = [_libraries, _installed]
        vars(_package)["__getattr__"] = _library
        vars(_package)["__version__"] = _package.__ray_version__
        metrics.set_lenient(True)
    return _Undo()


def unalias_ray() -> None:
    """Take `alias_ray` back: `import ray` is what it was. RuntimeError when there is nothing to take back."""
    global _times
    if not _times:
        raise RuntimeError("alias_ray is not in force")
    _times -= 1
    if not _times:
        sys.meta_path.remove(_libraries)
        sys.meta_path.remove(_installed)
        vars(_package)["__version__"] = OWN_VERSION
        _alias.remove()
        sys.modules.update(_real)
        _real.clear()
        vars(_package)["__getattr__"] = _own_names
        metrics.set_lenient(False)


def _library(name: str) -> Any:
    """`ray.data.range(...)` after a plain `import ray`, which real Ray answers by importing the library."""
    if name in LIBRARIES or name in NOT_HERE:
        raise AttributeError(str(missing(f"ray.{name}")).replace("No module named", "There is no", 1))
    return _own_names(name)


class _Undo:
    """`with alias_ray():`."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: Any) -> None:
        unalias_ray()
