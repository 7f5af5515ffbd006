"""What is remembered: finished tasks up to a limit, and a log of limited length for events without a record of their
own.

Dropped entries are counted, so that every view can say how many are missing. Ray: GcsTaskManager, and the export of
cluster events.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator

from .records import ACTOR_CREATION_TASK, ActorRecord, TaskRecord, WorkerRecord
from .transitions import TaskStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FINISHED = TaskStatus.FINISHED


class Event:
    """One line of the log.

    at: seconds on the runtime's clock. kind: a short word, such as "node_died". text: one sentence for people. about:
    the record of the entity that it is about, or None.
    """

    __slots__ = ("at", "kind", "text", "about")

    def __init__(self, at: float, kind: str, text: str, about: object = None):
        self.at, self.kind, self.text, self.about = at, kind, text, about


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


class Tally:
    """How many values fell into each bucket, and their sum. bounds: the buckets' upper bounds; one more lies above."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]):
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def copy(self) -> Tally:
        """A tally that continues from this one."""
        made = Tally(self.bounds)
        made.counts, made.sum = self.counts[:], self.sum
        return made


PLACEMENT_MS = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)
SIZES = tuple(float(2**n) for n in range(25, 35))  # 32 MiB to 16 GiB


MOST_NAMES = 10_000  # as many as a metric has series
OTHER_NAMES = "(other names)"


class Totals:
    """What stays counted after its record was dropped.

    A counter of Prometheus never decreases, so the metrics add these numbers to what they count in the tables.

    dropped_tasks: attempts that ended, by (task's name, whether it was a retry, whether it FINISHED). dropped_actors:
    dead actors by class name. placements, registrations: milliseconds that dropped actors waited for a place, and
    dropped workers for their start. Two hold everything, not only what was dropped. worker_failures: workers that
    crashed, by (whether an actor lived in it, name of the task or of the class). sizes: bytes of the values that were
    created in the object stores.

    attempts_dropped: of a session that was read from a recording, how many attempts it had dropped itself. They may be
    in the recording.

    most_names: a program may give every task or actor a name of its own. When a table has so many entries, what has a
    further name is counted under OTHER_NAMES. Entries never go, so what was counted there is also found there again.
    """

    def __init__(self) -> None:
        self.dropped_tasks: dict[tuple[str, bool, bool], int] = {}
        self.dropped_actors: dict[str, int] = {}
        self.placements, self.registrations = Tally(PLACEMENT_MS), Tally(PLACEMENT_MS)
        self.worker_failures: dict[tuple[bool, str], int] = {}
        self.sizes = Tally(SIZES)
        self.attempts_dropped: int | None = None
        self.name = ""  # of the tasks dropped last; `same` of them finished at their first attempt
        self.same = 0
        self.most_names = MOST_NAMES

    def task_dropped(self, task: TaskRecord, sign: int = 1) -> None:
        """Count a dropped task. sign: -1 if its record has come back."""
        name = task.spec.name
        if (
            task.status is FINISHED and not task.attempt
        ):  # nearly every task: most often, those of one name follow each other
            if name != self.name:
                self.flush()
                self.name = name
            self.same += sign
            return
        for name, retry, finished in attempts(task):
            self._add(name, retry, finished, sign)

    def whole(self) -> dict[str, Any]:
        """The two that hold everything, and the number of dropped attempts, as plain lists: for a recording."""
        self.flush()
        return {
            "attempts_dropped": sum(self.dropped_tasks.values()),
            "worker_failures": [
                [has_actor, name, number] for (has_actor, name), number in self.worker_failures.items()
            ],
            "sizes": self.sizes.counts[:],
            "sizes_sum": self.sizes.sum,
        }

    def flush(self) -> None:
        """Bring `dropped_tasks` up to date."""
        if self.same:
            self._add(self.name, False, True, self.same)
            self.same = 0

    def _add(self, name: str, retry: bool, finished: bool, number: int) -> None:
        self._count(self.dropped_tasks, (name, retry, finished), (OTHER_NAMES, retry, finished), number)

    def _count(self, table: dict[Any, int], key: Any, other: Any, number: int) -> None:
        if key not in table and len(table) >= self.most_names:
            key = other
        table[key] = table.get(key, 0) + number

    def actor_dropped(self, actor: ActorRecord, sign: int = 1) -> None:
        """Count a dropped actor. sign: -1 if its record has come back."""
        self._count(self.dropped_actors, actor.class_name, OTHER_NAMES, sign)
        if sign > 0 and actor.creation.t_leased:
            self.placements.add((actor.creation.t_leased - actor.creation.t_ready) * 1000)

    def worker_dropped(self, worker: WorkerRecord) -> None:
        """Count a dropped worker."""
        if worker.t_started:
            self.registrations.add((worker.t_started - worker.t_created) * 1000)

    def worker_failed(self, worker: WorkerRecord) -> None:
        """Count a worker that crashed."""
        actor, task = worker.actor, worker.task
        name = f"{actor.class_name}.__init__" if actor is not None else task.spec.name if task is not None else ""
        self._count(self.worker_failures, (actor is not None, name), (actor is not None, OTHER_NAMES), 1)


def attempts(task: TaskRecord) -> Iterator[tuple[str, bool, bool]]:
    """(name, whether it was a retry, whether it FINISHED) of each attempt of a task that ended.

    As in Ray, a restart of an actor is no attempt of its creation.
    """
    name = task.spec.name
    once = task.spec.kind == ACTOR_CREATION_TASK
    for past in (task.history or ()) if not once else ():
        yield name, past.number > 0, past.failure is None
    if task.t_finished:
        yield name, task.attempt > 0 and not once, task.status is FINISHED


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
        self.finished.append(task)
        if len(self.finished) > self.limit:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """There are too many finished tasks. The oldest leaves the table, or is kept for its values."""
        old = self.finished.popleft()
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
            totals = self.cluster.totals
            if task.spec.name is totals.name and task.status is FINISHED and not task.attempt:
                totals.same += 1  # `task_dropped`, written out: a program may have millions of tasks of one name
            else:
                totals.task_dropped(task)
            if not any(obj.lineage for obj in task.returns):
                task.returns = ()  # breaks the reference cycle between the task and its objects
