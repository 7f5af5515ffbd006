"""The book's view of the tables, behind `miniray.state`: plain dicts, every field filled, one row per task.

The records are those of the state API, and so is the snapshot; what differs is what a row tells. Times are
milliseconds, those named `..._time_ms` since the epoch, None for what has not come.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ...core.cluster import Cluster
from ...core.object_store import ObjectStore
from ...core.records import PENDING, ActorRecord, ObjectRecord, amounts
from ...core.transitions import ActorStatus, WorkerStatus
from ...ids import JOB_HEX, task_hex
from . import columns as tables
from .lookup import find, object_id
from .engine import KINDS
from .query import Column, Filter, RayStateApiException, checked_filters, matcher, whole_number
from .ray_rows import StateResource
from .task_columns import (
    SUBMITTED,
    TASKS,
    Look,
    Task,
    error_message,
    error_type,
    group_id,
    required_resources,
    task_entries,
    task_id,
    task_name,
    task_order,
)

Readers = tables.Readers
DRIVER_TASK = task_hex(0)


# ------------------------------------------------------------ what a row tells


def _state(task: Task, look: Look) -> str:
    """As in Ray's rows, but that a call which ended its actor has failed, as its caller sees it."""
    status = task.status
    if task.t_started and status is SUBMITTED:
        return "RUNNING"
    return status._name_  # not .name, which is a property in Python


def _duration_ms(task: Task, look: Look) -> float:
    """How long the user's function ran, or has been running; 0.0 for what has not started."""
    started = task.t_started
    return ((task.t_ended or task.t_finished or max(started, look.now)) - started) * 1000 if started else 0.0


def _when(name: str) -> Callable[[Any, Look], float | None]:
    """A reader of one of a record's times."""
    read = attrgetter(name)

    def time_ms(record: Any, look: Look) -> float | None:
        at = read(record)
        return (at + look.epoch) * 1000 if at else None

    return time_ms


def task_row(task: Task, look: Look) -> dict[str, Any]:
    """A task's row. Written out, for it is built a hundred thousand times: a function per column would cost half as
    much again."""
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


# Single cells are read by filters only. Those that are asked for most have a reader of their own.
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
BOOK_TASKS |= {name: TASKS[name] for name in ("type", "actor_id", "error_type")}


def _in_flight(actor: ActorRecord) -> int:
    return sum(call.worker is not None for call in actor.calls.values())


def _why_dead(actor: ActorRecord, look: Look) -> str | None:
    """One sentence; with the error's own line when the constructor raised."""
    failure = actor.failure
    if actor.status is not ActorStatus.DEAD or failure is None:
        return None
    cause = failure.cause
    said = failure.message
    return said if cause is None or cause.message in said else f"{said}: {cause.message}"


BOOK_ACTORS: Readers = {
    **{name: tables.ACTORS[name] for name in ("actor_id", "class_name", "name", "state", "job_id", "node_id", "pid")},
    "worker_id": lambda a, look: getattr(tables.placed_on(a), "hex", None),
    "ray_namespace": tables.ACTORS["ray_namespace"],
    "mailbox_backlog": lambda a, look: len(a.calls) - _in_flight(a),
    "calls_in_flight": lambda a, look: _in_flight(a),
    "tasks_executed": lambda a, look: a.tasks_done,
    "num_restarts": tables.ACTORS["num_restarts"],
    "max_restarts": lambda a, look: a.max_restarts,
    "death_cause": _why_dead,
    "is_detached": tables.ACTORS["is_detached"],
    "repr_name": tables.ACTORS["repr_name"],
    "creation_time_ms": _when("t_created"),
    "alive_time_ms": _when("t_alive"),
    "death_time_ms": _when("t_died"),
    "required_resources": lambda a, look: required_resources(a.creation.spec.scheduling_class),
    "placement_group_id": lambda a, look: group_id(a.creation.spec.scheduling_class),
}


def _producer(obj: ObjectRecord, look: Look) -> str | None:
    """The id of the task that makes it. Of a put it is the driver's, None when a task put it: that is not recorded."""
    if obj.task is not None:
        return obj.task.hex
    if obj.actor is not None:
        return look.hex[obj.actor.creation]
    return DRIVER_TASK if obj.owner is None else None


def _where_from(obj: ObjectRecord, look: Look) -> str:
    """What made it, in the words of Ray's call sites; the line of the program is not recorded."""
    if obj.actor is not None:
        return f"(actor handle) {obj.actor.class_name}"
    if obj.task is None:
        return "(put object)"
    return f"({'task' if obj.task.spec.kind == 'NORMAL_TASK' else 'actor'} call) {obj.task.spec.name}"


def _object_node(obj: ObjectRecord, look: Look) -> str | None:
    """The node of its primary copy. A small value is with its owner; of what is not there yet it is where its task
    runs."""
    if obj.locations:
        return next(iter(obj.locations.values())).hex
    if obj.status is PENDING:
        return look.hex[obj.task.node] if obj.task is not None else None
    return look.hex[obj.owner.node if obj.owner is not None else look.driver_node]


