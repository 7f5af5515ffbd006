"""Interrupts: how an exception gets into the thread that runs a task, but never into an event of the core."""

from __future__ import annotations

import _thread
import importlib
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from ..core.records import TaskRecord
from ..process import our_code
from .frames import current_frames
from . import async_exceptions
from .core_lock import HAS_GIL
from .handles import WorkerHandle
from .runtime import Runtime

# If a thread cannot be interrupted now, try again after this time, and after twice the time on each further try.
FIRST_RETRY_S, LAST_RETRY_S = 0.001, 1.0
# Files and functions of the standard library in which a lock of the whole process is acquired by a call. An exception
# that is raised as this call returns finds the lock taken, while no `with` or `finally` is responsible for its release
# yet. A `with` statement on the lock itself has no such gap. The first is the file of `logging`, which is not imported
# just for its name.
FILES_THAT_ACQUIRE = {
    os.path.join(os.path.dirname(threading.__file__), "logging", "__init__.py"),
    "<frozen importlib._bootstrap>",
}
FUNCTIONS_THAT_ACQUIRE = {threading.Condition.__enter__.__code__}


class Interrupt:
    """An exception that is to be raised in the thread of a worker.

    task: in whose user code; None for any. due: when to try again, on the runtime's clock. again_in_s: how long after a
    try that is to be.
    """

    __slots__ = ("handle", "error", "task", "due", "again_in_s")

    def __init__(self, handle: WorkerHandle, error: type[BaseException], task: TaskRecord | None):
        self.handle = handle
        self.error = error
        self.task = task
        self.due = 0.0
        self.again_in_s = FIRST_RETRY_S


