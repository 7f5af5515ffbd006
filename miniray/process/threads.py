"""`threading` as a task sees it: the threads of its own worker, and, in a plain task or actor, itself as the main
thread.

In Ray a plain task runs in the main thread of a process, where Python allows more than elsewhere: `asyncio` makes an
event loop for `get_event_loop`, and signal handlers can be set. Both ask `threading.main_thread()`. As in Ray, the
calls of async actors, and of actors with several threads, do not run in a main thread.

A thread that a task starts belongs to the task's worker. It gets a stamp by which `worker_process.here` finds the
worker. It may call itself a non-daemon thread, as on Ray; yet the program does not wait for it when it ends. On Ray its
process would be killed then.
"""

from __future__ import annotations

import threading
from functools import wraps

from . import worker_thread
from .our_code import stands_in
from .replaced import replace
from .worker_process import MAIN, STAMP, get_ident, here, serving, thread_starts, threads
from .worker_thread import WorkerThread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

real_main_thread = threading.main_thread
_enumerate = threading.enumerate
_start = threading.Thread.start
_start_joinable_thread: Any = getattr(threading, "_start_joinable_thread", None)
_starts_joinable = _start_joinable_thread  # what stood there when the guards were installed


@wraps(threading.main_thread)
def _main_thread() -> threading.Thread:
    process = here()
    if process is None or not process.main_ident:
        return real_main_thread()
    if serving.get(get_ident()) == (process, MAIN):  # this is it, or a thread on which a signal handler runs for it
        return threading.current_thread()
    # Other threads of the worker find it: the first `start` made it.
    return threads.get(process.main_ident) or real_main_thread()


@wraps(threading.enumerate)
def _threads_here() -> list[threading.Thread]:
    process = here()
    if process is None:
        return [thread for thread in _enumerate() if not isinstance(thread, WorkerThread)]
    main = _main_thread()
    return [thread for thread in _enumerate() if thread is main or vars(thread).get(STAMP) is process]


@wraps(threading.active_count)
def _active_count() -> int:
    return len(_threads_here())


@stands_in
@wraps(_start)
def _start_stamped(self: threading.Thread) -> None:
    process = here()
    if process is None:
        _start(self)
        return
    if process.main_ident == get_ident():
        threading.current_thread()  # makes the main thread's object (see `_main_thread`)
    thread_starts(self, process)
    _start(self)
    # Before 3.13, this table has the threads for which the interpreter waits.
    getattr(threading, "_shutdown_locks", set()).discard(getattr(self, "_tstate_lock", None))


def _start_joinable(function: Any, **options: Any) -> Any:
    """Since 3.13, `daemon` tells the interpreter whether to wait for the thread."""
    if here() is not None:
        options["daemon"] = True
    return _starts_joinable(function, **options)


def install() -> None:
    """Replace the functions of `threading`, until `replaced.restore_all` restores them."""
    global _starts_joinable
    worker_thread.install()
    replace(threading, "main_thread", _main_thread)
    replace(threading, "enumerate", _threads_here)
    replace(threading, "active_count", _active_count)
    replace(threading.Thread, "start", _start_stamped)
    if _start_joinable_thread is not None:
        _starts_joinable = threading._start_joinable_thread  # type: ignore[attr-defined]
        replace(threading, "_start_joinable_thread", _start_joinable)
