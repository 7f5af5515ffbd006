"""local_mode: the same core, and each task runs at once on the thread that makes it possible to run.

A debugger steps straight into a task, and what tasks print comes in the order of the program. The price: a thread that
has to wait cannot leave the work to another thread. It runs tasks itself instead of sleeping (`park`), and if nothing
is left to run, and no other thread of the driver could change that, the wait raises DeadlockError. So a task that
another thread must unblock, or that waits for a later call of the program, cannot be waited for here.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections import deque
from contextvars import Context
from functools import partial
from heapq import heappop, heappush
from typing import Any, Callable

from ..core.records import TaskRecord, WorkerRecord
from ..core.transitions import WorkerStatus
from ..process import signal_handlers
from ..process.context import Execution, current
from ..process.event_loops import outside_of_event_loops
from .frames import current_frames
from .ending import end_session
from .handles import new_handle
from .outcomes import Outcome
from .runtime import Runtime
from .verbs import Verbs
from .waiting import get_ident
from .worker import end_process, report, run_attempt

BLOCKED, DEAD = WorkerStatus.BLOCKED, WorkerStatus.DEAD


class Bell:
    """The lock of a waiter in local_mode. A thread sleeps on `gate`, which opens for two reasons: the wait is over
    (`release`), or there may be work to run (`ring`). `acquire` then tells which."""

    __slots__ = ("gate", "_opened", "_taken")

    def __init__(self) -> None:
        self.gate = _thread.allocate_lock()
        self._opened, self._taken = True, False

    def acquire(self, blocking: bool = True) -> bool:
        """The first call closes the bell. Later calls do not block: they return whether the wait is over."""
        if not self._taken:
            self._taken, self._opened = True, False
            return self.gate.acquire()
        return self._opened

    def release(self) -> None:
        """The wait is over."""
        self._opened = True
        self.ring()

    def ring(self) -> None:
        """Open the gate. Whether one thread rings or several, the sleeper looks around once afterwards."""
        try:
            self.gate.release()
        except RuntimeError:  # the gate is already open
            return


class LocalRuntime(Runtime):
    """Carries out the core's actions on the spot.

    runnable: attempts to begin, and event loops that can continue; any thread may run them. delayed: a heap of (time,
    order, function) of event loops that wait for a timer. parked: the bells of threads that have found nothing to run.
    awaited: for each thread the records that its innermost wait is for, and whether this wait has a timeout.
    """

    local = True
    allocate_lock = Bell  # type: ignore[assignment]
    stuck_after_s = 0.0

    def __init__(self, options: dict[str, Any], dropped: deque[Any]):
        super().__init__(options, dropped)
        self.runnable: deque[Callable[[], None]] = deque()
        self.delayed: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0  # of the last item of `delayed`; it decides between items with the same time
        self._delayed_lock = self.lock  # guards these two: no code that could come back here runs under the core's lock
        self.parked: dict[Bell, None] = {}
        # A woken task continues only when the tasks above it on the stack have returned, so it cannot take its CPU back
        # yet.
        self.cluster.resumes_at_wake = False
        self._here = threading.local()  # .reporting: this thread is reporting the end of a task that it ran
        self.awaited: dict[int, tuple[list[Any], bool]] = {}

    def carry_out(self, actions: list[Any]) -> None:
        """Carry out the actions, and run everything that they made possible before this call returns.

        If the caller is a task, it lends its CPU meanwhile, unless it is an actor's or waits and has lent the CPU
        already.
        """
        execution = current.get()
        lender = execution.worker if execution is not None and execution.thread == get_ident() else None
        super().carry_out(actions)
        if getattr(self._here, "reporting", False) or not self.runnable and not self.cluster.scheduler.waiting:
            return  # the loop that ran the task will run what is runnable now
        if lender is None or lender.actor is not None or lender.status is BLOCKED:
            self._run_all()
            return
        with self.lock:
            more = self.cluster.blocked(self.now(), lender)
        super().carry_out(more)
        try:
            self._run_all()
        finally:
            with self.lock:
                self.cluster.unblocked(self.now(), lender)

    def wait_for(self, objects: list[Any], need: int, fail_fast: bool, timeout: float | None) -> bool:
        """See `Waiting.wait_for`. Keeps `awaited` up to date: waits of one thread are nested."""
        ident = get_ident()
        outer = self.awaited.get(ident)
        self.awaited[ident] = objects, timeout is not None
        try:
            return super().wait_for(objects, need, fail_fast, timeout)
        finally:
            if outer is None:
                del self.awaited[ident]
            else:
                self.awaited[ident] = outer

    def waits_forever(self, ident: int) -> bool:
        """Whether this thread waits, and its innermost wait has no timeout."""
        _, timed = self.awaited.get(ident, ((), True))
        return not timed

    def park(self, lock: Any, timeout: float | None) -> bool:
        """Wait until the lock opens, and meanwhile run what is runnable and, when its time has come, what is delayed:
        the wait may depend on it. Sleeps only when there is nothing to run.

        timeout: seconds; None waits forever. Returns False if the time ran out. Without a timeout, and with nothing
        left to run, calls the stuck check, which may raise DeadlockError.
        """
        deadline = None if timeout is None else self.now() + timeout
        try:
            while not lock.acquire(False):
                # Enter `parked` before looking for work: a thread that adds work after we looked finds our bell and
                # rings it.
                self.parked[lock] = None
                if self.runnable:
                    self.parked.pop(lock, None)
                    self._run_one()
                    continue
                now, due = self.now(), self._first_due()
                if due is not None and due <= now:
                    self._collect_due()
                    continue
                if deadline is not None and deadline <= now:
                    opened: bool = lock.acquire(False)
                    return opened
                until = [at for at in (due, deadline) if at is not None]
                if not until and self.stuck is not None:
                    self.stuck(self.awaited[get_ident()][0])
                super().park(lock.gate, min(until) - now if until else None)
            return True
        finally:
            self.parked.pop(lock, None)
            if self.parked and (self.runnable or self.delayed):
                self.ring()  # this thread runs nothing more, so another parked thread must look for work

    def ring(self) -> None:
        """Let one parked thread look for work. All other threads look when they park, or when they make a call."""
        try:
            bell, _ = self.parked.popitem()
        except KeyError:
            return
        bell.ring()

    def run_soon(self, run: Callable[[], None]) -> None:
        """Have `run` called by the first thread that looks for work."""
        self.runnable.append(run)
        self.ring()

    def sleep(self, execution: Execution | None, seconds: float) -> bool:
        """See `Waiting.sleep`. If something is delayed, a sleep of the driver runs it meanwhile."""
        if execution is not None or not self.delayed or type(seconds) not in (int, float) or not 0 < seconds < 1e8:
            return super().sleep(execution, seconds)
        lock = self.allocate_lock()
        lock.acquire()
        self.park(lock, seconds)
        return True

    def run_later(self, delay_s: float, run: Callable[[], None]) -> None:
        """Have `run` called after `delay_s` seconds, by a thread that parks or by the program's own event loop."""
        with self._delayed_lock:
            self._order += 1
            heappush(self.delayed, (self.now() + delay_s, self._order, run))
        self.ring()  # it may be due before everything that the parked threads know of
        self.help_from_running_loop()

    def _first_due(self) -> float | None:
        """The time of the first delayed item; None if nothing is delayed."""
        with self._delayed_lock:
            return self.delayed[0][0] if self.delayed else None

    def _collect_due(self) -> None:
        """Move the delayed items whose time has come to `runnable`."""
        with self._delayed_lock:
            now = self.now()
            while self.delayed and self.delayed[0][0] <= now:
                self.runnable.append(heappop(self.delayed)[2])

    def help_from_running_loop(self) -> None:
        """A program that awaits references in an event loop of its own never parks. So ask its loop, if this thread is
        in one, to run the delayed items when they are due."""
        asyncio = sys.modules.get("asyncio")
        loop = asyncio._get_running_loop() if asyncio is not None else None
        if loop is None or hasattr(loop, "idle_for_s"):
            return
        due = self._first_due()
        if due is not None:
            loop.call_later(max(0.0, due - self.now()), self._run_delayed)

    def _run_delayed(self) -> None:
        self._collect_due()
        self._run_all()
        self.help_from_running_loop()

    def _run_all(self) -> None:
        while self.runnable:
            self._run_one()

    def _run_one(self) -> None:
        try:
            run = self.runnable.popleft()
        except IndexError:  # another thread of the driver took it
            return
        run()

    def _execute(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Run an attempt to its end. If the core then gives the worker another task, that task runs next."""
        handle = worker.handle
        if worker.status is DEAD:
            return
        if handle.loop is not None:
            handle.loop.begin(task)
            return
        handle.ident = get_ident()
        run = (Context() if handle.context is None else handle.context).run
        outcome = outside_of_event_loops(run, run_attempt, self, worker, task)
        del run  # an empty context ends here, with what the task has put into it
        following = self.report_from_inside(report, self, worker, task, outcome)
        if worker.status is DEAD:
            end_process(self, worker, handle)
        if following is not None:
            self.runnable.appendleft(partial(self._execute, worker, following))
        if signal_handlers.ended_in_task is not None or signal_handlers.postponed:
            self._pass_on_signals(task, outcome)

    def _pass_on_signals(self, task: TaskRecord, outcome: Outcome) -> None:
        """Ctrl-C and SIGTERM are meant for the program, not only for the task that happens to run on its thread. So if
        one of them has ended the task, raise the same in the code that called the task as well. And call the handlers
        of signals that were postponed, since between two tasks there may be no user code in which they could be
        called."""
        if threading.current_thread() is not threading.main_thread():
            return
        signal_handlers.call_postponed()
        error, failure = signal_handlers.ended_in_task, outcome.failure
        cancelled = failure is not None and failure.error_type == "TASK_CANCELLED" and not task.cancel_requested
        ended = cancelled if isinstance(error, KeyboardInterrupt) else bool(outcome.exit)
        if not ended or current.get() is None:
            signal_handlers.ended_in_task = None  # the task has caught it, or the caller is the program itself
        if error is not None and ended:
            raise type(error)(*error.args)

    def report_from_inside(self, report: Callable[..., Any], *args: Any) -> Any:
        """Call report(*args). Tasks that the report makes runnable run further down the stack, not inside this call, so
        that a long chain of tasks does not need a deep stack."""
        outer, self._here.reporting = getattr(self._here, "reporting", False), True
        try:
            return report(*args)
        finally:
            self._here.reporting = outer

    def start_worker(self, worker: WorkerRecord) -> None:
        """Make the worker's handle, and make the task for which the worker was leased runnable."""
        actor = worker.actor
        handle = worker.handle = new_handle(worker)
        if actor is not None and actor.is_async:
            from .local_async import LocalAsyncWorker  # imports asyncio, which only programs with async actors need

            handle.loop = LocalAsyncWorker(self, worker, handle)
        with self.lock:
            actions = self.cluster.worker_started(self.now(), worker)
        if worker.task is not None:
            self.run_task(worker, worker.task)
        super().carry_out(actions)

    def run_task(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Make the task runnable."""
        self.runnable.append(partial(self._execute, worker, task))

    def stop_worker(self, worker: WorkerRecord) -> None:
        """Drop the worker's copies of classes. There is no thread to stop."""
        if worker.handle is not None:
            end_process(self, worker, worker.handle)
            worker.handle.space = None

    def kill_worker(self, worker: WorkerRecord) -> None:
        """Drop the actor's instance. Its task that runs further down the stack goes on; the core ignores the report."""
        handle = worker.handle
        if handle is not None:
            if handle.user_task is None:
                end_process(self, worker, handle)
            handle.instance = handle.space = None
            handle.methods = {}
            if handle.loop is not None:
                handle.loop.stop()

    def interrupt(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Cancel a coroutine that was set aside. Any other running task is further down the caller's own stack."""
        if worker.handle is not None and worker.handle.loop is not None:
            worker.handle.loop.cancel(task)

    def interrupt_wait(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Do nothing: the task that waits is further down the caller's own stack, and looks when it goes on."""

    def call_later(self, at: float) -> None:
        """Have `timer` called at this time, if it is the limit of a drain. An interrupt has a deadline, too, but is
        carried out at once here."""
        with self.lock:
            wanted = any(drain.until == at for drain in self.cluster.ownership.drains)
        if wanted:
            self.run_later(at - self.now(), self.timer)

    def nobody_else(self) -> bool:
        """Whether nothing can end this wait: nothing is delayed, and all other threads wait without a timeout."""
        if self.delayed:
            return False
        here = get_ident()
        return all(self.waits_forever(ident) for ident in current_frames() if ident != here)

    def shutdown(self) -> None:
        """End the session: wake every waiter, drop every value. There are no threads to wait for."""
        end_session(self)


_complete: type[Verbs] = LocalRuntime  # an error for mypy if a verb is missing
