"""The book's door, behind `miniray.state`: plain dicts, every column filled, one row per task.

The tables list the same records as Ray's tables do; the columns differ. Times are milliseconds: those named
`..._time_ms` count from the epoch, and are None for a moment that has not come.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any

from ...core.object_store import ObjectStore
from ...core.records import PENDING, ActorRecord, NodeRecord, ObjectRecord, TaskRecord, amounts
from ...core.transitions import ActorStatus, WorkerStatus
from ...ids import JOB_HEX, task_hex
from . import columns, engine
from .engine import Table
from .query import Column, RayStateApiException, checked_filters, whole_number
from .ray_rows import StateResource
from .ray_tables import TABLES
from .task_columns import (
    SUBMITTED,
    TASKS,
    Look,
    Readers,
    Task,
    error_message,
    ended_for_ray,
    error_type,
    group_id,
    required_resources,
    task_entries,
    task_id,
    task_name,
)

Row = dict[str, Any]
DRIVER_TASK = task_hex(0)


# ------------------------------------------------------------ columns


def _state(task: Task, look: Look) -> str:
    """As in Ray's rows, except that a task whose owner crashed has failed, and that a constructor may be submitted."""
    status = task.status
    if task.t_started and status is SUBMITTED:
        return "RUNNING"
    if task.failure is not None and ended_for_ray(task):
        return "FINISHED"
    return status._name_  # not .name, which is a property in Python


def _duration_ms(task: Task, look: Look) -> float:
    """How long the user's function ran, or has been running so far; 0.0 if it has not started."""
    started = task.t_started
    return ((task.t_ended or task.t_finished or max(started, look.now)) - started) * 1000 if started else 0.0


def _when(name: str) -> Callable[[Any, Look], float | None]:
    """A reader for one of a record's times, by the name of its attribute."""
    read = attrgetter(name)

    def time_ms(record: Any, look: Look) -> float | None:
        at = read(record)
        return (at + look.epoch) * 1000 if at else None

    return time_ms


def task_row(task: Task, look: Look) -> dict[str, Any]:
    """A task's row. Written out because it may be built a hundred thousand times: a function per column would take half
    as long again."""
    spec, epoch, failure = task.spec, look.epoch, task.failure
    t_ready, t_leased, t_started, t_finished = task.t_ready, task.t_leased, task.t_started, task.t_finished
    return {
        "task_id": task_id(task, look),
        "name": task_name(task, look),
        "state": _state(task, look),
        "type": spec.kind,
        "func_or_class_name": spec.func_name,
        "job_id": JOB_HEX,
        "parent_task_id": task.parent,
        "actor_id": look.hex[task.actor],
        "num_attempts": task.attempt + 1,
        "duration_ms": _duration_ms(task, look),
        "node_id": look.hex[task.node],
        "worker_id": look.process[task.worker],
        "worker_pid": look.pid if task.worker is not None else None,
        "creation_time_ms": (task.t_created + epoch) * 1000,
        "ready_time_ms": (t_ready + epoch) * 1000 if t_ready else None,
        "submitted_time_ms": (t_leased + epoch) * 1000 if t_leased else None,
        "start_time_ms": (t_started + epoch) * 1000 if t_started else None,
        "end_time_ms": (t_finished + epoch) * 1000 if t_finished else None,
        "error_type": error_type(task, look) if failure is not None else None,
        "error_message": error_message(task, look) if failure is not None else None,
        "required_resources": dict(look.resources[spec]),
        "placement_group_id": look.group[spec],
    }


def _cell_of_row(name: str) -> Callable[[Any, Look], Any]:
    return lambda task, look: task_row(task, look)[name]


# Only filters read single cells. The columns that filters name most often have a reader of their own.
BOOK_TASKS: Readers = {
    name: _cell_of_row(name)
    for name in (
        "task_id",
        "name",
        "state",
        "type",
        "func_or_class_name",
        "job_id",
        "parent_task_id",
        "actor_id",
        "num_attempts",
        "duration_ms",
        "node_id",
        "worker_id",
        "worker_pid",
        "creation_time_ms",
        "ready_time_ms",
        "submitted_time_ms",
        "start_time_ms",
        "end_time_ms",
        "error_type",
        "error_message",
        "required_resources",
        "placement_group_id",
    )
}
BOOK_TASKS |= {"task_id": task_id, "name": task_name, "state": _state}
BOOK_TASKS |= {name: TASKS[name] for name in ("type", "actor_id")}


