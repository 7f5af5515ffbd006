"""The frames of all threads, asked for without a trap of CPython's.

Before 3.12 the cyclic collector may run inside `sys._current_frames`, and with it code of the program (finalisers, weak references'
callbacks), while that holds the lock which every new thread needs. If another thread then has its turn and starts one, it waits for
this lock and keeps the GIL, and everything stands still for ever.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from types import FrameType

# One at a time, so that each finds the collector as the program has set it. Re-entrant, for a signal's handler may come back here.
_lock = threading.RLock()


def current_frames() -> dict[int, FrameType]:
    """The topmost frame of every thread, by ident. The collector is off meanwhile."""
    with _lock:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()


def _after_fork() -> None:
    """In a forked child: a thread of the parent's may have held the lock."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
