"""Locks and inboxes of a simulation: a thread that waits for one gives the baton away."""

from __future__ import annotations

import _thread
import math
import os
import sys
import threading
from collections import deque
from typing import Any

from .baton import Baton, Fiber, RunOver
from .steps import GOES_ON, Step

IS_OWNED = threading.Condition._is_owned.__code__  # type: ignore[attr-defined]  # knows the answer of `acquire`
LOOKS_AT_WAITER = Step("looks at a condition", ["conditions"])
HAS_ITS_TURN = Step("goes on in its turn", None)  # other threads may want the same turn
MOST_UNWINDING = 1_000  # how many locks a thread may take while it is ended
_allocate_lock = _thread.allocate_lock
_becoming_real = _thread.RLock()


def refuse_timeout(timeout: float, blocking: bool = True) -> None:
    """Raise the error of a real lock for a timeout that it refuses: a long one, NaN, or any if it may not wait."""
    _allocate_lock().acquire(blocking, timeout)


class SimLock:
    """A lock like those of `_thread`, for the threads of a simulation.

    When it is released, every thread that waits for it can go on, and the first one that the schedule chooses gets it.
    points: whether its methods are points, so that the schedule may choose another thread before each of them. That
    includes `release`: only so can a thread that does not wait for the lock find it taken. is_waiter: a thread waits
    for it inside of a Condition, whose own lock makes the points. A thread outside of the simulation may release the
    lock or try to acquire it, but not wait for it.

    In a forked child there is no simulation. There the lock becomes a real one at its first use, and is held if it was
    held at the fork.
    """

    __slots__ = ("_baton", "_held", "_waiting", "_step", "_releases", "_looks", "_real", "owner", "__weakref__")

    def __init__(self, baton: Baton, points: bool = False, is_waiter: bool = False):
        self._baton = baton
        self._held = False
        self._waiting: list[Fiber] = []
        self.owner: Fiber | None = None
        self._step: Step | None = None
        self._releases: Step | None = None
        self._looks: Step | None = None
        self._real: Any = None
        if points:
            baton.locks += 1
            number = baton.locks
            self._step = Step(f"takes lock {number}", [("lock", number)])
            self._releases = Step(f"releases lock {number}", [("lock", number)])
            self._looks = Step(f"looks at lock {number}", [("lock", number)], polls=True)
        elif is_waiter:
            self._looks = LOOKS_AT_WAITER

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As for a real lock."""
        baton = self._baton
        if timeout != -1 and not (blocking and 0 <= timeout <= threading.TIMEOUT_MAX):
            refuse_timeout(timeout, blocking)
        if baton.forked:
            return bool(self._real_lock().acquire(blocking, timeout))
        fiber = baton.current
        if 0 < fiber.unwinding < MOST_UNWINDING and baton.here() is not None:
            fiber.unwinding += 1  # the `finally` blocks of a thread that is ended must not fail
            self._held = True
            return True
        if timeout == 0:
            blocking = False
        step = self._step if blocking or self._step is not None else self._looks
        if step is not None and baton.here() is not None and (blocking or sys._getframe(1).f_code is not IS_OWNED):
            baton.point(step, by_user=True)
        until = None
        if timeout > 0:  # later than now, even if the clock is too coarse for the difference
            until = max(baton.time + timeout, math.nextafter(baton.time, math.inf))
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
        if self._releases is None or self._baton.here() is None or self._baton.current.unwinding:
            self._release()
            return
        try:
            self._baton.point(self._releases)
        finally:  # the point may raise the end of the run, or Ctrl-C
            self._release()

    def _release(self) -> None:
        if not self._held:  # another thread has released it at the point
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
        if self._looks is not None and self._baton.here() is not None:
            self._baton.point(self._looks, by_user=True)
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


class Turn:
    """The turn at a real lock of miniray, which outlives the simulation: see `context.in_turn`. Re-entrant.

    Taking it is no point: a point comes before what the lock guards.
    """

    def __init__(self, baton: Baton):
        self._baton, self._lock = baton, SimLock(baton)
        self._owner: Fiber | None = None
        self._depth = 0

    def __enter__(self) -> None:
        fiber = self._baton.current
        if self._owner is not fiber:
            if fiber.unwinding and self._lock.locked():  # it may not wait, and the real lock is not free
                raise RunOver
            before, fiber.resumes = fiber.resumes, HAS_ITS_TURN
            try:
                self._lock.acquire()
            finally:
                fiber.resumes = before
            self._owner = fiber
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._lock.release()


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
