"""The frames of all threads, without a deadlock that CPython before 3.12 allows.

There the cyclic collector may run inside `sys._current_frames`, and with it code of the program (finalisers, callbacks
of weak references), while the function holds a lock that every new thread needs. If another thread then runs and starts
a thread, it waits for this lock without releasing the GIL, and the whole process stands still forever.
"""

from __future__ import annotations

import sys
from types import FrameType

from .core_lock import core_lock


def current_frames() -> dict[int, FrameType]:
    """The innermost frame of every thread, by the thread's ident. The caller may hold the core's lock or not."""
    if sys.version_info >= (3, 12):
        return sys._current_frames()
    return core_lock.without_collecting(sys._current_frames)  # in no variable: this frame is in the list, too
