"""The lock around the core: a thread that was waiting for it takes it only when it can also run.

With a plain lock, a waiter that is woken owns the lock before it has the GIL. The thread that has the GIL then runs into the lock
at its next entry and must let the waiter run, which leaves it in the same position: from there on the threads change at every
entry, at the price of two system calls each (a lock convoy). Here a waiter is only told that it may try again, and tries when
it runs. Whoever has the GIL goes on for its whole turn meanwhile.
"""

from __future__ import annotations

import _thread
from collections import deque
from typing import Any

_allocate_lock = _thread.allocate_lock


class CoreLock:
    """A mutual exclusion lock, for `with`. It is not re-entrant, and not first come, first served.

    The hottest paths write `with` out, since that calls two functions of ours:

        if not lock.try_enter(False):
            lock.wait()
        try:
            ...
        finally:
            lock.release()
            if lock.line:
                lock.wake_one()
    """

    __slots__ = ("_lock", "try_enter", "release", "line")

    def __init__(self) -> None:
        self._lock = _allocate_lock()
        self.try_enter, self.release = self._lock.acquire, self._lock.release
        self.line: deque[Any] = deque()  # locks that those who wait sleep on; append and popleft are atomic

    def __enter__(self) -> None:
        if not self.try_enter(False):
            self.wait()

    def __exit__(self, *error: object) -> None:
        self.release()
        if self.line:
            self.wake_one()

    def locked(self) -> bool:
        """Whether somebody holds it just now."""
        return self._lock.locked()

    def wait(self) -> None:
        """Enter after somebody else has left."""
        mine = _allocate_lock()
        mine.acquire()
        try:
            while True:
                # First in line, then one more try: a holder that leaves after it looks into the line and finds us.
                self.line.append(mine)
                if self.try_enter(False):
                    break
                mine.acquire()
                if self.try_enter(False):
                    return
        except BaseException:  # a signal's handler raised: somebody else is to be told instead
            self._give_up(mine)
            self.wake_one()
            raise
        self._give_up(mine)

    def _give_up(self, mine: Any) -> None:
        """Step out of the line. One who was called out of it meanwhile holds the lock, and will wake the next."""
        if mine in self.line:
            try:
                self.line.remove(mine)
            except ValueError:  # called out of it between the two
                return

    def wake_one(self) -> None:
        """Tell the first in line to try again."""
        try:
            self.line.popleft().release()
        except IndexError:  # another one who left was quicker
            return
