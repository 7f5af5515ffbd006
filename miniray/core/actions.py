"""The actions: what the core asks a runtime to do. Each action is a record, so that a test can print and compare it.

An event returns its actions in the order in which the runtime must carry them out. One thing needs no action: a worker
that reports the end of a task finds its next task in its own record when the report returns.
"""

from __future__ import annotations

from .records import ObjectRecord, TaskRecord, Waiter, WorkerRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Action:
    """Base class: actions are compared and printed by their fields.

    The classes are written out, because generating them with `dataclass` takes longer than importing the rest of the
    core.
    """

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class StartWorker(Action):
    """Start a worker. It reports `worker_started`, and then finds its first task, if it has one, in its record."""

    __slots__ = ("worker",)

    def __init__(self, worker: WorkerRecord):
        self.worker = worker


class RunTask(Action):
    """Run a task's current attempt on this worker, which is idle unless its actor is async.

    The worker reports `task_finished`, `task_failed` or `arguments_lost`.
    """

    __slots__ = ("worker", "task")

    def __init__(self, worker: WorkerRecord, task: TaskRecord):
        self.worker, self.task = worker, task


class StopWorker(Action):
    """Let the thread of an idle worker end: the worker is no longer needed. No report is expected."""

    __slots__ = ("worker",)

    def __init__(self, worker: WorkerRecord):
        self.worker = worker


class KillWorker(Action):
    """End whatever this worker runs, as soon as possible. The core ignores its reports from now on."""

    __slots__ = ("worker",)

    def __init__(self, worker: WorkerRecord):
        self.worker = worker


class InterruptTask(Action):
    """Raise KeyboardInterrupt in the task that this worker runs; a coroutine is cancelled instead."""

    __slots__ = ("worker", "task")

    def __init__(self, worker: WorkerRecord, task: TaskRecord):
        self.worker, self.task = worker, task


class InterruptWait(Action):
    """Raise KeyboardInterrupt out of the `get` or `wait` in which this call of an actor is, if it is in one."""

    __slots__ = ("worker", "task")

    def __init__(self, worker: WorkerRecord, task: TaskRecord):
        self.worker, self.task = worker, task


class Wake(Action):
    """Wake a waiter: what it waited for has arrived, or the session has ended."""

    __slots__ = ("waiter",)

    def __init__(self, waiter: Waiter):
        self.waiter = waiter


class DropValues(Action):
    """Drop these values, which nobody can reach any longer. Drop them outside the lock, because this may run user code.

    The objects no longer refer to them, so the action cannot hit a value that was rebuilt in the meantime.
    """

    __slots__ = ("values",)

    def __init__(self, values: list[Any]):
        self.values = values


class SpillObject(Action):
    """Write the object's value to a file. Report `object_spilled` or `spill_failed`."""

    __slots__ = ("object",)

    def __init__(self, object: ObjectRecord):
        self.object = object


class CallLater(Action):
    """Report `timer` when the runtime's clock reaches `at` (seconds)."""

    __slots__ = ("at",)

    def __init__(self, at: float):
        self.at = at


class Say(Action):
    """Write a line for the user to the driver's log. level: the name of one of logging's levels, such as "WARNING"."""

    __slots__ = ("level", "text")

    def __init__(self, level: str, text: str):
        self.level, self.text = level, text
