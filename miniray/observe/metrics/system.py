"""The metrics that Ray exports about itself, computed from a session's records.

Names, types, labels and bounds are Ray's, so the panels of its Grafana dashboards find what they ask for; the sentences
are ours. What one process has no counterpart of is left out: RPC, transfers between machines, GPUs, and the memory of
lineage, which the core does not measure.

Records are dropped when there are too many, and a counter must never shrink. So the core counts what it drops
(`core.task_events.Totals`), and the numbers here include it.

Ray: src/ray/stats/metric_defs.cc, reporter_agent.py, autoscaler/_private/prom_metrics.py.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Any

from ..._version import __ray_version__
from ...core.object_store import INLINE_BYTES
from ...core.records import ACTOR_CREATION_TASK, UNIT, NodeRecord, TaskRecord, TaskSpec, WorkerRecord
from ...core.task_events import PLACEMENT_MS, Tally, attempts
from ...core.transitions import ActorStatus, ObjectStatus, PlacementGroupStatus, TaskStatus, WorkerStatus
from ...ids import JOB_HEX, worker_hex
from ...process import context
from ..state.task_columns import process_of
from . import host
from .prometheus import Family

DRIVER_ID = worker_hex(0)
LATENCY_MS = (0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0)
GCS, RAYLET, CORE_WORKER = "gcs_server", "raylet", "core_worker"
EXECUTOR_STATES = (
    "RUNNING",
    "SUBMITTED_TO_WORKER",
    "RUNNING_IN_RAY_GET",
    "RUNNING_IN_RAY_WAIT",
    "GETTING_AND_PINNING_ARGS",
)
OWNER_STATES = "PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER"

Samples = list[tuple[dict[str, str], Any]]


def session_name(runtime: Any) -> str:
    """The session's name in Ray's form: when it started, and the process."""
    started = min((node.t_started for node in runtime.cluster.nodes.values()), default=0.0)
    exact = (runtime.epoch + started) * 1e6
    # A recording has whole microseconds, cut off; its session has the same name.
    microseconds = round(exact) if context.recorded.get() is runtime else int(exact)
    at = datetime.fromtimestamp(microseconds / 1e6, timezone.utc)
    return f"session_{at:%Y-%m-%d_%H-%M-%S_%f}_{context.shown_pid()}"


def session_labels(runtime: Any) -> dict[str, str]:
    """The labels that every sample of a session has."""
    return {"SessionName": session_name(runtime), "Version": __ray_version__}


def address_of(runtime: Any, worker_id: str) -> str:
    """The address of the node of a worker, by the worker's id; "" if its record was dropped. The driver is on the head
    node."""
    if worker_id == DRIVER_ID:
        head = next(iter(runtime.cluster.nodes.values()), None)
        return head.name if head is not None else ""
    found = runtime.cluster.workers.get(int(worker_id, 16))
    return str(found.node.name) if found is not None else ""


def value_of(tally: Tally) -> dict[str, Any]:
    """A tally as a histogram's value, in the form of `HistogramSeries.read`."""
    buckets, seen = {}, 0
    for bound, count in zip((*tally.bounds, math.inf), tally.counts, strict=True):
        seen += count
        buckets[bound] = seen
    return {"count": seen, "sum": tally.sum, "buckets": buckets}


