"""One function per column of Ray's state rows, for everything but tasks. A function reads one record; the caller holds
the runtime's lock."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Any, Union

from ...core.cluster import Cluster
from ...core.records import (
    ActorRecord,
    Failure,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
    TaskRecord,
    WorkerRecord,
    amounts,
)
from ...core.task_events import Event
from ...core.transitions import ActorStatus, WorkerStatus
from ...ids import INDEX_BITS, JOB_HEX, worker_hex
from ...process.context import shown_entrypoint
from .lookup import object_id
from .ray_rows import DriverInfo, JobStatus, JobType
from .task_columns import Look, Readers, env_text, group_id, process_of, required_resources, task_state

DRIVER_ID = worker_hex(0)

# ------------------------------------------------------------ actors


def placed_on(actor: ActorRecord) -> WorkerRecord | None:
    """The worker that the actor lives in, or lived in last; None if the actor was never placed."""
    creation: TaskRecord = actor.creation
    tried: list[WorkerRecord | None] = [
        actor.worker,
        creation.worker,
        *(past.worker for past in reversed(creation.history or ())),
    ]
    return next((worker for worker in tried if worker is not None), None)


def _died_in(failure: Failure, worker: WorkerRecord | None) -> tuple[str, str]:
    """Ray's reason for the death of an actor, and a sentence about it."""
    cause, said = failure.cause, failure.message.rstrip(".")
    if failure.error_type != "ACTOR_DIED":
        return "UNSPECIFIED", f"The actor is dead: {said}."
    if cause is not None and cause.error_type == "NODE_DIED":
        return "NODE_DIED", f"The actor died because {said}."
    for words, reason in (
        ("ray.kill", "RAY_KILL"),
        ("references to the actor were removed", "OUT_OF_SCOPE"),
        ("its owner", "OWNER_DIED"),
    ):
        if words in said:
            return reason, f"The actor is dead because {said}."
    exit_type = worker.exit_type if worker is not None else "SYSTEM_ERROR"
    own_wish = " exit_actor() is called." if exit_type == "INTENDED_USER_EXIT" and "exit_actor" not in said else ""
    return (
        "WORKER_DIED",
        f"The actor is dead because its worker has died. Worker exit type: {exit_type} "
        f"Worker exit detail: {said}.{own_wish}",
    )


def death_cause(actor: ActorRecord, look: Look) -> dict[str, Any] | None:
    """Why the actor died, as Ray's dict with one key; None unless it is dead for good."""
    failure = actor.failure
    if actor.status is not ActorStatus.DEAD or failure is None:
        return None
    if failure.cause is not None and failure.cause.error_type == "TASK_EXECUTION_EXCEPTION":
        text = look.error_text(failure.cause)
        return {
            "creation_task_failure_context": {
                "formatted_exception_string": text,
                "language": "PYTHON",
                "serialized_exception": base64.b64encode(text.encode("utf-8", "backslashreplace")).decode(),
            }
        }
    if failure.error_type == "ACTOR_UNSCHEDULABLE_ERROR":
        return {"actor_unschedulable_context": {"error_message": failure.message}}
    if failure.error_type == "RUNTIME_ENV_SETUP_FAILED":
        return {"runtime_env_failed_context": {"error_message": failure.message}}
    worker = placed_on(actor)
    reason, sentence = _died_in(failure, worker)
    address = worker.node.name if worker is not None else ""
    return {
        "actor_died_error_context": {
            "error_message": sentence,
            "owner_id": actor.owner.hex if actor.owner is not None else DRIVER_ID,
            "owner_ip_address": _driver_address(look),
            "node_ip_address": address,
            "pid": look.pid if worker is not None else 0,
            "name": actor.name,
            "ray_namespace": actor.namespace,
            "class_name": actor.class_name,
            "actor_id": actor.hex,
            "reason": reason,
            "never_started": worker is None,
        }
    }


def _driver_address(look: Look) -> str:
    return look.driver_node.name if look.driver_node is not None else ""


def _actor_node(actor: ActorRecord, look: Look) -> str | None:
    worker = placed_on(actor)
    return worker.node.hex if worker is not None else None


def _given(actor: ActorRecord) -> dict[str, Any]:
    return actor.options or {}


