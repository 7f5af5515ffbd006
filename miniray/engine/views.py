"""`--engine ray`: miniray's state tables, `explain` and timeline page, made from the rows of Ray's state API.

Ray's rows say less than miniray's records: they have no waits, no spans of user code, and no creator of a task. So
`explain` says what a task, actor or group waits for only as far as the rows and the cluster's resources show it, and
cannot follow a chain of calls.
"""

from __future__ import annotations

import importlib
import time
from types import ModuleType
from typing import Any

from ..core.records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    NORMAL_TASK,
    ActorRecord,
    Failure,
    NodeRecord,
    SchedulingClass,
    TaskRecord,
    TaskSpec,
    WorkerRecord,
    units,
)
from ..observe.explain.sentence import Explanation
from ..observe.timeline.files import write_whole
from ..observe.timeline.page import page
from ..observe.timeline.recording import FAILED, FINISHED, RETRIED, RUNNING, WAITING, Recording, Row

STEPS = ("PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER", "RUNNING")
MOST_ROWS = 10_000  # the most rows that Ray's state API returns
SINGULAR = {  # each table, with its name in `get_...`; None if Ray has no such function
    "tasks": "task",
    "actors": "actor",
    "objects": "objects",
    "nodes": "node",
    "workers": "worker",
    "placement_groups": "placement_group",
    "jobs": "job",
    "runtime_envs": None,
    "cluster_events": None,
}
# By the length of an id in hex digits: the table that has it, and its column.
TABLES = {48: ("tasks", "task_id"), 32: ("actors", "actor_id"), 36: ("placement_groups", "placement_group_id")}


def state_module(ray: Any) -> ModuleType:
    """`miniray.state` on Ray: rows as dicts with every column, one row per task, up to Ray's limit; and `explain`."""
    api = importlib.import_module("ray.util.state")
    module: Any = ModuleType("miniray.state", "The state of a run on Ray, as plain dicts, read through ray.util.state.")

    def lister(kind: str) -> Any:
        def list_rows(filters: Any = None, limit: int | None = None) -> list[dict[str, Any]]:
            rows = _rows(ray, kind, filters)
            return (_one_row_per_task(rows) if kind == "tasks" else rows)[:limit]

        return list_rows

    def getter(singular: str) -> Any:
        def get_row(id: str) -> Any:
            found = getattr(api, f"get_{singular}")(id, address=_address(ray)) or []
            rows = [row.asdict() for row in (found if isinstance(found, list) else [found])]
            if singular == "objects":
                return rows
            return next(iter(_one_row_per_task(rows) if singular == "task" else rows), None)

        return get_row

    for kind, singular in SINGULAR.items():
        setattr(module, f"list_{kind}", lister(kind))
        if singular is not None:
            setattr(module, f"get_{singular}", getter(singular))
    for what in ("tasks", "actors", "objects"):
        summarize = getattr(api, f"summarize_{what}")
        setattr(module, f"summarize_{what}", lambda summarize=summarize: summarize(_address(ray))["cluster"])
    module.list_logs, module.get_log = api.list_logs, api.get_log
    module.explain = lambda thing: explain(ray, thing)
    finished: ModuleType = module
    return finished


def _address(ray: Any) -> str:
    """The address of the cluster that this program is connected to. Other clusters may run on the same machine."""
    address: str = ray.get_runtime_context().gcs_address
    return address


def _rows(ray: Any, kind: str, filters: Any = None) -> list[dict[str, Any]]:
    api = importlib.import_module("ray.util.state")
    found = getattr(api, f"list_{kind}")(
        _address(ray), filters=filters, limit=MOST_ROWS, detail=True, raise_on_missing_output=False
    )
    return [row.asdict() for row in found]


