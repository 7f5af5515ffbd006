"""Timers: calls a function at given times, with a thread that lives only while something is due."""

from __future__ import annotations

import _thread
import heapq
import threading
import time
from typing import Callable


class Timers:
    """Calls a function at given times. Its thread sleeps until the next one is due, and ends when none is left."""

    def __init__(self, call: Callable[[], None]):
        self._call = call
        self._lock = threading.Lock()
        self._due: list[float] = []
        self._changed = _thread.allocate_lock()
        self._changed.acquire()
        self._running = self._stopped = False

    def add(self, at: float, now: float) -> None:
        """Call at `at`; both on the runtime's clock, whose seconds are real ones."""
        with self._lock:
            if self._stopped:  # and at the interpreter's end no thread could be started
                return
            heapq.heappush(self._due, at)
            first = self._due[0] == at
            if not self._running:
                self._running = True
                _thread.start_new_thread(self._run, (now, threading.get_ident()))
            elif first and self._changed.locked():
                self._changed.release()

    def stop(self) -> None:
        """Nothing is called any more."""
        with self._lock:
            self._stopped = True
            self._due.clear()
            if self._changed.locked() and self._running:
                self._changed.release()

    def _run(self, _now: float, _starter: int) -> None:
        while True:
            with self._lock:
                if not self._due or self._stopped:
                    self._running = False
                    return
                wait = self._due[0] - time.perf_counter()
                if wait <= 0:
                    heapq.heappop(self._due)
            if wait <= 0:
                self._call()
            else:
                self._changed.acquire(True, wait)
