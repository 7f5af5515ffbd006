"""What a task, actor, object or stream waits for: one step of an explanation, as a `Link`.

The reasons are those that the core itself can give. The caller of every function here holds the runtime's lock.
`resource_links.py` has the reasons of everything that waits for resources.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from ...core.cluster import Cluster
from ...core.records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    FAILED,
    LOST,
    PENDING,
    READY,
    SPILLED,
    ActorRecord,
    Drain,
    ObjectRecord,
    PlacementGroupRecord,
    StreamRecord,
    TaskRecord,
)
from ...core.transitions import ActorStatus, TaskStatus, WorkerStatus
from ...ids import INDEX_BITS
from ..amounts import count
from .resource_links import of_placement_group, of_scheduling
from .sentence import Link, Record, link_from, name_of

Value = TypeVar("Value", bound="ObjectRecord | StreamRecord")


def link(runtime: Any, record: Record) -> Link:
    """The step from this record. A record that does not wait gets a link too, which tells what it does instead."""
    if isinstance(record, TaskRecord):
        return _of_task(runtime, record)
    if isinstance(record, ActorRecord):
        return _of_actor(runtime.cluster, record)
    if isinstance(record, PlacementGroupRecord):
        return of_placement_group(runtime.cluster, record)
    if isinstance(record, StreamRecord):
        return link_from(record, "next_item", "waits for the next item of", next=record.task)
    return _of_object(runtime.cluster, record)


def missing(objects: Iterable[Value]) -> list[Value]:
    """The objects without a value or an error, and the streams without an item to take. A spilled value counts as a
    value."""
    return [
        obj
        for obj in objects
        if (
            not (obj.taken < len(obj.items) or obj.ended)
            if isinstance(obj, StreamRecord)
            else obj.status not in (READY, FAILED, SPILLED)
        )
    ]


def producer(cluster: Cluster, obj: ObjectRecord | StreamRecord) -> Record:
    """The record to ask why an object or stream has no value: its task or its placement group, otherwise itself."""
    task: TaskRecord | None = obj.task
    if task is not None or isinstance(obj, StreamRecord):
        return task or obj
    return _group_of_ready(cluster, obj) or obj


def _group_of_ready(cluster: Cluster, obj: ObjectRecord) -> PlacementGroupRecord | None:
    """The placement group whose `ready` this object is."""
    group = cluster.placement_groups.get(obj.number >> INDEX_BITS)
    return group if group is not None and group.ready is obj else None


# ------------------------------------------------------------ objects


def _of_object(cluster: Cluster, obj: ObjectRecord) -> Link:
    if obj.status is READY:
        return link_from(obj, "ready", "is available", size=obj.size)
    if obj.status is FAILED:
        failure: Any = obj.value
        return link_from(
            obj, "failed", f"holds an error: {failure.error_type}: {failure.message}", error_type=failure.error_type
        )
    if obj.status is SPILLED:
        return link_from(obj, "spilled", "was spilled to a file, and is read back when it is needed", size=obj.size)
    maker = producer(cluster, obj)
    if maker is not obj and (obj.status is PENDING or isinstance(maker, TaskRecord) and not maker.t_finished):
        return link_from(obj, "not_made_yet", "waits for", next=maker)
    if obj.status is LOST:
        return link_from(obj, "lost", "was lost, and is rebuilt when it is needed")
    return link_from(obj, "ended", "was released, or belongs to a session that has ended")


# ------------------------------------------------------------ tasks


def _of_task(runtime: Any, task: TaskRecord) -> Link:
    status, cluster = task.status, runtime.cluster
    if status is TaskStatus.FINISHED:
        return link_from(task, "finished", "has finished", attempt=task.attempt)
    if status is TaskStatus.FAILED:
        failure = task.failure
        said = failure.message if failure is not None else ""
        return link_from(
            task, "failed", f"has failed: {said}", error_type=failure.error_type if failure is not None else ""
        )
    if status is TaskStatus.PENDING_ARGS_AVAIL:
        return _of_arguments(cluster, task)
    if not_run_by_ending_actor(task):
        return _of_ending_actor(cluster, task)
    if status is TaskStatus.PENDING_NODE_ASSIGNMENT:
        return _of_actor_to_come(task) if task.spec.kind == ACTOR_TASK else of_scheduling(cluster, task)
    if task.worker is None:
        return _of_mailbox(task)
    return _of_running(runtime, task)


def _of_arguments(cluster: Cluster, task: TaskRecord) -> Link:
    absent = missing(task.deps)
    if not absent:
        return link_from(task, "arguments_there", "has its arguments and is about to be scheduled")
    which = f"{count(len(absent), 'argument')}, the first" if len(absent) > 1 else "its argument"
    return link_from(
        task,
        "argument_missing",
        f"waits for {which} from",
        next=producer(cluster, absent[0]),
        missing=[obj.hex for obj in absent],
    )


def _of_actor_to_come(task: TaskRecord) -> Link:
    actor = task.actor
    assert actor is not None
    restarting = actor.status is ActorStatus.RESTARTING
    return link_from(
        task,
        "actor_restarting" if restarting else "actor_not_alive",
        "cannot run while its actor restarts, and waits for" if restarting else "waits for",
        next=actor.creation,
        actor_id=actor.hex,
        actor_state=actor.status.name,
    )


def calls_ahead(task: TaskRecord) -> tuple[str, list[TaskRecord]]:
    """Why a call in its actor's queue does not run, and the calls of which one must go on before it can."""
    actor = task.actor
    assert actor is not None
    group = actor.groups[task.spec.group]
    running = [
        call
        for call in actor.calls.values()
        if call.worker is not None and not call.t_finished and call.spec.group == task.spec.group
    ]
    if actor.in_order and not running:
        for call in group.queue:  # look for the first call of the same caller that waits for its arguments
            if call is task:
                break
            if call.owner is task.owner and call.status is TaskStatus.PENDING_ARGS_AVAIL:
                return "mailbox_order", [call]
    return "mailbox_order" if group.limit == 1 else "concurrency_limit", running