def _one_row_per_task(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per task, from Ray's rows of attempts: the last attempt, with the number of attempts and its duration."""
    last: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["attempt_number"]):
        start, end = row["start_time_ms"], row["end_time_ms"]
        last[row["task_id"]] = {
            **row,
            "num_attempts": row["attempt_number"] + 1,
            "duration_ms": (end or time.time() * 1000) - start if start else 0.0,
        }
    return list(last.values())


# ------------------------------------------------------------ explain


def explain(ray: Any, thing: Any) -> Explanation:
    """What a task, actor or placement group waits for, as far as Ray's tables show it. thing: as in `miniray.state`.

    Raises ValueError if Ray's tables do not have the id. A task appears in them about a second late.
    """
    for attribute in ("_actor_id", "id"):  # of an actor handle; of a placement group
        thing = getattr(thing, attribute, thing)
    text = thing if isinstance(thing, str) else thing.hex()
    if len(text) == 56:  # an object's id begins with the id of the task that creates it
        text = text[:48]
    table, key = TABLES.get(len(text), ("", ""))
    rows = _rows(ray, table, [(key, "=", text)]) if table else []
    if not rows:
        raise ValueError(
            f"Ray's tables have no task, actor or placement group with the id {text!r}; a task appears in them about a "
            "second after its call"
        )
    row = max(rows, key=lambda row: row.get("attempt_number", 0))
    kind, name = key.removesuffix("_id"), row.get("name") or row.get("class_name") or text
    reason, phrase, details = _REASONS[kind](ray, row)
    step = {"kind": kind, "id": text, "name": name, "reason": reason, "text": f"{name} {phrase}", "details": details}
    return Explanation(reason, f"{kind.replace('_', ' ')} {name} {phrase}", kind, text, name, details, [step])


