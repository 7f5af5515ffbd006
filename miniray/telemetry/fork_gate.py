"""No other thread is inside SQLite while the process forks.

SQLite has global locks, for instance one that it takes for each allocation. A forked child inherits them as they are. A
lock that another thread held at the fork is held forever in the child, which would wait for it at its first use of
SQLite. So each part of miniray that calls SQLite does so `with inside:`, and a fork waits until no other thread is
inside. A statement that runs long leaves for a moment at its next look at the clock, where it holds no global lock.

A fork waits for at most FORK_S, because nothing can stop a function of SQLite. A function that runs so long mostly
computes and does not allocate, so it most likely holds no lock when the fork goes on. What a program does with
`sqlite3` itself is not counted.
"""

from __future__ import annotations

import _thread
import os
from contextlib import suppress
from typing import Any

from ..process.doorbell import new_real_lock, real_clock
from ..process.imports import gates

FORK_S = 5.0

_get_ident = _thread.get_ident
_gate = new_real_lock()  # held by a thread that forks, and for a moment by each that enters
_inside: dict[int, int] = {}  # how often each thread has entered
_forks: dict[int, Any] = {}  # the thread that has the gate to fork, and a lock that each thread that leaves releases


class _Inside:
    """`with inside:` calls of SQLite, and nothing that waits for another thread."""

    def __enter__(self) -> None:
        me = _get_ident()
        times = _inside.get(me)
        if times:
            _inside[me] = times + 1
        else:
            with _gate:
                _inside[me] = 1

    def __exit__(self, *error: object) -> None:
        me = _get_ident()
        times = _inside.get(me, 1)
        if times > 1:
            _inside[me] = times - 1
        else:
            _leave(me)


inside = _Inside()


def _leave(me: int) -> None:
    _inside.pop(me, None)
    for told in list(_forks.values()):
        with suppress(RuntimeError):  # it has been told already
            told.release()


def let_fork() -> None:
    """Called inside, at a moment when the thread holds none of SQLite's global locks: let a thread fork that waits."""
    me = _get_ident()
    times = _inside.get(me)
    if _forks and times:
        _leave(me)
        try:
            with _gate:
                _inside[me] = times
        finally:  # also if the handler of a signal has raised meanwhile
            _inside[me] = times


def _close() -> None:
    """Close the gate, and wait until no other thread is inside."""
    me, ends = _get_ident(), real_clock() + FORK_S
    told = new_real_lock()
    told.acquire()
    if not _gate.acquire(timeout=FORK_S):
        return
    _forks[me] = told  # after the gate, which `_open` opens for this thread
    while any(thread != me for thread in list(_inside)) and told.acquire(timeout=max(0.0, ends - real_clock())):
        pass


def _open() -> None:
    if _get_ident() in _forks:
        del _forks[_get_ident()]
        _gate.release()


def _after_fork_in_child() -> None:
    global _gate
    me = _get_ident()
    _gate = new_real_lock()
    _forks.clear()
    for thread in list(_inside):
        if thread != me:
            del _inside[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_parent=_open, after_in_child=_after_fork_in_child)
    gates.append((_close, _open))
