"""The frames of all threads, without a deadlock that CPython before 3.12 allows.

There the cyclic collector may run inside `sys._current_frames`, and with it code of the program (finalisers, callbacks
of weak references), while the function holds a lock that every new thread needs. If another thread then runs and starts
a thread, it waits for this lock without releasing the GIL, and the whole process stands still forever.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from types import FrameType

# One thread at a time, so that each finds the collector as the program has set it. Re-entrant, since a signal handler
# may come back here.
_lock = threading.RLock()


def current_frames() -> dict[int, FrameType]:
    """The innermost frame of every thread, by the thread's ident. The cyclic collector is off meanwhile."""
    with _lock:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()


def _after_fork() -> None:
    """In a forked child: a thread of the parent may have held the lock, and is not there to release it."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
