"""File descriptors 1 and 2 of a worker: where its child processes write, and what they write reaches its log.

In Ray these descriptors of a worker are its log files, and its children inherit them. Here the process has one of each,
the driver's. So when a worker starts a process that would inherit them, the process gets the ends of two pipes instead.
One thread of the session reads all pipes. The worker's own thread reads them too, before it writes and before its task
ends: so the lines are in the log in the order in which they were written, and before the task's result is available.

The worker's own calls of `os.write(1, ...)` and its `sys.stdout.fileno()` use the pipes as well. C code that writes to
descriptor 1 by itself still reaches the driver's.
"""

from __future__ import annotations

import _thread
import io
import os
import sys
import threading
from codecs import getincrementaldecoder
from collections import deque

from .context import in_forked_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

NAMES = ("stdout", "stderr")
CAPACITY = 64 << 10  # of a pipe in bytes: what was written before a read began is not behind more than this
STOP_S = 1.0  # how long the end of a session waits for the reader, which may be showing a line on the driver's screen

_open: set["Pipe"] = set()  # all pipes of this process, for a forked child to close


class Pipe:
    """What a worker's children write to one descriptor. deliver: called with the text, by one thread at a time.

    write_end, _read_end: descriptors; -1 when they are closed, which `_lock` guards.
    """

    __slots__ = ("write_end", "_read_end", "_deliver", "_decode", "_lock")

    def __init__(self, deliver: Callable[[str], None]):
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._deliver = deliver
        self._decode = getincrementaldecoder("utf-8")("backslashreplace").decode
        self._lock = threading.RLock()  # re-entrant: showing a line may run code of the program that prints
        _open.add(self)

    def drain(self) -> bool:
        """Deliver what has been written so far. Returns False if nobody can write any more."""
        with self._lock:
            size = 0
            while size < CAPACITY and self._read_end >= 0:
                try:
                    data = os.read(self._read_end, CAPACITY)
                except BlockingIOError:  # the pipe is empty
                    return True
                if not data:
                    return False
                size += len(data)
                self._deliver(self._decode(data))
            return self._read_end >= 0

    def close(self) -> None:
        """The worker has ended: only its children, if any are left, can write any more."""
        with self._lock:
            if self.write_end >= 0:
                os.close(self.write_end)
                self.write_end = -1

    def abandon(self) -> None:
        """Close both ends. A child that still writes gets SIGPIPE."""
        with self._lock:
            self.close()
            if self._read_end >= 0:
                os.close(self._read_end)
                self._read_end = -1
            _open.discard(self)


class Reader:
    """The thread that reads the pipes of a session. It exists from the first pipe on."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._new: deque[Pipe] = deque()
        self._wake = -1  # a descriptor: a byte makes the thread look at `_new`, closing it ends the thread
        self._done = _thread.allocate_lock()

    def add(self, pipe: Pipe) -> None:
        """Read this pipe until nobody can write to it any more."""
        with self._lock:
            self._new.append(pipe)
            if self._wake < 0:
                wait, self._wake = os.pipe()
                self._done.acquire()
                _thread.start_new_thread(self._run, (wait,))
            os.write(self._wake, b"n")

    def _run(self, wait: int) -> None:
        import selectors  # takes milliseconds, which most programs need not spend

        with selectors.PollSelector() as selector:
            selector.register(wait, selectors.EVENT_READ)
            try:
                while True:
                    for key, _ in selector.select():
                        pipe: Pipe | None = key.data
                        if pipe is None:
                            if not os.read(wait, CAPACITY):
                                return
                            while self._new:
                                pipe = self._new.popleft()
                                selector.register(pipe._read_end, selectors.EVENT_READ, pipe)
                        elif not pipe.drain():
                            selector.unregister(key.fd)
                            pipe.abandon()
            finally:
                for key in list(selector.get_map().values()):
                    if key.data is not None:
                        key.data.drain()
                        key.data.abandon()
                os.close(wait)
                self._done.release()

    def stop(self) -> None:
        """Deliver what has been written, and close all pipes."""
        with self._lock:
            if self._wake < 0:
                return
            os.close(self._wake)
            self._wake = -1
        self._done.acquire(timeout=STOP_S)


def become_child(ends: tuple[int, int] | None) -> None:
    """In a child that a worker has forked: make its pipes the descriptors 1 and 2, as a worker's log would be in Ray,
    and let `sys.stdout` and `sys.stderr` write to them. ends: the write ends; None for a child of the driver."""
    if ends is not None:
        for number, end in enumerate(ends, 1):
            os.dup2(end, number)
            raw: Any = open(number, "wb", buffering=0, closefd=False)
            setattr(sys, NAMES[number - 1], io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True))
    for pipe in list(_open):
        pipe.abandon()


def _after_fork() -> None:
    """A thread of the parent may have held a pipe's lock, and is not there to release it."""
    for pipe in _open:
        pipe._lock = threading.RLock()


in_forked_child.append(_after_fork)