def _why_task(ray: Any, row: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    state = row["state"]
    if state == "PENDING_NODE_ASSIGNMENT":
        return _why_not_placed(ray, [row["required_resources"] or {}])
    if state == "FAILED":
        return "failed", f"has failed: {row['error_type']}", {"error_message": row["error_message"]}
    return {
        "PENDING_ARGS_AVAIL": ("argument_missing", "waits for an argument that has no value yet", {}),
        "SUBMITTED_TO_WORKER": ("about_to_run", f"was sent to worker {row['worker_id']} and has not started", {}),
        "FINISHED": ("finished", "has finished", {}),
    }.get(state, ("running", f"is {state} on worker {row['worker_id']}", {}))


def _why_actor(ray: Any, row: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    state = row["state"]
    if state == "PENDING_CREATION":
        return _why_not_placed(ray, [row["required_resources"] or {}])
    return {
        "DEPENDENCIES_UNREADY": ("argument_missing", "waits for an argument of its constructor", {}),
        "RESTARTING": ("actor_restarting", "is being restarted", {}),
        "ALIVE": ("alive", "is alive", {}),
    }.get(state, ("actor_dead", "is dead", {"death_cause": row["death_cause"]}))


def _why_group(ray: Any, row: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    if row["state"] == "PENDING" or row["state"] == "RESCHEDULING":
        return _why_not_placed(ray, [bundle["unit_resources"] for bundle in row["bundles"]])
    return {"CREATED": ("created", "is created", {})}.get(row["state"], ("placement_group_removed", "was removed", {}))


_REASONS = {"task": _why_task, "actor": _why_actor, "placement_group": _why_group}


def _why_not_placed(ray: Any, wanted: list[dict[str, float]]) -> tuple[str, str, dict[str, Any]]:
    """Why no node takes the request: no node is large enough, or the resources are in use.

    wanted: one need per bundle.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    free = ray.available_resources()
    for need in wanted:
        if not any(all(node.get(name, 0) >= amount for name, amount in need.items()) for node in nodes):
            return "infeasible", f"needs {need}, which no node of the cluster has", {"needs": need, "nodes": nodes}
    return (
        "resources_busy",
        f"needs {wanted[0] if len(wanted) == 1 else wanted}, and the cluster has only {free} free",
        {"needs": wanted, "free": free},
    )


# ------------------------------------------------------------ the timeline's page


def write_page(ray: Any, filename: str) -> None:
    """Write miniray's timeline page of the tasks that Ray recorded. Raises OSError if the file cannot be written."""
    write_whole(filename, page(recording_of(_rows(ray, "tasks"), ray.nodes(), time.time())))


def recording_of(rows: list[dict[str, Any]], nodes: list[dict[str, Any]], now: float) -> Recording:
    """Ray's task rows as a recording of miniray. All its times, and `now`, are seconds since the Unix epoch."""
    node_of = {
        node["NodeID"]: NodeRecord(number, units(node["Resources"]), {}, number == 1, None, 0.0)
        for number, node in enumerate(nodes, 1)
    }
    workers: dict[str, WorkerRecord] = {}
    actors: dict[str, ActorRecord] = {}
    specs: dict[tuple[str, ...], TaskSpec] = {}
    numbers: dict[str, int] = {}
    rows = sorted(rows, key=lambda row: (row["creation_time_ms"] or 0, row["attempt_number"]))
    last = {row["task_id"]: row["attempt_number"] for row in rows}
    converted = []
    for row in rows:
        number = numbers.setdefault(row["task_id"], len(numbers) + 1)
        actor = None
        if row["actor_id"]:
            actor = actors.get(row["actor_id"])
            if actor is None:
                actor = actors[row["actor_id"]] = ActorRecord(
                    row["func_or_class_name"].rpartition(".")[0], number=len(actors) + 1
                )
        node = node_of.get(row["node_id"])
        worker = workers.get(row["worker_id"]) if node is not None else None
        if worker is None and node is not None and row["worker_id"]:
            worker = workers[row["worker_id"]] = WorkerRecord(len(workers) + 1, node, actor)
        key = (row["type"], row["name"], row["func_or_class_name"], str(row["required_resources"]))
        spec = specs.get(key)
        if spec is None:
            required = row["required_resources"] or {}
            kind = row["type"] if row["type"] in (ACTOR_CREATION_TASK, ACTOR_TASK) else NORMAL_TASK
            spec = specs[key] = TaskSpec(
                kind,
                row["name"],
                row["func_or_class_name"],
                resources=required,
                scheduling_class=SchedulingClass(units(required), units(required)),
            )
        converted.append(_row(row, number, actor, spec, worker, node, last[row["task_id"]] != row["attempt_number"]))
    return Recording(0.0, now, converted, list(node_of.values()), [], [], {}, MOST_ROWS)


def _row(
    row: dict[str, Any],
    number: int,
    actor: ActorRecord | None,
    spec: TaskSpec,
    worker: WorkerRecord | None,
    node: NodeRecord | None,
    was_retried: bool,
) -> Row:
    reached = {event["state"]: event["created_ms"] / 1000 for event in row["events"] or ()}
    times = [reached.get(state, 0.0) for state in STEPS]
    finished = reached.get("FINISHED") or reached.get("FAILED") or 0.0
    if row["state"] in ("FINISHED", "FAILED"):
        outcome = RETRIED if was_retried else FINISHED if row["state"] == "FINISHED" else FAILED
    else:
        outcome = RUNNING if times[3] else WAITING
    latest = times[0]
    for i in range(1, 4):  # the times come from the clocks of several machines, and may be out of order
        latest = times[i] = max(times[i], latest) if times[i] else 0.0 if i == 3 else latest
    finished = max(finished, *times) if finished else 0.0
    failure = Failure(row["error_type"], row["error_message"] or "") if row["error_type"] else None
    created, ready, leased, started = times
    task = TaskRecord(spec, parent=row["parent_task_id"] or "", actor=actor, number=number)
    return Row(
        task,
        row["attempt_number"],
        outcome,
        worker,
        node,
        failure,
        created,
        ready,
        leased if worker is not None else 0.0,
        started,
        finished if started else 0.0,
        finished,
    )
