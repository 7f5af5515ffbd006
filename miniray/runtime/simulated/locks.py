"""Locks and inboxes of a simulation: a thread that waits for one gives the baton away."""

from __future__ import annotations

import _thread
import math
import os
from collections import deque
from typing import Any

from .baton import Baton, Fiber
from .steps import GOES_ON, Step

MOST_UNWINDING = 1_000  # how many locks a thread may take while it is ended
_allocate_lock = _thread.allocate_lock
_becoming_real = _thread.RLock()


class SimLock:
    """A lock like those of `_thread`, for the threads of a simulation.

    When it is released, every thread that waits for it can go on, and the first one that the schedule chooses gets it.
    points: whether `acquire` is a point, so that the schedule may choose another thread before it. A thread outside of
    the simulation may release the lock or try to acquire it, but not wait for it.

    In a forked child there is no simulation. There the lock becomes a real one at its first use, and is held if it was
    held at the fork.
    """

    __slots__ = ("_baton", "_held", "_waiting", "_step", "_real", "owner", "__weakref__")

    def __init__(self, baton: Baton, points: bool = False):
        self._baton = baton
        self._held = False
        self._waiting: list[Fiber] = []
        self.owner: Fiber | None = None
        self._step: Step | None = None
        self._real: Any = None
        if points:
            baton.locks += 1
            self._step = Step(f"takes lock {baton.locks}", [("lock", baton.locks)])

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As for a real lock."""
        baton = self._baton
        if timeout != -1 and (not blocking or not timeout >= 0):  # NaN is not, either
            raise ValueError(
                "can't specify a timeout for a non-blocking call"
                if not blocking
                else "timeout value must be a non-negative number"
            )
        if baton.forked:
            return bool(self._real_lock().acquire(blocking, timeout))
        fiber = baton.current
        if 0 < fiber.unwinding < MOST_UNWINDING and baton.here() is not None:
            fiber.unwinding += 1  # the `finally` blocks of a thread that is ended must not fail
            self._held = True
            return True
        if self._step is not None and baton.here() is not None:
            baton.point(self._step, by_user=True)
        until = None
        if timeout > 0:  # later than now, even if the clock is too coarse for the difference
            until = max(baton.time + timeout, math.nextafter(baton.time, math.inf))
        elif timeout == 0:
            blocking = False
        while self._held:
            if not blocking or until is not None and until <= baton.time:
                return False
            if baton.here() is None:
                raise RuntimeError("a thread outside of the simulation waits for a lock of the simulation")
            self._waiting.append(fiber)
            resumes = self._step or fiber.resumes
            try:
                in_time = baton.block(until, self, resumes=resumes)
            finally:
                if fiber in self._waiting:
                    self._waiting.remove(fiber)
            if not in_time and self._held:
                return False
        self._held, self.owner = True, fiber
        return True

    def release(self) -> None:
        """As for a real lock."""
        if self._baton.forked:
            self._real_lock().release()
            return
        if not self._held:
            if self._baton.current.unwinding:
                return
            raise RuntimeError("release unlocked lock")
        self._held, self.owner = False, None
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for fiber in waiting:
                self._baton.wake(fiber)

    @property
    def name(self) -> str:
        """The lock's name in the story of a run."""
        return self._step.what.removeprefix("takes ") if self._step is not None else "a lock"

    def locked(self) -> bool:
        """Whether the lock is taken."""
        return bool(self._real_lock().locked()) if self._baton.forked else self._held

    def _real_lock(self) -> Any:
        """In a forked child: the real lock that this one has become."""
        if self._real is None:
            with _becoming_real:
                if self._real is None:
                    real = _allocate_lock()
                    if self._held:
                        real.acquire()
                    self._real = real
        return self._real

    def _at_fork_reinit(self) -> None:
        self._held, self._real = False, None
        self._waiting.clear()

    acquire_lock, release_lock, locked_lock = acquire, release, locked  # old names, which real locks have as well

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle '_thread.lock' object")

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{'locked' if self._held else 'unlocked'} lock of a simulation>"


def _in_the_child() -> None:
    global _becoming_real
    _becoming_real = _thread.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_the_child)


SimLock.__name__, SimLock.__module__ = "lock", "_thread"  # as a program sees the real ones


class SimInbox:
    """The inbox of a worker: see `runtime.inbox`."""

    def __init__(self, baton: Baton):
        self._baton = baton
        self._items: deque[Any] = deque()
        self._reader: Fiber | None = None

    def put(self, item: Any) -> None:
        """Hand over an item."""
        self._items.append(item)
        if self._reader is not None:
            self._baton.wake(self._reader)

    def get(self) -> Any:
        """Remove and return the next item. Gives the baton away until there is one."""
        while not self._items:
            self._reader = self._baton.current
            try:
                self._baton.block(waiting="work", idle=True, resumes=GOES_ON)
            finally:
                self._reader = None
        return self._items.popleft()
