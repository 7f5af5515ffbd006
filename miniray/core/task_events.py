"""What is remembered: finished tasks up to a limit, and a log of limited length for events without a record of their
own.

Dropped entries are counted, so that every view can say how many are missing. Ray: GcsTaskManager, and the export of
cluster events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .records import TaskRecord


@dataclass(slots=True)
class Event:
    """One line of the log."""

    at: float  # seconds on the runtime's clock
    kind: str  # a short word, such as "node_died"
    text: str  # one sentence for people
    about: object = None  # the record of the entity that it is about, or None


class EventLog:
    """The last `limit` events, oldest first. counts: the table in which dropped events are counted, under "events"."""

    def __init__(self, counts: dict[str, int], limit: int = 10_000):
        self.events: deque[Event] = deque(maxlen=limit)
        self._counts = counts

    def add(self, at: float, kind: str, text: str, about: object = None) -> None:
        """Append one event. If the log is full, the oldest event is dropped and counted."""
        if len(self.events) == self.events.maxlen:
            self._counts["events"] += 1
        self.events.append(Event(at, kind, text, about))

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)


class History:
    """Decides when the record of a finished task leaves `Tables.tasks`: when `limit` more recent tasks have finished.

    A task with a value in the table of objects stays until its last value is freed, since that object's row names its
    task.

    in_order: whether the table of tasks is in the order of their numbers. False once a task has come back to it.
    """

    def __init__(self, cluster: Any, limit: int):
        self.cluster, self.limit = cluster, limit  # cluster: Tables, which imports this module
        self.finished: deque[TaskRecord] = deque()  # the last `limit` finished tasks, oldest first
        self.kept_for_values: dict[int, TaskRecord] = {}  # older ones, kept because the table has a value of theirs
        self.in_order = True

    def task_ended(self, task: TaskRecord) -> None:
        """A task is FINISHED or FAILED. Drops the oldest finished task if there are too many."""
        finished = self.finished
        finished.append(task)
        if len(finished) > self.limit:
            old = finished.popleft()
            returns = old.returns
            if len(returns) == 1:  # most tasks: one look is quicker than a generator
                kept = returns[0].number in self.cluster.objects
            else:
                kept = any(obj.number in self.cluster.objects for obj in returns)
            if kept:
                self.kept_for_values[old.number] = old
            else:
                self._drop(old)

    def value_freed(self, task: TaskRecord) -> None:
        """One of the task's values was freed. Drops a task that was kept for its values if this was the last."""
        if task.number in self.kept_for_values and not any(obj.number in self.cluster.objects for obj in task.returns):
            del self.kept_for_values[task.number]
            self._drop(task)

    def _drop(self, task: TaskRecord) -> None:
        """Remove a task from the table and count it, unless it runs again to rebuild a value."""
        if task.t_finished and self.cluster.tasks.pop(task.number, None) is not None:
            self.cluster.dropped["tasks"] += 1
            if not any(obj.lineage for obj in task.returns):
                task.returns = ()  # breaks the reference cycle between the task and its objects