ACTORS: Readers = {
    "actor_id": lambda a, look: a.hex,
    "class_name": lambda a, look: a.class_name,
    "state": lambda a, look: a.status.name,
    "job_id": lambda a, look: JOB_HEX,
    "name": lambda a, look: a.name,
    "node_id": _actor_node,
    "pid": lambda a, look: look.pid if placed_on(a) is not None else 0,
    "ray_namespace": lambda a, look: a.namespace,
    "serialized_runtime_env": lambda a, look: look.env_of[a.creation.spec],
    "required_resources": lambda a, look: required_resources(a.creation.spec.scheduling_class),
    "death_cause": death_cause,
    "is_detached": lambda a, look: a.detached,
    "placement_group_id": lambda a, look: group_id(a.creation.spec.scheduling_class),
    "repr_name": lambda a, look: a.repr_name,
    "num_restarts": lambda a, look: a.restarts,
    "num_restarts_due_to_lineage_reconstruction": lambda a, look: 0,
    "num_restarts_due_to_node_preemption": lambda a, look: 0,
    "call_site": lambda a, look: None,
    "label_selector": lambda a, look: dict(_given(a).get("label_selector") or {}),
    "fallback_strategy": lambda a, look: _given(a).get("fallback_strategy"),
}

# ------------------------------------------------------------ objects


def own_references(obj: ObjectRecord) -> int:
    """How many references the program holds. One reference to a placement group's `ready` is the group's own."""
    is_ready_of_group = obj.task is None and obj.actor is None and obj.number & (1 << INDEX_BITS) - 1 == 1
    return obj.refs - is_ready_of_group


def object_entries(cluster: Cluster) -> list[ObjectRecord]:
    """Every object that somebody still refers to."""
    return [obj for obj in cluster.objects.values() if is_referenced(obj)]


def is_referenced(obj: ObjectRecord) -> bool:
    """Whether the program, an unfinished task or a stored value holds a reference to the object. As in Ray, a weak
    handle holds none."""
    if obj.actor is not None and obj.actor.handle is not obj:
        return False
    return obj.uses > 0 or obj.held > 0 or own_references(obj) > 0


def reference_type(obj: ObjectRecord) -> str:
    """The kind of reference that Ray names first."""
    if obj.actor is not None:
        return "ACTOR_HANDLE"
    if obj.uses:
        return "USED_BY_PENDING_TASK"
    return "LOCAL_REFERENCE" if own_references(obj) > 0 else "CAPTURED_IN_OBJECT" if obj.held else "UNKNOWN_STATUS"


def made_by(obj: ObjectRecord) -> str:
    """What made the object, in the form of Ray's call sites but without the line of the program."""
    if obj.actor is not None:
        return f"(actor handle) {obj.actor.class_name}"
    if obj.task is None:
        return "(put object)"
    return f"({'task' if obj.task.spec.kind == 'NORMAL_TASK' else 'actor'} call) {obj.task.spec.name}"


def _task_status(obj: ObjectRecord, look: Look) -> str:
    """The state of the task that makes the object, as its owner sees it: the owner knows only that a running task was
    sent to a worker."""
    actor = obj.actor
    task = obj.task if actor is None else actor.creation
    if actor is not None and actor.status in (ActorStatus.ALIVE, ActorStatus.DEAD, ActorStatus.RESTARTING):
        return "NIL"
    if task is None or task.t_finished:
        return "FINISHED"
    state = task_state(task)
    return "SUBMITTED_TO_WORKER" if state == "RUNNING" and actor is None else state


OBJECTS: Readers = {
    "object_id": lambda o, look: object_id(o),
    "object_size": lambda o, look: o.size,
    "task_status": _task_status,
    "attempt_number": lambda o, look: o.task.attempt + 1 if o.task is not None else 1,
    "reference_type": lambda o, look: reference_type(o),
    "call_site": lambda o, look: "disabled",
    "type": lambda o, look: "DRIVER" if o.owner is None and (o.task is None or o.task.owner is None) else "WORKER",
    "pid": lambda o, look: look.pid,
    "ip": lambda o, look: _driver_address(look) if o.owner is None else o.owner.node.name,
}

# ------------------------------------------------------------ nodes


