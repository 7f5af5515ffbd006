"""From records to rows: one function for each stored table. Each returns a tuple in the order of the schema's columns.

The caller holds the runtime's lock, or has made sure that the record cannot change any longer. No function here runs
code of the program: a value, a function or an exception is never looked into.
"""

from __future__ import annotations

import os
from typing import Any

from ...core.records import (
    ACTOR_CREATION_TASK,
    ActorRecord,
    Attempt,
    Failure,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
    SchedulingClass,
    TaskRecord,
    WorkerRecord,
    amounts,
)
from ...core.task_events import Event
from ...core.transitions import ActorStatus, ObjectStatus, TaskStatus, WorkerStatus
from ...ids import JOB_HEX, worker_hex
from ...observe.state.columns import SEVERITY, death_cause, placed_on, reference_type, made_by
from ...observe.state.lookup import object_id
from ...observe.state.task_columns import (
    Look,
    error_type,
    failure_of,
    group_id,
    orphaned,
    process_of,
    required_resources,
    task_state,
    view_of,
)
from .numbers import Numbers, Row, about_of, cut, masked, to_json

FINISHED, FAILED = TaskStatus.FINISHED, TaskStatus.FAILED

# ------------------------------------------------------------ tasks


def details(task: TaskRecord) -> str | None:
    """What the record of a task holds that may run, or run again: its arguments, its retries, its stream."""
    stream = task.stream
    found: dict[str, Any] = {
        "deps": [dep.number for dep in task.deps],
        "contained": [inner.number for inner in task.contained],
        "pending": task.pending,
        "retries_left": task.retries_left,
        "cancel_requested": task.cancel_requested,
        "was_interrupted": task.was_interrupted,
        "keeps_arguments": task.args is not None,
    }
    if stream is not None:
        found["stream"] = {
            "taken": stream.taken,
            "produced": stream.produced,
            "ended": stream.ended,
            "items": len(stream.items),
            "waits": stream.producer_waiter is not None,
            "refs": stream.refs,
        }
    return to_json(found)


def _actor_key(task: TaskRecord) -> int | None:
    if task.actor is None:
        return None
    number: int = task.actor.number
    return -number if task.spec.kind == ACTOR_CREATION_TASK else number


def attempts(task: TaskRecord, numbers: Numbers, look: Look) -> list[Row]:
    """The rows of a task: its current attempt, and every earlier one."""
    spec, actor = task.spec, task.actor
    shown = actor.repr_name if actor is not None and task.t_started and spec.kind != ACTOR_CREATION_TASK else ""
    shared = numbers.spec(spec, shown), numbers.caller(task), _actor_key(task)
    producers = to_json(task.producers) if task.producers else None
    rows: list[Row] = []
    for past in task.history or ():
        failed = past.failure is not None and not constructed(task, past)
        view = view_of(task, past)
        state = task_state(view) if failed else "FINISHED"
        error = error_type(view, look) if failed else None
        shown_failure = failure_of(view) if failed else None
        rows.append(
            (
                -(task.number << 20 | past.number),
                *shared,
                past.worker.number if past.worker is not None else None,
                past.t_created,
                past.t_ready,
                past.t_leased,
                past.t_started,
                past.t_ended,
                past.t_finished,
                producers,
                past.number,
                state,
                numbers.failure(past.failure),
                numbers.failure(shown_failure),
                error,
                None,
            )
        )
    failure = task.failure
    error = shown_failure = None
    if failure is not None and not orphaned(task):
        error, shown_failure = error_type(task, look), failure_of(task)
    over = task.t_finished and task.args is None and not task.cancel_requested and task.stream is None
    rows.append(
        (
            task.number,
            *shared,
            task.worker.number if task.worker is not None else None,
            task.t_created,
            task.t_ready,
            task.t_leased,
            task.t_started,
            task.t_ended,
            task.t_finished,
            producers,
            task.attempt,
            task_state(task),
            numbers.failure(failure),
            numbers.failure(shown_failure),
            error,
            None if over else details(task),
        )
    )
    return rows


def plain_attempt(task: TaskRecord, numbers: Numbers) -> Row:
    """The row of a task's only attempt, if it has neither objects as arguments nor a failure."""
    actor, worker = task.actor, task.worker
    return (
        task.number,
        numbers.spec(task.spec),
        numbers.caller(task),
        None if actor is None else actor.number,
        None if worker is None else worker.number,
        task.t_created,
        task.t_ready,
        task.t_leased,
        task.t_started,
        task.t_ended,
        task.t_finished,
        to_json(task.producers) if task.producers else None,
        task.attempt,
        task_state(task),
        None,
        None,
        None,
        None,
    )


