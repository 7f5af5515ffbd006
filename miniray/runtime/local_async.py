"""Async actors in local_mode: each has an event loop, which runs on any thread that makes something in it runnable.

A call runs at once until it has to wait. Then it is set aside, and the next thread that parks lets it continue: no
thread may stand still for this call alone. The loop blocks its thread only to wait for files and for helper threads.
"""

from __future__ import annotations

import _thread
import asyncio
import selectors
from contextvars import Context
from typing import Any, Callable, Protocol

from ..core.records import TaskRecord, WorkerRecord
from ..process.event_loops import outside_of_event_loops
from ..process.our_code import only_waits
from .async_worker import DEAD, AsyncWorker
from .handles import WorkerHandle
from .outcomes import Outcome

OWN_FILES = 1  # each loop itself watches one file, through which other threads wake it


class _Selector(selectors.DefaultSelector):
    """A selector that ends the loop's turn instead of waiting for nothing but a timer, or for nothing at all."""

    loop: LocalLoop

    @only_waits
    def select(self, timeout: float | None = None) -> Any:
        """See selectors.BaseSelector. timeout: seconds until the loop's next timer; None if it has no timer, 0 if
        callbacks are ready to run."""
        if timeout == 0 or self.loop.helpers or len(self.get_map()) > OWN_FILES:
            return super().select(timeout)
        events = super().select(0)
        if not events:
            self.loop.idle_for_s = timeout
            self.loop.stop()
        return events


class LocalLoop(asyncio.SelectorEventLoop):
    """An event loop whose turn ends when the loop is idle.

    idle_for_s: seconds from the end of the last turn to the next timer, None if there is none. helpers: calls in other
    threads that will report to the loop. on_woken: called, on any thread, when something is scheduled from outside the
    loop.
    """

    def __init__(self, on_woken: Callable[[], None]):
        selector = _Selector()
        selector.loop = self
        self.idle_for_s: float | None = None
        self.helpers = 0
        self.on_woken = on_woken
        super().__init__(selector)

    # asyncio's own signatures tie `args` to the parameters of `func`; to mypy, Any does not satisfy that.
    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """See asyncio. The loop is not idle until `func` has returned."""
        future = super().run_in_executor(executor, func, *args)
        self.helpers += 1
        future.add_done_callback(self._helped)
        return future

    def _helped(self, future: Any) -> None:
        self.helpers -= 1

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        """See asyncio. Also calls `on_woken`."""
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        self.on_woken()
        return handle


class Host(Protocol):
    """The part of `local_mode.LocalRuntime` that a loop uses. Importing the class itself would make a circle."""

    runnable: Any

    def run_soon(self, run: Callable[[], None]) -> None:
        """See LocalRuntime."""

    def run_later(self, delay_s: float, run: Callable[[], None]) -> None:
        """See LocalRuntime."""

    def report_from_inside(self, report: Callable[..., Any], *args: Any) -> Any:
        """See LocalRuntime."""


class LocalAsyncWorker(AsyncWorker):
    """Runs an async actor's calls on the threads that make them. mine: a lock, held while the loop runs."""

    loop: LocalLoop

    def __init__(self, runtime: Any, worker: WorkerRecord, handle: WorkerHandle):
        super().__init__(runtime, worker, handle)
        self.host: Host = runtime
        self.loop = LocalLoop(self._woken)
        self.mine = _thread.allocate_lock()

    def begin(self, task: TaskRecord) -> None:
        """Run a call until it has to wait."""
        self.posted.append(task)
        if self.mine.acquire(False):
            if not self.loop.is_closed():  # another thread may have killed the actor just now
                self.loop.call_soon(self._take)
            self._turn()
        else:  # the loop runs further down this stack, or on another thread, and will begin the call there
            self._soon(self._take)

    def go_on(self) -> None:
        """Run the calls that were set aside and can continue, unless another thread is running the loop."""
        if self.mine.acquire(False):
            self._turn()

    def _woken(self) -> None:
        if not self.loop.is_running():  # otherwise the thread that runs the loop looks again at the end of its turn
            self.host.run_soon(self.go_on)

    def _turn(self) -> None:
        """Run the loop until a call has ended or nothing can continue. The caller holds `mine`, and may be inside
        another event loop, which is hidden meanwhile."""
        before = len(self.calls) + len(self.posted)
        try:
            if not self.loop.is_closed():
                self.handle.ident, self.loop.idle_for_s = _thread.get_ident(), None
                outside_of_event_loops(self.loop.run_forever)
        finally:
            idle_for_s, fewer = self.loop.idle_for_s, len(self.calls) < before
            self.mine.release()
        if self.stopping or self.worker.status is DEAD:
            self.stop()
        elif idle_for_s is not None:
            self.host.run_later(idle_for_s, self.go_on)
        elif self.calls and fewer:
            self.host.runnable.append(
                self.go_on
            )  # the end of that call has stopped the loop; others may be able to continue
            return
        # Another thread may have woken the loop at the end of this turn and left the work to us. Look only after `mine`
        # is free: a thread that wakes the loop later sees that it does not run, and gets `mine` itself.
        if self.loop._ready:  # type: ignore[attr-defined]
            self.host.run_soon(self.go_on)

    def _report(self, task: TaskRecord, outcome: Outcome) -> None:
        self.host.report_from_inside(super()._report, task, outcome)
        self._stop_loop()  # the thread that runs the loop may be waiting for just this call

    def stop(self) -> None:
        """The actor is dead: cancel what was set aside, and close the loop."""
        self.stopping = True
        if not self.mine.acquire(False):
            return  # the loop is running; its thread calls this method again at the end of the turn
        try:
            if not self.loop.is_closed():
                self.loop.helpers += 1  # from now on the loop waits for its timers, instead of ending its turn
                outside_of_event_loops(self._cancel_what_is_left, self.loop)
                self.loop.close()
        finally:
            self.mine.release()