class Interrupts:
    """Raises exceptions in the threads of workers.

    postponed: the interrupts that must be tried again. The list changes under the core's lock only, and an interrupt is
    in it until it is raised or dropped: a thread that looks without the lock finds every one that is still to come.
    """

    def __init__(self, runtime: Runtime):
        self.runtime = runtime
        if not HAS_GIL:  # later, beside busy threads, the import takes seconds, in which the core's lock is held
            importlib.import_module("ctypes")
        self.postponed: list[Interrupt] = []

    def raise_in(self, handle: WorkerHandle, error: type[BaseException], task: TaskRecord | None = None) -> None:
        """Raise `error` in the thread that runs this worker's user code: out of its wait if it waits, otherwise at its
        next bytecode. Does nothing if no user code runs, if it is another task's (task: None for any), or on the thread
        itself.

        If the thread is inside a call of ours the interrupt is postponed: the thread must carry out what the core has
        ordered, and pass on each reference that was counted. It is also postponed if the thread is acquiring a lock of
        the whole process. After the try in LAST_RETRY_S seconds the interrupt is dropped.
        """
        self._try(Interrupt(handle, error, task))

    def retry(self) -> None:
        """Try each postponed interrupt again that is due. Called by the runtime's timer."""
        now = self.runtime.now()
        for interrupt in self.postponed.copy():
            if interrupt.due <= now:
                self._try(interrupt, again=True)

    def _try(self, interrupt: Interrupt, again: bool = False) -> None:
        raised = interrupt.error()  # not under the lock: it may be a class of the program's
        with self.runtime.lock:
            if again and interrupt not in self.postponed:  # its thread has taken it
                return
            then = self._raise_or_postpone(interrupt, raised)
            postpone = then in (self._try_later, self._load_and_try)
            if postpone and not again:
                self.postponed.append(interrupt)
            elif again and not postpone:
                self.postponed.remove(interrupt)
        if then is not None:
            then(interrupt)

    def _raise_or_postpone(self, interrupt: Interrupt, raised: BaseException) -> Callable[[Interrupt], None] | None:
        """Raise the interrupt now, if that can be done. Returns what is left to do without the lock.

        The core's lock is held. So a thread that we find in user code can come no further than to that lock, and the
        exception is raised at the latest at the first call after that.
        """
        handle, task = interrupt.handle, interrupt.task
        running = handle.user_task
        if running is None or task is not None and running is not task or handle.ident == _thread.get_ident():
            return None
        waiter = handle.waiter
        if waiter is not None:
            handle.interrupted = raised
            if task is not None and task.cancel_requested:
                task.was_interrupted = True
            if waiter.fired:
                return None
            waiter.fired = True
            return lambda interrupt: waiter.token()
        if not runs_user_code(handle.ident):
            if interrupt.again_in_s > LAST_RETRY_S:
                return None
            interrupt.due = self.runtime.now() + interrupt.again_in_s
            interrupt.again_in_s *= 2
            return self._try_later
        if not async_exceptions.loaded():  # not under the lock: without the GIL it may take seconds
            return self._load_and_try
        handle.sent = True
        async_exceptions.send(handle.ident, interrupt.error)
        if not HAS_GIL:
            # Without the GIL the thread may be about to take the lock that is held here, and would have the lock before
            # it checks for exceptions. Listing the frames stops every thread at a point where it does check.
            current_frames()
        return lambda interrupt: wake_event_loop(handle.ident)

    def _try_later(self, interrupt: Interrupt) -> None:
        self.runtime.call_later(interrupt.due)

    def _load_and_try(self, interrupt: Interrupt) -> None:
        async_exceptions.load()
        self._try(interrupt, again=True)

    def raise_in_wait(self, handle: WorkerHandle, error: BaseException, task: TaskRecord) -> None:
        """Raise `error` out of the `get` or `wait` in which the task is. Does nothing if the task is not in one: it may
        be in `time.sleep`, or in code of its own."""
        with self.runtime.lock:
            waiter = handle.waiter
            if handle.user_task is not task or waiter is None or not handle.waiting:
                return
            handle.interrupted = error
            task.was_interrupted = True
            if waiter.fired:
                return
            waiter.fired = True
        waiter.token()

    def take(self, handle: WorkerHandle) -> BaseException | None:
        """Remove and return the interrupt that was postponed for this worker; None if there is none.

        Called by the worker's own thread between two items of a generator, and raised there: a generator that does
        nothing but yield is inside a call of ours nearly every time that `raise_in` looks.
        """
        found = None
        with self.runtime.lock:
            for interrupt in self.postponed.copy():
                if interrupt.handle is handle:
                    self.postponed.remove(interrupt)
                    if interrupt.task is None or interrupt.task is handle.user_task:
                        found = interrupt.error
        return found() if found is not None else None


def wake_event_loop(ident: int) -> None:
    """Wake the event loop that a task runs in this thread, if there is one. The loop may sleep in C code, where the
    exception that was sent to the thread is not raised."""
    asyncio = sys.modules.get("asyncio")
    frame = current_frames().get(ident) if asyncio is not None else None
    while frame is not None:
        if frame.f_code is asyncio.BaseEventLoop.run_forever.__code__:  # type: ignore[union-attr]
            with suppress(RuntimeError):  # the loop has been closed
                frame.f_locals["self"].call_soon_threadsafe(int)
            return
        frame = frame.f_back


def runs_user_code(ident: int) -> bool:
    """Whether the thread runs the user's code or a library called by it, and may be interrupted: it is neither inside a
    call of ours nor acquiring a lock of the whole process."""
    frame = current_frames().get(ident)
    if frame is not None and (frame.f_code.co_filename in FILES_THAT_ACQUIRE or frame.f_code in FUNCTIONS_THAT_ACQUIRE):
        return False
    top = True
    while frame is not None:
        code = frame.f_code
        if code in our_code.entries:
            return not top  # at the top it is our own code; further down, it has called the user's code
        if code.co_filename.startswith(our_code.FOLDER) and not code.co_filename.startswith(our_code.AS_USERS):
            return False
        frame, top = frame.f_back, False
    return False