def constructed(task: TaskRecord, past: Attempt) -> bool:
    """Whether this earlier attempt was a constructor that returned. Then its failure is that of the actor, which came
    later. A worker reports an attempt when it has returned."""
    return task.spec.kind == ACTOR_CREATION_TASK and past.worker is not None and past.worker.tasks_done > 0


# ------------------------------------------------------------ actors


def actor(record: ActorRecord, numbers: Numbers, look: Look) -> Row:
    """The row of an actor."""
    spec = record.creation.spec
    wanted = spec.scheduling_class
    worker = placed_on(record)
    groups = {
        group.name: {"limit": group.limit, "running": group.running, "queue": [task.number for task in group.queue]}
        for group in record.groups.values()
    }
    failure, reason = record.failure, None
    if failure is not None:
        reason = cut(look.error_text(failure)) or cut(failure.message)
    cause = death_cause(record, look)
    name = record.name or record.repr_name or record.class_name.rpartition(".")[2]
    return (
        record.number,
        record.t_created,
        record.number,
        0,
        cut(f"{record.namespace}/{record.name or record.class_name}[{record.number}]"),
        cut(name),
        record.hex,
        cut(record.class_name),
        record.status.name,
        JOB_HEX,
        cut(record.name),
        cut(record.namespace),
        worker.node.hex if worker is not None else None,
        look.pid if worker is not None else 0,
        worker.hex if worker is not None else None,
        record.restarts,
        record.max_restarts,
        record.detached,
        record.is_async,
        cut(record.repr_name),
        group_id(wanted),
        len(record.calls),
        sum(group.running for group in record.groups.values()),
        record.tasks_done,
        record.t_alive,
        record.t_died,
        reason,
        cut(to_json(cause)) if cause is not None else None,
        to_json(required_resources(wanted)),
        to_json(masked(spec.runtime_env)) if spec.runtime_env else None,
        record.creation.number,
        record.worker.number if record.worker is not None else None,
        record.node.number if record.node is not None else None,
        record.owner.number if record.owner is not None else None,
        numbers.failure(failure),
        record.out_of_scope,
        to_json(groups),
        to_json(record.devices),
        record.lineage,
        numbers.scheduling_class(record.lease),
    )


def actor_events(record: ActorRecord) -> list[Row]:
    """The changes of an actor's state, in order. They are read from the attempts of its constructor."""
    creation = record.creation
    changes: list[tuple[str, float, str | None]] = [("DEPENDENCIES_UNREADY", record.t_created, None)]
    for past in creation.history or ():
        if past.number == 0:
            changes.append(("PENDING_CREATION", past.t_ready, None))
        if constructed(creation, past):
            changes.append(("ALIVE", past.t_ended, None))
        reason = cut(past.failure.message) if past.failure is not None else None
        changes.append(("RESTARTING", past.t_finished, reason))
    if not creation.attempt:
        changes.append(("PENDING_CREATION", creation.t_ready, None))
    if creation.status is FINISHED:
        changes.append(("ALIVE", creation.t_finished, None))
    if record.status is ActorStatus.DEAD and record.t_died:
        failure = record.failure
        changes.append(("DEAD", record.t_died, cut(failure.message) if failure is not None else None))
    return [
        (record.number, seq, record.hex, state, at, reason, state == "DEAD" and intended(record))
        for seq, (state, at, reason) in enumerate(changes)
        if at
    ]


def intended(record: ActorRecord) -> bool:
    """Whether a dead actor ended because somebody wanted it to, and not because something failed."""
    failure, worker = record.failure, placed_on(record)
    if failure is None or failure.error_type != "ACTOR_DIED" or failure.cause is not None:
        return False
    return worker is None or worker.exit_type is None or worker.exit_type.startswith("INTENDED")


# ------------------------------------------------------------ objects


def object_row(obj: ObjectRecord, numbers: Numbers, look: Look) -> Row:
    """The row of an object."""
    locations = list(obj.locations) if obj.locations is not None else None
    created = obj.t_created or (obj.task.t_created if obj.task is not None else 0.0)
    failed = obj.status is ObjectStatus.FAILED and isinstance(obj.value, Failure)
    owner = obj.owner if obj.task is None else obj.task.owner
    return (
        obj.number,
        object_id(obj),
        obj.status.name,
        obj.size,
        obj.task.number if obj.task is not None else None,
        obj.refs,
        obj.uses,
        obj.held,
        obj.lineage,
        reference_type(obj),
        cut(made_by(obj)),
        next(iter(obj.locations.values())).hex if locations else None,
        to_json(locations) if locations else None,
        to_json([inner.number for inner in obj.contained]) if obj.contained else None,
        len(obj.waiters) if obj.waiters else 0,
        owner.number if owner is not None else None,
        obj.actor.number if obj.actor is not None else None,
        numbers.failure(obj.value) if failed else None,
        created,
        obj.t_ready,
        0.0,
    )


