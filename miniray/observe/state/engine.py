"""The state API: what `miniray.util.state` answers, and Ray's `ray.util.state` to the letter.

One call is one snapshot: the records are looked at under one acquisition of the runtime's lock, so an answer is current
the moment that `get` has returned, and no two rows contradict each other. Filters look at records; rows are built last,
and only those that are handed out. Ray: util/state/api.py, dashboard/state_aggregator.py.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from ...core.cluster import Cluster
from ...core.records import (
    ACTOR_CREATION_TASK,
    NORMAL_TASK,
    ActorRecord,
    ObjectRecord,
    PlacementGroupRecord,
    TaskRecord,
)
from ...ids import JOB_HEX
from . import columns as tables
from .lookup import find, object_id
from .query import Column, Filter, ListApiOptions, RayStateApiException, check_id, matcher, max_limit
from .ray_rows import SCHEMAS, StateResource, StateSchema, SummaryResource
from .task_columns import TASKS, Look, task_entries, task_order, task_state, views

CALL_SITES = "Callsite is not being recorded: what made an object is told by the name of its task."


@dataclass
class Table:
    """One resource: how its records are found, ordered and read.

    id_column: what `get` looks for. entries: the records to be listed; the caller holds the lock. one: what `entries`
    would have of one record, for tables whose records are found by id. frozen: whether they change no more, and may be
    read after the lock is released. sparse: columns whose empty cells are not there at all. ids: columns whose filter
    must be an id of so many bytes, for "=" or for both predicates. states: what a filter on `state` may want.
    """

    resource: StateResource
    id_column: str
    readers: dict[str, Callable[[Any, Look], Any]]
    entries: Callable[[Cluster], list[Any]]
    order: Callable[[Any], Any] | None
    one: Callable[[Any], list[Any]] | None = None
    frozen: bool = False
    sparse: frozenset[str] | None = None
    ids: dict[str, int] | None = None
    ids_also_unequal: bool = False
    states: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.schema: type[StateSchema] = SCHEMAS[self.resource]
        may = self.schema.filterable_columns()
        kinds = {f.name: str(f.type).partition(" ")[0] for f in fields(self.schema)}  # type: ignore[arg-type]
        self.columns = {
            name: Column(kinds[name], name in may, read, self.sparse is None or name in self.sparse)
            for name, read in self.readers.items()
        }

    def check(self, filters: list[Filter]) -> None:
        """Refuse what Ray's sources refuse before they look at any row. Raises RayStateApiException."""
        for key, predicate, value in filters:
            size = (self.ids or {}).get(key.lower())
            if size is not None and (predicate == "=" or self.ids_also_unequal):
                check_id(str(value), size)
            if self.states and key.lower() == "state" and predicate == "=" and str(value).upper() not in self.states:
                what = self.resource.value[:-1]
                raise RayStateApiException(f"Invalid {what} state for filtering: {str(value).upper()}")


KINDS = {
    StateResource.TASKS: TaskRecord,
    StateResource.ACTORS: ActorRecord,
    StateResource.OBJECTS: ObjectRecord,
    StateResource.PLACEMENT_GROUPS: PlacementGroupRecord,
}


def _by_hex(record: Any) -> str:
    return record.hex


TABLES: dict[StateResource, Table] = {
    table.resource: table
    for table in (
        Table(
            StateResource.TASKS,
            "task_id",
            TASKS,
            task_entries,
            task_order,
            lambda task: list(views(task)),
            frozen=True,
            sparse=frozenset({"error_type"}),
            ids={"task_id": 24, "actor_id": 16, "job_id": 4},
            ids_also_unequal=True,
        ),
        Table(
            StateResource.ACTORS,
            "actor_id",
            tables.ACTORS,
            lambda c: list(c.actors.values()),
            _by_hex,
            lambda a: [a],
            ids={"actor_id": 16, "job_id": 4},
            states=("DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD"),
        ),
        Table(
            StateResource.OBJECTS,
            "object_id",
            tables.OBJECTS,
            tables.object_entries,
            object_id,
            lambda obj: [obj] if tables.is_referenced(obj) else [],
        ),
        Table(
            StateResource.NODES,
            "node_id",
            tables.NODES,
            lambda c: list(c.nodes.values()),
            _by_hex,
            ids={"node_id": 28},
            states=("ALIVE", "DEAD"),
        ),
        Table(StateResource.WORKERS, "worker_id", tables.WORKERS, tables.worker_entries, _by_hex),
        Table(
            StateResource.PLACEMENT_GROUPS,
            "placement_group_id",
            tables.PLACEMENT_GROUPS,
            lambda c: list(c.placement_groups.values()),
            _by_hex,
            lambda group: [group],
        ),
        Table(StateResource.JOBS, "submission_id", tables.JOBS, lambda c: [JOB_HEX], None, sparse=frozenset()),
        Table(StateResource.RUNTIME_ENVS, "", tables.RUNTIME_ENVS, tables.runtime_env_entries, None),
        Table(StateResource.CLUSTER_EVENTS, "event_id", tables.CLUSTER_EVENTS, tables.event_entries, None),
    )
}