def _in_flight(actor: ActorRecord) -> int:
    return sum(call.worker is not None for call in actor.calls.values())


def _why_dead(actor: ActorRecord, look: Look) -> str | None:
    """One sentence, which ends with the error's own line if the constructor raised."""
    failure = actor.failure
    if actor.status is not ActorStatus.DEAD or failure is None:
        return None
    cause = failure.cause
    said = failure.message
    return said if cause is None or cause.message in said else f"{said}: {cause.message}"


BOOK_ACTORS: Readers = {
    **{name: columns.ACTORS[name] for name in ("actor_id", "class_name", "name", "state", "job_id", "node_id", "pid")},
    "worker_id": lambda a, look: getattr(columns.placed_on(a), "hex", None),
    "ray_namespace": columns.ACTORS["ray_namespace"],
    "mailbox_backlog": lambda a, look: len(a.calls) - _in_flight(a),
    "calls_in_flight": lambda a, look: _in_flight(a),
    "tasks_executed": lambda a, look: a.tasks_done,
    "num_restarts": columns.ACTORS["num_restarts"],
    "max_restarts": lambda a, look: a.max_restarts,
    "death_cause": _why_dead,
    "is_detached": columns.ACTORS["is_detached"],
    "repr_name": columns.ACTORS["repr_name"],
    "creation_time_ms": _when("t_created"),
    "alive_time_ms": _when("t_alive"),
    "death_time_ms": _when("t_died"),
    "required_resources": lambda a, look: required_resources(a.creation.spec.scheduling_class),
    "placement_group_id": lambda a, look: group_id(a.creation.spec.scheduling_class),
}


def _producer(obj: ObjectRecord, look: Look) -> str | None:
    """The id of the task that makes the object. For a put by the driver it is the driver's; for a put by a task it is
    None, because the core does not record which task it was."""
    task: TaskRecord | None = obj.task
    if task is not None:
        return task.hex
    if obj.actor is not None:
        return look.hex[obj.actor.creation]
    return DRIVER_TASK if obj.owner is None else None


def _object_node(obj: ObjectRecord, look: Look) -> str | None:
    """The node of its primary copy. A small value is with its owner, a pending one with its task."""
    if obj.locations:
        primary: NodeRecord = next(iter(obj.locations.values()))
        return primary.hex
    if obj.status is PENDING:
        return look.hex[obj.task.node] if obj.task is not None else None
    return look.hex[obj.owner.node if obj.owner is not None else look.driver_node]


_CREATED = _when("t_created")

BOOK_OBJECTS: Readers = {
    "object_id": columns.OBJECTS["object_id"],
    "state": lambda o, look: o.status._name_,
    "node_id": _object_node,
    "produced_by": _producer,
    "refs": lambda o, look: max(0, columns.own_references(o)),
    "object_size": lambda o, look: o.size,
    "call_site": lambda o, look: columns.made_by(o),
    "reference_type": lambda o, look: columns.reference_type(o),
    "pending_task_uses": lambda o, look: o.uses,
    "contained_in": lambda o, look: o.held,
    "locations": lambda o, look: [node.hex for node in (o.locations or {}).values()],
    "creation_time_ms": lambda o, look: _CREATED(o.task if o.task is not None and not o.t_created else o, look),
    "ready_time_ms": _when("t_ready"),
}


def _worker_state(w: columns.Worker, look: Look) -> str:
    return "RUNNING" if isinstance(w, columns.Driver) else w.status.name


def _worker_task(w: columns.Worker, look: Look) -> str | None:
    if isinstance(w, columns.Driver):
        return DRIVER_TASK
    return w.task.hex if w.task is not None else None


_STARTED, _DIED = _when("t_started"), _when("t_died")

BOOK_WORKERS: Readers = {
    "worker_id": columns.WORKERS["worker_id"],
    "state": _worker_state,
    "pid": columns.WORKERS["pid"],
    "thread_id": lambda w, look: columns.thread_id(w),
    "tasks_executed": lambda w, look: 0 if isinstance(w, columns.Driver) else w.tasks_done,
    "task_id": _worker_task,
    "actor_id": lambda w, look: w.actor.hex if not isinstance(w, columns.Driver) and w.actor is not None else None,
    **{
        name: columns.WORKERS[name] for name in ("worker_type", "is_alive", "node_id", "ip", "exit_type", "exit_detail")
    },
    "start_time_ms": lambda w, look: None if isinstance(w, columns.Driver) else _STARTED(w, look),
    "end_time_ms": lambda w, look: None if isinstance(w, columns.Driver) else _DIED(w, look),
}