# ------------------------------------------------------------ nodes and workers


def node(record: NodeRecord) -> Row:
    """The row of a node."""
    store = record.store
    return (
        record.number,
        record.hex,
        record.name,
        record.name,
        record.is_head,
        "ALIVE" if record.alive else "DEAD",
        cut(record.death_message) or None,
        to_json(amounts(record.total)),
        to_json(amounts(record.available)),
        to_json(record.labels),
        record.t_started,
        record.t_died,
        len(record.workers),
        len(record.idle),
        record.starting,
        store.used,
        store.capacity,
        store.spilled,
        to_json(store.stats()),
        to_json(record.free_devices),
    )


def driver(head: NodeRecord) -> Row:
    """The row of the driver among the workers."""
    empty = (None,) * 9
    return (
        0,
        worker_hex(0),
        "DRIVER",
        "LEASED",
        True,
        head.hex,
        os.getpid(),
        0,
        None,
        None,
        None,
        head.t_started,
        head.t_started,
        0.0,
        0,
        head.number,
        0,
        *empty,
        True,
        0,
    )


def worker(record: WorkerRecord, numbers: Numbers) -> Row:
    """The row of a worker."""
    handle, bundle = record.handle, record.bundle
    alive = record.status is not WorkerStatus.DEAD
    thread = int(getattr(handle, "ident", 0) or 0) if handle is not None and alive else 0
    lease = record.lease
    return (
        record.number,
        record.hex,
        "WORKER",
        record.status.name,
        alive,
        record.node.hex,
        os.getpid(),
        thread,
        record.actor.hex if record.actor is not None else None,
        record.exit_type,
        cut(record.exit_detail) or None,
        record.t_created,
        record.t_started,
        record.t_died,
        record.tasks_done,
        record.node.number,
        process_of(record).number,
        record.actor.number if record.actor is not None else None,
        record.group.name if record.group is not None else None,
        numbers.scheduling_class(lease),
        record.lent,
        lease.group.number if lease is not None and lease.group is not None else None,
        bundle.index if bundle is not None else None,
        record.task.number if record.task is not None else None,
        to_json(list(record.running)) if record.running else None,
        to_json(record.devices) if record.devices else None,
        record.owns,
        record.unfinished,
    )


# ------------------------------------------------------------ placement groups, demands, events


def placement_group(record: PlacementGroupRecord, look: Look) -> tuple[Row, list[Row]]:
    """The row of a placement group, and those of its bundles."""
    row = (
        record.number,
        record.hex,
        cut(record.name),
        record.strategy,
        record.status.name,
        record.detached,
        JOB_HEX,
        look.cluster.groups.scheduling_state(record),
        record.t_created,
        record.t_placed,
        record.attempts,
        record.owner.number if record.owner is not None else None,
        record.ready.number if record.ready is not None else None,
    )
    bundles = [
        (
            record.number,
            bundle.index,
            record.hex,
            to_json(amounts(bundle.total)),
            to_json(amounts(bundle.available)),
            bundle.node.hex if bundle.node is not None else None,
            bundle.node.number if bundle.node is not None else None,
            to_json(bundle.selector) if bundle.selector else None,
        )
        for bundle in record.bundles
    ]
    return row, bundles


def scheduling_class(wanted: SchedulingClass, number: int, look: Look) -> Row:
    """The row of a demand."""
    scheduler = look.cluster.scheduler
    queue = "waiting" if wanted in scheduler.waiting else "infeasible" if wanted in scheduler.infeasible else ""
    return (
        number,
        to_json(amounts(wanted.need)),
        to_json(amounts(wanted.hold)),
        to_json(wanted.strategy),
        to_json(wanted.selector) if wanted.selector else None,
        wanted.group.number if wanted.group is not None else None,
        queue,
        len(wanted.queue),
    )


def event(seq: int, line: Event) -> Row:
    """The row of a line of the event log."""
    return (
        seq,
        line.at,
        line.kind,
        SEVERITY.get(line.kind, "INFO"),
        "GCS" if line.kind.startswith(("node", "actor", "placement")) else "RAYLET",
        cut(line.text),
        *about_of(line.about),
    )