_CREATED = _when("t_created")

BOOK_OBJECTS: Readers = {
    "object_id": tables.OBJECTS["object_id"],
    "state": lambda o, look: o.status._name_,
    "node_id": _object_node,
    "produced_by": _producer,
    "refs": lambda o, look: max(0, tables.own_references(o)),
    "object_size": lambda o, look: o.size,
    "call_site": _where_from,
    "reference_type": lambda o, look: tables.reference_type(o),
    "pending_task_uses": lambda o, look: o.uses,
    "contained_in": lambda o, look: o.held,
    "locations": lambda o, look: [node.hex for node in (o.locations or {}).values()],
    "creation_time_ms": lambda o, look: _CREATED(o.task if o.task is not None and not o.t_created else o, look),
    "ready_time_ms": _when("t_ready"),
}


def _worker_state(w: tables.Worker, look: Look) -> str:
    return "RUNNING" if isinstance(w, tables.Driver) else w.status.name


def _worker_task(w: tables.Worker, look: Look) -> str | None:
    if isinstance(w, tables.Driver):
        return DRIVER_TASK
    return w.task.hex if w.task is not None else None


_STARTED, _DIED = _when("t_started"), _when("t_died")

BOOK_WORKERS: Readers = {
    "worker_id": tables.WORKERS["worker_id"],
    "state": _worker_state,
    "pid": tables.WORKERS["pid"],
    "thread_id": lambda w, look: tables.thread_id(w),
    "tasks_executed": lambda w, look: 0 if isinstance(w, tables.Driver) else w.tasks_done,
    "task_id": _worker_task,
    "actor_id": lambda w, look: w.actor.hex if not isinstance(w, tables.Driver) and w.actor is not None else None,
    **{name: tables.WORKERS[name] for name in ("worker_type", "is_alive", "node_id", "ip", "exit_type", "exit_detail")},
    "start_time_ms": lambda w, look: None if isinstance(w, tables.Driver) else _STARTED(w, look),
    "end_time_ms": lambda w, look: None if isinstance(w, tables.Driver) else _DIED(w, look),
}

BOOK_NODES: Readers = {
    **{
        name: tables.NODES[name]
        for name in ("node_id", "node_name", "node_ip", "is_head_node", "state", "state_message", "resources_total")
    },
    "resources_available": lambda n, look: amounts(n.available) if n.alive else {},
    "labels": tables.NODES["labels"],
    "num_workers": lambda n, look: sum(w.status is not WorkerStatus.DEAD for w in n.workers.values()),
    "object_store": lambda n, look: n.store.stats(),
    "start_time_ms": _when("t_started"),
    "end_time_ms": _when("t_died"),
}

BOOK_GROUPS: Readers = {
    **{name: tables.PLACEMENT_GROUPS[name] for name in ("placement_group_id", "name", "state")},
    "strategy": lambda g, look: g.strategy,
    "bundles": lambda g, look: [amounts(bundle.total) for bundle in g.bundles],
    "bundle_node_ids": lambda g, look: [bundle.node.hex if bundle.node is not None else None for bundle in g.bundles],
    "is_detached": tables.PLACEMENT_GROUPS["is_detached"],
    "num_attempts": lambda g, look: g.attempts,
    "creation_time_ms": _when("t_created"),
    "placement_time_ms": _when("t_placed"),
}

BOOK_JOBS: Readers = {
    **{name: tables.JOBS[name] for name in ("job_id", "entrypoint", "runtime_env", "driver_node_id")},
    "type": lambda job, look: "DRIVER",
    "status": lambda job, look: "RUNNING",
    "pid": lambda job, look: look.pid,
    "start_time_ms": tables.JOBS["start_time"],
}


# ------------------------------------------------------------ listing


