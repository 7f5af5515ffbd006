"""The verbs: everything in which one runtime differs from another, namely how it runs a task, how it waits, and its
clock.

`Runtime` inherits from this Protocol, and each concrete runtime inherits it through `Runtime`. So mypy compares the
signature of each of their methods with the verb's. To mypy a verb without an implementation is an abstract method; the
assignments at the end of `threaded.py` and `local_mode.py` accept concrete classes only, so a missing verb is an error
there. None of this is checked when the program runs.
"""

from __future__ import annotations

from ..core.records import TaskRecord, WorkerRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Protocol
else:
    Protocol = object


class Verbs(Protocol):
    """The methods that `Runtime` leaves to its subclasses. Most verbs carry out the action of the same name.

    The core's lock must not be held when a verb is called.
    """

    now: Callable[[], float]
    """Seconds on the runtime's clock. The one verb that may be called under the lock."""

    def start_worker(self, worker: WorkerRecord) -> None:
        """Start a worker. The worker answers with the event `worker_started`."""

    def run_task(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Give a task to an idle worker. The worker answers with `task_finished` or `task_failed`."""

    def stop_worker(self, worker: WorkerRecord) -> None:
        """Tell an idle worker to end."""

    def kill_worker(self, worker: WorkerRecord) -> None:
        """End the code that a dead worker still runs, as soon as possible."""

    def interrupt(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Raise KeyboardInterrupt in a running task, or cancel its coroutine."""

    def interrupt_wait(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Raise KeyboardInterrupt in a running task if it is in `get` or `wait`."""

    def call_later(self, at: float) -> None:
        """Call `timer` when the clock shows this time."""

    def allocate_lock(self) -> Any:
        """A lock to sleep on in `park`. The caller acquires it once; a `release` from any thread then opens it."""

    def park(self, lock: Any, timeout: float | None) -> bool:
        """Wait until the lock opens. Returns False if `timeout` seconds passed first; None waits forever."""

    def shutdown(self) -> None:
        """End the session: stop every worker, wake every waiter, drop every value and every file."""
