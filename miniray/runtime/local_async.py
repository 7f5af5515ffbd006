"""Async actors in local_mode: each has an event loop, which is run by whoever makes something in it runnable.

A call is run at once until it has to wait. Then it is set aside, and whoever waits for anything later lets it go on: there is no
thread that could stand still for it alone. Files and helper threads are waited for on the spot.
"""

from __future__ import annotations

import _thread
import asyncio
import selectors
from contextvars import Context
from typing import Any, Callable, Protocol

from ..core.records import TaskRecord, WorkerRecord
from ..process.our_code import only_waits
from .async_worker import DEAD, AsyncWorker
from .handles import WorkerHandle
from .outcomes import Outcome

OWN_FILES = 1  # a loop watches one file itself, through which other threads wake it


class _Selector(selectors.DefaultSelector):
    """Ends the loop's turn where it would wait for nothing but a timer, or for nothing at all."""

    loop: LocalLoop

    @only_waits
    def select(self, timeout: float | None = None) -> Any:
        """As a selector's. timeout: seconds until the loop's next timer; None when it has none, 0 when it has things to do."""
        if timeout == 0 or self.loop.helpers or len(self.get_map()) > OWN_FILES:
            return super().select(timeout)
        events = super().select(0)
        if not events:
            self.loop.idle_for_s = timeout
            self.loop.stop()
        return events


class LocalLoop(asyncio.SelectorEventLoop):
    """An event loop whose turn ends when it is idle. idle_for_s: seconds from then to its next timer, if it has one.
    on_woken: called when something is scheduled from outside of it."""

    def __init__(self, on_woken: Callable[[], None]):
        selector = _Selector()
        selector.loop = self
        self.idle_for_s: float | None = None
        self.helpers = 0  # calls in other threads that will report to the loop
        self.on_woken = on_woken
        super().__init__(selector)

    # asyncio's own signatures tie `args` to what `func` takes, which mypy does not see met by Any.
    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """As asyncio's. While it runs, the loop is not idle."""
        future = super().run_in_executor(executor, func, *args)
        self.helpers += 1
        future.add_done_callback(self._helped)
        return future

    def _helped(self, future: Any) -> None:
        self.helpers -= 1

    def call_soon_threadsafe(
        self,
        callback: Callable[..., Any],
        *args: Any,  # type: ignore[override]
        context: Context | None = None,
    ) -> Any:
        """As asyncio's; whoever runs this loop is told."""
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        self.on_woken()
        return handle


class Host(Protocol):
    """What a loop needs of the runtime that it is a part of (`local_mode.LocalRuntime`, which is above this module)."""

    runnable: Any

    def run_soon(self, run: Callable[[], None]) -> None:
        """Have something run by the first thread that can."""

    def run_later(self, delay_s: float, run: Callable[[], None]) -> None:
        """Have something run after so many seconds."""

    def report_from_inside(self, report: Callable[..., Any], *args: Any) -> Any:
        """Report the end of an attempt."""


class LocalAsyncWorker(AsyncWorker):
    """Runs an async actor's calls on the threads of those who make them."""

    loop: LocalLoop

    def __init__(self, runtime: Any, worker: WorkerRecord, handle: WorkerHandle):
        super().__init__(runtime, worker, handle)
        self.host: Host = runtime
        self.loop = LocalLoop(self._woken)
        self.mine = _thread.allocate_lock()  # held by the thread that runs the loop

    def begin(self, task: TaskRecord) -> None:
        """Run a call until it has to wait."""
        self.posted.append(task)
        if self.mine.acquire(False):
            if not self.loop.is_closed():  # by a thread that has killed the actor just now
                self.loop.call_soon(self._take)
            self._turn()
        else:  # the loop is further up the stack, or another thread's: it finds the call there
            self._soon(self._take)

    def go_on(self) -> None:
        """Run what was set aside and can go on."""
        if self.mine.acquire(False):
            self._turn()

    def _woken(self) -> None:
        if not self.loop.is_running():  # whoever runs it looks for what has come when its turn is over
            self.host.run_soon(self.go_on)

    def _turn(self) -> None:
        """Run the loop until a call has ended or nothing can go on. The caller may be inside another loop, which is set aside."""
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        before = len(self.calls) + len(self.posted)
        try:
            if not self.loop.is_closed():
                self.handle.ident, self.loop.idle_for_s = _thread.get_ident(), None
                self.loop.run_forever()
        finally:
            asyncio._set_running_loop(outer)
            idle_for_s, fewer = self.loop.idle_for_s, len(self.calls) < before
            self.mine.release()
        if self.stopping or self.worker.status is DEAD:
            self.stop()
        elif idle_for_s is not None:
            self.host.run_later(idle_for_s, self.go_on)
        elif self.calls and fewer:
            self.host.runnable.append(self.go_on)  # the others may not have come as far as they can
            return
        # What another thread woke the loop for at the end of this turn. Looked at after the loop is nobody's: who wakes it from
        # now on sees that it does not run, and is let in.
        if self.loop._ready:  # type: ignore[attr-defined]
            self.host.run_soon(self.go_on)

    def _report(self, task: TaskRecord, outcome: Outcome) -> None:
        self.host.report_from_inside(super()._report, task, outcome)
        self._stop_loop()  # whoever waits for this call looks whether that is enough

    def stop(self) -> None:
        """The actor is dead: cancel what was set aside, and close the loop."""
        self.stopping = True
        if not self.mine.acquire(False):
            return  # it is being run: its turn ends here again
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            if not self.loop.is_closed():
                self.loop.helpers += 1  # from now on it waits for its timers
                self._cancel_what_is_left(self.loop)
                self.loop.close()
        finally:
            asyncio._set_running_loop(outer)
            self.mine.release()