BOOK_NODES: Readers = {
    **{
        name: columns.NODES[name]
        for name in ("node_id", "node_name", "node_ip", "is_head_node", "state", "state_message", "resources_total")
    },
    "resources_available": lambda n, look: amounts(n.available) if n.alive else {},
    "labels": columns.NODES["labels"],
    "num_workers": lambda n, look: sum(w.status is not WorkerStatus.DEAD for w in n.workers.values()),
    "object_store": lambda n, look: n.store.stats(),
    "start_time_ms": _when("t_started"),
    "end_time_ms": _when("t_died"),
}

BOOK_GROUPS: Readers = {
    **{name: columns.PLACEMENT_GROUPS[name] for name in ("placement_group_id", "name", "state")},
    "strategy": lambda g, look: g.strategy,
    "bundles": lambda g, look: [amounts(bundle.total) for bundle in g.bundles],
    "bundle_node_ids": lambda g, look: [bundle.node.hex if bundle.node is not None else None for bundle in g.bundles],
    "is_detached": columns.PLACEMENT_GROUPS["is_detached"],
    "num_attempts": lambda g, look: g.attempts,
    "creation_time_ms": _when("t_created"),
    "placement_time_ms": _when("t_placed"),
}

BOOK_JOBS: Readers = {
    **{name: columns.JOBS[name] for name in ("job_id", "entrypoint", "runtime_env", "driver_node_id")},
    "type": lambda job, look: "DRIVER",
    "status": lambda job, look: look.job_status,
    "pid": lambda job, look: look.pid,
    "start_time_ms": columns.JOBS["start_time"],
}


# ------------------------------------------------------------ tables


def _table(resource: StateResource, readers: Readers, **different: Any) -> Table:
    """Ray's table of a resource with this door's columns and rows, and with every column open to every filter."""
    names = list(readers)

    def build(entries: list[Any], look: Look, detail: bool) -> list[Row]:
        read = list(readers.values())
        return [dict(zip(names, [cell(entry, look) for cell in read])) for entry in entries]

    known = {name: Column("any", True, read) for name, read in readers.items()}
    return replace(TABLES[resource], columns=known, **{"build": build, **different})


def _task_rows(entries: list[Any], look: Look, detail: bool) -> list[Row]:
    return [task_row(task, look) for task in entries]


def _task_itself(record: Any) -> list[Any]:
    """The task with this id, or the task that makes the object with this id."""
    task = record.task if isinstance(record, ObjectRecord) else record
    return [task] if isinstance(task, TaskRecord) else []


BOOK: dict[StateResource, Table] = {
    table.resource: table
    for table in (
        _table(
            StateResource.TASKS,
            BOOK_TASKS,
            entries=lambda cluster: task_entries(cluster, earlier=False),  # the last attempt stands for the task
            entries_of=_task_itself,
            build=_task_rows,
        ),
        _table(StateResource.ACTORS, BOOK_ACTORS),
        _table(StateResource.OBJECTS, BOOK_OBJECTS),
        _table(StateResource.NODES, BOOK_NODES),
        _table(
            StateResource.WORKERS,
            BOOK_WORKERS,
            entries=lambda cluster: [columns.DRIVER, *cluster.workers.values()],  # also an actor's further threads
        ),
        _table(StateResource.PLACEMENT_GROUPS, BOOK_GROUPS),
        _table(StateResource.JOBS, BOOK_JOBS, id_column="job_id"),
        _table(StateResource.RUNTIME_ENVS, columns.RUNTIME_ENVS),
        _table(StateResource.CLUSTER_EVENTS, columns.CLUSTER_EVENTS, dropped_as="events"),
    )
}


# ------------------------------------------------------------ lists and single rows


def book_rows(runtime: Any, resource: StateResource, filters: Any = None, limit: int | None = None) -> list[Row]:
    """The rows of a resource, in the order of their ids; all of them unless a limit is given.

    filters: (column, "=" or "!=", value), on any column; the value None matches an empty cell. Warns (UserWarning) when
    records were dropped because their table was full. Raises ValueError for filters or a limit of the wrong shape, and
    RayStateApiException for an unknown column or a negative limit.
    """
    table = BOOK[resource]
    wanted = checked_filters(filters, (object,))
    limit = None if limit is None else whole_number("limit", limit)
    for key, _, _ in wanted:
        if key.lower() not in table.columns:
            raise RayStateApiException(f"{resource.value} have no column {key!r}; they have {', '.join(table.columns)}")
    rows, _, dropped = engine.list_rows(runtime, table, wanted, limit)
    _warn_of_dropped(resource, dropped)
    return rows


