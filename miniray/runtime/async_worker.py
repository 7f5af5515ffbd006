"""An async actor's worker: an event loop on the actor's own thread, in which its calls interleave at their awaits.

Plain methods run on the loop too, one after the other. Ray: _private/async_compat.py, the asyncio fibers of core_worker.
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
from ..process.context import Execution, current
from ..process.exits import WorkerExit
from ..process.our_code import enters_user_code
from ..values import errors
from .handles import WorkerHandle, settle_interrupt
from .outcomes import Outcome, not_stored, note_end, outcome_of_error, store
from .runtime import Runtime
from .streams import GENERATOR_STATISTICS, report_item, wait_for_consumer
from .worker import call_of, note_repr, report

DEAD = WorkerStatus.DEAD


class AsyncWorker:
    """Runs an async actor's calls. `post`, `cancel` and `stop` may be called from any thread; the rest on the loop's."""

    def __init__(self, runtime: Runtime, worker: WorkerRecord, handle: WorkerHandle):
        self.runtime, self.worker, self.handle = runtime, worker, handle
        self.loop: Any = None  # asyncio.AbstractEventLoop, made on the actor's own thread
        self.posted: deque[TaskRecord] = deque()
        self.calls: dict[int, asyncio.Task] = {}
        self.scheduled = False  # the loop has been told that something was posted
        self.stopping = self.ending = False

    def run(self) -> None:
        """Serve until the actor ends. The constructor runs first, then every call as it is posted."""
        loop = self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            task = self.worker.task
            if task is not None and not self.stopping:
                self.posted.append(task)
                loop.call_soon(self._take)
                loop.run_forever()
            self._cancel_what_is_left(loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            self.loop = None  # the record of a dead worker is kept, and this with it

    def _cancel_what_is_left(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ending = True
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=0.5))
        loop.run_until_complete(loop.shutdown_asyncgens())

    def post(self, task: TaskRecord) -> None:
        """A call to run."""
        self.posted.append(task)
        self._tell(self._take)

    def _tell(self, callback) -> None:
        loop = self.loop
        if loop is None or self.scheduled:
            return  # it looks into `posted` before it sleeps
        self.scheduled = True
        try:
            loop.call_soon_threadsafe(callback)
        except RuntimeError:  # closed: the actor has ended meanwhile
            self.scheduled = False

    def cancel(self, task: TaskRecord) -> None:
        """Cancel the coroutine of a call."""

        def on_loop():
            running = self.calls.get(task.number)
            if running is not None:
                running.cancel()

        self._soon(on_loop)

    def stop(self) -> None:
        """The actor is dead: end the loop."""
        self.stopping = True
        self._soon(self._stop_loop)

    def _soon(self, callback: Callable[[], None]) -> None:
        """Have the loop call something, if it is there and not closed yet."""
        loop = self.loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(callback)
            except RuntimeError:  # closed between the question and the call
                return

    def _take(self) -> None:
        self.scheduled = False
        while self.posted:
            self._begin(self.posted.popleft())

    def _begin(self, task: TaskRecord) -> None:
        execution = Execution(self.runtime, self.worker, task, self.handle.space, self.handle.ident)
        context = Context()
        context.run(current.set, execution)
        # The Task takes a copy of the context it is made in; asyncio takes one as an argument only since 3.11.
        call = self.calls[task.number] = context.run(self.loop.create_task, self._call(execution))
        call.add_done_callback(lambda call: self._ended(execution))

    def _ended(self, execution: Execution) -> None:
        """A call's coroutine is over. One that was cancelled before its first step never came to report that."""
        task = execution.task
        if task.number in self.calls:
            self._over(execution, self._cancelled(execution, asyncio.CancelledError()))

    async def _call(self, execution: Execution) -> None:
        task = execution.task
        try:
            outcome = await self._attempt(execution)
            if (
                task.cancel_requested
            ):  # it caught its CancelledError, or never waited: it counts as cancelled, as in Ray
                outcome = self._cancelled(execution, asyncio.CancelledError())
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) or task.cancel_requested and isinstance(error, Exception):
                outcome = self._cancelled(execution, error)
            else:
                outcome = outcome_of_error(self.runtime, execution, error)
        self._over(execution, outcome)

    def _over(self, execution: Execution, outcome: Outcome) -> None:
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
        if not self.ending:  # what is left is being cancelled: that has an end of its own
            self.loop.stop()

    def _cancelled(self, execution: Execution, error: BaseException) -> Outcome:
        task = execution.task
        if task.cancel_requested:
            task.was_interrupted = True
        cancelled = exceptions.TaskCancelledError(task.hex)
        cancelled.__traceback__ = error.__traceback__
        return Outcome(failure=errors.from_exception(cancelled, task.spec.func_name, "TASK_CANCELLED", about=task))

    @enters_user_code
    async def _attempt(self, execution: Execution) -> Outcome:
        runtime, task = self.runtime, execution.task
        try:
            if task.spec.kind == ACTOR_CREATION_TASK:
                return await self._construct(execution)
            if task.cancel_requested:  # before it came here: there was no coroutine to cancel
                raise asyncio.CancelledError
            function, args, kwargs = call_of(runtime, execution)
            self._note_start(task)
            self.handle.user_task = task
            result = function(*args, **kwargs)
            del args, kwargs
            if inspect.iscoroutinefunction(function):  # a plain method's coroutine is a value, which cannot be sent
                result = await result
            if runtime.unfinished_lines:
                runtime.end_lines(execution)
            if task.spec.streams:
                return await self._stream(execution, result)
            note_end(runtime, execution)
            try:
                return store(runtime, task, result)
            except Exception as error:
                return not_stored(runtime, execution, error)
        finally:
            settle_interrupt(self.handle)

    def _note_start(self, task: TaskRecord) -> None:
        """The call's code is about to be entered, unless the actor was declared dead meanwhile. As `note_end`."""
        now = self.runtime.now()
        if self.worker.status is DEAD:
            raise WorkerExit("SYSTEM_ERROR: the worker is dead")
        if not task.t_finished:
            task.t_started = now

    @enters_user_code
    async def _construct(self, execution: Execution) -> Outcome:
        runtime, task = self.runtime, execution.task
        construct, (_, _, cls, args, kwargs), _ = call_of(runtime, execution)
        self._note_start(task)
        instance = execution.instance = self.handle.instance = cls.__new__(cls)
        if cls.__init__ is not object.__init__:
            waiting = instance.__init__(*args, **kwargs)
            if inspect.isawaitable(waiting):
                await waiting
        note_repr(execution)
        return Outcome()

    @enters_user_code
    async def _stream(self, execution: Execution, generator: Any) -> Outcome:
        runtime, task = self.runtime, execution.task
        is_async: bool = inspect.isasyncgen(generator)
        if is_async:
            send = None
            while True:
                try:
                    item = await (generator.__anext__() if send is None else generator.asend(send))
                except StopAsyncIteration:
                    break
                send = GENERATOR_STATISTICS
                report_item(runtime, self.worker, task, item)
                del item
                await asyncio.sleep(0)  # others have their turn also when the generator never waits
        else:
            for item in generator:
                report_item(runtime, self.worker, task, item)
                wait_for_consumer(runtime, execution)
                if self.worker.status is DEAD:  # its loop, which this blocks, was told to stop
                    raise WorkerExit("SYSTEM_ERROR: the worker is dead")
        note_end(runtime, execution)
        return Outcome((None,), (0,))
