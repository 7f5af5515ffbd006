"""The alias: while it is active, `import ray` imports miniray, even if Ray is installed.

The imports return miniray's own module objects, so a class is the same under both names; `ray.__name__` stays
"miniray". Without the alias, `import ray` is untouched.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

from .. import exceptions
from ..observe.metrics import metrics
from ..observe.timeline.chrome import write_files_as_ray
from .finder import Alias
from .installed import Installed

PORTABILITY = "chapters/13_to_ray/README.md"
# Ray's libraries beyond Ray Core. The list lets `from ray import data` raise an error that names the portability page.
LIBRARIES = frozenset({"air", "data", "job_submission", "llm", "rllib", "serve", "train", "tune", "workflow"})
# Other attributes of `ray` that miniray does not have, listed for the same reason.
NOT_IN_MINIRAY = frozenset(
    {"LoggingConfig", "cross_language", "internal", "java_actor_class", "java_function", "widgets"}
)
# Modules of Ray that need an import statement of their own.
IMPORTED_FIRST = frozenset({"dag", "types"})


def missing(name: str) -> ModuleNotFoundError:
    """The error for a part of Ray that miniray does not have. name: as under Ray, `ray.data`."""
    return ModuleNotFoundError(
        f"No module named {name!r}: `ray` is miniray here, which is Ray Core and its observability, and has no {name}. "
        f"The portability page lists what miniray has, and what to do about the rest: {PORTABILITY}.",
        name=name,
    )


class _Libraries(MetaPathFinder):
    """Raises the error for `from ray import data`: Python looks for `miniray.data`, since ray.__name__ is "miniray"."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        package, _, rest = fullname.partition(".")
        if package == "miniray" and rest in LIBRARIES:
            raise missing(f"ray.{rest}")


_package = sys.modules["miniray"]
_alias, _libraries = Alias("ray", "miniray", missing), _Libraries()
_installed, OWN_VERSION = Installed("ray", _package.__ray_version__), _package.__version__
_own_names = vars(_package)["__getattr__"]
_depth = 0  # calls of `alias_ray` that have not been undone yet
_real: dict[str, ModuleType] = {}  # modules of a real Ray that were imported before


def alias_ray() -> "_Undo":
    """Make `import ray` import miniray in this process, until `unalias_ray` has been called as often as this function.

    Returns a context manager that calls `unalias_ray` at the end of its `with` block. Modules of a real Ray that were
    imported before are set aside; code that already holds one keeps it. Meanwhile `ray.__version__` and
    importlib.metadata give the version of Ray that miniray follows, tracebacks name `ray.exceptions`, the files of
    `timeline` have Ray's ids and times, and metrics are as lenient as Ray's: they accept an undeclared tag, and a name
    that is registered twice.
    """
    global _depth
    _depth += 1
    if _depth == 1:
        _real.update(_alias.take_modules())
        _alias.install()
        sys.meta_path[:0] = [_libraries, _installed]
        vars(_package)["__getattr__"] = _library
        vars(_package)["__version__"] = _package.__ray_version__
        metrics.set_lenient(True)
        write_files_as_ray(True)
        _show_errors_of("ray")
    return _Undo()


def unalias_ray() -> None:
    """Undo one `alias_ray`. The last one restores `import ray`. Raises RuntimeError if the alias is not active."""
    global _depth
    if not _depth:
        raise RuntimeError("the alias is not active: unalias_ray was called more often than alias_ray")
    _depth -= 1
    if not _depth:
        sys.meta_path.remove(_libraries)
        sys.meta_path.remove(_installed)
        vars(_package)["__version__"] = OWN_VERSION
        _alias.remove()
        sys.modules.update(_real)
        _real.clear()
        vars(_package)["__getattr__"] = _own_names
        metrics.set_lenient(False)
        write_files_as_ray(False)
        _show_errors_of("miniray")


def _show_errors_of(package: str) -> None:
    """Name the module of the exceptions `<package>.exceptions`: the name is in tracebacks and in the texts of errors.
    The classes that were made for the errors of tasks are renamed as well, for they may be used again."""
    for cls in (*vars(exceptions).values(), *exceptions.dual_classes.values()):
        if isinstance(cls, type) and cls.__module__.endswith(".exceptions") and issubclass(cls, Exception):
            cls.__module__ = f"{package}.exceptions"


def _library(name: str) -> Any:
    """The package's `__getattr__` under the alias. Ray would import the library for `ray.data`; here it is an error."""
    if name in IMPORTED_FIRST:
        raise AttributeError(f"module 'ray' has no attribute {name!r} before `import ray.{name}`")
    if name in LIBRARIES or name in NOT_IN_MINIRAY:
        raise AttributeError(str(missing(f"ray.{name}")).replace("No module named", "There is no", 1))
    return _own_names(name)


class _Undo:
    """What `alias_ray` returns: the end of a `with` block undoes the alias."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: Any) -> None:
        unalias_ray()