def work_of(cluster: Cluster, drain: Drain) -> list[TaskRecord]:
    """What an owner that has ended waits for: tasks that it has submitted, and calls that its actor still runs."""
    work = [task for task in cluster.tasks.values() if task.owner in drain.workers and not task.t_finished]
    if drain.actor is not None:
        work += [call for call in drain.actor.calls.values() if call.worker is not None]
    return [task for task in work if task.spec.kind != ACTOR_CREATION_TASK]


def not_run_by_ending_actor(task: TaskRecord) -> bool:
    """Whether this is a call of an actor that has ended itself and starts no more calls."""
    actor = task.actor
    return task.spec.kind == ACTOR_TASK and actor is not None and actor.drain is not None and task.worker is None


def _of_ending_actor(cluster: Cluster, task: TaskRecord) -> Link:
    actor = task.actor
    assert actor is not None
    phrase = f"is queued at {name_of(actor)}, which has ended itself, runs no more calls, and waits for"
    return link_from(task, "actor_ending", phrase, next=work_of(cluster, actor.drain)[0], actor_id=actor.hex)


def _of_mailbox(task: TaskRecord) -> Link:
    actor = task.actor
    if actor is None:  # a normal task whose worker was leased and released again in one event
        return link_from(task, "about_to_run", "is about to be given to a worker")
    reason, ahead = calls_ahead(task)
    group = actor.groups[task.spec.group]
    details = {
        "actor_id": actor.hex,
        "limit": group.limit,
        "running": [call.hex for call in ahead],
        "queued": len(group.queue),
        "concurrency_group": group.name,
    }
    if not ahead:
        return link_from(task, "about_to_run", f"is about to be run by {name_of(actor)}", **details)
    where = f"{name_of(actor)}, concurrency group {group.name!r}," if group.name else name_of(actor)
    phrase = f"is queued at {where} behind"
    if reason == "concurrency_limit":
        where = where.removesuffix(",")
        phrase = f"is queued at {where}, which runs {len(ahead)} of at most {group.limit} calls at once, among them"
    return link_from(task, reason, phrase, next=ahead[0], **details)


def _of_running(runtime: Any, task: TaskRecord) -> Link:
    worker = task.worker
    assert worker is not None
    details: dict[str, Any] = {"worker_id": worker.hex, "node_id": worker.node.hex}
    if worker.status is WorkerStatus.STARTING:
        return link_from(task, "worker_starting", "was given to a worker whose thread is still starting", **details)
    absent = missing(runtime.waiting_for(worker))
    if absent and (worker.task is task or worker.running):
        return link_from(
            task,
            "waits_in_get",
            "is blocked in get() or wait() on",
            next=producer(runtime.cluster, absent[0]),
            missing=[obj.hex for obj in absent if isinstance(obj, ObjectRecord)],
            **details,
        )
    if task.stream is not None and task.stream.producer_waiter is not None:
        return link_from(
            task,
            "backpressure",
            f"has yielded {count(len(task.stream.items), 'item')}, and waits until its consumer takes more",
            produced=len(task.stream.items),
            taken=task.stream.taken,
            **details,
        )
    if not task.t_started:
        return link_from(task, "about_to_run", "was given to a worker, and is about to start", **details)
    return link_from(task, "running", "is running", **details)


# ------------------------------------------------------------ actors


def _of_actor(cluster: Cluster, actor: ActorRecord) -> Link:
    if actor.status is ActorStatus.DEAD:
        failure: Any = actor.failure
        said = failure.message
        if failure.cause is not None and failure.cause.message not in said:
            said += f": {failure.cause.message}"
        return link_from(
            actor, "actor_dead", f"is dead: {said}", error_type=failure.error_type, restarts=actor.restarts
        )
    if actor.drain is not None:
        work = work_of(cluster, actor.drain)
        phrase = f"has ended itself, and waits for {count(len(work), 'task')} that it has submitted or runs, the first"
        step = link_from(actor, "actor_ending", phrase, next=work[0], work=[task.hex for task in work])
        step.names_next = True
        return step
    if actor.status is ActorStatus.ALIVE:
        running = sum(call.worker is not None for call in actor.calls.values())
        waiting = len(actor.calls) - running
        phrase = f"is alive: {count(running, 'call')} running, {waiting} waiting"
        return link_from(actor, "alive", phrase, running=running, waiting=waiting)
    creation: TaskRecord = actor.creation
    restarting = actor.status is ActorStatus.RESTARTING
    has_worker = creation.worker is not None
    state = "is restarting" if restarting else "is starting" if has_worker else "cannot start yet"
    step = link_from(
        actor,
        "actor_restarting" if restarting else "actor_not_alive",
        f"{state}: its constructor",
        next=creation,
        restarts=actor.restarts,
    )
    step.names_next = True
    return step
