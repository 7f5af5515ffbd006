"""The threaded runtime: each worker is a thread, and each actor has a thread of its own.

Theory of operation.

Threads. `start_worker` makes a `WorkerHandle` and starts a thread for it through `_thread`, since
`threading.Thread.start` waits until the new thread answers (see `process.worker_thread` for what tasks see of it). The
thread runs `_thread_main`: it reports `worker_started`, then serves tasks until it is told to end. A worker's thread
outlives its tasks; an actor's thread lives as long as the actor, since the actor's state may be bound to the thread. An
async actor's thread runs an event loop instead of `_serve` (see `async_worker`). `threads` holds the handles whose
thread has not ended; `handle.done` is a lock that opens when the thread ends.

Inboxes. Each thread has an inbox (see `inbox`) and sleeps in `inbox.get` while it is idle, without using any CPU. Any
thread that carries out a RunTask action puts the task into the worker's inbox. None in the inbox means: end.

The next task. There is no dispatcher. A worker that has finished a task reports the outcome, and in the same step,
under the same lock, the core may give it the next task: `report` returns `worker.task`, and `_serve` runs it at once.
No action is carried out, and no other thread has to wake up. The worker sleeps on its inbox only if `report` returns
None.

Starting actors' threads. A program may create a thousand actors at once; the thread that does so must not wait for a
thousand threads to start. So at most STARTING_AT_A_TIME threads of actors are starting at any time: `start_permits`
holds one item for each thread that may start, and `unstarted` the workers in the queue. A new thread gives its permit
back when it has come up, and starts the next thread. Ray also limits how many workers may be starting. The threads of
workers for normal tasks need no such limit: the core asks only for as many as it needs to use all CPUs.

How a thread is ended. An idle worker gets None through its inbox (`stop_worker`). A worker that is killed is already
dead in the core; its thread gets None as well, and if it runs user code, WorkerExit is raised there (see `interrupts`).
`_serve` leaves its loop as soon as it sees that the worker is dead, and the core ignores anything that a dead worker
reports. An event loop is stopped, which cancels its coroutines. A thread in C code cannot be interrupted; it is left
behind and ends when the C code returns.

Shutdown. `end_session` closes the session, wakes every thread of the driver that waits, and kills the workers. It waits
for the idle workers a few at a time (`end_workers`): thousands of awake threads would compete for the GIL. Then
`shutdown` waits up to JOIN_S seconds in all for the remaining threads. A thread that was inside one of our calls could
not be interrupted, so the interrupt is repeated, after twice the time on each try. A thread that is still running after
that is left behind; it is a daemon and does not keep the process alive.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections import deque
from contextvars import Context
from signal import SIGINT
from types import FrameType

from ..core.records import Failure, TaskRecord, WorkerRecord
from ..core.transitions import WorkerStatus
from ..process import random_numbers, worker_signals
from ..process.exits import SessionEnded, TaskInterrupt, WorkerExit
from ..process.worker_process import LOOP, MAIN, POOL, thread_begins, thread_ends
from . import async_exceptions
from .core_lock import HAS_GIL
from .ending import end_session
from .frames import current_frames
from .handles import WorkerHandle, clear_async_exception, new_handle
from .inbox import NO_INBOX, new_inbox
from .interrupts import FIRST_RETRY_S, Interrupts
from .outcomes import failed
from .runtime import Runtime
from .timers import Timers
from .verbs import Verbs
from .worker import end_process, kill_children, report, run_attempt, shut_down, unwanted_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

DEAD = WorkerStatus.DEAD
STARTING_AT_A_TIME = 4  # how many threads of actors may be starting at the same time
IDLE_JOIN_S = 0.1  # how long the end of a session waits for each idle worker
JOIN_S = 1.0  # how long shutdown waits for all threads together
USER_CODE_JOIN_S = 0.1  # how long shutdown waits for an interrupted thread, which may be in C code that does not return
# In CPython 3.11 a traced thread stops while an asynchronous exception is pending for another thread. An exception that
# never arrives, because its thread was left behind, would stop every debugger and every coverage run that is started
# later.
CPYTHON_3_11 = sys.version_info[:2] == (3, 11)


class ThreadedRuntime(Runtime):
    """Carries out the core's actions with threads.

    start_thread, new_inbox: how threads and inboxes are made; the simulated runtime has its own. threads: the handles
    whose thread has not ended. unstarted: workers of actors whose threads are not started yet.
    start_permits: one item for each further thread of an actor that may start now. The three are changed without a
    lock, by single operations that are atomic.
    """

    def __init__(self, options: dict[str, Any], dropped: deque[Any]):
        super().__init__(options, dropped)
        self.start_thread: Callable[..., Any] = _thread.start_new_thread
        self.new_inbox: Callable[[], Any] = new_inbox
        self.timers = Timers(self.timer)
        self.interrupts = Interrupts(self)
        self.postponed = self.interrupts.postponed
        self.threads: dict[WorkerHandle, None] = {}
        self.unstarted: deque[WorkerRecord] = deque()
        self.start_permits: deque[None] = deque([None] * STARTING_AT_A_TIME)
        if not HAS_GIL:
            async_exceptions.load()

    # ------------------------------------------------------------ workers

    def start_worker(self, worker: WorkerRecord) -> None:
        """Start the worker's thread, or put it into the queue if it is an actor's and too many are starting."""
        if worker.actor is None:
            self._start_thread(worker)
        else:
            self.unstarted.append(worker)
            self._start_next()

    def _start_next(self) -> None:
        while self.unstarted:
            try:
                self.start_permits.pop()
            except IndexError:
                return  # each thread that is starting now calls this when it has come up
            try:
                worker = self.unstarted.popleft()
            except IndexError:
                # Another thread took the worker. Look again: one may have been added before the permit was back.
                self.start_permits.append(None)
                continue
            if worker.status is DEAD:  # its actor was killed or dropped meanwhile, so it needs no thread
                self.start_permits.append(None)
            else:
                self._start_thread(worker)

    def _start_thread(self, worker: WorkerRecord) -> None:
        """Start the worker's thread. If that fails, for whatever reason, the worker has died: nobody may wait for
        it.
        """
        handle = None
        try:
            if "numpy.random" in sys.modules:
                random_numbers.install_numpy()
            handle = self._new_handle(worker)
            worker.handle = handle
            self.threads[handle] = None
            if worker.status is DEAD or self.closed:  # killed before it had a handle, so `kill_worker` did nothing
                handle.inbox.put(None)
            self.start_thread(self._thread_main, (worker, handle))
        except Exception as error:  # no more threads, descriptors or memory
            if worker.actor is not None:
                self.start_permits.append(None)
            if handle is not None:
                self.threads.pop(handle, None)
                worker.handle = None
                handle.done.release()
                handle.inbox = NO_INBOX
            self.crash(worker, f"its thread could not be started: {error!r}")

    def _new_handle(self, worker: WorkerRecord) -> WorkerHandle:
        handle = new_handle(worker)
        handle.done = self.allocate_lock()
        handle.done.acquire()
        if worker.actor is not None and worker.actor.is_async:
            handle.loop = self.new_loop(worker, handle)
        handle.inbox = self.new_inbox()  # last, since it may hold descriptors
        return handle

    def new_loop(self, worker: WorkerRecord, handle: WorkerHandle) -> Any:
        """The AsyncWorker of an async actor's thread."""
        from .async_worker import AsyncWorker  # imports asyncio, which only programs with async actors need

        return AsyncWorker(self, worker, handle)

    def _thread_main(self, worker: WorkerRecord, handle: WorkerHandle) -> None:
        handle.ident = _thread.get_ident()
        actor = worker.actor
        thread_begins(handle, MAIN if actor is None or actor.in_order else LOOP if actor.is_async else POOL)
        if threading.gettrace() is not None:  # set by a debugger or coverage; threading.Thread does the same
            sys.settrace(threading.gettrace())
        if threading.getprofile() is not None:
            sys.setprofile(threading.getprofile())
        starting = actor is not None  # whether this thread still holds one of start_permits
        try:
            self.tell(self.cluster.worker_started, worker)
            if starting:
                starting = False
                self.start_permits.append(None)
                self._start_next()
            if handle.loop is not None:
                handle.loop.run()
            else:
                self._serve(worker, handle)
        except (TaskInterrupt, WorkerExit, SessionEnded):
            discard_interrupt(handle)  # the exception was meant for a task that is already over
        except BaseException as error:  # a mistake of ours, or there is no memory
            self.crash(worker, f"its thread has ended: {error!r}")
            raise  # the interpreter prints it
        finally:
            if starting:
                self.start_permits.append(None)
                self._start_next()
            if unwanted_end(worker) and not self.closed:
                shut_down(handle, handle.context if handle.context is not None else Context())
            end_process(self, worker, handle)
            handle.instance = handle.space = None  # others may still hold the handle
            handle.methods = {}
            handle.inbox = NO_INBOX
            self.worker_ended(worker)
            thread_ends()
            self.threads.pop(handle, None)
            with self.lock:  # other threads read worker.handle, and what it holds, under this lock
                worker.handle = None  # the core keeps the record of a dead worker; the handle need not live as long
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
                # No name for an empty context: it ends here, with what the task has put into it.
                outcome = (Context() if handle.context is None else handle.context).run(run_attempt, self, worker, task)
                task = report(self, worker, task, outcome)
                del outcome
            except (TaskInterrupt, WorkerExit):
                task = self._interrupted_late(worker, handle, task)

    def _interrupted_late(self, worker: WorkerRecord, handle: WorkerHandle, task: TaskRecord) -> TaskRecord | None:
        """An interrupt was raised outside of the task's code: before it, or between its end and its report. If the
        attempt has not been reported yet, report it as cancelled. Returns the worker's next task."""
        clear_async_exception(handle)
        if worker.status is DEAD or worker.task is not task or task.worker is not worker:
            following: TaskRecord | None = worker.task
            return following
        return report(self, worker, task, failed(Failure("TASK_CANCELLED", "it was cancelled", about=task)))

    def run_task(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Put a task into the worker's inbox, or hand it to the actor's event loop."""
        handle = worker.handle
        if handle is None:  # the worker has died since, and its thread has ended
            return
        if handle.loop is not None:
            handle.loop.post(task)
        else:
            handle.inbox.put(task)

    def stop_worker(self, worker: WorkerRecord) -> None:
        """Tell an idle worker to end, through its inbox."""
        handle = worker.handle
        if handle is not None:  # None if the session is ending and the thread has already ended
            handle.inbox.put(None)

    def kill_worker(self, worker: WorkerRecord) -> None:
        """End the thread of a worker that the core has declared dead: wake it, or raise WorkerExit in the code that it
        runs. A thread in C code is left behind."""
        handle = worker.handle
        if handle is None:  # the thread has ended, or has not been started and will then see that the worker is dead
            return
        handle.inbox.put(None)
        if handle.process.children and handle.user_task is not None:  # it may be waiting for one of them, in C code
            kill_children(self, handle, reap=False)
        if handle.loop is None or handle.waiter is not None:
            self.interrupts.raise_in(handle, WorkerExit)
        if handle.loop is not None:  # its coroutines are cancelled; one that blocks the loop ends when it returns
            handle.loop.stop()

    def end_workers(self, workers: list[WorkerRecord]) -> None:
        """Kill some of the workers of a session that ends, and wait for the idle ones among them. Thousands of awake
        threads would slow each other down, since each thread that waits for the GIL asks for it every few
        milliseconds."""
        handles = [worker.handle for worker in workers]
        super().end_workers(workers)
        for handle in handles:
            if (
                handle is not None
                and handle.user_task is None
                and handle.loop is None
                and handle.ident != _thread.get_ident()
                and handle.done.acquire(True, IDLE_JOIN_S)
            ):
                handle.done.release()

    def interrupt(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Raise KeyboardInterrupt in the task's code, or cancel its coroutine, if it still runs."""
        handle = worker.handle
        if handle is None:
            return
        if handle.loop is not None:
            handle.loop.cancel(task)
        elif handle.process.signals is not None and worker_signals.handles_interrupts(handle.process):
            task.was_interrupted = True  # whatever the handler makes of it
            worker_signals.act(handle.process, SIGINT, by_python=True)
        else:
            self.interrupts.raise_in(handle, TaskInterrupt, task)

    def interrupt_wait(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Raise KeyboardInterrupt in a call of a plain actor if it is in `get` or `wait`. If it is not, its next wait
        raises it (see `waiting`)."""
        if worker.handle is not None:
            self.interrupts.raise_in_wait(worker.handle, TaskInterrupt(), task)

    def raise_in_task(self, handle: WorkerHandle, error: Any, task: TaskRecord) -> None:
        """Raise an exception in a task, if it still runs. error: a class, which Python calls there."""
        self.interrupts.raise_in(handle, error, task)

    def frames(self) -> dict[int, FrameType]:
        """The innermost frame of every thread, by the thread's ident."""
        return current_frames()

    def crash(self, worker: WorkerRecord, why: str) -> None:
        """End a worker as if its process had died. Called on any thread."""
        self.tell(self.cluster.worker_died, worker, Failure("WORKER_DIED", why, about=worker))

    def timer(self) -> None:
        """Called at each time that was given to `call_later`: retry the postponed interrupts, then tell the core."""
        self.interrupts.retry()
        super().timer()

    def take_postponed(self, handle: WorkerHandle) -> BaseException | None:
        """Remove and return the interrupt that was postponed for this worker; None if there is none."""
        return self.interrupts.take(handle)

    def call_later(self, at: float) -> None:
        """Have `timer` called at this time on the runtime's clock, by the thread of `timers`."""
        self.timers.add(at)

    # ------------------------------------------------------------ the end

    def shutdown(self) -> None:
        """Stop every worker, wake every waiter, drop every value. Leaves behind a thread that cannot be interrupted."""
        threads = list(self.threads)
        self.timers.stop()
        end_session(self)
        deadline = self.now() + JOIN_S
        for handle in threads:
            if handle.ident == _thread.get_ident():
                continue
            again_in_s = FIRST_RETRY_S
            while True:
                patience = max(0.0, deadline - self.now())
                if handle.user_task is not None and handle.waiter is None:
                    patience = min(
                        patience, again_in_s if handle.loop is None and not handle.sent else USER_CODE_JOIN_S
                    )
                if handle.done.acquire(True, patience) or handle.sent or self.now() >= deadline:
                    break
                # The thread was inside a call of ours when it was last interrupted, or a coroutine blocks its loop.
                self.interrupts.raise_in(handle, WorkerExit)
                again_in_s *= 2
            if handle.sent and handle.done.locked() and (threading.gettrace() is not None or CPYTHON_3_11):
                clear_async_exception(handle)


def discard_interrupt(handle: WorkerHandle) -> None:
    """The thread is about to end: take back an asynchronous exception that has not been raised in it yet."""
    if handle.sent:
        clear_async_exception(handle)


_complete: type[Verbs] = ThreadedRuntime  # an error for mypy if a verb is missing
