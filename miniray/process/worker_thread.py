"""The `threading.Thread` of a worker's thread.

A worker's thread is started by `_thread`, since `Thread.start` makes the caller wait until the new thread answers: up
to a millisecond if other threads run. So `threading` does not know the thread, and the first `current_thread()` in it,
in a log record for instance, would make a stand-in, a "Dummy" thread. Nobody can join a stand-in; and before Python
3.13, a forked child whose main thread is a stand-in ends with exit code 1. So while a session runs, `current_thread()`
in a worker makes a WorkerThread instead: a complete Thread, as if `Thread.start` had started it. A worker that is never
asked needs none.

This uses what `threading` itself does in a new thread. In a Python where that is not found, the stand-in is made.
"""

from __future__ import annotations

import threading

from .replaced import replace
from .worker_process import LOOP, MAIN, STAMP, WorkerProcess, get_ident, here, serving, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_Dummy: Any = getattr(threading, "_DummyThread", None)
_make_handle: Any = getattr(threading, "_make_thread_handle", None)  # since 3.13


class WorkerThread(threading.Thread):
    """The calling thread, which serves a worker.

    seen_as, seen_daemon: its name, and whether it is a daemon, as the worker's own tasks see them; both are Ray's. The
    threads that a task starts inherit the latter. For everybody else it is a daemon: the interpreter ends without it.
    """

    def __init__(self, process: WorkerProcess, role: str):
        self.__dict__[STAMP] = process
        self._complete = False
        super().__init__(name=f"miniray-{get_ident()}", daemon=True)
        if role == MAIN:
            self.seen_as = "MainThread"
        elif role == LOOP:
            self.seen_as = "AsyncIO Thread: default"
        else:
            process.unnamed_threads += 1
            self.seen_as = f"Dummy-{process.unnamed_threads}"
        self.seen_daemon = role not in (MAIN, LOOP)
        _register(self)
        self._complete = True

    def set_done(self) -> None:
        """The thread ends: nobody needs to wait for it any more."""
        self._complete = False
        if _make_handle is not None:
            getattr(self, _HANDLE)._set_done()

    # `threading` itself asks for the truth before the object is complete.

    def _seen_from_inside(self) -> bool:
        return self._complete and here() is self.__dict__[STAMP]

    @property
    def name(self) -> str:
        """The thread's name."""
        return self.seen_as if self._seen_from_inside() else self._name

    @name.setter
    def name(self, name: str) -> None:
        if self._seen_from_inside():
            self.seen_as = str(name)
        else:
            self._name = str(name)

    @property
    def daemon(self) -> bool:
        """Whether this is a daemon thread."""
        return self.seen_daemon if self._seen_from_inside() else True

    @daemon.setter
    def daemon(self, daemonic: bool) -> None:
        raise RuntimeError("cannot set daemon status of active thread")  # Python's error


_HANDLE = "_os_thread_handle" if hasattr(threading.Thread(), "_os_thread_handle") else "_handle"


def _register(thread: Any) -> None:
    """What `threading` does in a new thread, for the calling one. Raises AttributeError if this Python does
    otherwise."""
    thread._set_ident()
    if hasattr(thread, "_set_native_id"):
        thread._set_native_id()
    if _make_handle is not None:
        setattr(thread, _HANDLE, _make_handle(get_ident()))
    else:
        thread._set_tstate_lock()
    thread._started.set()
    threads[get_ident()] = thread


def _new_dummy(cls: Any) -> Any:
    """Stands in for `_DummyThread.__new__`. In a worker's thread it returns an object of another class, which Python
    then leaves as it is."""
    found = serving.get(get_ident())
    if found is not None:
        try:
            return WorkerThread(*found)
        except AttributeError:
            serving.pop(get_ident(), None)
    return object.__new__(cls)


def install() -> None:
    """Have `current_thread()` make WorkerThreads, until `replaced.restore_all`."""
    if _Dummy is not None:
        replace(_Dummy, "__new__", _new_dummy)
