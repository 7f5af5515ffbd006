"""The lock around the core. No code of the program runs under it, not even code that the interpreter runs on its own.

Theory of operation.

*The collector is off while a thread is inside.* Any allocation may start the cyclic collector, and it calls finalisers
and the callbacks of weak references on the thread that made the allocation. Such a function may call miniray. If its
thread were inside, it would find the tables half changed, and wait for a lock that its own thread holds. So the
collector is on only while no thread is inside: a thread that takes the lock turns the collector off, and on again when
it releases the lock, if the program wants it on.

*Two steps in one call.* Between two calls the interpreter may do anything: run another thread, a signal handler, or a
collection that was due before the collector was turned off. If one thread turned the collector on after it had released
the lock, the next thread could be inside already. If it did so before, the collector could run before the release. So
a thread takes the lock and turns the collector off in one call of a function in C, and turns the collector on and
releases the lock in another. Each call is `next` on a `map` of iterators that are written in C, and these iterators do
the steps (see `_calls`). Nothing is allocated there, and the interpreter does nothing else before `next` returns. So
"the collector is off" and "somebody is inside" change together, for all threads. Without the GIL the two differ for a
moment, but the thread that is inside always finds the collector off: it has taken the lock before it turns the
collector off, and only the thread that leaves turns it on. No iterator here has a state, so all threads may share them.

*A token in a deque.* The lock is free while `_free` has its one item. The thread that pops the item is inside, and
appends the item again when it leaves. Both are single steps, also without the GIL. They are faster than the methods of
`_thread.lock`, which read arguments; that pays for the two calls that turn the collector off and on.

*What the program wants.* The program may turn the collector on or off itself. If another thread is inside at that
moment, the wish must not be lost when that thread leaves. While a session runs, `gc.enable`, `gc.disable` and
`gc.isenabled` therefore set and return `collects` (`process.guards` replaces them). A thread that is inside while no
session runs was left behind by one; then `enter` notes what it finds, and `leave` restores that. If
the program has imported the original functions by name before the session, its calls of them go unnoticed: the
collector is then on or off as the program wants until the next thread leaves.

*One lock per process.* The collector is one for all threads, so the lock is too: sessions follow each other, and a
thread that an ended session has left behind takes the same lock as its successors.

*No convoys.* With a plain lock, a waiting thread that is woken owns the lock before it has the GIL. The thread that has
the GIL then finds the lock taken at its next entry and must let the other thread run, which leaves that one in the same
position. From then on the threads alternate at every entry, at a cost of two system calls each: a lock convoy. Here a
waiting thread is only told that it may try again, and tries when it runs. The thread that has the GIL meanwhile goes on
for its whole time slice.

What else could run code of the program under the lock is kept away elsewhere: signal handlers are postponed
(`process.handlers`), and what the records hold of the program's is put aside when a record goes (`core.records.aside`).
A debugger or profiler that is written in Python does run, as it does everywhere.
"""

from __future__ import annotations

import _thread
import gc
import operator
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from types import CodeType, FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    F = TypeVar("F")
    T = TypeVar("T")
HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
_allocate_lock, _get_ident = _thread.allocate_lock, _thread.get_ident
# The functions of the interpreter, also while a session replaces them.
_enable, _disable, _is_enabled = gc.enable, gc.disable, gc.isenabled


def _calls(function: Callable[[], T]) -> Iterator[T]:
    """An endless iterator in C: each `next` calls the function, which is one in C, and returns or raises the result."""
    return starmap(function, repeat(()))


_written_out: set[CodeType] = set()


def writes_with_out(function: F) -> F:
    """Decorator: this function writes `with lock` out. After it has left, it looks at what was put aside meanwhile."""
    _written_out.add(function.__code__)  # type: ignore[attr-defined]
    return function


