"""local_mode: the same core, and each task run at once on the thread of whoever makes it possible to run.

A debugger steps straight into a task, and what tasks print comes in the order of the program. A task that another thread is to
unblock, or that waits for a later call, cannot be waited for here: there is nobody else to run it.
"""
from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from contextvars import Context
from typing import Any

from ..core.records import ACTOR_CREATION_TASK, TaskRecord, WorkerRecord
from ..core.transitions import WorkerStatus
from .base import Runtime
from .context import Execution, current
from .serialization import Space
from .threaded import end_session
from .waiting import get_ident
from .worker import (Outcome, WorkerHandle, call_of, note_repr, outcome_of_error, report, report_item, run_attempt, store)

BLOCKED, DEAD = WorkerStatus.BLOCKED, WorkerStatus.DEAD


class LocalRuntime(Runtime):
    """Carries out the core's actions on the spot."""

    local = True

    def __init__(self, options: dict[str, Any], dropped: deque):
        super().__init__(options, dropped)
        self.runnable: deque[tuple[WorkerRecord, TaskRecord]] = deque()     # leased, and not begun
        self.cluster.resumes_at_wake = False    # a task that waits goes on when those above it on the stack have returned
        self._here = threading.local()          # .reporting: this thread is inside the report of a task that it ran

    def carry_out(self, actions: list) -> None:
        """Run what became possible, before the call that made it possible returns. Whoever made that call, if it is a task,
        lends its CPU meanwhile; one that waits has done so already."""
        execution = current.get()
        lender = execution.worker if execution is not None and execution.thread == get_ident() else None
        super().carry_out(actions)
        if getattr(self._here, "reporting", False) or not self.runnable and not self.cluster.scheduler.waiting:
            return                              # the loop that ran the task goes on with what there is
        if lender is None or lender.actor is not None or lender.status is BLOCKED:
            self._run_all()
            return
        with self.lock:
            more = self.cluster.blocked(self.now(), lender)
        super().carry_out(more)
        self._run_all()
        with self.lock:
            self.cluster.unblocked(self.now(), lender)

    def park(self, lock: Any, timeout: float | None) -> bool:
        """Instead of waiting, run what can be run: what is waited for may stand behind it."""
        while not lock.acquire(False):
            if not self.runnable:
                return super().park(lock, timeout)
            self._run_one()
        return True

    def _run_all(self) -> None:
        while self.runnable:
            self._run_one()

    def _run_one(self) -> None:
        try:
            worker, task = self.runnable.popleft()
        except IndexError:                      # another thread of the driver's was quicker
            return
        if worker.status is DEAD:
            return
        worker.handle.ident = get_ident()
        if worker.actor is not None and worker.actor.is_async:
            outcome = self._run_async(worker, task)
        else:
            outcome = run_attempt(self, worker, task)
        outer, self._here.reporting = getattr(self._here, "reporting", False), True
        try:
            following = report(self, worker, task, outcome)
        finally:
            self._here.reporting = outer
        if following is not None and not (worker.actor is not None and worker.actor.is_async):
            self.runnable.appendleft((worker, following))

    def start_worker(self, worker: WorkerRecord) -> None:
        """Make the worker; what it was leased for can be run."""
        actor = worker.actor
        shared = actor.worker.handle if actor is not None and actor.worker is not worker else None
        worker.handle = WorkerHandle(worker, shared.space if shared is not None else Space())
        with self.lock:
            actions = self.cluster.worker_started(self.now(), worker)
        if worker.task is not None:
            self.runnable.append((worker, worker.task))
        super().carry_out(actions)

    def run_task(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """The task can be run."""
        self.runnable.append((worker, task))

    def _run_async(self, worker: WorkerRecord, task: TaskRecord) -> Outcome:
        execution = Execution(self, worker, task, worker.handle.space, get_ident())
        return Context().run(self._drive, execution)

    def _drive(self, execution: Execution) -> Outcome:
        """Run a coroutine to its end on a loop of its own. The caller may be inside a running loop: it is set aside meanwhile."""
        current.set(execution)
        handle = execution.worker.handle
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            if handle.loop is None:
                handle.loop = asyncio.new_event_loop()
            return handle.loop.run_until_complete(self._attempt(execution))
        except BaseException as error:
            return outcome_of_error(self, execution, error)
        finally:
            asyncio._set_running_loop(outer)

    async def _attempt(self, execution: Execution) -> Outcome:
        task, worker = execution.task, execution.worker
        try:
            if task.spec.kind == ACTOR_CREATION_TASK:
                _, (_, _, cls, args, kwargs), _ = call_of(self, execution)
                instance = execution.instance = worker.handle.instance = cls.__new__(cls)
                task.t_started = self.now()
                if cls.__init__ is not object.__init__:
                    waiting = instance.__init__(*args, **kwargs)
                    if inspect.isawaitable(waiting):
                        await waiting
                note_repr(execution)
                return Outcome()
            function, args, kwargs = call_of(self, execution)
            task.t_started = self.now()
            result = function(*args, **kwargs)
            if inspect.isawaitable(result):
                result = await result
            if task.spec.streams:
                if inspect.isasyncgen(result):
                    async for item in result:
                        report_item(self, worker, task, item)
                else:
                    for item in result:
                        report_item(self, worker, task, item)
                task.t_ended = self.now()
                return Outcome((None,), (0,))
            task.t_ended = self.now()
            return store(self, task, result)
        except BaseException as error:
            return outcome_of_error(self, execution, error)

    def stop_worker(self, worker: WorkerRecord) -> None:
        """There is no thread to stop."""

    def kill_worker(self, worker: WorkerRecord) -> None:
        """Let go of the actor; a task that runs further up the stack goes on, and its report does not count."""
        handle = worker.handle
        if handle is not None:
            handle.instance = None
            loop, handle.loop = handle.loop, None
            if loop is not None and not loop.is_running():
                loop.close()

    def interrupt(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """What runs here is further up the stack of whoever cancels it: it cannot be interrupted."""

    def call_later(self, at: float) -> None:
        """Only interrupts have deadlines, and there are none."""

    def shutdown(self) -> None:
        """Drop everything."""
        end_session(self)

