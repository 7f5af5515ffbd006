"""The lock around the core: a thread that waits for the lock takes it only when the thread can also run.

With a plain lock, a waiting thread that is woken owns the lock before it has the GIL. The thread that has the GIL then
finds the lock taken at its next entry and must let the other thread run, which leaves that one in the same position.
From then on the threads alternate at every entry, at a cost of two system calls each: a lock convoy. Here a waiting
thread is only told that it may try again, and tries when it runs. The thread that has the GIL meanwhile goes on for its
whole time slice.
"""

from __future__ import annotations

import _thread
from collections import deque
from typing import Any

_allocate_lock = _thread.allocate_lock


class CoreLock:
    """A mutual exclusion lock, for `with`. It is not re-entrant, and not first come, first served.

    The hottest paths write the `with` statement out, because the statement calls two Python functions:

        if not lock.try_enter(False):
            lock.wait()
        try:
            ...
        finally:
            lock.release()
            if lock.line:
                lock.wake_one()

    try_enter, release: the real lock's `acquire` and `release`. line: one closed lock for each waiting thread, on which
    the thread sleeps, in the order in which they came.
    """

    __slots__ = ("_lock", "try_enter", "release", "line")

    def __init__(self) -> None:
        self._lock = _allocate_lock()
        self.try_enter, self.release = self._lock.acquire, self._lock.release
        self.line: deque[Any] = deque()  # append and popleft are atomic, also without the GIL

    def __enter__(self) -> None:
        if not self.try_enter(False):
            self.wait()

    def __exit__(self, *error: object) -> None:
        self.release()
        if self.line:
            self.wake_one()

    def locked(self) -> bool:
        """Whether a thread holds the lock at this moment."""
        return self._lock.locked()

    def wait(self) -> None:
        """Enter once another thread has left. Called after `try_enter` has failed."""
        mine = _allocate_lock()
        mine.acquire()
        try:
            while True:
                # Join the line first, then try once more. A holder looks at the line only after it has released the
                # lock. So either this try succeeds, or the thread that holds the lock now will find us in the line and
                # wake us.
                self.line.append(mine)
                if self.try_enter(False):
                    break
                mine.acquire()
                if self.try_enter(False):
                    return
        except BaseException:  # a signal handler raised; our turn goes to the next thread in line
            self._leave_line(mine)
            self.wake_one()
            raise
        self._leave_line(mine)

    def _leave_line(self, mine: Any) -> None:
        """Leave the line. A holder may have taken us out of it already; that is no loss, since we hold the lock now and
        will wake the next thread when we leave."""
        if mine in self.line:
            try:
                self.line.remove(mine)
            except ValueError:  # a holder took us out between the two statements
                return

    def wake_one(self) -> None:
        """Tell the first thread in line to try again."""
        try:
            self.line.popleft().release()
        except IndexError:  # another thread that left has emptied the line
            return
