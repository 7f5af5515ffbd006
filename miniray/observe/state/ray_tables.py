"""Ray's door: what `miniray.util.state` answers, to the letter like Ray's `ray.util.state`.

The tables of Ray's rows, what Ray refuses before it looks at any row, and the summaries. Ray: util/state/api.py,
dashboard/state_aggregator.py.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
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
from . import columns, engine
from .engine import Table
from .lookup import object_id
from .query import Column, Filter, ListApiOptions, RayStateApiException, check_id, max_limit
from .ray_rows import SCHEMAS, StateResource, SummaryResource
from .task_columns import TASKS, Look, Readers, first_task_entries, task_entries, task_order, task_state, views

CALL_SITES = "Lines of the program are not recorded: CALL_SITE tells what made an object."

# Columns whose filter must be an id of so many bytes. Ray checks those of tasks for "=" and "!=", the others for "=".
ID_BYTES: dict[StateResource, dict[str, int]] = {
    StateResource.TASKS: {"task_id": 24, "actor_id": 16, "job_id": 4},
    StateResource.ACTORS: {"actor_id": 16, "job_id": 4},
    StateResource.NODES: {"node_id": 28},
}
# The values that a filter `state = ...` may have.
STATES: dict[StateResource, tuple[str, ...]] = {
    StateResource.ACTORS: ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD"),
    StateResource.NODES: ("ALIVE", "DEAD"),
}


# ------------------------------------------------------------ tables


def _table(
    resource: StateResource,
    id_column: str,
    readers: Readers,
    entries: Callable[[Cluster], list[Any]],
    order: Callable[[Any], Any] | None = None,
    entries_of: Callable[[Any], list[Any]] | None = None,
    frozen: bool = False,
    sparse: frozenset[str] | None = None,
    first: Callable[[Cluster, int], list[Any] | None] | None = None,
) -> Table:
    """A table of Ray's rows. readers: in the order of the row class's fields. sparse: the columns whose empty cells are
    missing rather than None, so that no filter matches them; None for all columns."""
    schema = SCHEMAS[resource]
    kinds = {f.name: str(f.type).partition(" ")[0] for f in fields(schema)}  # type: ignore[arg-type]
    filterable = schema.filterable_columns()
    names, plain = schema.list_columns(True), schema.base_columns()
    num_plain = max(i for i, name in enumerate(names) if name in plain) + 1  # the columns of details come last

    def build(entries: list[Any], look: Look, detail: bool) -> list[Any]:
        read = [readers[name] for name in (names if detail else names[:num_plain])]
        return [schema(*[cell(entry, look) for cell in read]) for entry in entries]

    known = {
        name: Column(kinds[name], name in filterable, read, sparse is None or name in sparse)
        for name, read in readers.items()
    }
    return Table(resource, id_column, known, entries, build, order, entries_of, frozen, resource.value, first)


def _hex(record: Any) -> Any:
    return record.hex


def _attempts_of(record: Any) -> list[Any]:
    return list(views(record)) if isinstance(record, TaskRecord) else []


def _if_referenced(record: Any) -> list[Any]:
    return [record] if isinstance(record, ObjectRecord) and columns.is_referenced(record) else []


TABLES: dict[StateResource, Table] = {
    table.resource: table
    for table in (
        _table(
            StateResource.TASKS,
            "task_id",
            TASKS,
            task_entries,
            task_order,
            _attempts_of,
            frozen=True,
            sparse=frozenset({"error_type"}),
            first=first_task_entries,
        ),
        _table(
            StateResource.ACTORS,
            "actor_id",
            columns.ACTORS,
            lambda cluster: list(cluster.actors.values()),
            _hex,
            lambda record: [record] if isinstance(record, ActorRecord) else [],
        ),
        _table(StateResource.OBJECTS, "object_id", columns.OBJECTS, columns.object_entries, object_id, _if_referenced),
        _table(StateResource.NODES, "node_id", columns.NODES, lambda cluster: list(cluster.nodes.values()), _hex),
        _table(StateResource.WORKERS, "worker_id", columns.WORKERS, columns.worker_entries, _hex),
        _table(
            StateResource.PLACEMENT_GROUPS,
            "placement_group_id",
            columns.PLACEMENT_GROUPS,
            lambda cluster: list(cluster.placement_groups.values()),
            _hex,
            lambda record: [record] if isinstance(record, PlacementGroupRecord) else [],
        ),
        _table(StateResource.JOBS, "submission_id", columns.JOBS, lambda cluster: [JOB_HEX], sparse=frozenset()),
        _table(StateResource.RUNTIME_ENVS, "", columns.RUNTIME_ENVS, columns.runtime_env_entries),
        _table(StateResource.CLUSTER_EVENTS, "event_id", columns.CLUSTER_EVENTS, columns.event_entries),
    )
}


# ------------------------------------------------------------ lists and single rows


def list_rows(
    runtime: Any,
    resource: StateResource,
    options: ListApiOptions,
    raise_on_missing_output: bool = True,
    explain: bool = False,
) -> list[Any]:
    """The rows of a resource, in the order of their ids.

    runtime: the running session. explain: as the command line does, warn (UserWarning) about rows beyond the limit.
    Raises RayStateApiException for a filter or a limit that does not fit the table. With raise_on_missing_output it
    also raises for a limit above the largest one, and when task records were dropped because their table was full.
    Without it, dropped records are a UserWarning, and any limit is accepted: no server here could be overloaded by it.
    """
    if options.has_conflicting_filters():
        return []
    filters = options.filters or []
    if options.limit > max_limit() and raise_on_missing_output:
        raise RayStateApiException(
            f"Given limit {options.limit} exceeds the supported limit {max_limit()}. Use a lower "
            "limit, or set the `RAY_MAX_LIMIT_FROM_API_SERVER` environment variable to a larger "
            "value."
        )
    _check_filters(resource, filters)
    rows, found, dropped = engine.list_rows(
        runtime, TABLES[resource], filters, options.limit, options.detail, counts=explain
    )
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


def with_makers(runtime: Any, rows: list[Any]) -> list[Any]:
    """Rows of objects with what made each object as its call site. Ray's own answer here is "disabled"."""
    with runtime.locked() as cluster:
        makers = {object_id(obj): columns.made_by(obj) for obj in columns.object_entries(cluster)}
    return [replace(row, call_site=makers.get(row.object_id, row.call_site)) for row in rows]


