"""Inboxes: how work reaches a worker's thread, which sleeps until then.

A thread that sleeps on a lock (a SimpleQueue is one inside) is often woken on another processor, where it first has to
wait for the GIL that the waking thread holds. A thread that sleeps on a pipe is woken on the same processor, and runs
when the waking thread goes to sleep, which a caller that waits for an answer does at once. So a call and its answer
take a third of the time. But a pipe needs two of the process's file descriptors, so only the first MOST_PIPES workers
get one, and fewer if the process may have few descriptors.
"""

from __future__ import annotations

import _thread
import os
import queue
from collections import deque
from typing import Any

from .core_lock import HAS_GIL

MOST_PIPES = 64
SHARE = 8  # pipes take at most one in SHARE of the descriptors that the process may have
_write = os.write  # a session replaces `os.write`, for the sake of workers
_pipes: deque[None] = deque(
    [None] * MOST_PIPES
)  # one item for each pipe that may still be opened; append and pop are atomic


class PipeInbox:
    """The part of queue.SimpleQueue that a worker needs. Any thread may put; only the worker's own thread may get."""

    __slots__ = ("_items", "_read_end", "_write_end", "_open", "_closing")

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._read_end, self._write_end = os.pipe()
        self._open = True
        # Guards `_open` and each write: once closed, the descriptor's number may belong to some other file.
        self._closing = _thread.allocate_lock()

    def put(self, item: Any) -> None:
        """Hand over an item."""
        self._items.append(item)
        with self._closing:
            if self._open:
                # One byte for each item, written after it: a reader of a byte finds an item.
                _write(self._write_end, b"!")

    def get(self) -> Any:
        """Remove and return the next item. Sleeps until there is one."""
        os.read(self._read_end, 1)
        return self._items.popleft()

    def close(self) -> None:
        """Close the pipe, because the worker's thread ends. Items that are put later are ignored."""
        with self._closing:
            self._open = False
            os.close(self._read_end)
            os.close(self._write_end)
        _pipes.append(None)


class QueueInbox(queue.SimpleQueue[Any]):
    """An inbox without a pipe."""

    def close(self) -> None:
        """There is nothing to close."""


def new_inbox() -> Any:
    """An inbox for a new worker: a PipeInbox while there are few workers, otherwise a QueueInbox."""
    # Without the GIL, pipes are not faster.
    if os.name != "posix" or not HAS_GIL or MOST_PIPES - len(_pipes) >= _pipes_allowed():
        return QueueInbox()
    try:
        _pipes.pop()
    except IndexError:  # MOST_PIPES are open
        return QueueInbox()
    try:
        return PipeInbox()
    except OSError:  # the process has no descriptors left
        _pipes.append(None)
        return QueueInbox()


def _pipes_allowed() -> int:
    """How many pipes may be open under the process's present limit of descriptors."""
    import resource  # only on POSIX

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_PIPES if soft == resource.RLIM_INFINITY else min(MOST_PIPES, soft // SHARE // 2)
