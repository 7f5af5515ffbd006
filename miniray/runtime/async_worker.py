"""An async actor's worker: an event loop on a thread of its own. The calls are coroutines that take turns at their
awaits.

Each concurrency group of the actor that is in use has such a worker. That of the default group runs the constructor.
Plain methods run on the loop as well, one after the other. Ray: _private/async_compat.py, the asyncio fibers of
core_worker.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from contextvars import Context
from typing import Any, Callable

from .. import exceptions
from ..core.records import ACTOR_CREATION_TASK, TaskRecord, WorkerRecord
from ..core.transitions import WorkerStatus
from ..ids import TaskID
from ..process.context import Execution, current
from ..process.exits import WorkerExit
from ..process.our_code import enters_user_code, runs_an_attempt
from ..values import errors
from .handles import WorkerHandle, settle_interrupt
from .outcomes import (
    Outcome,
    check_generator,
    failed,
    may_retry,
    note_end,
    note_start,
    outcome_of_error,
    outcome_of_return,
)
from .runtime import Runtime
from .streams import GENERATOR_STATISTICS, report_item, stream_ended, wait_for_consumer
from .worker import call_of, constructed, report

DEAD = WorkerStatus.DEAD


class AsyncWorker:
    """Runs an async actor's calls. `post`, `cancel` and `stop` may be called on any thread, all else on the loop's
    thread.

    loop: an asyncio.AbstractEventLoop, made on the worker's own thread; None before and afterwards. posted: tasks that
    have not begun. calls: for each task whose attempt has not been reported, by number, the asyncio task that runs the
    attempt. A retry has the number of the attempt before it, and may begin before asyncio has told us that the earlier
    asyncio task is done. So to find out whether an attempt is over, compare the asyncio task as well.
    scheduled: the loop has been told to look at `posted`. stopping: the actor is dead. ending: the loop has been
    stopped, and the remaining coroutines are being cancelled.
    """

    def __init__(self, runtime: Runtime, worker: WorkerRecord, handle: WorkerHandle):
        self.runtime, self.worker, self.handle = runtime, worker, handle
        self.loop: Any = None
        self.posted: deque[TaskRecord] = deque()
        self.calls: dict[int, asyncio.Task[None]] = {}
        self.scheduled = False
        self.stopping = self.ending = False

    def run(self) -> None:
        """Serve until the actor ends. The constructor runs first, if it is this worker's; each call begins when it is
        posted."""
        loop = self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            # Look at the status only now: from here on, `stop` reaches the loop.
            if not self.stopping and self.worker.status is not DEAD:
                if self.worker.task is not None:
                    self.posted.append(self.worker.task)
                loop.call_soon(self._take)
                loop.run_forever()
            self._cancel_what_is_left(loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            self.loop = None  # others may still hold this object

    def _cancel_what_is_left(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ending = True
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=0.5))
        for task in left:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # the time is up: it goes without a message
        loop.run_until_complete(loop.shutdown_asyncgens())

    def post(self, task: TaskRecord) -> None:
        """Begin a call as soon as the loop has time for it."""
        self.posted.append(task)
        loop = self.loop
        if loop is None or self.scheduled:
            return  # the loop will look at `posted` before it sleeps
        self.scheduled = True
        try:
            loop.call_soon_threadsafe(self._take)
        except RuntimeError:  # the loop is closed, because the actor has ended meanwhile
            self.scheduled = False

    def cancel(self, task: TaskRecord) -> None:
        """Cancel the coroutine of a call, if it runs."""

        def on_loop() -> None:
            running = self.calls.get(task.number)
            if running is not None:
                running.cancel()

        self._soon(on_loop)

    def stop(self) -> None:
        """The actor is dead: end the loop."""
        self.stopping = True
        self._soon(self._stop_loop)

    def _soon(self, callback: Callable[[], None]) -> None:
        """Have the loop call something, unless it has not been made yet or is closed."""
        loop = self.loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(callback)
            except RuntimeError:  # the loop was closed between the check and the call
                return

    def _take(self) -> None:
        self.scheduled = False
        while self.posted:
            self._begin(self.posted.popleft())

    def _begin(self, task: TaskRecord) -> None:
        execution = Execution(self.runtime, self.worker, task, self.handle.space, self.handle.ident)
        context = Context()
        context.run(current.set, execution)
        # An asyncio task runs in a copy of the context in which it is made. asyncio accepts a context only since 3.11.
        call = self.calls[task.number] = context.run(self.loop.create_task, self._call(execution))
        call.add_done_callback(lambda call: self._ended(execution, call))

    def _ended(self, execution: Execution, call: asyncio.Task[None]) -> None:
        """A call's coroutine is over. If it was cancelled before its first step, report that: the coroutine did not."""
        task = execution.task
        if self.calls.get(task.number) is call:
            self._over(execution, self._cancelled(execution, asyncio.CancelledError()))

    async def _call(self, execution: Execution) -> None:
        task = execution.task
        try:
            outcome = await self._attempt(execution)
            if task.cancel_requested:
                # The coroutine caught its CancelledError, or never awaited anything. It counts as cancelled, as in Ray.
                outcome = self._cancelled(execution, asyncio.CancelledError())
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) or task.cancel_requested and isinstance(error, Exception):
                outcome = self._cancelled(execution, error)
            else:
                outcome = outcome_of_error(self.runtime, execution, error)
        self._over(execution, outcome)

    def _over(self, execution: Execution, outcome: Outcome) -> None:
        if self.loop is None:  # the loop has ended without the coroutine, which is closed now: nobody asks for a report
            return
        task = execution.task
        if not task.t_ended:
            note_end(self.runtime, execution)
        self.calls.pop(task.number, None)
        self._report(task, outcome)

    def _report(self, task: TaskRecord, outcome: Outcome) -> None:
        report(self.runtime, self.worker, task, outcome)
        if self.worker.status is DEAD:
            self._stop_loop()

    def _stop_loop(self) -> None:
        # If it is ending, the loop runs until the remaining coroutines are cancelled, and then stops by itself.
        if not self.ending:
            self.loop.stop()

    def _cancelled(self, execution: Execution, error: BaseException) -> Outcome:
        """The outcome of a call that ends by a CancelledError. If nobody cancelled the call, its code raised the error
        by itself, and may be retried like any other error, as in Ray."""
        task = execution.task
        if task.cancel_requested:
            task.was_interrupted = True
        cancelled = exceptions.TaskCancelledError(TaskID.from_hex(task.hex))
        cancelled.__traceback__ = error.__traceback__
        retry = not task.cancel_requested and may_retry(task, cancelled)
        return failed(errors.from_exception(cancelled, task, "TASK_CANCELLED"), retry)

    @runs_an_attempt
    async def _attempt(self, execution: Execution) -> Outcome:
        """The counterpart of `worker.run_attempt`."""
        runtime, task = self.runtime, execution.task
        try:
            if task.cancel_requested:  # before the coroutine existed, so there was nothing to cancel
                raise asyncio.CancelledError
            function, args, kwargs = call_of(runtime, execution)
            note_start(runtime, execution)
            self.handle.user_task = task
            result = function(*args, **kwargs)
            del args, kwargs
            constructs = task.spec.kind == ACTOR_CREATION_TASK
            # A coroutine that a plain method returns is a value, and cannot be sent.
            if inspect.isawaitable(result) if constructs else inspect.iscoroutinefunction(function):
                result = await result
            if runtime.unfinished_lines:
                runtime.end_lines(execution)
            if constructs:
                return constructed(execution)
            if task.spec.streams:
                return await self._stream(execution, result)
            outcome = outcome_of_return(runtime, execution, result)
            del result  # as in `worker.run_attempt`
            return outcome
        finally:
            settle_interrupt(self.handle)

    @enters_user_code
    async def _stream(self, execution: Execution, generator: Any) -> Outcome:
        """The counterpart of `streams.run_stream`."""
        runtime, task = self.runtime, execution.task
        is_async: bool = inspect.isasyncgen(generator)
        if is_async:
            answer = None
            while True:
                try:
                    item = await (generator.__anext__() if answer is None else generator.asend(answer))
                except StopAsyncIteration:
                    break
                answer = GENERATOR_STATISTICS
                report_item(runtime, self.worker, task, item)
                del item
                await asyncio.sleep(0)  # let other calls run, even if the generator itself never waits
        else:
            check_generator(task, generator)
            for item in generator:
                report_item(runtime, self.worker, task, item)
                wait_for_consumer(runtime, execution)
                if self.worker.status is DEAD:  # this generator blocks the loop, which therefore could not be stopped
                    raise WorkerExit("SYSTEM_ERROR: the worker is dead")
        return stream_ended(runtime, execution)
