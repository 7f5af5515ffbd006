"""The threaded runtime: each worker is a thread, each actor has one of its own.

A worker that ends a task takes its next in the same step in which it reports; there is no dispatcher. Idle workers are parked on
their inboxes and use no CPU. Threads are started through `_thread`: `threading.Thread.start` waits for the new thread to answer.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections import deque
from contextvars import Context
from typing import Any

from ..core.records import Failure, TaskRecord, WorkerRecord
from ..core.transitions import WorkerStatus
from ..process.exits import SessionEnded, TaskInterrupt, WorkerExit
from ..values.spaces import Space
from .ending import end_session
from .handles import WorkerHandle, actor_handle, clear_async_exception
from .inbox import new_inbox
from .interrupts import FIRST_RETRY_S, Interrupts
from .outcomes import Outcome
from .runtime import Runtime
from .timers import Timers
from .worker import report, run_attempt, shut_down, unwanted_end

DEAD = WorkerStatus.DEAD
STARTING_AT_A_TIME = 4  # threads of actors that have been ordered and have not come up
ENDS_WITHIN_S = 0.1  # how long the end of a session waits for a worker that is idle
JOIN_S = 1.0  # how long shutdown waits for threads that were told to end
IN_USER_CODE_S = 0.1  # and for one of them that was interrupted, and may be in C code that goes on
# There a traced thread does not go on while an exception is on its way to another: one that never arrives, to a thread that
# was left behind, would stop every debugger and coverage that is started later.
CPYTHON_3_11 = sys.version_info[:2] == (3, 11)


class ThreadedRuntime(Runtime):
    """Carries out the core's actions with threads."""

    def __init__(self, options: dict[str, Any], dropped: deque):
        super().__init__(options, dropped)
        self.timers = Timers(self.timer)
        self.interrupts = Interrupts(self)
        self.postponed = self.interrupts.postponed
        self.threads: dict[WorkerHandle, None] = {}  # handles whose thread has not ended
        self.unstarted: deque[WorkerRecord] = deque()  # workers of actors whose threads are still to be started
        self.may_start: deque[None] = deque([None] * STARTING_AT_A_TIME)  # one for each that may be starting

    # ------------------------------------------------------------ workers

    def start_worker(self, worker: WorkerRecord) -> None:
        """Start the worker's thread. Those of actors are started a few at a time, the next by one that has come up: whoever makes
        a thousand actors does not wait for a thousand threads. Ray limits how many workers may be starting, too."""
        if worker.actor is None:
            self._start_thread(worker)
        else:
            self.unstarted.append(worker)
            self._start_next()

    def _start_next(self) -> None:
        while self.unstarted:
            try:
                self.may_start.pop()
            except IndexError:
                return  # who is starting now comes here when it has come up
            try:
                worker = self.unstarted.popleft()
            except IndexError:
                self.may_start.append(None)  # somebody else took it; one may have come between the two
                continue
            if worker.status is DEAD:  # it was killed, or nobody wants it any more: it need not start
                self.may_start.append(None)
            else:
                self._start_thread(worker)

    def _start_thread(self, worker: WorkerRecord) -> None:
        actor = worker.actor
        first = actor_handle(worker)  # of an actor's further threads
        space = first.space if first is not None else Space()
        handle = WorkerHandle(worker, space)
        handle.done = _thread.allocate_lock()
        handle.done.acquire()
        handle.inbox = new_inbox()
        if actor is not None and actor.is_async:
            from .async_worker import AsyncWorker  # and asyncio with it, when the first async actor is made

            handle.loop = AsyncWorker(self, worker, handle)
        worker.handle = handle
        self.threads[handle] = None
        if worker.status is DEAD or self.closed:  # it was killed between the order and now, or comes after the end
            handle.inbox.put(None)
        try:
            _thread.start_new_thread(self._thread_main, (worker, handle))
        except RuntimeError as error:  # the system has no thread left for us
            self.threads.pop(handle, None)
            handle.done.release()
            handle.inbox.close()
            if actor is not None:
                self.may_start.append(None)
            self.tell(
                self.cluster.worker_died,
                worker,
                Failure("WORKER_DIED", f"its thread could not be started: {error}", about=worker),
            )

    def _thread_main(self, worker: WorkerRecord, handle: WorkerHandle) -> None:
        handle.ident = _thread.get_ident()
        if threading.gettrace() is not None:  # a debugger's, or coverage's: as threading.Thread does it
            sys.settrace(threading.gettrace())
        if threading.getprofile() is not None:
            sys.setprofile(threading.getprofile())
        try:
            self.tell(self.cluster.worker_started, worker)
            if worker.actor is not None:
                self.may_start.append(None)
                self._start_next()
            if handle.loop is not None:
                handle.loop.run()
            else:
                self._serve(worker, handle)
        except (TaskInterrupt, WorkerExit, SessionEnded):
            pass_on(handle)  # it hit this thread after its task was over
        finally:
            if unwanted_end(worker) and not self.closed:
                shut_down(handle, Context())
            handle.instance = handle.space = None  # the record of a dead worker is kept, and its handle with it
            handle.inbox.close()
            self.worker_ended(worker)
            forget_thread()
            self.threads.pop(handle, None)
            with self.lock:  # under which others look at what the handle has, once they have seen one
                worker.handle = None  # the record of a dead worker is kept, and would keep all that it had
            handle.done.release()

    def _serve(self, worker: WorkerRecord, handle: WorkerHandle) -> None:
        """Run tasks until the worker is stopped or dead."""
        next_task = handle.inbox.get
        task = worker.task
        while worker.status is not DEAD:
            if task is None:
                task = next_task()
                if task is None:
                    return
            try:
                outcome = run_attempt(self, worker, task)
                task = report(self, worker, task, outcome)
                del outcome
            except (TaskInterrupt, WorkerExit):
                task = self._interrupted_late(worker, handle, task)

    def _interrupted_late(self, worker: WorkerRecord, handle: WorkerHandle, task: TaskRecord) -> TaskRecord | None:
        """An interrupt was raised between the task's end and its report, or in our own code: report it as what it is."""
        clear_async_exception(handle)
        if worker.status is DEAD or worker.task is not task or task.worker is not worker:
            return worker.task
        return report(self, worker, task, Outcome(failure=Failure("TASK_CANCELLED", "it was cancelled", about=task)))

    def run_task(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Put a task into the worker's inbox."""
        handle = worker.handle
        if handle is None:  # it has died since, and its thread has ended
            return
        if handle.loop is not None:
            handle.loop.post(task)
        else:
            handle.inbox.put(task)

    def stop_worker(self, worker: WorkerRecord) -> None:
        """An idle worker's inbox tells it to end."""
        handle = worker.handle
        if handle is not None:  # else the session has ended, and its thread before this
            handle.inbox.put(None)

    def kill_worker(self, worker: WorkerRecord) -> None:
        """Wake the worker, or raise in its thread, so that it ends; a thread that sits in C code is left behind."""
        handle = worker.handle
        if handle is None:  # its thread has ended, or else will see that it is dead when it is started
            return
        handle.inbox.put(None)
        if handle.loop is None or handle.waiter is not None:
            self.interrupts.raise_in(handle, WorkerExit)
        if handle.loop is not None:  # its coroutines are cancelled; one that blocks the loop ends when it returns
            handle.loop.stop()

    def end_workers(self, workers: list[WorkerRecord]) -> None:
        """Kill them, and wait for those that are idle: thousands of threads that are awake at once would stand in each other's way,
        since each that waits for the GIL asks for it every few milliseconds."""
        handles = [worker.handle for worker in workers]
        super().end_workers(workers)
        for handle in handles:
            if (
                handle is not None
                and handle.user_task is None
                and handle.loop is None
                and handle.ident != _thread.get_ident()
                and handle.done.acquire(True, ENDS_WITHIN_S)
            ):
                handle.done.release()

    def interrupt(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Raise KeyboardInterrupt in the task's code, or cancel its coroutine."""
        handle = worker.handle
        if handle is None:
            return
        if handle.loop is not None:
            handle.loop.cancel(task)
        else:
            self.interrupts.raise_in(handle, TaskInterrupt, task)

    def timer(self) -> None:
        """A time that was asked for has come: postponed interrupts are tried again, and the core has its turn."""
        self.interrupts.retry()
        super().timer()

    def take_postponed(self, handle: WorkerHandle) -> BaseException | None:
        """The interrupt that was postponed for this worker."""
        return self.interrupts.take(handle)

    def call_later(self, at: float) -> None:
        """Have `timer` called at this time, by a thread that lives only while something is due."""
        self.timers.add(at, self.now())

    # ------------------------------------------------------------ the end

    def shutdown(self) -> None:
        """Stop every worker, wake every waiter, drop every value. A thread in code that cannot be interrupted is left behind."""
        threads = list(self.threads)
        self.timers.stop()
        end_session(self)
        deadline = self.now() + JOIN_S
        for handle in threads:
            if handle.ident == _thread.get_ident():
                continue
            again_in_s = FIRST_RETRY_S
            while True:
                patience = max(0.0, deadline - self.now())  # all together wait no longer than JOIN_S
                if handle.user_task is not None and handle.waiter is None:
                    patience = min(patience, again_in_s if handle.loop is None and not handle.sent else IN_USER_CODE_S)
                if handle.done.acquire(True, patience) or handle.sent or self.now() >= deadline:
                    break
                self.interrupts.raise_in(handle, WorkerExit)  # it was in a call of ours, or a coroutine blocks its loop
                again_in_s *= 2
            if handle.sent and handle.done.locked() and (threading.gettrace() is not None or CPYTHON_3_11):
                clear_async_exception(handle)


def pass_on(handle: WorkerHandle) -> None:
    """The thread ends: an exception still on its way to it goes nowhere."""
    if handle.sent:
        clear_async_exception(handle)


def forget_thread() -> None:
    """`threading.current_thread()` in user code made an entry for this thread, which threading keeps for ever before 3.12."""
    active = getattr(threading, "_active", None)
    if active is not None:
        active.pop(_thread.get_ident(), None)
