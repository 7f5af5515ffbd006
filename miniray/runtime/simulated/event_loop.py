"""The event loop of asyncio in a simulation: it sleeps by giving the baton away, and its time is the virtual clock's.

The loop is asyncio's own. Only its selector, and how other threads wake it, are different. A loop that waits for a
socket or a pipe is woken by it as a thread is that waits for one (see `outside`).
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
import sys
from typing import Any, Callable

from ...process.our_code import parks_here
from .baton import Baton, Fiber, Outside, RunOver
from .steps import Step

LOOP = Step("runs its event loop", ["loops"])


class Sleeper:
    """How a loop sleeps: as long as nobody wakes it. One for each loop."""

    def __init__(self, baton: Baton):
        self._baton = baton
        self._fiber: Fiber | None = None
        self._woken = False

    @parks_here
    def sleep(self, timeout: float | None, is_ready: Callable[[], bool] | None = None) -> None:
        """Give the baton away until `wake`, or until the time is over. timeout: seconds; None for no limit. is_ready:
        looks whether one of the loop's sockets ends the wait."""
        baton = self._baton
        if self._woken or timeout is not None and timeout <= 0:
            baton.point(LOOP)
        else:
            self._fiber = baton.current
            until = None if timeout is None else baton.time + timeout
            try:
                if is_ready is not None:
                    baton.block_outside(Outside(is_ready, True, "its event loop"), until, idle=True, resumes=LOOP)
                else:
                    baton.block(until, "its event loop", idle=True, resumes=LOOP)
            finally:
                self._fiber = None
        self._woken = False

    def wake(self) -> None:
        """Another thread has something for the loop to do."""
        self._woken = True
        if self._fiber is not None:
            self._baton.wake(self._fiber)


class SimSelector(selectors.DefaultSelector):
    """A selector that gives the baton away instead of sleeping."""

    def __init__(self, sleeper: Sleeper):
        super().__init__()
        self._sleeper = sleeper

    def select(self, timeout: float | None = None) -> Any:
        """The sockets that are ready. The loop's own is one of them: it has a byte for each signal that has come."""
        look = super().select
        ready = look(0)
        if not ready:
            only_its_own = len(self.get_map() or ()) < 2
            self._sleeper.sleep(timeout, None if only_its_own else lambda: bool(look(0)))
            ready = look(0)
        return ready


class Numbered:
    """An object whose hash is a number in place of its address: so a set of such objects has the same order in each
    run. `asyncio.wait` returns sets, and `all_tasks` does."""

    def __init__(self, *args: Any, number: int, **options: Any):
        self._miniray_number = number
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._miniray_number


class SimTask(Numbered, asyncio.Task):  # type: ignore[type-arg]
    """A task of a simulation."""


class SimFuture(Numbered, asyncio.Future):  # type: ignore[type-arg]
    """A future of a simulation."""


SimTask.__name__, SimFuture.__name__ = "Task", "Future"  # as their repr shows them


class SimEventLoop(asyncio.SelectorEventLoop):
    """An event loop of a simulation."""

    def __init__(self, baton: Baton):
        self._baton = baton
        self._sleeper = Sleeper(baton)
        self._numbers = itertools.count(1)
        super().__init__(SimSelector(self._sleeper))

    def create_task(self, coro: Any, **options: Any) -> Any:
        """As in every loop. The task's hash is a number."""
        if self.get_task_factory() is not None:
            return super().create_task(coro, **options)
        self._check_closed()  # type: ignore[attr-defined]
        number = next(self._numbers)
        if options.get("name") is None:  # asyncio numbers the tasks of the whole process
            options["name"] = f"Task-{number}"
        return SimTask(coro, loop=self, number=number, **options)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """As in every loop, but for what comes of the end of the run: tasks that are left, and those that it ended.
        They may be collected long after the run."""
        baton, error = self._baton, context.get("exception")
        if baton.over and (baton.stopped_by is not None or error is None or isinstance(error, RunOver)):
            return
        super().call_exception_handler(context)

    def create_future(self) -> Any:
        """As in every loop. The future's hash is a number."""
        return SimFuture(loop=self, number=next(self._numbers))

    def _write_to_self(self) -> None:
        self._sleeper.wake()


def install(replace: Callable[[Any, str, Any], None], baton: Baton) -> None:
    """Have asyncio make such loops, for the threads that take part. replace: as `replacing._replace`."""
    module: Any = sys.modules.get("asyncio.unix_events") or sys.modules["asyncio.windows_events"]
    policy: Any = getattr(module, "_DefaultEventLoopPolicy", None)  # since Python 3.14, its old name gives a warning
    if policy is None:
        policy = asyncio.DefaultEventLoopPolicy
    original = policy._loop_factory

    def factory() -> Any:
        return SimEventLoop(baton) if baton.here() is not None else original()

    owner = next(cls for cls in policy.__mro__ if "_loop_factory" in vars(cls))
    replace(owner, "_loop_factory", staticmethod(factory))