NODES: Readers = {
    "node_id": lambda n, look: n.hex,
    "node_ip": lambda n, look: n.name,
    "is_head_node": lambda n, look: n.is_head,
    "state": lambda n, look: "ALIVE" if n.alive else "DEAD",
    "state_message": lambda n, look: n.death_message or None,
    "node_name": lambda n, look: n.name,
    "resources_total": lambda n, look: amounts(n.total),
    "labels": lambda n, look: dict(n.labels),
    "start_time_ms": lambda n, look: look.ms(n.t_started),
    "end_time_ms": lambda n, look: look.ms(n.t_died) or 0,
}

# ------------------------------------------------------------ workers


class Driver:
    """The entry of the driver among the workers. The core keeps no record of it."""

    number = 0
    hex = DRIVER_ID


Worker = Union[WorkerRecord, Driver]
DRIVER = Driver()


def worker_entries(cluster: Cluster) -> list[Worker]:
    """The driver, and every worker that has started. An actor's further threads are not listed: Ray has one process."""
    return [DRIVER, *(w for w in cluster.workers.values() if w.t_started and process_of(w) is w)]


def _of(default: Any, read: Callable[[WorkerRecord, Look], Any]) -> Callable[[Worker, Look], Any]:
    """A reader of worker records that answers `default` for the driver."""
    return lambda w, look: default if isinstance(w, Driver) else read(w, look)


def _worker_start(w: Worker, look: Look) -> int | None:
    if isinstance(w, Driver):
        return look.ms(look.driver_node.t_started) if look.driver_node is not None else None
    return look.ms(w.t_started)


WORKERS: Readers = {
    "worker_id": lambda w, look: w.hex,
    "is_alive": _of(True, lambda w, look: w.status is not WorkerStatus.DEAD),
    "worker_type": _of("DRIVER", lambda w, look: "WORKER"),
    "exit_type": _of(None, lambda w, look: w.exit_type),
    "node_id": lambda w, look: _node_of(w, look).hex,
    "ip": lambda w, look: _node_of(w, look).name,
    "pid": lambda w, look: look.pid,
    "exit_detail": _of(None, lambda w, look: w.exit_detail or None),
    "worker_launch_time_ms": _of(-1, lambda w, look: look.ms(w.t_created)),
    "worker_launched_time_ms": _of(-1, lambda w, look: look.ms(w.t_started)),
    "start_time_ms": _worker_start,
    "end_time_ms": _of(0, lambda w, look: look.ms(w.t_died) or 0),
    "debugger_port": lambda w, look: None,
    "num_paused_threads": lambda w, look: None,
}


def _node_of(w: Worker, look: Look) -> NodeRecord:
    node = look.driver_node if isinstance(w, Driver) else w.node
    assert node is not None
    return node


def thread_id(w: Worker) -> int:
    """The ident of the worker's thread; 0 when the thread has ended."""
    if isinstance(w, Driver):
        return threading.main_thread().ident or 0
    handle = w.handle  # read once: the thread clears it when it ends, without the lock
    return int(handle.ident or 0) if handle is not None and w.status is not WorkerStatus.DEAD else 0


# ------------------------------------------------------------ placement groups


def bundles(group: PlacementGroupRecord) -> list[dict[str, Any]]:
    """The bundles as Ray shows them. node_id is "" until the bundle is placed."""
    return [
        {
            "bundle_id": {"placement_group_id": group.hex, "bundle_index": bundle.index},
            "unit_resources": amounts(bundle.total),
            "node_id": bundle.node.hex if bundle.node is not None else "",
            "label_selector": {key: ",".join(values) for key, _, values in bundle.selector},
        }
        for bundle in group.bundles
    ]


def _stats(group: PlacementGroupRecord, look: Look) -> dict[str, Any]:
    took_us = str(round((group.t_placed - group.t_created) * 1e6)) if group.t_placed else "0"
    asked_ns = str(int((group.t_created + look.epoch) * 1e9))
    return {
        "creation_request_received_ns": asked_ns,
        "scheduling_started_time_ns": asked_ns,
        "scheduling_latency_us": took_us,
        "end_to_end_creation_latency_us": took_us,
        "scheduling_attempt": group.attempts,
        "scheduling_state": look.cluster.groups.scheduling_state(group),
        "highest_retry_delay_ms": 0.0,
    }


