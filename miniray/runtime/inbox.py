"""Inboxes: how work reaches a worker's thread that sleeps.

A sleeper on a lock, which is what a SimpleQueue has inside, is often woken on another processor, where it first has to wait for the
GIL that its waker holds. A sleeper on a pipe is woken on the waker's own processor and runs when the waker goes to sleep, as
callers that wait for an answer do at once: a call and its answer take a third of the time. A pipe needs two of the process's
file descriptors, though, so only the first workers have one.
"""

from __future__ import annotations

import _thread
import os
import queue
import sys
from collections import deque
from typing import Any

MOST_PIPES = 64
HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()  # without it, to wake on the same processor is no gain
_pipes: deque[None] = deque([None] * MOST_PIPES)  # one for each that may still be opened; append and pop are atomic


class PipeInbox:
    """As much of a queue.SimpleQueue as a worker needs: any thread may put, its own thread gets."""

    __slots__ = ("_items", "_read_end", "_write_end", "_open", "_closing")

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._read_end, self._write_end = os.pipe()
        self._open = True
        self._closing = _thread.allocate_lock()  # nobody may write to a number that is somebody else's file by now

    def put(self, item: Any) -> None:
        """Hand over an item."""
        self._items.append(item)
        with self._closing:
            if self._open:
                os.write(self._write_end, b"!")  # a byte an item: whoever has read one finds an item

    def get(self) -> Any:
        """The next item, slept for."""
        os.read(self._read_end, 1)
        return self._items.popleft()

    def close(self) -> None:
        """The worker's thread ends: nothing that is put from now on is ever got."""
        with self._closing:
            self._open = False
            os.close(self._read_end)
            os.close(self._write_end)
        _pipes.append(None)


class QueueInbox(queue.SimpleQueue):
    """The same for the workers beyond."""

    def close(self) -> None:
        """Nothing is held that would have to be given back."""


def new_inbox() -> Any:
    """An inbox for a new worker."""
    if os.name != "posix" or not HAS_GIL:
        return QueueInbox()
    try:
        _pipes.pop()
    except IndexError:  # there are as many as there may be
        return QueueInbox()
    try:
        return PipeInbox()
    except OSError:  # no descriptor is left
        _pipes.append(None)
        return QueueInbox()
