"""How the collector finds out that a record has changed: a value for each record that differs whenever its row does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ...core.records import ACTOR_CREATION_TASK, ActorRecord, ObjectRecord, TaskRecord, WorkerRecord
from ...core.transitions import TaskStatus

FINISHED = TaskStatus.FINISHED


def newest(log: deque[Any], after: Any, key: Callable[[Any], Any]) -> list[Any]:
    """The entries at the end of a log whose key is larger, oldest first. Other threads append meanwhile."""
    while True:
        found = []
        try:
            for entry in reversed(log):
                if key(entry) <= after:
                    break
                found.append(entry)
        except RuntimeError:  # it changed during the iteration
            continue
        found.reverse()
        return found


def plain(task: TaskRecord) -> bool:
    """Whether the row of the task says everything about it, besides its arguments, a failure and a request to cancel
    it."""
    actor = task.actor
    return (
        task.history is None
        and task.stream is None
        and (actor is None or not actor.repr_name and task.spec.kind != ACTOR_CREATION_TASK)
    )


def final(task: TaskRecord) -> bool:
    """Whether the row of the task stays as it is. If the task runs again, the core counts that, or the restart of its
    actor says so. A call in which an actor ended itself counts as finished, not failed, once the actor is dead."""
    return bool(task.t_finished) and not _drains(task)


def _drains(task: TaskRecord) -> bool:
    """Whether the task is a failed call of an actor that has ended itself and waits for its work."""
    return task.failure is not None and task.actor is not None and task.actor.drain is not None


def what_of_task(task: TaskRecord) -> Any:
    """A value that differs whenever the row of an unfinished task does."""
    return (
        task.status,
        task.attempt,
        task.pending,
        task.t_ready,
        task.t_leased,
        task.t_started,
        task.t_ended,
        task.t_finished,
        task.cancel_requested,
        _drains(task),
    )


def what_of_actor(record: ActorRecord) -> Any:
    """A value that differs whenever the row of an actor does."""
    groups = record.groups.values()
    return (
        record.status,
        record.restarts,
        record.tasks_done,
        len(record.calls),
        record.worker,
        record.t_alive,
        record.out_of_scope,
        record.repr_name,
        record.lineage,
        record.creation.status,
        record.creation.t_ready,
        sum([group.running for group in groups]),
        sum([len(group.queue) for group in groups]),
    )


def what_of_worker(record: WorkerRecord) -> Any:
    """A value that differs whenever the row of a worker does."""
    return (
        record.status,
        record.task,
        record.tasks_done,
        record.lease,
        record.lent,
        record.unfinished,
        record.drain,
        len(record.running),
        record.t_started,
        record.handle is None,
    )


def what_of_object(record: ObjectRecord) -> Any:
    """A value that differs whenever the row of an object does."""
    return (
        record.status,
        record.size,
        record.refs,
        record.uses,
        record.held,
        record.lineage,
        record.waiters is None,
        len(record.contained),
        len(record.locations) if record.locations is not None else 0,
        next(iter(record.locations)) if record.locations else 0,
    )