class _Snapshot:
    """The tables as they are now. The lists are copied under the lock and read without it.

    A record may go on meanwhile. Each task, actor and object is counted once all the same, in one of its states.
    """

    def __init__(self, runtime: Any):
        self.labels = session_labels(runtime)
        self.job_ended = getattr(runtime, "job_ended", 0.0) > 0  # a session in a recording may have ended
        with runtime.locked() as cluster:
            self.now = runtime.now()
            self.nodes: list[NodeRecord] = list(cluster.nodes.values())
            self.tasks = list(cluster.tasks.values())
            self.actors = list(cluster.actors.values())
            self.objects = list(cluster.objects.values())
            self.groups = list(cluster.placement_groups.values())
            self.workers: list[WorkerRecord] = list(cluster.workers.values())
            self.dropped = dict(cluster.dropped)
            totals = cluster.totals
            totals.flush()
            self.ended = dict(totals.dropped_tasks)
            self.attempts_dropped = totals.attempts_dropped
            self.dead_actors = dict(totals.dropped_actors)
            self.worker_failures = dict(totals.worker_failures)
            self.placements, self.registrations = totals.placements.copy(), totals.registrations.copy()
            self.sizes = totals.sizes.copy()
            waiting, infeasible = cluster.scheduler.waiting, cluster.scheduler.infeasible
            self.waiting = sum(_queued(wanted) for wanted in waiting)
            self.infeasible = sum(_queued(wanted) for wanted in infeasible)
            self.infeasible_classes = len(infeasible)
            self.pending: Counter[str] = Counter()
            for wanted in infeasible:
                for name, units in wanted.need.items():
                    self.pending[name] += units * _queued(wanted)
        self.finished, self.others = _split(self.tasks)
        self.alive = [node for node in self.nodes if node.alive]
        self.head = self.nodes[0].name if self.nodes else ""
        self.started = min((node.t_started for node in self.nodes), default=self.now)

    def gcs(self, **labels: str) -> dict[str, str]:
        """The labels of a sample that Ray's GCS exports."""
        return self._labels(GCS, self.head, WorkerId="", **labels)

    def raylet(self, node: NodeRecord, **labels: str) -> dict[str, str]:
        """The labels of a sample that a node's raylet exports."""
        return self._labels(RAYLET, node.name, WorkerId="", **labels)

    def worker(self, worker: WorkerRecord | None, **labels: str) -> dict[str, str]:
        """The labels of a sample that a worker exports; None for the driver."""
        if worker is None:
            return self._labels(CORE_WORKER, self.head, WorkerId=DRIVER_ID, **labels)
        return self._labels(CORE_WORKER, worker.node.name, WorkerId=process_of(worker).hex, **labels)

    def summed(self, component: str, address: str, **labels: str) -> dict[str, str]:
        """The labels of a sample that is summed over the workers of a node."""
        return self._labels(component, address, **labels)

    def _labels(self, component: str, address: str, **labels: str) -> dict[str, str]:
        return {"Component": component, "NodeAddress": address, **self.labels, **labels}


def _split(tasks: list[TaskRecord]) -> tuple[dict[tuple[TaskSpec, WorkerRecord | None], int], list[TaskRecord]]:
    """How many tasks finished at their first attempt, by specification and owner; and all other tasks.

    There may be a hundred thousand tasks, and nearly all are of the first kind. Those of one specification mostly
    follow each other, so they are counted in runs.
    """
    finished: dict[tuple[TaskSpec, WorkerRecord | None], int] = {}
    others: list[TaskRecord] = []
    status, spec, owner, run = TaskStatus.FINISHED, None, None, 0
    for task in tasks:
        if task.status is not status or task.attempt:
            others.append(task)
        elif task.spec is spec and task.owner is owner:
            run += 1
        else:
            if spec is not None:
                finished[spec, owner] = finished.get((spec, owner), 0) + run
            spec, owner, run = task.spec, task.owner, 1
    if spec is not None:
        finished[spec, owner] = finished.get((spec, owner), 0) + run
    return finished, others


def _queued(wanted: Any) -> int:
    """How many tasks of a class wait for a node. Cancelled ones stay in the queue until they reach its head."""
    return sum(task.status is TaskStatus.PENDING_NODE_ASSIGNMENT for task in wanted.queue)


def families(runtime: Any) -> list[Family]:
    """All of a session's own metrics now, with whole names and labels. The caller does not hold the core's lock."""
    see = _Snapshot(runtime)
    found: list[Family] = []
    for part in (
        _tasks,
        _actors,
        _placement_groups,
        _nodes_and_jobs,
        _resources,
        _objects,
        _scheduler,
        _workers,
        _host,
    ):
        found += part(see)
    return found


