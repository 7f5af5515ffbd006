"""local_mode: the same core, and each task run at once on the thread of whoever makes it possible to run.

A debugger steps straight into a task, and what tasks print comes in the order of the program. A task that another thread is to
unblock, or that waits for a later call, cannot be waited for here: there is nobody else to run it. Whoever waits so is told,
by a DeadlockError, if no other thread is there that could change it.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections import deque
from functools import partial
from heapq import heappop, heappush
from typing import Any, Callable

from ..core.records import TaskRecord, WorkerRecord
from ..core.transitions import WorkerStatus
from ..process import ctrl_c
from .runtime import Runtime
from ..process.context import Execution, current
from ..process.frames import current_frames
from ..values.serialization import Space
from .ending import end_session
from .handles import WorkerHandle, actor_handle
from .outcomes import Outcome
from .waiting import get_ident
from .worker import report, run_attempt

BLOCKED, DEAD = WorkerStatus.BLOCKED, WorkerStatus.DEAD


class Bell:
    """What a waiter sleeps on here: a lock that opens when what it waits for is there, and a gate before it that is also opened
    for one who is to look for work again."""

    __slots__ = ("gate", "_opened", "_taken")

    def __init__(self) -> None:
        self.gate = _thread.allocate_lock()
        self._opened, self._taken = True, False

    def acquire(self, blocking: bool = True) -> bool:
        """The first call, its maker's, shuts it. From then on: whether it is open."""
        if not self._taken:
            self._taken, self._opened = True, False
            return self.gate.acquire()
        return self._opened

    def release(self) -> None:
        """What is waited for is there."""
        self._opened = True
        self.ring()

    def ring(self) -> None:
        """Let the sleeper through the gate. Whoever sleeps looks again afterwards, so once is enough for several who ring."""
        try:
            self.gate.release()
        except RuntimeError:  # it is open
            return


