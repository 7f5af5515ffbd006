"""What is remembered: finished records up to a bound, and a bounded log of what has no record of its own.

What the bounds let go is counted, so that a reader can say so. Ray: GcsTaskManager, and the export of cluster events.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from .records import TaskRecord


@dataclass(slots=True)
class Event:
    """One line of the log. at: the runtime's clock. kind: a short word, as "node_died". about: the record, or None."""

    at: float
    kind: str
    text: str
    about: object = None


class EventLog:
    """The last `limit` events. counts: where the dropped ones are counted, under "events"."""

    def __init__(self, counts: dict[str, int], limit: int = 10_000):
        self.events: deque[Event] = deque(maxlen=limit)
        self._counts = counts

    def add(self, at: float, kind: str, text: str, about: object = None) -> None:
        """Write one line; the oldest goes when the log is full."""
        if len(self.events) == self.events.maxlen:
            self._counts["events"] += 1
        self.events.append(Event(at, kind, text, about))

    def __iter__(self):
        return iter(self.events)

    def __len__(self):
        return len(self.events)


class History:
    """Finished tasks, oldest first, up to `limit`.

    A task whose values somebody still holds stays in the table for their sake, and leaves with the last of them.
    """

    def __init__(self, cluster: Any, limit: int):
        self.cluster, self.limit = cluster, limit  # Tables, which imports this module
        self.finished: deque[TaskRecord] = deque()
        self.outlived: dict[int, TaskRecord] = {}

    def task_ended(self, task: TaskRecord) -> None:
        """A task has reached its last state."""
        finished = self.finished
        finished.append(task)
        if len(finished) > self.limit:
            old = finished.popleft()
            if any(obj.number in self.cluster.objects for obj in old.returns):
                self.outlived[old.number] = old
            else:
                self._drop(old)

    def value_gone(self, task: TaskRecord) -> None:
        """One of the task's values went."""
        if task.number in self.outlived and not any(obj.number in self.cluster.objects for obj in task.returns):
            del self.outlived[task.number]
            self._drop(task)

    def _drop(self, task: TaskRecord) -> None:
        if task.t_finished and self.cluster.tasks.pop(task.number, None) is not None:
            self.cluster.dropped["tasks"] += 1
            if not any(obj.lineage for obj in task.returns):
                task.returns = ()  # the two refer to each other