# ------------------------------------------------------------ tasks, actors, placement groups


def _tasks(see: _Snapshot) -> Iterator[Family]:
    owner: Counter[tuple[str, bool, str, str]] = Counter()
    executor: Counter[tuple[str, bool, str, str]] = Counter()
    live: dict[tuple[str, bool, str], None] = {}
    for (name, retry, finished), number in see.ended.items():
        owner[name, retry, "FINISHED" if finished else "FAILED", see.head] += number
    submitted = TaskStatus.SUBMITTED_TO_WORKER
    for (spec, worker), number in see.finished.items():
        place = see.head if worker is None else worker.node.name
        owner[spec.name, False, "FINISHED", place] += number
        live[spec.name, False, place] = None
    for task in see.others:
        place = see.head if task.owner is None else task.owner.node.name
        status, name = task.status, task.spec.name
        for name, retry, finished in attempts(task):
            owner[name, retry, "FINISHED" if finished else "FAILED", place] += 1
        retry = task.attempt > 0 and task.spec.kind != ACTOR_CREATION_TASK
        live[name, retry, place] = None
        if task.t_finished:
            continue
        owner[name, retry, status.name, place] += 1
        worker = task.worker
        if status is submitted and task.t_started and worker is not None:
            # The owner sees SUBMITTED_TO_WORKER until the task is over. So the worker reports -1 of these and 1 of the
            # state that only the worker knows, and their sum is right.
            blocked = worker.status is WorkerStatus.BLOCKED
            executor[name, retry, "RUNNING_IN_RAY_GET" if blocked else "RUNNING", worker.node.name] += 1
            executor[name, retry, "SUBMITTED_TO_WORKER", worker.node.name] -= 1
    for name, retry, place in live:  # as in Ray, a state that is over is 0
        for state in OWNER_STATES:
            owner.setdefault((name, retry, state, place), 0)
    for name, retry, _, place in list(executor):
        for state in EXECUTOR_STATES:
            executor.setdefault((name, retry, state, place), 0)
    samples: Samples = []
    for source, job, counts in (("owner", "", owner), ("executor", JOB_HEX, executor)):
        for (name, retry, state, place), number in counts.items():
            labels = {"Name": name, "State": state, "IsRetry": "01"[retry], "Source": source, "JobId": job}
            samples.append((see.summed(CORE_WORKER, place, **labels), number))
    yield Family("ray_tasks", "gauge", "Attempts of tasks by state.", samples)


def _actors(see: _Snapshot) -> Iterator[Family]:
    counts: Counter[tuple[str, str]] = Counter()
    running: Counter[tuple[str, str, str]] = Counter()
    by_status: Counter[ActorStatus] = Counter()
    for name, number in see.dead_actors.items():
        counts[name, "DEAD"] += number
        by_status[ActorStatus.DEAD] += number
    for actor in see.actors:
        counts[actor.class_name, actor.status.name] += 1
        by_status[actor.status] += 1
        node = actor.node
        if actor.status is ActorStatus.ALIVE and node is not None:
            busy = any(group.running for group in list(actor.groups.values()))
            for state in ("ALIVE_IDLE", "ALIVE_RUNNING_TASKS"):
                running[actor.class_name, state, node.name] += busy == (state == "ALIVE_RUNNING_TASKS")
        if actor.creation is not None and actor.creation.t_leased and actor.creation.t_ready:
            see.placements.add((actor.creation.t_leased - actor.creation.t_ready) * 1000)
    samples: Samples = [
        (see.summed(GCS, see.head, Name=name, State=state, Source="gcs", JobId=""), number)
        for (name, state), number in counts.items()
    ]
    samples += [
        (see.summed(CORE_WORKER, place, Name=name, State=state, Source="executor", JobId=JOB_HEX), number)
        for (name, state, place), number in running.items()
    ]
    yield Family("ray_actors", "gauge", "Actors by state.", samples)
    states = {
        "Registered": sum(by_status.values()) - by_status[ActorStatus.DEAD],
        "Created": by_status[ActorStatus.ALIVE],
        "Destroyed": by_status[ActorStatus.DEAD],
        "Unresolved": by_status[ActorStatus.DEPENDENCIES_UNREADY],
        "Pending": by_status[ActorStatus.PENDING_CREATION] + by_status[ActorStatus.RESTARTING],
    }
    yield _by(see.gcs, "ray_gcs_actors_count", "Actors that the GCS knows, by state.", "State", states)


