"""What the core asks of a runtime. Each action is a record, so that a test can print and compare them.

They are returned in the order in which they must be carried out. A worker that reports the end of a task finds its next one
in its record when the report returns; no action is needed for that.
"""
from __future__ import annotations

from dataclasses import dataclass

from .records import ObjectRecord, TaskRecord, Waiter, WorkerRecord


@dataclass(slots=True)                  # read-only by habit: freezing makes creation two to four times slower
class StartWorker:
    """Start a worker; it answers with `worker_started`, and finds its first task, if any, in its record."""

    worker: WorkerRecord


@dataclass(slots=True)
class RunTask:
    """Run a task's current attempt on this worker, which waits for it. It answers with `task_finished` or `task_failed`."""

    worker: WorkerRecord
    task: TaskRecord


@dataclass(slots=True)
class StopWorker:
    """A worker is not needed any more: let its thread end. No answer is expected."""

    worker: WorkerRecord


@dataclass(slots=True)
class KillWorker:
    """A worker was declared dead: end what it runs as soon as that can be done. Nothing it reports counts."""

    worker: WorkerRecord


@dataclass(slots=True)
class InterruptTask:
    """Raise KeyboardInterrupt in the task that this worker runs; a coroutine is cancelled instead."""

    worker: WorkerRecord
    task: TaskRecord


@dataclass(slots=True)
class Wake:
    """Wake a waiter: what it waited for is there."""

    waiter: Waiter


@dataclass(slots=True)
class DropValues:
    """Nobody can reach these values any more: let go of them outside the lock, since that may run user code. Their objects
    have let go of them already, so that a value made anew meanwhile is safe."""

    values: list


@dataclass(slots=True)
class SpillObject:
    """Write the object's value to a file; answer with `object_spilled`, or `spill_failed`."""

    object: ObjectRecord


@dataclass(slots=True)
class RestoreObject:
    """Read the object's value back from its file; answer with `object_restored`."""

    object: ObjectRecord


@dataclass(slots=True)
class CallLater:
    """Call `timer` when the clock shows this time."""

    at: float


@dataclass(slots=True)
class Say:
    """Tell the user something on the driver's log: `level` is logging's name for it."""

    level: str
    text: str


Action = (StartWorker | RunTask | StopWorker | KillWorker | InterruptTask | Wake | DropValues | SpillObject | RestoreObject
          | CallLater | Say)
