"""What the core asks of a runtime. Each action is a record, so that a test can print and compare them.

They are returned in the order in which they must be carried out. A worker that reports the end of a task finds its next one
in its record when the report returns; no action is needed for that.
"""

from __future__ import annotations

from typing import Any

from .records import ObjectRecord, TaskRecord, Waiter, WorkerRecord


class Action:
    """Compared and printed by its fields. Written out rather than made by `dataclass`, which takes longer to make these classes
    than all other modules of the core take to import."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class StartWorker(Action):
    """Start a worker; it answers with `worker_started`, and finds its first task, if any, in its record."""

    __slots__ = ("worker",)

    def __init__(self, worker: WorkerRecord):
        self.worker = worker


class RunTask(Action):
    """Run a task's current attempt on this worker, which waits for it. It answers with `task_finished` or `task_failed`."""

    __slots__ = ("worker", "task")

    def __init__(self, worker: WorkerRecord, task: TaskRecord):
        self.worker, self.task = worker, task


class StopWorker(Action):
    """A worker is not needed any more: let its thread end. No answer is expected."""

    __slots__ = ("worker",)

    def __init__(self, worker: WorkerRecord):
        self.worker = worker


class KillWorker(Action):
    """A worker was declared dead: end what it runs as soon as that can be done. Nothing it reports counts."""

    __slots__ = ("worker",)

    def __init__(self, worker: WorkerRecord):
        self.worker = worker


class InterruptTask(Action):
    """Raise KeyboardInterrupt in the task that this worker runs; a coroutine is cancelled instead."""

    __slots__ = ("worker", "task")

    def __init__(self, worker: WorkerRecord, task: TaskRecord):
        self.worker, self.task = worker, task


class Wake(Action):
    """Wake a waiter: what it waited for is there."""

    __slots__ = ("waiter",)

    def __init__(self, waiter: Waiter):
        self.waiter = waiter


class DropValues(Action):
    """Let go of these values, which nobody can reach any more, outside the lock, since that may run user code. The objects
    have let go of them already, so that a value made anew meanwhile is safe."""

    __slots__ = ("values",)

    def __init__(self, values: list[Any]):
        self.values = values


class SpillObject(Action):
    """Write the object's value to a file; answer with `object_spilled`, or `spill_failed`."""

    __slots__ = ("object",)

    def __init__(self, object: ObjectRecord):
        self.object = object


class CallLater(Action):
    """Call `timer` when the clock shows this time."""

    __slots__ = ("at",)

    def __init__(self, at: float):
        self.at = at


class Say(Action):
    """Tell the user something on the driver's log: `level` is logging's name for it."""

    __slots__ = ("level", "text")

    def __init__(self, level: str, text: str):
        self.level, self.text = level, text
