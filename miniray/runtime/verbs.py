"""The verbs that every runtime provides. Runtimes differ in these alone: how they run a task, how they wait, and their clock.

mypy holds each runtime to this Protocol: see the end of `threaded.py` and `local_mode.py`.
"""

from __future__ import annotations

from typing import Any, Callable, Protocol

from ..core.records import TaskRecord, WorkerRecord


class Verbs(Protocol):
    """What `Runtime` leaves to the classes below it, in the words of the core's actions. None of them may be called with the lock
    held."""

    now: Callable[[], float]
    """Seconds on the runtime's clock."""

    def start_worker(self, worker: WorkerRecord) -> None:
        """Start a worker. It answers with the event `worker_started`."""

    def run_task(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Give a task to a worker that waits for one. It answers with `task_finished` or `task_failed`."""

    def stop_worker(self, worker: WorkerRecord) -> None:
        """Let an idle worker end."""

    def kill_worker(self, worker: WorkerRecord) -> None:
        """End what a dead worker runs, as soon as that is possible."""

    def interrupt(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Raise KeyboardInterrupt in a running task; a coroutine is cancelled."""

    def call_later(self, at: float) -> None:
        """Call `timer` when the clock shows this time."""

    def allocate_lock(self) -> Any:
        """A lock to sleep on in `park`: `acquire` it once, and it opens when `release` is called from any thread."""

    def park(self, lock: Any, timeout: float | None) -> bool:
        """Wait until the lock opens. Returns False if `timeout` seconds passed first."""

    def shutdown(self) -> None:
        """End the session: every worker stops, every waiter is woken, every value and file is dropped."""
