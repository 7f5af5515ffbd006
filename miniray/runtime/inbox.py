"""Inboxes: how work reaches a worker's thread, which sleeps until then.

A thread that sleeps on a lock (a SimpleQueue is one inside) is often woken on another processor, where it first has to
wait for the GIL that the waking thread holds. A thread that sleeps on a pipe is woken on the same processor, and runs
when the waking thread goes to sleep, which a caller that waits for an answer does at once. So a call and its answer
take a third of the time. But a pipe needs two of the process's file descriptors, so only the first MOST_PIPES workers
get one, and fewer if the process may have few descriptors.
"""

from __future__ import annotations

import os
import queue
from collections import deque

from .core_lock import HAS_GIL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_PIPES = 64
SHARE = 8  # pipes take at most one in SHARE of the descriptors that the process may have
_write, _close = os.write, os.close  # a session replaces `os.write`, for the sake of workers
_pipes: deque[None] = deque(
    [None] * MOST_PIPES
)  # one item for each pipe that may still be opened; append and pop are atomic


class PipeInbox:
    """The part of queue.SimpleQueue that a worker needs. Any thread may put; only the worker's own thread may get.

    No lock guards the pipe: any statement here may start the collector, and a finaliser may put into the same inbox.
    The descriptors are closed when the last reference to the inbox is gone. A thread that puts holds one, so it never
    writes to a descriptor whose number belongs to some other file by now.
    """

    __slots__ = ("_items", "_read_end", "_write_end")

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._read_end = self._write_end = -1
        self._read_end, self._write_end = os.pipe()

    def put(self, item: Any) -> None:
        """Hand over an item."""
        self._items.append(item)
        # One byte for each item, written after it: a reader of a byte finds an item.
        _write(self._write_end, b"!")

    def get(self) -> Any:
        """Remove and return the next item. Sleeps until there is one."""
        os.read(self._read_end, 1)
        return self._items.popleft()

    def __del__(self) -> None:
        if self._read_end >= 0:
            _close(self._read_end)
            _close(self._write_end)
            _pipes.append(None)


class NoInbox:
    """The inbox of a worker whose thread has ended."""

    def put(self, item: Any) -> None:
        """Nobody will get the item."""


NO_INBOX = NoInbox()


def new_inbox() -> Any:
    """An inbox for a new worker: a PipeInbox while there are few workers, otherwise a queue.SimpleQueue."""
    # Without the GIL, pipes are not faster.
    if os.name != "posix" or not HAS_GIL or MOST_PIPES - len(_pipes) >= _pipes_allowed():
        return queue.SimpleQueue()
    try:
        _pipes.pop()
    except IndexError:  # MOST_PIPES are open
        return queue.SimpleQueue()
    try:
        return PipeInbox()
    except OSError:  # the process has no descriptors left
        _pipes.append(None)
        return queue.SimpleQueue()


def _pipes_allowed() -> int:
    """How many pipes may be open under the process's present limit of descriptors."""
    limit = os.sysconf("SC_OPEN_MAX")  # -1: there is none
    return MOST_PIPES if limit < 0 else min(MOST_PIPES, limit // SHARE // 2)
