"""Timers: call a function at given times, on a thread that exists only while something is due."""

from __future__ import annotations

import _thread
import heapq
import time

from .core_lock import core_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class Timers:
    """Calls a function at given times. The thread sleeps until the next time is due, and ends when no time is left."""

    def __init__(
        self,
        call: Callable[[], None],
        now: Callable[[], float] = time.perf_counter,
        allocate_lock: Callable[[], Any] = _thread.allocate_lock,
        start_thread: Callable[..., Any] = _thread.start_new_thread,
    ):
        """call: the function. The others are how to tell the time, to make a lock to sleep on, and to start a
        thread."""
        self._call, self._now, self._start_thread = call, now, start_thread
        self._lock = core_lock  # guards everything below; a finaliser that cancels a task does not run under it
        self._due: list[float] = []  # a heap of times
        self._changed = allocate_lock()  # the thread sleeps on it; released when the thread should look again
        self._changed.acquire()
        self._running = self._stopped = False

    def add(self, at: float) -> None:
        """Call the function at this time, in seconds on the clock."""
        with self._lock:
            if self._stopped:
                return
            heapq.heappush(self._due, at)
            start, self._running = not self._running, True
            if not start and self._due[0] == at and self._changed.locked():
                self._changed.release()
        if start:
            try:
                self._start_thread(self._run, ())
            except RuntimeError:  # no more threads: the next call tries again
                self._running = False

    def stop(self) -> None:
        """Forget all times. The function may be running at this moment, but is not called again."""
        with self._lock:
            self._stopped = True
            self._due.clear()
            if self._changed.locked() and self._running:
                self._changed.release()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._due or self._stopped:
                    self._running = False
                    return
                wait = self._due[0] - self._now()
                if wait <= 0:
                    heapq.heappop(self._due)
            if wait <= 0:
                self._call()
            else:
                self._changed.acquire(True, wait)