class CoreLock:
    """A mutual exclusion lock, for `with`. It is not re-entrant, and not first come, first served.

    The hottest paths write the `with` statement out, because the statement calls two Python functions:

        try:
            next(lock.enter)
        except IndexError:
            lock.wait()
        try:
            ...
        finally:
            next(lock.leave)
            if lock.line:
                lock.wake_one()

    enter: an iterator; `next` takes the lock and turns the collector off, or raises IndexError if the lock is taken.
    leave: `next` turns the collector on, if the program wants it on, and releases the lock. line: one closed lock for
    each waiting thread, on which the thread sleeps, in the order in which they came. collects: whether the program
    wants the collector to run; changed only under the lock. owner: the ident of the thread that is inside by a `with`
    statement, otherwise 0.
    """

    __slots__ = ("owner", "enter", "leave", "line", "collects", "_free", "_quick", "_leave_on", "_leave_off")

    def __init__(self) -> None:
        self.line: deque[Any] = deque()  # append and popleft are atomic, also without the GIL
        self.collects = True
        self._make()
        self.enter: Iterator[Any] = _NotingEntry(self)
        self.leave: Iterator[Any] = self._leave_off

    def _make(self) -> None:
        self.owner = 0
        self._free: deque[None] = deque([None])
        put = self._free.append
        self._quick = map(operator.is_, _calls(self._free.pop), _calls(_disable))  # what `is_` returns does not matter
        self._leave_on = map(put, _calls(_enable))  # puts the None that `enable` returns
        self._leave_off = map(put, repeat(None))

    def try_enter(self) -> bool:
        """Enter if nobody is inside. Returns whether this thread is inside now."""
        try:
            next(self.enter)
        except IndexError:
            return False
        return True

    def __enter__(self) -> None:
        try:
            next(self.enter)
        except IndexError:
            self.wait()
        self.owner = _get_ident()

    def __exit__(self, *error: object) -> None:
        self.owner = 0
        next(self.leave)
        if self.line:
            self.wake_one()

    def locked(self) -> bool:
        """Whether a thread holds the lock at this moment."""
        return not self._free

    def may_be_held_here(self) -> bool:
        """Whether this very thread may be inside. False for certain if another thread is inside by a `with` statement,
        or if this thread has called no function that writes the statement out."""
        if not self.locked():
            return False  # also while the interpreter ends and has emptied this module
        if self.owner:
            return self.owner == _get_ident()
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code not in _written_out:
            frame = frame.f_back
        return frame is not None

    def wait(self) -> None:
        """Enter once another thread has left. Called after `enter` has failed."""
        mine = _allocate_lock()
        mine.acquire()
        try:
            while True:
                # Join the line first, then try once more. A holder looks at the line only after it has released the
                # lock. So either this try succeeds, or the thread that holds the lock now will find us in the line and
                # wake us.
                self.line.append(mine)
                if self.try_enter():
                    break
                mine.acquire()
                if self.try_enter():
                    return
        except BaseException:  # an exception from outside; our turn goes to the next thread in line
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

    # ------------------------------------------------------------ the collector

    def _set(self, collects: bool) -> None:
        self.collects, self.leave = collects, self._leave_on if collects else self._leave_off

    def follow(self, told: bool) -> None:
        """told: whether from now on `collect` is called when the program turns the collector on or off."""
        with self:
            self.enter = self._quick if told else _NotingEntry(self)

    def collect(self, wanted: bool) -> None:
        """The program turns the collector on or off. Waits until nobody is inside."""
        with self:
            self._set(wanted)

    def without_collecting(self, function: Callable[[], T]) -> T:
        """Return function(), with the collector off during the call. The function is one in C that does not release the
        GIL. This never waits: if somebody is inside, maybe this thread, the collector is off."""
        while True:
            # In one call: look whether the collector is on, which ends the zip, and call the function if it is off.
            for _, result in zip(iter(_is_enabled, True), _calls(function)):
                try:
                    return result
                finally:
                    del result  # if it lists all frames, this one is among them, and would keep the list alive
            if self.try_enter():
                try:
                    return function()
                finally:
                    self.__exit__()

    def after_fork(self) -> None:
        """In a forked child: no thread is inside, although a thread of the parent may have been."""
        if self.locked() and self.collects:
            _enable()
        told = self.enter is self._quick
        self.line.clear()
        self._make()
        self._set(self.collects)
        self.enter = self._quick if told else _NotingEntry(self)


class _NotingEntry:
    """`enter` while no session runs: it notes what the program has set, since nobody tells us."""

    def __init__(self, lock: CoreLock):
        self.lock = lock

    def __iter__(self) -> _NotingEntry:
        return self

    def __next__(self) -> None:
        lock = self.lock
        for _, collects, _ in zip(_calls(lock._free.pop), _calls(_is_enabled), _calls(_disable)):
            # We are inside. No Python function is called here: it might exceed the limit of recursion.
            lock.collects = collects
            lock.leave = lock._leave_on if collects else lock._leave_off
            return


core_lock = CoreLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=core_lock.after_fork)
