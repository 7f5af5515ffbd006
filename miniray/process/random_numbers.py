"""`random` and `numpy.random` in a worker: each worker draws from generators of its own.

In Ray each process has its own global generators. Here the functions of the two modules, such as `random.randint`, are
methods of one object for everybody: tasks that seed it and draw at the same time would get each other's numbers, and
the driver's sequence would move. So while a session runs, each of these functions looks at who calls it. On the driver
it is the original; in a task it is the same method of the worker's own generator, which starts with a random seed, as
Ray's do. Generators that a program makes itself, such as `random.Random(7)`, are left alone.

A module that has said `from random import randint` before the session started has the original, and draws with the
driver. The functions of `numpy.random` are replaced when the session or a worker starts and numpy has been imported.
"""

from __future__ import annotations

import importlib
import sys

from .late_imports import no_longer, when_imported
from .replaced import replace
from .worker_process import WorkerProcess, here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_done: set[str] = set()  # the modules whose functions are replaced
new_seed: Callable[[], int | None] = lambda: None  # of a worker's generator; None for a random one
# Functions of numpy.random that are no methods of its global generator but call it, and the methods in their place.
NUMPY_FUNCTIONS = {"seed": "seed", "sample": "random_sample", "ranf": "random_sample"}


def _random_of(process: WorkerProcess) -> Any:
    if process.random is None:
        process.random = importlib.import_module("random").Random(new_seed())
    return process.random


def _numpy_of(process: WorkerProcess) -> Any:
    if process.numpy_random is None:
        process.numpy_random = sys.modules["numpy.random"].RandomState(new_seed())
    return process.numpy_random


def _replace(module: Any, name: str, method: str, own: Callable[[WorkerProcess], Any]) -> None:
    original = getattr(module, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        process = here()
        return (original if process is None else getattr(own(process), method))(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = module.__name__, original.__doc__
    function.__dict__["__wrapped__"] = original
    replace(module, name, function)


def _replace_methods(module: Any, generator: Any, own: Callable[[WorkerProcess], Any]) -> None:
    for name, value in list(vars(module).items()):
        if not name.startswith("_") and getattr(value, "__self__", None) is generator:
            _replace(module, name, value.__name__, own)


def install() -> None:
    """Replace the functions of the modules that are imported, unless it has been done. Until `replaced.restore_all`."""
    if "numpy" in sys.modules:
        importlib.import_module("numpy.random")  # otherwise numpy imports it when it is first used
    when_imported("random", _replace_random)
    install_numpy()


def _replace_random(module: Any) -> None:
    if "random" not in _done:
        _done.add("random")
        _replace_methods(module, getattr(module, "_inst", None), _random_of)


def install_numpy() -> None:
    """The same for numpy alone: called when a worker starts, since numpy may have been imported after the session
    began."""
    numpy = sys.modules.get("numpy.random")
    generator = getattr(getattr(numpy, "mtrand", None), "_rand", None)
    if generator is not None and "numpy" not in _done:
        _done.add("numpy")
        _replace_methods(numpy, generator, _numpy_of)
        for name, method in NUMPY_FUNCTIONS.items():
            _replace(numpy, name, method, _numpy_of)


def uninstall() -> None:
    """The functions will be restored."""
    no_longer("random")
    _done.clear()
