"""Interrupts: how an exception gets into the thread that runs a task, and never into the middle of an event in the core."""

from __future__ import annotations

import _thread
import logging
import threading
from collections import deque

from ..core.records import TaskRecord
from ..process import our_code
from ..process.frames import current_frames
from .handles import WorkerHandle
from .inbox import HAS_GIL
from .runtime import Runtime

FIRST_RETRY_S, LAST_RETRY_S = (
    0.001,
    1.0,
)  # a thread inside a call of ours is interrupted again, after twice the time each try
# Code of the standard library that takes a lock of the whole process by a call: an exception that is raised as that call returns
# finds the lock taken and nobody yet bound to give it back. `with` on a lock itself has no such moment.
TAKES_A_LOCK = {logging.Handler.acquire.__code__.co_filename, "<frozen importlib._bootstrap>"}
ENTERS_A_LOCK = {threading.Condition.__enter__.__code__}


class Interrupts:
    """Raises exceptions in the threads of workers. postponed: the arguments of `raise_in` for those that must be tried again."""

    def __init__(self, runtime: Runtime):
        self.runtime = runtime
        self.postponed: deque = deque()

    def raise_in(
        self,
        handle: WorkerHandle,
        error: type[BaseException],
        task: TaskRecord | None = None,
        again_in_s: float = FIRST_RETRY_S,
    ) -> None:
        """Raise in the thread that runs this worker's user code: out of its wait if it waits, at its next bytecode if not.

        A thread that is inside a call of ours is asked again a little later: what the core has told it to do must be done, and
        a reference that was counted must come to somebody. So is one that takes a lock which others need after it. Since the
        core's lock is held here, a thread that is seen in the user's code comes no further than to that lock, and what is raised
        comes out at the first call after it.
        """
        with self.runtime.lock:
            running = handle.user_task
            if running is None or task is not None and running is not task or handle.ident == _thread.get_ident():
                return
            waiter = handle.waiter
            if waiter is not None:
                handle.interrupted = error()
                if task is not None:
                    task.was_interrupted = True
                if waiter.fired:
                    return
                waiter.fired = True
            elif not runs_user_code(handle.ident):
                if again_in_s <= LAST_RETRY_S:
                    self.postponed.append((handle, error, task, 2 * again_in_s))
                    self.runtime.call_later(self.runtime.now() + again_in_s)
                return
            else:
                import ctypes

                handle.sent = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(handle.ident), ctypes.py_object(error))
                if not HAS_GIL:
                    # The thread may be about to take the lock that is held here, and would have it before it looks for what
                    # was raised. This stops all threads where they look.
                    current_frames()
                return
        waiter.token()

    def retry(self) -> None:
        """Try the postponed interrupts again."""
        for _ in range(len(self.postponed)):
            try:
                postponed = self.postponed.popleft()
            except IndexError:  # a generator has taken its own
                break
            self.raise_in(*postponed)

    def take(self, handle: WorkerHandle) -> BaseException | None:
        """The interrupt that was put off for this worker. Asked by its own thread between the items of a generator, to raise it
        there: one that yields all the time is in a call of ours whenever `_raise_in` looks."""
        found = None
        with self.runtime.lock:
            for _ in range(len(self.postponed)):
                try:
                    postponed = self.postponed.popleft()
                except IndexError:  # the timer has them
                    break
                of, error, task, _again = postponed
                if of is not handle:
                    self.postponed.append(postponed)
                elif task is None or task is handle.user_task:
                    found = error()
        return found


def runs_user_code(ident: int) -> bool:
    """Whether a thread is in the user's own code, or a library's, rather than in a call of ours or at a lock that all share."""
    frame = current_frames().get(ident)
    if frame is not None and (frame.f_code.co_filename in TAKES_A_LOCK or frame.f_code in ENTERS_A_LOCK):
        return False
    top = True
    while frame is not None:
        code = frame.f_code
        if code in our_code.entries:
            return not top  # the user's code was called from here
        if code.co_filename.startswith(our_code.FOLDER) and not code.co_filename.startswith(our_code.AS_USERS):
            return False
        frame, top = frame.f_back, False
    return False
