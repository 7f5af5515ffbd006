"""Rebuilds the records of a session from plain rows: those of a recording (`telemetry.schema` describes their columns).

The rebuilt cluster is for reading. Its records have no code, no arguments and no values, and no event may be reported
to it. Every time in it is in seconds since the epoch.

Records refer to each other by number. A row may name a record that has no row, because the session, or the recording,
has dropped it. Then the rebuilt record has None in its place, or leaves it out of its list.

    cluster = Restoring().rebuilt(rows)

`rows(table)` gives the rows of a table as dicts, in the order of their keys. JSON is parsed, and each value is as the
schema says. Rows may contradict each other all the same: then this module raises Contradiction where it notices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..ids import INDEX_BITS
from .cluster import Cluster
from .object_store import ObjectStore
from .records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    READY,
    RELEASED,
    ActorRecord,
    Attempt,
    Drain,
    Failure,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
    SchedulingClass,
    StreamRecord,
    TaskRecord,
    TaskSpec,
    Waiter,
    WorkerRecord,
    units,
)
from .task_events import OTHER_NAMES, attempts
from .transitions import ActorStatus, PlacementGroupStatus, TaskStatus, WorkerStatus, restore

Row = dict[str, Any]
Rows = Callable[[str], Iterable[Row]]

EARLIER_BITS = 20  # the key of an earlier attempt is -(task's number << 20 | number of the attempt)


class Contradiction(ValueError):
    """Rows contradict each other, or name a status that does not exist. The text says which."""


class KeptText(str):
    """The text of an error, in place of the exception in `Failure.error`."""


def kept_text(failure: Failure | None) -> str:
    """The text of a rebuilt failure, as `Runtime.error_text` gives it for one of a running session."""
    while failure is not None and failure.error is None and failure.cause is not None:
        failure = failure.cause
    if failure is None:
        return ""
    return str(failure.error) if isinstance(failure.error, KeptText) else failure.message


class Gone:
    """In place of a record that has no row, where only its id is shown."""

    is_head = False

    def __init__(self, hex: str):
        self.hex = hex


class Handle:
    """What stands in `WorkerRecord.handle` of a rebuilt worker: its thread is gone, but what it waited for is known."""

    ident = 0
    loop = None
    user_task = None

    def __init__(self, record: WorkerRecord):
        self.record = record
        self.waiting: list[Any] | tuple[()] = ()
        self.waiter: Waiter | None = None


class Restoring:
    """Rebuilds one session. cluster: the result."""

    def __init__(self) -> None:
        self.cluster = Cluster(1 << 62)
        self.failures: dict[int, Failure] = {}
        self.classes: dict[int, SchedulingClass] = {}
        self.specs: dict[int, TaskSpec] = {}
        self.callers: dict[int, tuple[str, int | None]] = {}

    def rebuilt(self, rows: Rows) -> Cluster:
        """Rebuild everything, and return the cluster."""
        for row in rows("_callers"):
            self.callers[row["id"]] = row["parent_task_id"], row["owner"]
        failures = {row["id"]: row for row in rows("_failures")}
        for row in failures.values():
            has_text = row["user_error"] is not None or row["cause"] is None and row["text"] != row["message"]
            error = KeptText(row["text"]) if has_text else None
            self.failures[row["id"]] = Failure(row["error_type"], row["message"], error)
        for row in rows("nodes"):
            self._node(row)
        if not self.cluster.nodes and any(True for table in ("workers", "_attempts") for _ in rows(table)):
            self._unknown_node()
        samples = rows("store_samples")
        for row in samples:
            node = self.cluster.nodes.get(row["node"])
            if node is not None:
                node.store.samples.append((_s(row["timestamp_us"]), row["used_bytes"], row["spilled_bytes"]))
        bundles: dict[int, list[Row]] = {}
        for row in rows("bundles"):
            bundles.setdefault(row["placement_group"], []).append(row)
        groups = list(rows("placement_groups"))
        for row in groups:
            self._group(row, bundles.get(row["number"], []))
        for row in rows("_classes"):
            self._class(row)
        for row in rows("_specs"):
            self._spec(row)
        workers, actors = [row for row in rows("workers") if row["number"]], list(rows("actors"))
        for row in workers:
            self._worker(row)
        for row in actors:
            self._actor(row)
        open_tasks = self._tasks(rows("_attempts"))
        for row in rows("objects"):
            self._object(row)
        self._link(failures, groups, workers, actors, open_tasks)
        for row in rows("cluster_events"):
            about = self._record(row["about_kind"], row["about_number"])
            if about is None and row["about_id"] is not None:
                about = Gone(row["about_id"])
            self.cluster.events.add(_s(row["timestamp_us"]), row["kind"], row["message"], about)
        return self.cluster

    # ------------------------------------------------------------ nodes, groups, demands

    def _node(self, row: Row) -> None:
        numbers = row["store_json"]
        store = ObjectStore(row["store_capacity_bytes"])
        store.used, store.spilled = row["store_used_bytes"], row["store_spilled_bytes"]
        store.peak = numbers.get("peak_bytes", store.used)
        store.counters.update({name: numbers[name] for name in store.counters if name in numbers})
        total, labels = units(row["resources_total_json"]), row["labels_json"]
        node = NodeRecord(row["number"], total, labels, bool(row["is_head_node"]), store, _s(row["start_us"]))
        node.available = {**dict.fromkeys(total, 0), **units(row["resources_available_json"])}
        node.starting = row["starting"]
        node.free_devices = {
            name: {int(index): free for index, free in devices.items()}
            for name, devices in (row["free_devices_json"] or {}).items()
        }
        node.alive = row["state"] == "ALIVE"
        node.t_died, node.death_message = _s(row["end_us"]), row["state_message"] or ""
        self.cluster.nodes[node.number] = node
        if node.alive:
            self.cluster.scheduler.node_joined(node)

    def _unknown_node(self) -> None:
        """A head node of which nothing is known, for a recording that lacks its nodes: its other rows refer to one."""
        node = NodeRecord(1, {}, {}, True, ObjectStore(0), 0.0)
        self.cluster.nodes[node.number] = node
        self.cluster.scheduler.node_joined(node)

    def _group(self, row: Row, bundles: list[Row]) -> None:
        bundles.sort(key=lambda bundle: int(bundle["bundle_index"]))
        group = PlacementGroupRecord(
            [units(bundle["resources_json"]) for bundle in bundles],
            row["strategy"],
            row["name"],
            bool(row["is_detached"]),
            None,
            [_tuples(bundle["selector_json"] or []) for bundle in bundles],
        )
        for record, bundle in zip(group.bundles, bundles):
            record.available = units(bundle["available_json"])
            record.node = self.cluster.nodes.get(bundle["node"])
        group.number, group.attempts = row["number"], row["attempts"]
        group.t_created, group.t_placed = _s(row["created_us"]), _s(row["placed_us"])
        _set_status(group, row["state"])
        self.cluster.placement_groups[group.number] = group
        if group.status in (PlacementGroupStatus.PENDING, PlacementGroupStatus.RESCHEDULING):
            self.cluster.groups.waiting[group.number] = group

    def _class(self, row: Row) -> None:
        scheduler = self.cluster.scheduler
        wanted = self.classes[row["id"]] = scheduler.scheduling_class(
            units(row["need_json"]),
            units(row["hold_json"]),
            _tuples(row["strategy_json"]),
            _tuples(row["selector_json"] or []),
        )
        if row["queue"]:
            (scheduler.infeasible if row["queue"] == "infeasible" else scheduler.waiting)[wanted] = None

    def _spec(self, row: Row) -> None:
        labels, fallback = row["label_selector_json"], row["fallback_json"]
        options = {
            **({"label_selector": labels} if labels else {}),
            **({"fallback_strategy": fallback} if fallback else {}),
        }
        self.specs[row["id"]] = TaskSpec(
            row["kind"],
            row["given_name"],
            row["func_name"],
            row["module"],
            scheduling_class=self.classes.get(row["class"]),
            resources=row["resources_json"] or {},
            num_returns=int(row["num_returns"]) if str(row["num_returns"]).isdigit() else row["num_returns"],
            max_retries=row["max_retries"],
            group=row["concurrency_group"] or "",
            runtime_env=row["runtime_env_json"] or None,
            backpressure=row["backpressure"],
            max_calls=row["max_calls"],
            options=options,
        )

    # ------------------------------------------------------------ workers and actors

    def _worker(self, row: Row) -> None:
        node = self.cluster.nodes.get(row["node"])
        if node is None:
            return
        worker = WorkerRecord(row["number"], node)
        _set_status(worker, row["state"])
        worker.tasks_done, worker.lent = row["tasks_done"], row["lent"]
        worker.t_created, worker.t_started, worker.t_died = (
            _s(row["created_us"]),
            _s(row["start_us"]),
            _s(row["end_us"]),
        )
        worker.lease = self.classes.get(row["class"])
        worker.exit_type, worker.exit_detail = row["exit_type"], row["exit_detail"] or ""
        worker.handle = Handle(worker)
        self.cluster.workers[worker.number] = worker
        if worker.status is not WorkerStatus.DEAD:
            node.workers[worker.number] = worker
            if worker.status is WorkerStatus.IDLE:
                node.idle.append(worker)

    def _actor(self, row: Row) -> None:
        groups = row["groups_json"]
        actor = ActorRecord(
            row["class_name"],
            row["name"],
            row["ray_namespace"],
            bool(row["is_detached"]),
            groups={name: group["limit"] for name, group in groups.items()},
            is_async=bool(row["is_async"]),
            number=row["id"],
        )
        _set_status(actor, row["state"])
        actor.restarts, actor.max_restarts = row["num_restarts"], row["max_restarts"]
        actor.out_of_scope, actor.repr_name = bool(row["out_of_scope"]), row["repr_name"]
        actor.tasks_done, actor.lineage = row["num_executed_calls"], row["lineage"]
        actor.t_created, actor.t_alive, actor.t_died = _s(row["timestamp_us"]), _s(row["alive_us"]), _s(row["dead_us"])
        actor.failure, actor.lease = self._failure(row["failure"]), self.classes.get(row["class"])
        actor.worker = self.cluster.workers.get(row["worker"])
        actor.node, actor.owner = self.cluster.nodes.get(row["node"]), self.cluster.workers.get(row["owner"])
        self.cluster.actors[actor.number] = actor

    # ------------------------------------------------------------ tasks

    def _tasks(self, rows: Iterable[Row]) -> list[tuple[TaskRecord, Row]]:
        """The tasks with their earlier attempts. Returns those that are unfinished, with their details."""
        tasks, actors, workers = self.cluster.tasks, self.cluster.actors, self.cluster.workers
        earlier, unfinished = [], []
        for row in rows:
            key = row["key"]
            if key < 0:
                earlier.append(row)
                continue
            spec = self.specs.get(row["spec"])
            if spec is None:
                continue
            actor = row["actor"]
            parent, owner = self.callers.get(row["caller"]) or ("", None)
            record = actors.get(abs(actor)) if actor is not None else None
            if actor is not None and record is None:
                record = self._lost_actor(abs(actor), spec)
            task = TaskRecord(spec, parent=parent, actor=record, number=key)
            if owner is not None:
                task.owner = workers.get(owner)
            task.attempt = row["attempt"]
            _fill(task, row, workers)
            task.failure = self._failure(row["failure"])
            _set_status(task, _status(task, row["state"]))
            if row["producers"]:
                task.producers = tuple(row["producers"])
            tasks[key] = task
            if actor is not None and actor < 0 and record is not None:
                record.creation = task
            if not task.t_finished:
                unfinished.append((task, row["details"] or {}))
        earlier.sort(key=lambda row: -int(row["key"]))
        for row in earlier:
            number = -row["key"] >> EARLIER_BITS
            found = tasks.get(number)
            if found is None:
                continue
            past = Attempt(found, self._failure(row["failure"]))
            past.number = row["attempt"]
            _fill(past, row, workers)
            if found.history is None:
                found.history = []
            found.history.append(past)
        return unfinished

    def _lost_actor(self, number: int, spec: TaskSpec) -> ActorRecord:
        """In place of an actor that the session has dropped, while some of its calls are still known."""
        actor = ActorRecord(spec.func_name.rpartition(".")[0], number=number)
        _set_status(actor, ActorStatus.DEAD.name)
        actor.creation = TaskRecord(TaskSpec(ACTOR_CREATION_TASK, spec.name, spec.func_name), actor=actor)
        return actor

    def _open(self, task: TaskRecord, told: Row) -> None:
        """What concerns an unfinished task only: its arguments, its stream, its place in a queue."""
        objects = self.cluster.objects
        task.args = ()  # readers take it as a sign that the record may change
        task.cancel_requested = bool(told.get("cancel_requested"))
        task.deps = tuple(objects[number] for number in told.get("deps") or () if number in objects)
        if told.get("stream"):
            given = told["stream"]
            task.stream = stream = StreamRecord(task)
            items: Any = range(given["items"])  # readers only count them, and a file may tell of any number
            stream.items, stream.taken, stream.produced = items, given["taken"], given["produced"]
            stream.ended, stream.refs = bool(given["ended"]), given["refs"]
            stream.producer_waiter = Waiter(1, None) if given["waits"] else None
        actor = task.actor
        if task.spec.kind == ACTOR_TASK:
            if actor is None:
                return
            actor.calls[task.number] = task
            group = actor.groups.get(task.spec.group)
            if group is None:
                return
            if task.worker is not None:
                group.running += 1
            elif actor.in_order or task.status is not TaskStatus.PENDING_ARGS_AVAIL:
                group.queue.append(task)
        elif task.status is TaskStatus.PENDING_NODE_ASSIGNMENT and task.spec.scheduling_class is not None:
            task.spec.scheduling_class.queue.append(task)

    # ------------------------------------------------------------ objects

    def _object(self, row: Row) -> None:
        tables = self.cluster
        obj = ObjectRecord(
            row["number"],
            tables.tasks.get(row["task"]),
            tables.workers.get(row["owner"]) if row["task"] is None else None,
            tables.actors.get(row["actor"]),
            row["refs"],
        )
        _set_status(obj, row["state"])
        obj.size, obj.uses, obj.held, obj.lineage = row["size_bytes"], row["uses"], row["held"], row["lineage"]
        obj.t_ready = _s(row["ready_us"])
        if obj.task is None:
            obj.t_created = _s(row["created_us"])
        obj.value = self._failure(row["failure"])
        known = [tables.nodes[one] for one in row["locations_json"] or () if one in tables.nodes]
        if known:
            obj.locations = {node.number: node for node in known}
            if obj.status is READY:
                for node in known:
                    node.store.objects[obj.number] = obj
        if obj.status is RELEASED:
            return
        tables.objects[obj.number] = obj
        if obj.task is not None:
            obj.task.returns = (*obj.task.returns, obj)
        if obj.actor is not None and obj.number & (1 << INDEX_BITS) - 1 == 1:
            obj.actor.handle = obj

    # ------------------------------------------------------------ links between records

    def _failure(self, number: int | None) -> Failure | None:
        return None if number is None else self.failures.get(number)

    def _record(self, kind: str | None, number: int | None) -> Any:
        tables: dict[Any, dict[int, Any]] = {
            "task": self.cluster.tasks,
            "actor": self.cluster.actors,
            "worker": self.cluster.workers,
            "node": self.cluster.nodes,
            "object": self.cluster.objects,
            "placement_group": self.cluster.placement_groups,
        }
        return tables[kind].get(number or 0) if kind in tables else None

    def _link(
        self,
        failures: dict[int, Row],
        groups: list[Row],
        workers: list[Row],
        actors: list[Row],
        open_tasks: list[tuple[TaskRecord, Row]],
    ) -> None:
        tables = self.cluster
        _check_causes({number: row["cause"] for number, row in failures.items()})
        for number, row in failures.items():
            self.failures[number].cause = self._failure(row["cause"])
            self.failures[number].about = self._record(row["about_kind"], row["about_number"])
        for row in groups:
            group = tables.placement_groups[row["number"]]
            group.owner, group.ready = tables.workers.get(row["owner"]), tables.objects.get(row["ready"])
        for row in actors:
            self._link_actor(tables.actors[row["id"]])
        open_tasks.sort(key=lambda one: one[0].t_ready or one[0].t_created)  # the order of the queues
        for task, told in open_tasks:
            self._open(task, told)
        for row in workers:
            worker = tables.workers.get(row["number"])
            if worker is not None:
                self._link_worker(worker, row)

    def _link_actor(self, actor: ActorRecord) -> None:
        if actor.creation is None:
            spec = TaskSpec(ACTOR_CREATION_TASK, f"{actor.class_name}.__init__", f"{actor.class_name}.__init__")
            actor.creation = TaskRecord(spec, actor=actor)
            actor.creation.worker = actor.worker
            actor.creation.t_created, actor.creation.t_finished = actor.t_created, actor.t_alive or actor.t_died
        actor.options = dict(actor.creation.spec.options)

    def _link_worker(self, worker: WorkerRecord, row: Row) -> None:
        tables = self.cluster
        worker.actor = tables.actors.get(row["actor"])
        if worker.actor is not None and row["concurrency_group"] is not None:
            worker.group = worker.actor.groups.get(row["concurrency_group"])
        worker.task = tables.tasks.get(row["task"])
        if worker.status is WorkerStatus.DEAD:
            return
        running = [tables.tasks.get(number) for number in row["running_json"] or ()]
        worker.running = {task.number: task for task in running if task is not None}
        group = tables.placement_groups.get(row["bundle_group"])
        if group is not None and row["bundle_index"] is not None:
            worker.bundle = group.bundles[row["bundle_index"]]

    # ------------------------------------------------------------ waits and drains

    def wait(self, need: int, timed: bool, awaited: Iterable[list[Any]]) -> tuple[Waiter, list[Any]]:
        """A wait in `get` or `wait`, with the records that it waits for. awaited: ["object", number], or ["stream",
        number of its task]."""
        objects: list[Any] = []
        for kind, number in awaited:
            if kind == "stream":
                task = self.cluster.tasks.get(number)
                found: Any = task.stream if task is not None else None
            else:
                found = self.cluster.objects.get(number)
            if found is not None:
                objects.append(found)
        waiter = Waiter(need, None)
        waiter.timed = timed
        return waiter, objects

    def worker_waits(self, number: int, need: int, timed: bool, awaited: Iterable[list[Any]]) -> None:
        """The thread of a worker waits."""
        worker = self.cluster.workers.get(number)
        if worker is not None and worker.status is not WorkerStatus.DEAD:
            worker.handle.waiter, worker.handle.waiting = self.wait(need, timed, awaited)

    def reconstructions(self, number: int) -> None:
        """How many tasks ran again to rebuild a value."""
        self.cluster.task_manager.num_reconstructions = number

    def totals(self, told: dict[str, Any]) -> None:
        """What `Totals.whole` returned: the numbers that do not follow from the records."""
        totals = self.cluster.totals
        totals.attempts_dropped = told.get("attempts_dropped")
        for has_actor, name, number in told.get("worker_failures", ()):
            totals.worker_failures[bool(has_actor), name] = number
        counts = told.get("sizes", ())
        if len(counts) == len(totals.sizes.counts):
            totals.sizes.counts, totals.sizes.sum = list(counts), told["sizes_sum"]

    def attempts(self, told: Iterable[list[Any]]) -> None:
        """How many attempts had ended in the whole session, as (name, whether it was a retry, whether it succeeded,
        number): those that no record here has were dropped."""
        here = Counter(key for task in self.cluster.tasks.values() for key in attempts(task))
        dropped = self.cluster.totals.dropped_tasks
        for name, retry, finished, number in told:
            key = name, retry, finished
            missing = number - here[key]
            if missing > 0:
                dropped[key] = missing
            here[key] = max(0, -missing)
        for (_, retry, finished), number in here.items():  # more than told: they were counted under one name
            key = OTHER_NAMES, retry, finished
            if key in dropped:
                dropped[key] = max(0, dropped[key] - number)

    def drain(self, number: int, until: float) -> None:
        """An actor has ended itself, and waits for its work. until: when that is cut, 0.0 for never."""
        actor = self.cluster.actors.get(number)
        if actor is not None:
            workers = [actor.worker] if actor.worker is not None else []
            actor.drain = Drain(workers, Failure("ACTOR_DIED", "it has ended itself", about=actor), "", actor)
            actor.drain.until = until
            self.cluster.ownership.drains.append(actor.drain)


def _check_causes(cause_of: dict[int, int | None]) -> None:
    """Raise Contradiction if a failure is its own cause: a reader that follows the causes would never end."""
    ends: set[int] = set()  # the failures whose causes are known to end
    for failure in cause_of:
        path: set[int] = set()
        number: int | None = failure
        while number is not None and number not in ends:
            if number in path:
                raise Contradiction(f"failure {failure} is a cause of itself")
            path.add(number)
            number = cause_of.get(number)
        ends |= path


def _set_status(record: Any, name: str) -> None:
    """Give a record the status with this name. Raises Contradiction if there is none."""
    statuses = type(record.status)
    if name not in statuses.__members__:
        raise Contradiction(f"{name!r} is no {statuses.__name__}")
    restore(record, name)


def _status(task: TaskRecord, state: str) -> str:
    """The name of a task's status, for the state that its row shows. `task_columns.task_state` is the other way."""
    if task.t_finished:
        return "FINISHED" if task.failure is None else "FAILED"
    creation = task.spec.kind == ACTOR_CREATION_TASK and task.worker is not None
    return "SUBMITTED_TO_WORKER" if state == "RUNNING" or creation else state


def _fill(record: Any, row: Row, workers: dict[int, WorkerRecord]) -> None:
    """The places and times of an attempt."""
    worker = workers.get(row["worker"]) if row["worker"] is not None else None
    record.worker, record.node = worker, worker.node if worker is not None else None
    record.t_created, record.t_ready, record.t_leased = _s(row["created_us"]), _s(row["ready_us"]), _s(row["leased_us"])
    record.t_started, record.t_ended = _s(row["started_us"]), _s(row["ended_us"])
    record.t_finished = _s(row["finished_us"])


def _s(us: int | None) -> float:
    """Seconds of microseconds; 0.0 for a moment that has not come."""
    return us / 1e6 if us else 0.0


def _tuples(told: Any) -> Any:
    """The tuples that JSON has turned into lists."""
    return tuple(_tuples(one) for one in told) if isinstance(told, (list, tuple)) else told