def book_row(runtime: Any, resource: StateResource, id: str) -> Row | None:
    """The row with this id, or None. A task is also found by the id of an object that it makes."""
    rows, _, dropped = engine.get_rows(runtime, BOOK[resource], id)
    _warn_of_dropped(resource, dropped)
    return rows[0] if rows else None


def _warn_of_dropped(resource: StateResource, dropped: int) -> None:
    if dropped:
        said = f"{dropped} more {resource.value} are missing: they were dropped because their table was full."
        warnings.warn(said, stacklevel=4)


# ------------------------------------------------------------ summaries


def book_tasks(runtime: Any) -> dict[str, Any]:
    """Tasks by name: how many there are, in which states, how many attempts they had and how long they ran."""
    look = Look(runtime)
    with runtime.locked() as cluster:
        entries, dropped = task_entries(cluster, earlier=False), cluster.dropped["tasks"]
    by_name: dict[str, dict[str, Any]] = {}
    states: Counter[str] = Counter()
    for task in entries:
        name, state = TASKS["name"](task, look), _state(task, look)
        entry = by_name.get(name)
        if entry is None:
            entry = by_name[name] = {
                "func_or_class_name": task.spec.func_name,
                "type": task.spec.kind,
                "num_tasks": 0,
                "num_attempts": 0,
                "duration_ms": 0.0,
                "state_counts": {},
            }
        entry["num_tasks"] += 1
        entry["num_attempts"] += task.attempt + 1
        entry["duration_ms"] += _duration_ms(task, look)
        entry["state_counts"][state] = entry["state_counts"].get(state, 0) + 1
        states[state] += 1
    return {
        "num_tasks": len(entries),
        "num_attempts": sum(entry["num_attempts"] for entry in by_name.values()),
        "state_counts": dict(states),
        "summary": by_name,
        "num_dropped": dropped,
    }


def book_actors(runtime: Any) -> dict[str, Any]:
    """Actors by class: how many there are, in which states, and how many of their calls wait and run."""
    by_class: dict[str, dict[str, Any]] = {}
    states: Counter[str] = Counter()
    with runtime.locked() as cluster:
        for actor in cluster.actors.values():
            entry = by_class.setdefault(
                actor.class_name,
                {
                    "class_name": actor.class_name,
                    "num_actors": 0,
                    "state_counts": {},
                    "num_restarts": 0,
                    "mailbox_backlog": 0,
                    "calls_in_flight": 0,
                },
            )
            running = _in_flight(actor)
            entry["num_actors"] += 1
            entry["num_restarts"] += actor.restarts
            entry["mailbox_backlog"] += len(actor.calls) - running
            entry["calls_in_flight"] += running
            entry["state_counts"][actor.status.name] = entry["state_counts"].get(actor.status.name, 0) + 1
            states[actor.status.name] += 1
        return {
            "num_actors": len(cluster.actors),
            "state_counts": dict(states),
            "summary": by_class,
            "num_dropped": cluster.dropped["actors"],
        }


def book_objects(runtime: Any) -> dict[str, Any]:
    """Objects and object stores: counts, sizes in bytes, and what happened to values.

    used_bytes: the values in the stores of living nodes. inline_bytes: small values, which stay with their owner.
    counters: sums over all nodes since the start of the session; by_node has the same for each node.
    """
    with runtime.locked() as cluster:
        objects = columns.object_entries(cluster)
        stores: dict[str, ObjectStore] = {node.hex: node.store for node in cluster.nodes.values()}
        living = [node.store for node in cluster.nodes.values() if node.alive]
        counters: Counter[str] = Counter()
        for store in stores.values():
            counters.update(store.counters)
        return {
            "num_objects": len(objects),
            "used_bytes": sum(store.used for store in living),
            "capacity_bytes": sum(store.capacity for store in living),
            "inline_bytes": sum(obj.size for obj in objects if obj.locations is None and obj.size > 0),
            "spilled_bytes": sum(store.spilled for store in living),
            "state_counts": dict(Counter(obj.status._name_ for obj in objects)),
            "counters": dict(counters),
            "num_reconstructions": cluster.task_manager.num_reconstructions,
            "by_node": {name: store.stats() for name, store in stores.items()},
        }
