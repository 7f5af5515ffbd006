"""`atexit` in a worker: what a task or an actor registers runs when its worker ends, not when the program does.

As in Ray, it runs if the worker ends in order: the actor exits, or nobody holds it any more, or its constructor fails,
or its code raises SystemExit, or a worker of plain tasks is no longer needed. It does not run if the worker is killed
or crashes, nor at the end of the session.

What a module registers while it is being imported belongs to the module. All workers share it, so it runs at the end of
the program.
"""

from __future__ import annotations

import atexit
import sys
from contextvars import copy_context
from functools import wraps

from .replaced import replace
from .worker_process import WorkerProcess, here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _own() -> list[Any] | None:
    """The calling worker's functions; None on the driver, and while a module is imported."""
    process = here()
    if process is None:
        return None
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return None
        frame = frame.f_back
    if process.exit_functions is None:
        process.exit_functions = []
    return process.exit_functions


def _register(original: Any) -> Any:
    @wraps(original)
    def register(function: Any, *args: Any, **kwargs: Any) -> Any:
        own = _own() if callable(function) else None
        if own is None:
            return original(function, *args, **kwargs)
        own.append((copy_context(), function, args, kwargs))
        return function

    return register


def _unregister(original: Any) -> Any:
    @wraps(original)
    def unregister(function: Any) -> None:
        own = _own()
        if own is None:
            original(function)
        else:
            own[:] = [entry for entry in own if entry[1] != function]

    return unregister


def run(process: WorkerProcess) -> None:
    """Run a worker's functions, the last registered first, each in the context in which it was registered. Errors are
    only logged. Called on the worker's thread."""
    functions = process.exit_functions
    while functions:
        try:
            context, function, args, kwargs = functions.pop()
        except IndexError:  # another thread of the same actor has taken the last one
            return
        try:
            context.run(function, *args, **kwargs)
        except BaseException:
            import logging  # only for an error

            logging.getLogger(__name__).exception("An exit function of a worker failed: %r", function)


def install() -> None:
    """Replace `atexit`'s functions, until `replaced.restore_all` restores them."""
    replace(atexit, "register", _register(atexit.register))
    replace(atexit, "unregister", _unregister(atexit.unregister))
