"""In Ray a worker is a process, and may end itself. Here it is a thread, and the process is everybody's.

While a session runs, `os._exit`, `os.abort` and signals to the own process end the worker that calls them, and do what they
always do on the driver. `time.sleep` in a task waits where a cancellation or the end of the session reaches it, which the real
one, being a call into C, does not let through. Ctrl-C on the driver does not hit the session's own code (see `ctrl_c`).
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Callable

from . import context, ctrl_c
from .context import current
from .exits import WorkerExit
from .our_code import only_waits
from .replaced import replace, restore_all

_users = 0


def _in_task() -> bool:
    return current.get() is not None


def _guard(module: Any, name: str, reason: Callable[..., str | None]) -> None:
    original = getattr(module, name)

    def guarded(*args: Any, **kwargs: Any) -> Any:
        if _in_task():
            why = reason(*args, **kwargs)
            if why is not None:
                raise WorkerExit(why)
        return original(*args, **kwargs)

    _put(module, name, guarded)


def _put(module: Any, name: str, guard: Any) -> None:
    """Set a guard in place of the original, under its name: so it is sent to tasks by reference, as the original is."""
    original = getattr(module, name)
    guard.__name__ = guard.__qualname__ = name
    guard.__module__, guard.__doc__, guard.__wrapped__ = module.__name__, original.__doc__, original
    replace(module, name, guard)


def _own(pid: int, number: int) -> str | None:
    if pid in (0, os.getpid()) and number != 0:
        return f"SYSTEM_ERROR: it sent signal {int(number)} to itself"
    return None


def _guard_sleep() -> None:
    original = time.sleep

    @only_waits
    def sleep(seconds: Any, /) -> None:
        execution = current.get()
        runtime = context.session if execution is None else execution.runtime
        if runtime is None or not runtime.sleep(execution, seconds):
            original(seconds)

    _put(time, "sleep", sleep)


def install() -> None:
    """Put the guards up. May be called by several sessions; the last `uninstall` takes them down."""
    global _users
    _users += 1
    if _users > 1:
        return
    ctrl_c.install()
    _guard_sleep()
    _guard(os, "_exit", lambda status: f"SYSTEM_ERROR: it called os._exit({status})")
    _guard(os, "abort", lambda: "SYSTEM_ERROR: it called os.abort()")
    _guard(os, "kill", _own)
    _guard(signal, "raise_signal", lambda number: _own(0, number))


def uninstall() -> None:
    """Take the guards down."""
    global _users
    _users -= 1
    if _users == 0:
        ctrl_c.uninstall()
        restore_all()
