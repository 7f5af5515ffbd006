"""The watchdog: it reports a thread that keeps the baton and makes no step.

Such a thread waits for something that the simulation cannot see (a socket, a child process, a lock that was made before
the simulation began), or computes for a long time. The report shows its stack. The watchdog uses the real clock.
"""

from __future__ import annotations

import _thread
import sys
import traceback

from ..frames import current_frames
from .baton import Baton, Fiber

_allocate_lock = _thread.allocate_lock
_start_new_thread = _thread.start_new_thread


class Watchdog:
    """Watches one simulation on a thread of its own. patience_s: how long a step may take; 0 switches it off."""

    def __init__(self, baton: Baton, patience_s: float):
        self._baton, self._patience_s = baton, patience_s
        self._stopped = _allocate_lock()
        self.reports = 0
        if patience_s > 0:
            self._stopped.acquire()
            _start_new_thread(self._run, ())

    def stop(self) -> None:
        """End the thread."""
        if self._stopped.locked():
            self._stopped.release()

    def _run(self) -> None:
        seen = reported = -1
        ended = told = False  # the run was ended when we looked last; and it was said that it goes on
        while not self._stopped.acquire(True, self._patience_s):
            steps = self._baton.steps
            if ended and not told and steps != seen:
                told = True
                self._tell(self._goes_on())
            ended = self._baton.stopped_by is not None
            if steps == seen and steps != reported:
                reported = steps
                self._tell(self._report())
            seen = steps

    def _tell(self, report: str) -> None:
        self.reports += 1
        print(report, file=sys.__stderr__, flush=True)

    def _goes_on(self) -> str:
        driver = self._baton.driver
        return (
            f"miniray: the run was ended {self._patience_s:g} s ago or more, and the driver goes on. It catches every "
            f"exception, also this one, which ends the run: {type(self._baton.stopped_by).__name__}: "
            f"{self._baton.stopped_by}\n{_stack(driver)}"
        )

    def _report(self) -> str:
        waiting = self._baton.waiting_outside()
        if waiting:
            head = (
                f"miniray: nothing has happened in the simulation for {self._patience_s:g} s or more. These threads "
                f"wait for something outside of it, such as a child process or a socket:\n"
            )
            return head + "\n".join(f"{fiber.name}, for {fiber.waiting}:\n{_stack(fiber)}" for fiber in waiting)
        fiber = self._baton.current
        return (
            f"miniray: {fiber.name} has run for {self._patience_s:g} s or more without a step that the simulation can "
            f"see, and no other thread of the simulation runs meanwhile. It computes, or waits for something outside "
            f"of the simulation:\n{_stack(fiber)}"
        )


def _stack(fiber: Fiber) -> str:
    frame = current_frames().get(fiber.ident)
    return "".join(traceback.format_stack(frame)) if frame is not None else "(its thread has ended)\n"
