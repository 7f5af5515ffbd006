"""The frames of all threads, asked for without a trap of CPython's.

Before 3.12 the cyclic collector may run inside `sys._current_frames`, and with it code of the program (finalisers, weak references'
callbacks), while that holds the lock which every new thread needs. If another thread then has its turn and starts one, it waits for
this lock and keeps the GIL, and everything stands still for ever.
"""
from __future__ import annotations

import gc
import operator
import sys
from types import FrameType

_call = operator.methodcaller("__call__")


def current_frames() -> dict[int, FrameType]:
    """The topmost frame of every thread, by ident. The collector is off meanwhile."""
    collects = gc.isenabled()
    try:
        # Both calls come from C, so that no other thread has its turn, and turns the collector on, between the two.
        _, frames = map(_call, (gc.disable, sys._current_frames))
    finally:
        if collects:
            gc.enable()
    return frames
