"""Waits for what lies outside of a simulation: pipes, sockets and child processes.

A thread that waits for a pipe or a socket with `os.read`, `select.select`, `selectors` or a socket's methods gives the
baton away until it is ready. Pipes and sockets between threads of the simulation are as repeatable as everything else:
what is written can be read at the next step. Many parts of the standard library wait in one of these ways: the pools
and queues of `multiprocessing`, `subprocess.run` with captured output, `socketserver`.

What another process does is not repeatable, and takes real time. While somebody waits for it, the virtual clock runs no
faster than the real one: otherwise a time limit of 5 s would be over before the process could answer.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import selectors
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any, Callable

from .baton import LOOKS_OUTSIDE, Baton, Outside
from .event_loop import SimSelector
from .steps import Step

synchronize: Any = None
with contextlib.suppress(ImportError):  # the system has no semaphores
    from multiprocessing import synchronize

POLLS_OUTSIDE = Step("looks outside", ["outside"], polls=True)
_select, _read = select.select, os.read
_baton: Baton | None = None


def has_children() -> bool:
    """Whether this process has child processes."""
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _is_foreign(files: Iterable[Any]) -> bool:
    """Whether other processes may be at the other ends of these files: a child, or one that is reached by a socket."""
    return has_children() or any(not _is_local(file) for file in files)


def _is_local(file: Any) -> bool:
    try:
        number = file if isinstance(file, int) else file.fileno()
        mode = os.fstat(number).st_mode
        if not stat.S_ISSOCK(mode):
            return stat.S_ISFIFO(mode) or not stat.S_ISCHR(mode)
        with socket.socket(fileno=os.dup(number)) as copy:
            name = copy.getsockname()
        return copy.family not in (socket.AF_INET, socket.AF_INET6) or name[0] in ("127.0.0.1", "::1")
    except (OSError, ValueError, AttributeError):
        return True  # the call itself will tell what is wrong


def wait(is_ready: Callable[[], bool], foreign: bool, timeout_s: float | None, what: str) -> bool:
    """Give the baton away until something is ready. Returns False if the time was over first. is_ready: must not take a
    lock of the simulation."""
    baton = _baton
    assert baton is not None
    if timeout_s is not None and timeout_s <= 0:
        baton.point(POLLS_OUTSIDE, by_user=True)
        return is_ready()
    baton.point(LOOKS_OUTSIDE, by_user=True)
    until = None if timeout_s is None else baton.time + timeout_s
    while not is_ready():
        if not baton.block_outside(Outside(is_ready, foreign, what), until):
            return is_ready()
    return True


def _takes_part() -> bool:
    """Whether the calling thread takes part in a simulation."""
    return _baton is not None and _baton.here() is not None


# ---------------------------------------------------------------- what is replaced


def install(replace: Callable[[Any, str, Any], None], put: Callable[[Any, str, Any], None], baton: Baton) -> None:
    """Replace the functions that wait. replace, put: as in `replacing`."""
    global _baton
    _baton = baton
    put(select, "select", _ready_select)
    put(os, "read", _ready_read)
    connection = sys.modules.get("multiprocessing.connection")
    method: Any = getattr(getattr(connection, "Connection", None), "_recv", None)
    if method is not None:  # it has `os.read` as a default argument
        replace(
            method, "__defaults__", tuple(_ready_read if one is _read else one for one in method.__defaults__ or ())
        )
    for name in ("SelectSelector", "PollSelector", "EpollSelector"):
        if hasattr(selectors, name):
            _selector(replace, getattr(selectors, name))
    for name in ("recv", "recv_into", "recvfrom", "_accept"):
        _socket_method(replace, name)
    if hasattr(os, "waitid"):
        _child_processes(replace)
    if synchronize is not None:
        _locks_of_processes(replace)


def uninstall() -> None:
    """The simulation is over."""
    global _baton
    _baton = None


def _ready_select(reads: Any, writes: Any, others: Any, timeout: Any = None, /) -> Any:
    if not _takes_part() or timeout is not None and not isinstance(timeout, (int, float)):
        return _select(reads, writes, others, timeout)
    files = list(reads), list(writes), list(others)
    is_ready = lambda: any(_select(*files, 0))
    wait(is_ready, _is_foreign([one for some in files for one in some]), timeout, "a file or a socket")
    return _select(*files, 0)


def _ready_read(fd: Any, length: Any, /) -> bytes:
    if _takes_part() and isinstance(fd, int) and _may_wait(fd):
        wait(lambda: _is_readable(fd), _is_foreign([fd]), None, f"the file {fd}")
    return _read(fd, length)


def _is_readable(file: Any) -> bool:
    return bool(_select([file], [], [], 0)[0])


def _may_wait(fd: int) -> bool:
    """Whether reading a file may wait, because it is a pipe or a socket that is not set to non-blocking."""
    try:
        mode = os.fstat(fd).st_mode
        return (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)) and os.get_blocking(fd)
    except OSError:
        return False


def _selector(replace: Callable[[Any, str, Any], None], cls: Any) -> None:
    original = cls.select

    def select(self: Any, timeout: float | None = None) -> Any:
        if not _takes_part() or isinstance(self, SimSelector):
            return original(self, timeout)
        found: list[Any] = []

        def is_ready() -> bool:
            found[:] = original(self, 0)
            return bool(found)

        wait(is_ready, _is_foreign(list(self.get_map() or ())), timeout, "a file or a socket")
        return list(found)

    replace(cls, "select", select)


def _socket_method(replace: Callable[[Any, str, Any], None], name: str) -> None:
    original = getattr(socket.socket, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        timeout = self.gettimeout()
        if timeout != 0 and _takes_part() and self.fileno() >= 0:
            if not wait(lambda: _is_readable(self), _is_foreign([self]), timeout, "a socket"):
                raise TimeoutError("timed out")
        return original(self, *args, **options)

    replace(socket.socket, name, method)


def _child_processes(replace: Callable[[Any, str, Any], None]) -> None:
    popen: Any = subprocess.Popen
    original = popen._wait

    def _wait(self: Any, timeout: float | None) -> Any:
        if self.returncode is None and _takes_part():
            if not wait(lambda: _has_ended(self.pid), True, timeout, f"the process {self.pid}"):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return original(self, timeout)

    replace(popen, "_wait", _wait)


def _has_ended(pid: int) -> bool:
    """Whether a child process has ended. Leaves it to be waited for."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody has waited for it
        return True


def _locks_of_processes(replace: Callable[[Any, str, Any], None]) -> None:
    """The locks of `multiprocessing`, which several processes share."""
    lock: Any = synchronize.SemLock
    make_methods, enter = lock._make_methods, lock.__enter__

    def _make_methods(self: Any) -> None:
        make_methods(self)
        real = self._semlock

        def acquire(block: bool = True, timeout: float | None = None) -> bool:
            if not block or not _takes_part() or real._is_mine() and real.kind == 0:  # kind 0: may be taken again
                return bool(real.acquire(block, timeout))
            until = None if timeout is None else time.monotonic() + timeout  # the virtual clock
            while not real.acquire(False):
                left = None if until is None else max(until - time.monotonic(), 0.0)
                if not wait(lambda: not real._is_zero(), True, left, "a lock of multiprocessing") and not left:
                    return False
            return True

        self.acquire = acquire

    def __enter__(self: Any) -> bool:
        return bool(self.acquire()) if _takes_part() else bool(enter(self))

    replace(lock, "_make_methods", _make_methods)
    replace(lock, "__enter__", __enter__)