class LocalRuntime(Runtime):
    """Carries out the core's actions on the spot."""

    local = True
    allocate_lock = Bell  # type: ignore[assignment]
    stuck_after_s = 0.0

    def __init__(self, options: dict[str, Any], dropped: deque):
        super().__init__(options, dropped)
        self.runnable: deque[Callable[[], None]] = deque()  # attempts to begin, and loops that can go on
        self.put_off: list[
            tuple[float, int, Callable[[], None]]
        ] = []  # a heap by time: loops that wait for their timers
        self._order = 0
        self._putting_off = threading.Lock()  # guards these two; nothing is called under it that could come back here
        self.parked: dict[Bell, None] = {}  # of the threads that have found nothing to run
        self.cluster.resumes_at_wake = False  # a task that waits goes on when those above it on the stack have returned
        self._here = threading.local()  # .reporting: this thread is inside the report of a task that it ran
        self.awaited: dict[int, tuple[list, bool]] = {}  # by thread: what its innermost wait is for; has it a timeout

    def carry_out(self, actions: list) -> None:
        """Run what became possible, before the call that made it possible returns. Whoever made that call, if it is a task,
        lends its CPU meanwhile; one that waits has done so already."""
        execution = current.get()
        lender = execution.worker if execution is not None and execution.thread == get_ident() else None
        super().carry_out(actions)
        if getattr(self._here, "reporting", False) or not self.runnable and not self.cluster.scheduler.waiting:
            return  # the loop that ran the task goes on with what there is
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

    def wait_for(self, objects: list, need: int, fail_fast: bool, timeout: float | None) -> bool:
        """As every runtime's."""
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
        """Whether the innermost wait of a thread has no timeout."""
        _, timed = self.awaited.get(ident, ((), True))
        return not timed

    def park(self, lock: Any, timeout: float | None) -> bool:
        """Instead of waiting, run what can be run, and what was put off when its time has come: what is waited for may be behind
        it. Raises DeadlockError when there is nothing, and `timeout` is None."""
        deadline = None if timeout is None else self.now() + timeout
        try:
            while not lock.acquire(False):
                self.parked[lock] = None  # before the look for work: what comes after it rings
                if self.runnable:
                    self.parked.pop(lock, None)
                    self._run_one()
                    continue
                now, due = self.now(), self._due()
                if due is not None and due <= now:
                    self._take_due()
                    continue
                if deadline is not None and deadline <= now:
                    return lock.acquire(False)
                until = [at for at in (due, deadline) if at is not None]
                if not until and self.stuck is not None:
                    self.stuck(self.awaited[get_ident()][0])
                super().park(lock.gate, min(until) - now if until else None)
            return True
        finally:
            self.parked.pop(lock, None)
            if self.parked and (self.runnable or self.put_off):
                self.ring()  # who leaves leaves it to another who is parked

    def ring(self) -> None:
        """Have one who is parked look for work again; those who are not come by it when they park, or make a call."""
        try:
            bell, _ = self.parked.popitem()
        except KeyError:
            return
        bell.ring()

    def run_soon(self, run: Callable[[], None]) -> None:
        """Something can be run, by whoever comes first."""
        self.runnable.append(run)
        self.ring()

    def sleep(self, execution: Execution | None, seconds: float) -> bool:
        """As every runtime's; also the driver lets others go on while it sleeps."""
        if execution is not None or not self.put_off or type(seconds) not in (int, float) or not 0 < seconds < 1e8:
            return super().sleep(execution, seconds)
        lock = self.allocate_lock()
        lock.acquire()
        self.park(lock, seconds)
        return True

    def run_later(self, delay_s: float, run: Callable[[], None]) -> None:
        """Put something off; whoever parks runs it, or the event loop that the program itself is in."""
        with self._putting_off:
            self._order += 1
            heappush(self.put_off, (self.now() + delay_s, self._order, run))
        self.ring()  # it may be due before all that was known of
        self.help_from_running_loop()

    def _due(self) -> float | None:
        """When the first of what was put off is to be run."""
        with self._putting_off:
            return self.put_off[0][0] if self.put_off else None

    def _take_due(self) -> None:
        """What was put off until now can be run."""
        with self._putting_off:
            now = self.now()
            while self.put_off and self.put_off[0][0] <= now:
                self.runnable.append(heappop(self.put_off)[2])

    def help_from_running_loop(self) -> None:
        """A program that is in an event loop of its own does not park when it waits: the loop is to run what was put off."""
        asyncio = sys.modules.get("asyncio")
        loop = asyncio._get_running_loop() if asyncio is not None else None
        if loop is None or hasattr(loop, "idle_for_s"):
            return
        due = self._due()
        if due is not None:
            loop.call_later(max(0.0, due - self.now()), self._help)

    def _help(self) -> None:
        self._take_due()
        self._run_all()
        self.help_from_running_loop()

    def _run_all(self) -> None:
        while self.runnable:
            self._run_one()

    def _run_one(self) -> None:
        try:
            run = self.runnable.popleft()
        except IndexError:  # another thread of the driver's was quicker
            return
        run()

    def _execute(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Run an attempt to its end, and put what follows it in this worker first in line."""
        handle = worker.handle
        if worker.status is DEAD:
            return
        if handle.loop is not None:
            handle.loop.begin(task)
            return
        handle.ident = get_ident()
        outcome = outside_of_event_loops(run_attempt, self, worker, task)
        following = self.report_from_inside(report, self, worker, task, outcome)
        if following is not None:
            self.runnable.appendleft(partial(self._execute, worker, following))
        if ctrl_c.in_task or ctrl_c.put_off is not None:
            self._pass_on_ctrl_c(task, outcome)

    def _pass_on_ctrl_c(self, task: TaskRecord, outcome: Outcome) -> None:
        """Who presses Ctrl-C means the program, and not only the task that runs just then on its thread. And there is little
        of the user's code between two tasks in which it could be found."""
        if ctrl_c.put_off is not None and threading.current_thread() is threading.main_thread():
            ctrl_c.interrupt()
        cancelled = (
            outcome.failure is not None and outcome.failure.error_type == "TASK_CANCELLED" and not task.cancel_requested
        )
        if not cancelled or current.get() is None:
            ctrl_c.in_task = False  # the task has dealt with it, or this is the program
        if cancelled:
            raise KeyboardInterrupt

    def report_from_inside(self, report: Callable[..., Any], *args: Any) -> Any:
        """Report the end of an attempt. What becomes possible by that is run further down the stack, so that a long chain of
        tasks needs no deep one."""
        outer, self._here.reporting = getattr(self._here, "reporting", False), True
        try:
            return report(*args)
        finally:
            self._here.reporting = outer

    def start_worker(self, worker: WorkerRecord) -> None:
        """Make the worker; what it was leased for can be run."""
        actor = worker.actor
        first = actor_handle(worker)  # of an actor's further threads
        handle = worker.handle = WorkerHandle(worker, first.space if first is not None else Space())
        if actor is not None and actor.is_async:
            from .local_async import LocalAsyncWorker  # and asyncio with it, when the first async actor is made

            handle.loop = LocalAsyncWorker(self, worker, handle)
        with self.lock:
            actions = self.cluster.worker_started(self.now(), worker)
        if worker.task is not None:
            self.run_task(worker, worker.task)
        super().carry_out(actions)

    def run_task(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """The task can be run."""
        self.runnable.append(partial(self._execute, worker, task))

    def stop_worker(self, worker: WorkerRecord) -> None:
        """There is no thread to stop; the copies of classes that it has made go."""
        if worker.handle is not None:
            worker.handle.space = None

    def kill_worker(self, worker: WorkerRecord) -> None:
        """Let go of the actor; a task that runs further up the stack goes on, and its report does not count."""
        handle = worker.handle
        if handle is not None:
            handle.instance = handle.space = None
            if handle.loop is not None:
                handle.loop.stop()

    def interrupt(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Cancel a coroutine that was set aside. Any other task that runs is further up the stack of whoever cancels it."""
        if worker.handle is not None and worker.handle.loop is not None:
            worker.handle.loop.cancel(task)

    def call_later(self, at: float) -> None:
        """Only interrupts have deadlines, and those that are carried out here are carried out at once."""

    def nobody_else(self) -> bool:
        """Whether nothing could bring what this thread waits for: nothing was put off, and every other thread waits here too."""
        if self.put_off:
            return False
        here = get_ident()
        return all(self.waits_forever(ident) for ident in current_frames() if ident != here)

    def shutdown(self) -> None:
        """Drop everything."""
        end_session(self)


def outside_of_event_loops(run: Callable[..., Any], *args: Any) -> Any:
    """What run(*args) gives. Whoever makes a call may be inside an event loop; the task is not, as in a process of its own."""
    asyncio = sys.modules.get("asyncio")
    outer = asyncio._get_running_loop() if asyncio is not None else None
    if asyncio is None or outer is None:
        return run(*args)
    asyncio._set_running_loop(None)
    try:
        return run(*args)
    finally:
        asyncio._set_running_loop(outer)
