"""The lock around the core. No code of the program runs under it, not even code that the interpreter runs on its own.

Theory of operation.

*The collector is off while a thread is inside.* Any allocation may start the cyclic collector, and it calls finalisers
and the callbacks of weak references on the thread that made the allocation. Such a function may call miniray. If its
thread were inside, it would find the tables half changed, and wait for a lock that its own thread holds. So the
collector is on only while nobody is inside: whoever takes the lock turns it off, and whoever releases the lock turns it
on again, if the program wants it on.

*Two steps in one call.* Between two calls the interpreter may do anything: run another thread, a signal handler, or a
collection that was due before the collector was turned off. If one thread turned the collector on after it had released
the lock, the next thread could be inside already. If it did so before, the collector could run before the release. So
`enter` takes the lock and turns the collector off, and `leave` turns the collector on and releases the lock, each in
one call of a function in C: the `__next__` of a `zip`, which asks one iterator after the other, and these iterators do
the steps (see `_together`). Nothing is allocated there, and the interpreter does nothing else before the call returns.
So "the collector is off" and "somebody is inside" change together, for all threads. Without the GIL the two differ for
a moment, but the thread that is inside always finds the collector off: only the thread that leaves turns it on. A zip
may not be shared between threads there, so each thread has its own.

*What the program wants.* The program may turn the collector on or off itself. If another thread is inside at that
moment, the wish must not be lost when that thread leaves. While a session runs, `gc.enable`, `gc.disable` and
`gc.isenabled` therefore set and return `collects` (`process.guards` replaces them). A thread that is inside while no
session runs was left behind by one; then `enter` notes what it finds, and `leave` restores that. Not noticed is a call
of the original functions by a program that has imported them by name before the session. The collector is then on or
off as the program wants until the next thread leaves.

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
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
_allocate_lock, _get_ident = _thread.allocate_lock, _thread.get_ident
# The functions of the interpreter, also while a session replaces them.
_enable, _disable, _is_enabled = gc.enable, gc.disable, gc.isenabled
_NEVER = object()


def _together(*steps: Any) -> Callable[[], tuple[Any, ...]]:
    """One function in C that takes all steps, one after the other, and returns the tuple of their results. A step is a
    function in C without arguments, or an iterator that is one."""
    iterators: list[Iterator[Any]] = [iter(step, _NEVER) if callable(step) else step for step in steps]
    return zip(*iterators).__next__


class CoreLock:
    """A mutual exclusion lock, for `with`. It is not re-entrant, and not first come, first served.

    The hottest paths write the `with` statement out, because the statement calls two Python functions:

        if not lock.enter()[0]:
            lock.wait()
        try:
            ...
        finally:
            lock.leave()
            if lock.line:
                lock.wake_one()

    enter: tries to take the lock, and turns the collector off. The first item of the result tells whether the lock is
    ours now. leave: releases the lock, and turns the collector on if the program wants it on. line: one closed lock for
    each waiting thread, on which the thread sleeps, in the order in which they came. collects: whether the program
    wants the collector to run; changed only under the lock. owner: the ident of the thread that is inside by a `with`
    statement, otherwise 0.
    """

    __slots__ = ("_lock", "owner", "enter", "leave", "line", "collects", "_quick", "_noting", "_leave_on", "_leave_off")

    def __init__(self) -> None:
        self.line: deque[Any] = deque()  # append and popleft are atomic, also without the GIL
        self.collects = True
        self.owner = 0
        self._make()
        self.enter: Callable[[], tuple[Any, ...]] = self._enter_and_note
        self.leave = self._leave_off

    def _make(self) -> None:
        self._lock = _allocate_lock()
        parts = self._parts() if HAS_GIL else _OfThread(self._parts)
        if HAS_GIL:
            self._quick, self._noting, self._leave_on = parts.quick, parts.noting, parts.leave_on
        else:
            self._quick, self._noting = lambda: parts.quick(), lambda: parts.noting()
            self._leave_on = lambda: parts.leave_on()
        self._leave_off: Callable[[], Any] = self._lock.release

    def _parts(self) -> _Parts:
        acquire, release = self._lock.acquire, self._lock.release
        return _Parts(
            _together(map(acquire, repeat(False)), _disable),
            _together(map(acquire, repeat(False)), _is_enabled, _disable),
            _together(_enable, release),
        )

    def __enter__(self) -> None:
        if not self.enter()[0]:
            self.wait()
        self.owner = _get_ident()

    def __exit__(self, *error: object) -> None:
        self.owner = 0
        self.leave()
        if self.line:
            self.wake_one()

    def locked(self) -> bool:
        """Whether a thread holds the lock at this moment."""
        return self._lock.locked()

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
                if self.enter()[0]:
                    break
                mine.acquire()
                if self.enter()[0]:
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

    def _enter_and_note(self) -> tuple[Any, ...]:
        """`enter` while no session runs: it notes what the program has set, since nobody tells us."""
        found: tuple[Any, ...] = self._noting()
        if found[0]:
            self._set(found[1])
        return found

    def _set(self, collects: bool) -> None:
        self.collects, self.leave = collects, self._leave_on if collects else self._leave_off

    def follow(self, told: bool) -> None:
        """told: whether from now on `collect` is called when the program turns the collector on or off."""
        with self:
            self.enter = self._quick if told else self._enter_and_note

    def collect(self, wanted: bool) -> None:
        """The program turns the collector on or off. Waits until nobody is inside."""
        with self:
            self._set(wanted)

    def without_collecting(self, function: Callable[[], Any]) -> Any:
        """Return function(), with the collector off during the call. The function is one in C that does not release the
        GIL. This never waits: if the lock is taken, by whatever thread, the collector is off."""
        got, collects, _, result = _together(map(self._lock.acquire, repeat(False)), _is_enabled, _disable, function)()
        if got:
            if self.enter is not self._quick:
                self._set(collects)
            self.__exit__()
        return result

    def after_fork(self) -> None:
        """In a forked child: no thread is inside, although a thread of the parent may have been."""
        if self._lock.locked() and self.collects:
            _enable()
        told = self.enter is self._quick
        self.line.clear()
        self.owner = 0
        self._make()
        self._set(self.collects)
        self.enter = self._quick if told else self._enter_and_note


class _Parts:
    """The functions that `CoreLock` consists of."""

    def __init__(self, quick: Any, noting: Any, leave_on: Any):
        self.quick, self.noting, self.leave_on = quick, noting, leave_on


class _OfThread(threading.local):
    """The same functions, made anew for each thread that uses them."""

    def __init__(self, make: Callable[[], _Parts]):
        vars(self).update(vars(make()))


core_lock = CoreLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=core_lock.after_fork)