@dataclass
class BookTable:
    """One resource of this view. frozen: its entries change no more, and are read after the lock is released. row:
    builds a row, where that is not done by the readers of its cells."""

    name: str
    id_column: str
    readers: Readers
    entries: Callable[[Cluster], list[Any]]
    order: Callable[[Any], Any] | None = None
    frozen: bool = False
    row: Callable[[Any, Look], dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        self.columns = {name: Column("any", True, read) for name, read in self.readers.items()}


def _hex(record: Any) -> str:
    return record.hex


def _all_workers(cluster: Cluster) -> list[Any]:
    """Every thread, also the further ones of an actor."""
    return [tables.DRIVER, *cluster.workers.values()]


BOOK: dict[StateResource, BookTable] = {
    StateResource.TASKS: BookTable(
        "tasks", "task_id", BOOK_TASKS, lambda c: task_entries(c, earlier=False), task_order, frozen=True, row=task_row
    ),
    StateResource.ACTORS: BookTable("actors", "actor_id", BOOK_ACTORS, lambda c: list(c.actors.values()), _hex),
    StateResource.OBJECTS: BookTable("objects", "object_id", BOOK_OBJECTS, tables.object_entries, object_id),
    StateResource.NODES: BookTable("nodes", "node_id", BOOK_NODES, lambda c: list(c.nodes.values()), _hex),
    StateResource.WORKERS: BookTable("workers", "worker_id", BOOK_WORKERS, _all_workers, _hex),
    StateResource.PLACEMENT_GROUPS: BookTable(
        "placement_groups", "placement_group_id", BOOK_GROUPS, lambda c: list(c.placement_groups.values()), _hex
    ),
    StateResource.JOBS: BookTable("jobs", "job_id", BOOK_JOBS, lambda c: [JOB_HEX]),
    StateResource.RUNTIME_ENVS: BookTable("runtime_envs", "", tables.RUNTIME_ENVS, tables.runtime_env_entries),
    StateResource.CLUSTER_EVENTS: BookTable("cluster_events", "event_id", tables.CLUSTER_EVENTS, tables.event_entries),
}


def book_rows(
    runtime: Any, resource: StateResource, filters: Any = None, limit: int | None = None
) -> list[dict[str, Any]]:
    """The rows of a resource as dicts, in the order of their ids; all of them unless there is a limit.

    filters: (column, "=" or "!=", value), on any column; a value None is matched by an empty cell. What a full table
    has let go is a UserWarning. Raises ValueError for filters or a limit of a wrong shape, RayStateApiException for an
    unknown column.
    """
    table = BOOK[resource]
    wanted = checked_filters(filters, (object,))
    limit = None if limit is None else whole_number("limit", limit)
    if limit is not None and limit < 0:
        raise RayStateApiException(f"limit must be 0 or more, not {limit}")
    for key, _, _ in wanted:
        if key.lower() not in table.columns:
            raise RayStateApiException(f"{table.name} have no column {key!r}; they have {', '.join(table.columns)}")
    look = Look(runtime)
    passes = _matcher(wanted, table.columns, look)
    with runtime.locked() as cluster:
        entries = table.entries(cluster)
        dropped = cluster.dropped.get(table.name if table.name != "cluster_events" else "events", 0)
        rows = None if table.frozen else _dicts(table, entries, passes, look, limit)
    if dropped:
        warnings.warn(f"{dropped} {table.name} more were let go because their table was full.", stacklevel=3)
    return rows if rows is not None else _dicts(table, entries, passes, look, limit)


def _matcher(filters: list[Filter], columns: dict[str, Column], look: Look) -> Callable[[Any], bool] | None:
    """As for Ray's rows, but that values which are no text are compared as what they are."""
    texts = [one for one in filters if isinstance(one[2], str)]
    others = [
        (columns[key.lower()].read, predicate == "=", value)
        for key, predicate, value in filters
        if not isinstance(value, str)
    ]
    by_text = matcher(texts, {name: Column("any", True, read.read) for name, read in columns.items()}, look)
    if not others:
        return by_text
    return lambda record: (
        all((read(record, look) == value) is equal for read, equal, value in others)
        and (by_text is None or by_text(record))
    )


def _dicts(
    table: BookTable, entries: list[Any], passes: Callable[[Any], bool] | None, look: Look, limit: int | None
) -> list[dict[str, Any]]:
    if passes is not None:
        entries = [entry for entry in entries if passes(entry)]
    if table.order is not None:
        entries.sort(key=table.order)
    if table.row is not None:
        return [table.row(entry, look) for entry in entries[:limit]]
    names, read = list(table.readers), list(table.readers.values())
    return [dict(zip(names, [cell(entry, look) for cell in read])) for entry in entries[:limit]]


def book_row(runtime: Any, resource: StateResource, id: str) -> dict[str, Any] | None:
    """The row with this id, or None."""
    table = BOOK[resource]
    if resource not in KINDS:
        rows = book_rows(runtime, resource, [(table.id_column, "=", id)])
        return rows[0] if rows else None
    look = Look(runtime)
    with runtime.locked() as cluster:
        found = find(cluster, id)
        if resource is StateResource.TASKS and type(found) is ObjectRecord:
            found = found.task  # by a reference to its result
        if type(found) is not KINDS[resource] or type(found) is ObjectRecord and not tables.is_referenced(found):
            return None
        return _dicts(table, [found], None, look, 1)[0]


# ------------------------------------------------------------ summaries


def book_tasks(runtime: Any) -> dict[str, Any]:
    """Tasks by name: how many, in which states, how many attempts and how much time they took."""
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
    """Actors by class: how many, in which states, with how many calls waiting and running."""
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
    """Objects and object stores: how many and how large, the stores' use and capacity in bytes, and what has happened
    to values.

    used_bytes counts what stands in the stores; inline_bytes what is small and stays with its owner. counters are sums
    over the nodes since the start; by_node has them for each.
    """
    with runtime.locked() as cluster:
        objects = tables.object_entries(cluster)
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
