"""Guards: functions of the standard library that act on the worker instead of the process while a session runs.

In Ray a worker is a process and may end itself. Here a worker is a thread of a process that it shares with everybody.
So in a task `os._exit` and `os.abort` end only the worker; on the driver they do what they always do. The modules
beside this one do the same for threads, signals, exit functions, child processes and random numbers (see
`worker_process`).

`time.sleep` in a task waits in a way that a cancellation or the end of the session can interrupt, since the real
function, a call into C, cannot be interrupted. Signal handlers on the driver do not run inside the session's own code
(see `signal_handlers`), and neither does the cyclic collector (see `runtime.core_lock`).
"""

from __future__ import annotations

import gc
import operator
import os
import signal
import time

from . import children, context, exit_functions, random_numbers, signal_handlers, threads, worker_signals
from .context import current
from .exits import WorkerExit
from .our_code import only_waits, stands_in
from .replaced import replace, restore_all
from .worker_process import here
from .worker_signals import local_handler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

_users = 0  # how many sessions have the guards installed


def _in_task() -> bool:
    return current.get() is not None


def _guard(module: Any, name: str, reason: Callable[..., str | None]) -> None:
    """Guard a function: in a task it raises WorkerExit with the reason, and in a thread that a task has started it ends
    the worker and the thread. reason: called with the arguments; None for a call that does the process no harm, which
    goes to the original; "" for a call without any effect."""
    original = getattr(module, name)

    @stands_in
    def guarded(*args: Any, **kwargs: Any) -> Any:
        process = here()
        why = reason(*args, **kwargs) if process is not None or _in_task() else None
        if why is None:
            return original(*args, **kwargs)
        if not why:
            return None
        if process is not None and process.handle is not None:
            worker_signals.end_worker(process, why)
            raise SystemExit
        raise WorkerExit(why)

    _put(module, name, guarded)


def _put(module: Any, name: str, guard: Any) -> None:
    """Replace a function by a guard. The guard has the original's name, so that it travels to tasks by reference, like
    the original."""
    original = getattr(module, name)
    guard.__name__ = guard.__qualname__ = name
    guard.__module__, guard.__doc__, guard.__wrapped__ = module.__name__, original.__doc__, original
    replace(module, name, guard)


def _signal_to_self(pid: int, number: int) -> str | None:
    """For a task of `local_mode`: the others have the table of their worker (see `worker_signals`)."""
    number = operator.index(number)
    if pid not in (0, os.getpid()) or not 0 < number < signal.NSIG:
        return None
    if number == signal.SIGINT:
        return ""  # blocked, as in every worker
    if local_handler(number):
        return None
    return f"SYSTEM_ERROR: it sent signal {int(number)} to itself"


def _guard_sleep() -> None:
    original = time.sleep

    @only_waits
    def sleep(seconds: Any, /) -> None:
        execution = current.get()
        runtime = context.session if execution is None else execution.runtime
        if runtime is None or not runtime.sleep(execution, seconds):
            original(seconds)

    _put(time, "sleep", sleep)


def _guard_collector(lock: Any) -> None:
    """Let the core's lock know whether the program wants the collector to run. See `runtime.core_lock`."""

    def enable() -> None:
        lock.collect(True)

    def disable() -> None:
        lock.collect(False)

    def isenabled() -> bool:
        collects: bool = lock.collects
        return collects

    for guard in enable, disable, isenabled:
        _put(gc, guard.__name__, guard)
    lock.follow(True)


def install(lock: Any) -> None:
    """Install the guards, unless they are installed. Each session calls this once, and `uninstall` once.

    lock: the core's lock, which is the same for all sessions.
    """
    global _users
    _users += 1
    if _users > 1:
        return
    signal_handlers.install(lock)
    _guard_collector(lock)
    threads.install()
    exit_functions.install()
    children.install()
    random_numbers.install()
    _guard_sleep()
    _guard(os, "_exit", lambda status: f"SYSTEM_ERROR: it called os._exit({status})")
    _guard(os, "abort", lambda: "SYSTEM_ERROR: it called os.abort()")
    _guard(os, "kill", _signal_to_self)
    _guard(signal, "raise_signal", lambda number: _signal_to_self(0, number))
    worker_signals.install()


def uninstall(lock: Any) -> None:
    """Remove the guards, if no other session needs them."""
    global _users
    _users -= 1
    if _users == 0:
        children.uninstall()
        random_numbers.uninstall()
        lock.follow(False)
        restore_all()  # first: some of the guards stand before what `signal_handlers` has put in place
        signal_handlers.uninstall()