def _placement_groups(see: _Snapshot) -> Iterator[Family]:
    status = PlacementGroupStatus
    by_status: Counter[PlacementGroupStatus] = Counter(
        dict.fromkeys((status.PENDING, status.CREATED, status.REMOVED), 0)
    )
    latency = Tally(LATENCY_MS)
    placed = Tally(PLACEMENT_MS)
    for group in see.groups:
        by_status[group.status] += 1
        if group.t_placed:
            latency.add((group.t_placed - group.t_created) * 1000)
            placed.add((group.t_placed - group.t_created) * 1000)
    samples: Samples = [(see.gcs(State=one.name, Source="gcs"), number) for one, number in by_status.items()]
    yield Family("ray_placement_groups", "gauge", "Placement groups by state.", samples)
    waiting = by_status[status.PENDING] + by_status[status.RESCHEDULING]
    registered = {"Registered": len(see.groups) - by_status[status.REMOVED], "Pending": waiting, "Infeasible": 0}
    yield _by(
        see.gcs, "ray_gcs_placement_group_count", "Placement groups that the GCS knows, by state.", "State", registered
    )
    for name, text in (
        ("creation", "Milliseconds from a placement group's creation until all its bundles are reserved."),
        ("scheduling", "Milliseconds until nodes were found for a placement group."),
    ):
        samples = [(see.gcs(), value_of(latency))] if see.groups else []
        yield Family(f"ray_gcs_placement_group_{name}_latency_ms", "histogram", text, samples)
    samples = [(see.gcs(WorkloadType="Actor"), value_of(see.placements))]
    if see.groups:
        samples.append((see.gcs(WorkloadType="PlacementGroup"), value_of(placed)))
    yield Family(
        "ray_scheduler_placement_time_ms",
        "histogram",
        "Milliseconds that actors and placement groups waited for a place after all that they need was ready.",
        samples,
    )


# ------------------------------------------------------------ nodes, the job, resources


def _nodes_and_jobs(see: _Snapshot) -> Iterator[Family]:
    session = {"SessionName": see.labels["SessionName"]}
    active = [({**session, "node_type": f"node_{node.hex}"}, 1) for node in see.alive]
    failed = [({**session, "node_type": f"node_{node.hex}"}, 1) for node in see.nodes if not node.alive]
    yield Family("ray_cluster_active_nodes", "gauge", "Nodes that are alive.", active)
    yield Family("ray_cluster_failed_nodes", "gauge", "Nodes that died.", failed)
    kinds: Counter[str] = Counter("head" if node.is_head else "worker" for node in see.alive)
    dead = sum(not node.alive for node in see.nodes)
    for name, text, values in (
        ("autoscaler_active_nodes", "Nodes that are alive, by type.", kinds),
        ("autoscaler_recently_failed_nodes", "Nodes that died, by type.", {"worker": dead} if dead else {}),
    ):
        samples: Samples = [({**session, "NodeType": kind}, number) for kind, number in values.items()]
        yield Family(name, "gauge", text, samples)
    total: Counter[str] = Counter()
    for node in see.alive:
        total.update({name: units for name, units in node.total.items() if not name.startswith("node:")})
    for name, text, amounts in (
        ("autoscaler_cluster_resources", "Resources of all nodes.", total),
        ("autoscaler_pending_resources", "Resources that tasks ask for and no node has.", see.pending),
    ):
        samples = [({**session, "resource": key}, units / UNIT) for key, units in amounts.items()]
        yield Family(name, "gauge", text, samples)
    for name, kind, text, value in (
        ("ray_running_jobs", "gauge", "Jobs that run.", int(not see.job_ended)),
        ("ray_finished_jobs_total", "counter", "Jobs that have ended.", int(see.job_ended)),
    ):
        yield Family(name, kind, text, [(see.gcs(), value)])
    yield Family(
        "ray_job_duration_s",
        "gauge",
        "Seconds since the job started.",
        [(see.gcs(JobId=JOB_HEX), max(0.0, see.now - see.started))],
    )