PLACEMENT_GROUPS: Readers = {
    "placement_group_id": lambda g, look: g.hex,
    "name": lambda g, look: g.name,
    "creator_job_id": lambda g, look: JOB_HEX,
    "state": lambda g, look: g.status.name,
    "bundles": lambda g, look: bundles(g),
    "is_detached": lambda g, look: g.detached,
    "stats": _stats,
    "topology_strategy": lambda g, look: {},
    "topology_assignments": lambda g, look: {},
}

# ------------------------------------------------------------ the job, runtime environments, events


def _entrypoint(job: str, look: Look) -> str:
    return shown_entrypoint()


def _job_status(job: str, look: Look) -> str:
    """One of Ray's statuses; UNKNOWN, which Ray lacks, for a recorded program of which nothing tells how it ended."""
    return JobStatus(look.job_status) if look.job_status in JobStatus.__members__ else look.job_status


JOBS: Readers = {
    "type": lambda job, look: JobType.DRIVER,
    "job_id": lambda job, look: job,
    "submission_id": lambda job, look: None,
    "driver_info": lambda job, look: DriverInfo(job, _driver_address(look), str(look.pid)),
    "status": _job_status,
    "entrypoint": _entrypoint,
    "message": lambda job, look: None,
    "error_type": lambda job, look: None,
    "start_time": lambda job, look: _worker_start(DRIVER, look),
    "end_time": lambda job, look: look.ms(look.job_ended) or 0,
    "metadata": lambda job, look: dict(look.metadata),
    "runtime_env": lambda job, look: dict(look.runtime_env),
    "driver_agent_http_address": lambda job, look: None,
    "driver_node_id": lambda job, look: look.driver_node.hex if look.driver_node is not None else None,
    "driver_exit_code": lambda job, look: None,
}


class RuntimeEnvEntry:
    """A runtime environment, with the number of unfinished tasks and living actors that use it."""

    __slots__ = ("value", "uses")

    def __init__(self, value: dict[str, Any]):
        self.value, self.uses = value, 0


def runtime_env_entries(cluster: Cluster) -> list[RuntimeEnvEntry]:
    """Every runtime environment of a recorded task or actor, each one once."""
    found: dict[str, RuntimeEnvEntry] = {}
    for task in cluster.tasks.values():
        runtime_env = task.spec.runtime_env
        if runtime_env:
            text = env_text(runtime_env)
            entry = found.setdefault(text, RuntimeEnvEntry(runtime_env))
            alive = task.actor.status is not ActorStatus.DEAD if task.actor is not None else not task.t_finished
            entry.uses += alive
    return list(found.values())


RUNTIME_ENVS: Readers = {
    "runtime_env": lambda env, look: dict(env.value),
    "success": lambda env, look: True,
    "creation_time_ms": lambda env, look: 0.0,
    "node_id": lambda env, look: look.driver_node.hex if look.driver_node is not None else "",
    "ref_cnt": lambda env, look: env.uses,
    "error": lambda env, look: None,
}

SEVERITY = {
    "node_died": "ERROR",
    "worker_died": "ERROR",
    "actor_died": "WARNING",
    "spill_failed": "ERROR",
    "restore_failed": "ERROR",
    "object_lost": "WARNING",
    "actor_restarting": "WARNING",
}


def event_entries(cluster: Cluster) -> list[tuple[int, Event]]:
    """The events with their numbers, without the start of the head node: a fresh cluster has no events."""
    first = cluster.dropped["events"]
    return [
        (number, event)
        for number, event in enumerate(cluster.events, first)
        if event.kind != "node_joined" or not getattr(event.about, "is_head", False)
    ]


def _about(event: Event) -> dict[str, str]:
    return {"kind": event.kind, **({"id": event.about.hex} if hasattr(event.about, "hex") else {})}


CLUSTER_EVENTS: Readers = {
    "severity": lambda e, look: SEVERITY.get(e[1].kind, "INFO"),
    "time": lambda e, look: str(datetime.fromtimestamp(e[1].at + look.epoch)),
    "source_type": lambda e, look: "GCS" if e[1].kind.startswith(("node", "actor", "placement")) else "RAYLET",
    "message": lambda e, look: e[1].text,
    "event_id": lambda e, look: f"{e[0]:036x}",
    "custom_fields": lambda e, look: _about(e[1]),
}