# ------------------------------------------------------------ listing


def list_rows(
    runtime: Any,
    resource: StateResource,
    options: ListApiOptions,
    raise_on_missing_output: bool = True,
    explain: bool = False,
) -> list[Any]:
    """The rows of a resource, in the order of their ids.

    runtime: the running session. explain: warn (UserWarning) about rows beyond the limit, as the command line does.
    Raises RayStateApiException for a filter or a limit that cannot be, and when records were let go because their table
    was full and raise_on_missing_output is set; without it that is a UserWarning. A limit over the largest one is an
    error too, unless the caller has said that he takes what he can get: there is no server here that it could be too
    much for.
    """
    if options.has_conflicting_filters():
        return []
    table, filters = TABLES[resource], options.filters or []
    if options.limit > max_limit() and raise_on_missing_output:
        raise RayStateApiException(
            f"Given limit {options.limit} exceeds the supported limit {max_limit()}. Use a lower "
            "limit, or set the `RAY_MAX_LIMIT_FROM_API_SERVER` environment variable to a larger "
            "value."
        )
    table.check(filters)
    rows, found, dropped = _read(runtime, table, filters, options.limit, options.detail)
    _report_dropped(resource.value, dropped, found, raise_on_missing_output)
    if explain and found > len(rows):
        warnings.warn(
            f"Limit last {len(rows)} entries (Total {found}). Use `--filter` to reduce the amount of data to "
            "return or setting a higher limit with `--limit` to see all data. ",
            stacklevel=3,
        )
    if explain and resource is StateResource.OBJECTS:
        warnings.warn(CALL_SITES, stacklevel=3)
    return rows


def _read(runtime: Any, table: Table, filters: list[Filter], limit: int, detail: bool) -> tuple[list[Any], int, int]:
    """(rows, how many passed the filters, how many records were dropped)."""
    look = Look(runtime)
    passes = matcher(filters, table.columns, look)
    with runtime.locked() as cluster:
        entries = table.entries(cluster)
        dropped = cluster.dropped.get(table.resource.value, 0)
        if not table.frozen:
            rows, found = _rows(table, entries, passes, look, limit, detail)
    if table.frozen:
        rows, found = _rows(table, entries, passes, look, limit, detail)
    return rows, found, dropped


def _rows(
    table: Table, entries: list[Any], passes: Callable[[Any], bool] | None, look: Look, limit: int, detail: bool
) -> tuple[list[Any], int]:
    if passes is not None:
        entries = [entry for entry in entries if passes(entry)]
    if limit < 0:
        raise RayStateApiException(f"limit must be 0 or more, not {limit}")
    if table.order is not None:
        entries.sort(key=table.order)
    shown = entries[:limit]
    make, names = table.schema, table.schema.list_columns(True)
    if not detail:
        plain = table.schema.base_columns()  # the columns of details come last
        names = names[: max(i for i, name in enumerate(names) if name in plain) + 1]
    read = [table.readers[name] for name in names]
    return [make(*[cell(entry, look) for cell in read]) for entry in shown], len(entries)


def _report_dropped(what: str, dropped: int, found: int, must_be_complete: bool) -> None:
    """What a full table let go is never passed over in silence. As in Ray it is an error for tasks alone, whose rows
    are counted."""
    if not dropped:
        return
    said = f"Failed to retrieve all {found + dropped} {what}: {dropped} were let go because their table was full. "
    if must_be_complete and what == "tasks":
        raise RayStateApiException(
            said + "To avoid raising an exception and allow having missing output, set "
            "`raise_on_missing_output=False`. "
        )
    warnings.warn(said, stacklevel=5)


def get_rows(runtime: Any, resource: StateResource, id: str) -> Any:
    """The row with this id with all details, or None. A list for objects, and for a task with several attempts.

    Raises RayStateApiException for what cannot be the id of a task, actor or node; ValueError for a resource without
    ids.
    """
    table = TABLES[resource]
    if not table.id_column:
        raise ValueError(f"Can't get {resource.name} by id.")
    wanted: list[Filter] = [(table.id_column, "=", id)]
    table.check(wanted)
    if table.one is None:
        rows, _, _ = _read(runtime, table, wanted, max_limit(), True)
    else:
        look = Look(runtime)
        with runtime.locked() as cluster:
            found = find(cluster, str(id))
            entries = table.one(found) if found is not None and KINDS[resource] is type(found) else []
            rows, _ = _rows(table, entries, None, look, len(entries), True)
    if not rows:
        return None
    if resource is StateResource.OBJECTS or resource is StateResource.TASKS and len(rows) > 1:
        return rows
    return rows[0]