def _resources(see: _Snapshot) -> Iterator[Family]:
    samples: Samples = []
    for node in see.alive:
        available = dict(node.available)
        for name, units in list(node.total.items()):
            if name.startswith("node:"):
                continue
            if name == "object_store_memory":
                used = min(node.store.used, units / UNIT)
                free = units / UNIT - used
            else:
                free = available.get(name, 0) / UNIT
                used = units / UNIT - free
            samples.append((see.raylet(node, Name=name, State="AVAILABLE"), free))
            samples.append((see.raylet(node, Name=name, State="USED"), used))
    yield Family("ray_resources", "gauge", "Logical resources of the nodes by state.", samples)


# ------------------------------------------------------------ objects


def _objects(see: _Snapshot) -> Iterator[Family]:
    owned: dict[WorkerRecord | None, Counter[str]] = {None: Counter()}
    sizes: dict[WorkerRecord | None, Counter[str]] = {None: Counter()}
    states = {ObjectStatus.READY: "", ObjectStatus.SPILLED: "Spilled", ObjectStatus.PENDING: "PendingCreation"}
    for obj in see.objects:
        state = states.get(obj.status)
        if state is None or obj.actor is not None:  # a handle is no object to Ray
            continue
        if not state:
            state = "InPlasma" if obj.size > INLINE_BYTES else "InMemory"
        owner = obj.task.owner if obj.task is not None else obj.owner
        owned.setdefault(owner, Counter())[state] += 1
        sizes.setdefault(owner, Counter())[state] += max(0, obj.size)
    names = ("InMemory", "InPlasma", "Spilled", "PendingCreation")
    yield Family(
        "ray_owned_objects",
        "gauge",
        "Objects by owner and state.",
        [
            (see.worker(worker, State=name, JobId=""), counts[name])
            for worker, counts in owned.items()
            for name in names
        ],
    )
    yield Family(
        "ray_owned_objects_size",
        "gauge",
        "Bytes of objects by owner and state.",
        [(see.worker(who, State=name, JobId=""), counts[name]) for who, counts in sizes.items() for name in names[:3]],
    )
    stores = [(node, node.store) for node in see.alive]
    samples: Samples = [
        (see.worker(who, Location="WORKER_HEAP", ObjectState=""), counts["InMemory"]) for who, counts in sizes.items()
    ]
    for node, store in stores:
        for location, state, size in (
            ("MMAP_SHM", "SEALED", store.used),
            ("MMAP_SHM", "UNSEALED", 0),
            ("MMAP_DISK", "SEALED", 0),
            ("MMAP_DISK", "UNSEALED", 0),
            ("SPILLED", "", store.spilled),
        ):
            samples.append((see.raylet(node, Location=location, ObjectState=state), size))
    yield Family("ray_object_store_memory", "gauge", "Bytes of objects by where they are.", samples)
    for name, text, values in (
        ("used_memory", "Bytes in use in the object store.", [store.used for _, store in stores]),
        (
            "available_memory",
            "Bytes free in the object store.",
            [max(0, store.capacity - store.used) for _, store in stores],
        ),
        ("fallback_memory", "Bytes outside of the object store, for want of room in it.", [0 for _ in stores]),
        ("num_local_objects", "Objects in the object store.", [len(store.objects) for _, store in stores]),
    ):
        yield _per_node(see, f"ray_object_store_{name}", text, values)
    dist: Samples = [(see.raylet(see.nodes[0], Source="CreatedByWorker"), value_of(see.sizes))] if see.nodes else []
    yield Family("ray_object_store_dist", "histogram", "Bytes of the values created in object stores.", dist)
    samples, requests, size_samples = [], [], []
    for node, store in stores:
        spilling = list(store.spilling.values())
        waiting = sum(obj.size for obj in spilling)
        for state, number in (("Pinned", len(store.objects)), ("PendingRestore", 0), ("PendingSpill", len(spilling))):
            samples.append((see.raylet(node, State=state), number))
        for state, number in (
            ("Pinned", store.used),
            ("PendingRestore", 0),
            ("PendingSpill", waiting),
            ("Restored", store.counters["restored_bytes"]),
            ("Spilled", store.counters["spilled_bytes"]),
        ):
            size_samples.append((see.raylet(node, State=state), number))
        for kind, number in (
            ("Spilled", store.counters["spilled"]),
            ("Restored", store.counters["restored"]),
            ("FailedDeletion", 0),
        ):
            requests.append((see.raylet(node, Type=kind), number))
    yield Family("ray_spill_manager_objects", "gauge", "Objects of a node by state.", samples)
    yield Family("ray_spill_manager_objects_bytes", "gauge", "Bytes of a node's objects by state.", size_samples)
    yield Family("ray_spill_manager_request_total", "gauge", "How often a node has spilled and restored.", requests)