def get_rows(runtime: Any, resource: StateResource, id: str) -> Any:
    """The row with this id with all details, or None. A list for objects, and for a task with several attempts.

    Raises RayStateApiException for a text that cannot be the id of a task, actor or node, and without an id; ValueError
    for a resource without ids; AttributeError for the id of a task that is not text, as in Ray.
    """
    table = TABLES[resource]
    if not table.id_column:
        raise ValueError(f"Can't get {resource.name} by id.")
    if resource is StateResource.TASKS and not isinstance(id, str):
        raise AttributeError(f"the id of a task is text, not {id!r}")
    if id is None or isinstance(id, (list, tuple, dict)) and not id:  # what a request leaves out
        raise RayStateApiException(f"the id is missing: {id!r}")
    _check_filters(resource, [(table.id_column, "=", id)])
    rows = engine.get_rows(runtime, table, str(id)).rows
    if not rows:
        return None
    if resource is StateResource.OBJECTS or resource is StateResource.TASKS and len(rows) > 1:
        return rows
    return rows[0]


def _check_filters(resource: StateResource, filters: list[Filter]) -> None:
    """Refuse what Ray's sources refuse before they look at any row. Raises RayStateApiException."""
    id_bytes, states = ID_BYTES.get(resource, {}), STATES.get(resource, ())
    for key, predicate, value in filters:
        size = id_bytes.get(key.lower())
        if size is not None and (predicate == "=" or resource is StateResource.TASKS):
            check_id(str(value), size)
        if states and key.lower() == "state" and predicate == "=" and str(value).upper() not in states:
            what = resource.value[:-1]
            raise RayStateApiException(f"Invalid {what} state for filtering: {str(value).upper()}")


def _report_dropped(what: str, dropped: int, found: int, must_be_complete: bool) -> None:
    """Never stay silent about dropped records. As in Ray they are an error for tasks only; otherwise a UserWarning."""
    if not dropped:
        return
    said = f"Failed to retrieve all {found + dropped} {what}: {dropped} were dropped because their table was full. "
    if must_be_complete and what == "tasks":
        raise RayStateApiException(
            said + "To avoid raising an exception and allow having missing output, set "
            "`raise_on_missing_output=False`. "
        )
    warnings.warn(said, stacklevel=5)


# ------------------------------------------------------------ summaries


def summary(
    runtime: Any, resource: SummaryResource, raise_on_missing_output: bool = True, explain: bool = False
) -> dict[str, Any]:
    """`{"cluster": {...}}`: counts over every record of a resource.

    explain: as the command line does, warn, and count objects by what made them instead of under "disabled".
    Raises RayStateApiException when task records were dropped, as list_rows does.
    """
    look = Look(runtime)
    with runtime.locked() as cluster:
        if explain and resource is SummaryResource.OBJECTS:
            found = _summary_of_objects(cluster, look, columns.made_by)
        else:
            found = _SUMMARIES[resource](cluster, look)
        dropped = cluster.dropped.get(resource.value, 0)
    total = found[_TOTALS[resource]]
    _report_dropped(resource.value, dropped, total, raise_on_missing_output)
    if explain and resource is SummaryResource.OBJECTS:
        warnings.warn(CALL_SITES, stacklevel=3)
    return {"cluster": found}


def _summary_of_tasks(cluster: Cluster, look: Look) -> dict[str, Any]:
    """Attempts by name and state. One pass with one dict per name, because there may be a hundred thousand tasks."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    of_spec: dict[int, dict[str, int]] = {}  # most tasks share a spec, and so their name
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


def _summary_of_objects(
    cluster: Cluster, look: Look, site_of: Callable[[ObjectRecord], str] = lambda obj: "disabled"
) -> dict[str, Any]:
    objects = columns.object_entries(cluster)
    read = columns.OBJECTS
    size_mb = _size_mb(objects)
    groups: dict[str, list[ObjectRecord]] = {}
    for obj in objects:
        groups.setdefault(site_of(obj), []).append(obj)
    by_site: dict[str, dict[str, Any]] = {
        site: {
            "total_objects": len(group),
            "total_size_mb": _size_mb(group),
            "total_num_workers": 1,
            "total_num_nodes": len({read["ip"](obj, look) for obj in group}),
            "task_state_counts": dict(Counter(read["task_status"](obj, look) for obj in group)),
            "task_attempt_number_counts": dict(Counter(str(read["attempt_number"](obj, look)) for obj in group)),
            "ref_type_counts": dict(Counter(columns.reference_type(obj) for obj in group)),
        }
        for site, group in groups.items()
    }
    return {
        "summary": by_site,
        "total_objects": len(objects),
        "total_size_mb": size_mb if objects else 0,
        "callsite_enabled": not objects,
        "summary_by": "callsite",
    }


def _size_mb(objects: list[ObjectRecord]) -> float:
    return sum(obj.size for obj in objects if obj.size >= 0) / 1024**2


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