# ------------------------------------------------------------ summaries


def summary(
    runtime: Any, resource: SummaryResource, raise_on_missing_output: bool = True, explain: bool = False
) -> dict[str, Any]:
    """`{"cluster": {...}}` of a resource, counted over everything that is known.

    Raises RayStateApiException as list_rows does when records were let go.
    """
    look = Look(runtime)
    with runtime.locked() as cluster:
        found = _SUMMARIES[resource](cluster, look)
        dropped = cluster.dropped.get(resource.value, 0)
    total = found[_TOTALS[resource]]
    _report_dropped(resource.value, dropped, total, raise_on_missing_output)
    if explain and resource is SummaryResource.OBJECTS:
        warnings.warn(CALL_SITES, stacklevel=3)
    return {"cluster": found}


def _summary_of_tasks(cluster: Cluster, look: Look) -> dict[str, Any]:
    """Attempts by name and state. One pass with one dict per name: this is asked of a hundred thousand tasks."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    of_spec: dict[int, dict[str, int]] = {}  # most tasks share a spec, and with it their name
    for task in cluster.tasks.values():
        spec = task.spec
        if task.history is None and (task.actor is None or not task.actor.repr_name):
            states = of_spec.get(id(spec))
            if states is None:
                states = of_spec[id(spec)] = counts.setdefault((spec.name, spec.kind), {})
            state = task_state(task)
            states[state] = states.get(state, 0) + 1
            continue
        for attempt in views(task):
            states = counts.setdefault((TASKS["name"](attempt, look), spec.kind), {})
            state = task_state(attempt)
            states[state] = states.get(state, 0) + 1
    by_name: dict[str, dict[str, Any]] = {}
    totals: Counter[str] = Counter()
    for (name, kind), states in counts.items():
        totals[kind] += sum(states.values())
        entry = by_name.setdefault(name, {"func_or_class_name": name, "type": kind, "state_counts": {}})
        for state, count in states.items():
            entry["state_counts"][state] = entry["state_counts"].get(state, 0) + count
    return {
        "summary": by_name,
        "total_tasks": totals[NORMAL_TASK],
        "total_actor_tasks": totals["ACTOR_TASK"],
        "total_actor_scheduled": totals[ACTOR_CREATION_TASK],
        "summary_by": "func_name",
    }


def _summary_of_actors(cluster: Cluster, look: Look) -> dict[str, Any]:
    by_class: dict[str, dict[str, Any]] = {}
    for actor in cluster.actors.values():
        entry = by_class.setdefault(actor.class_name, {"class_name": actor.class_name, "state_counts": {}})
        states, state = entry["state_counts"], actor.status.name
        states[state] = states.get(state, 0) + 1
    return {"summary": by_class, "total_actors": len(cluster.actors), "summary_by": "class"}


def _summary_of_objects(cluster: Cluster, look: Look) -> dict[str, Any]:
    objects = tables.object_entries(cluster)
    read = tables.OBJECTS
    size_mb = sum(obj.size for obj in objects if obj.size >= 0) / 1024**2
    by_site: dict[str, dict[str, Any]] = {}
    if objects:
        by_site["disabled"] = {
            "total_objects": len(objects),
            "total_size_mb": size_mb,
            "total_num_workers": 1,
            "total_num_nodes": len({read["ip"](obj, look) for obj in objects}),
            "task_state_counts": dict(Counter(read["task_status"](obj, look) for obj in objects)),
            "task_attempt_number_counts": dict(Counter(str(read["attempt_number"](obj, look)) for obj in objects)),
            "ref_type_counts": dict(Counter(tables.reference_type(obj) for obj in objects)),
        }
    return {
        "summary": by_site,
        "total_objects": len(objects),
        "total_size_mb": size_mb if objects else 0,
        "callsite_enabled": not objects,
        "summary_by": "callsite",
    }


_SUMMARIES = {
    SummaryResource.TASKS: _summary_of_tasks,
    SummaryResource.ACTORS: _summary_of_actors,
    SummaryResource.OBJECTS: _summary_of_objects,
}
_TOTALS = {
    SummaryResource.TASKS: "total_tasks",
    SummaryResource.ACTORS: "total_actors",
    SummaryResource.OBJECTS: "total_objects",
}