# ------------------------------------------------------------ the scheduler, the workers


def _scheduler(see: _Snapshot) -> Iterator[Family]:
    dispatched: Counter[str] = Counter()
    executing: Counter[str] = Counter()
    for task in see.others:
        node = task.node
        if task.status is TaskStatus.SUBMITTED_TO_WORKER and node is not None and task.actor is None:
            (executing if task.t_started else dispatched)[node.name] += 1
    attempts_kept = len(see.tasks) + sum(len(task.history or ()) for task in see.others)
    attempts_dropped = sum(see.ended.values())
    if see.attempts_dropped is not None:  # a recording may have tasks that its session had dropped
        attempts_kept += see.dropped.get("tasks", 0) - see.attempts_dropped
        attempts_dropped = see.attempts_dropped
    samples: Samples = []
    reasons: Samples = []
    for node in see.alive:
        head = node is see.alive[0]  # the queue is the cluster's; Ray's nodes have one each
        for state, number in (
            ("Received", see.waiting + see.infeasible if head else 0),
            ("Waiting", 0),
            ("Dispatched", dispatched[node.name]),
            ("Executing", executing[node.name]),
            ("Cancelled", 0),
            ("SpilledWaiting", 0),
            ("SpilledUnschedulable", 0),
        ):
            samples.append((see.raylet(node, State=state), number))
        for reason, number in (
            ("Infeasible", see.infeasible if head else 0),
            ("WaitingForResources", see.waiting if head else 0),
            ("WaitingForPlasmaMemory", 0),
            ("WaitingForRemoteResources", 0),
            ("WaitingForWorkers", 0),
        ):
            reasons.append((see.raylet(node, Reason=reason), number))
    yield Family("ray_scheduler_tasks", "gauge", "Tasks in the scheduler by state.", samples)
    yield Family("ray_scheduler_unscheduleable_tasks", "gauge", "Tasks that wait in the scheduler, by reason.", reasons)
    failures = {"JobConfigMissing": 0, "RegistrationTimedOut": 0, "RateLimited": 0}
    for node in see.alive[:1]:
        yield Family(
            "ray_scheduler_failed_worker_startup_total",
            "gauge",
            "Workers that could not be started, by reason.",
            [(see.raylet(node, Reason=reason), number) for reason, number in failures.items()],
        )
        yield Family(
            "ray_internal_num_infeasible_scheduling_classes",
            "gauge",
            "Different demands that no node can meet.",
            [(see.raylet(node), see.infeasible_classes)],
        )
        yield Family("ray_internal_num_spilled_tasks", "gauge", "Tasks handed to other nodes.", [(see.raylet(node), 0)])
    for name, text, number in (
        ("reported", "Attempts of tasks that the GCS was told of.", attempts_kept + attempts_dropped),
        ("stored", "Attempts of tasks that the GCS keeps.", max(attempts_kept, 0)),
    ):
        yield Family(f"ray_gcs_task_manager_task_events_{name}", "gauge", text, [(see.gcs(), number)])
    lost = {"PROFILE_EVENT": 0, "STATUS_EVENT": attempts_dropped}
    yield _by(
        see.gcs, "ray_gcs_task_manager_task_events_dropped", "Attempts of tasks that the GCS dropped.", "Type", lost
    )


def _workers(see: _Snapshot) -> Iterator[Family]:
    for worker in see.workers:
        if worker.t_started:
            see.registrations.add((worker.t_started - worker.t_created) * 1000)
    for node in see.alive[:1]:
        yield Family(
            "ray_worker_register_time_ms",
            "histogram",
            "Milliseconds from the order to start a worker until it answers.",
            [(see.raylet(node), value_of(see.registrations))],
        )
        started = len(see.workers) + see.dropped.get("workers", 0)
        for name, text, number in (
            ("num_processes_started", "Workers that were started.", started),
            ("num_processes_started_from_cache", "Workers that were taken from a cache of started ones.", 0),
            ("num_processes_skipped_job_mismatch", "Idle workers that were passed over: they serve another job.", 0),
            (
                "num_processes_skipped_runtime_environment_mismatch",
                "Idle workers that were passed over: they have another runtime environment.",
                0,
            ),
        ):
            yield Family(f"ray_internal_{name}", "gauge", text, [(see.raylet(node), number)])
        failures: Samples = []
        for (has_actor, name), number in see.worker_failures.items():
            kind = "Raylet.UnexpectedActorFailure.Total" if has_actor else "Raylet.UnexpectedTaskFailure.Total"
            failures.append((see.raylet(node, Type=kind, Name=name), number))
        yield Family(
            "ray_node_manager_unexpected_worker_failure_total",
            "counter",
            "Workers that crashed, by what they ran.",
            failures,
        )
    total = sum(see.worker_failures.values())
    yield Family("ray_unintentional_worker_failures_total", "counter", "Workers that crashed.", [(see.gcs(), total)])


def _host(see: _Snapshot) -> Iterator[Family]:
    """The machine, as the head node. The other nodes are on the same machine, and a sum must not count it twice.

    A recording does not tell how busy its machine was."""
    if context.recorded.get() is not None:
        return
    common = {**see.labels, "ip": see.head}
    as_head = {**common, "IsHeadNode": "true", "RayNodeType": "head"}
    for name, text, value in host.host.node():
        if name.startswith("node_"):
            labels = as_head
        else:
            labels = {**common, "Component": host.driver_name(), "pid": str(os.getpid())}
        yield Family(f"ray_{name}", "gauge", text, [(labels, value)])


# ------------------------------------------------------------ families


def _by(place: Any, name: str, text: str, label: str, values: dict[str, int]) -> Family:
    """A gauge with one sample for each value of one label. place: makes the other labels."""
    return Family(name, "gauge", text, [(place(**{label: key}), number) for key, number in values.items()])


def _per_node(see: _Snapshot, name: str, text: str, values: Iterable[int]) -> Family:
    """A gauge with one sample for each living node."""
    return Family(
        name, "gauge", text, [(see.raylet(node), value) for node, value in zip(see.alive, values, strict=True)]
    )
