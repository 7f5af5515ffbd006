"""The invariants: what must hold between the core's tables after every event.

Each rule is a function that reads the tables and fails with the entity that breaks it. A rule states what the rest of
the core may rely on, so read this page before you change the core. Tests and simulations call `check` after every
event; a session never does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import devices
from .records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    FAILED,
    LOST,
    PENDING,
    READY,
    SPILLED,
    UNIT,
    ActorRecord,
    ConcurrencyGroup,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
    SchedulingClass,
    TaskRecord,
    WorkerRecord,
)
from .scheduler import fits
from .transitions import ActorStatus, PlacementGroupStatus, TaskStatus, WorkerStatus

WAITS_FOR_ARGUMENTS, WAITS_FOR_NODE = TaskStatus.PENDING_ARGS_AVAIL, TaskStatus.PENDING_NODE_ASSIGNMENT
OVER = (TaskStatus.FINISHED, TaskStatus.FAILED)
IN_WORKER = TaskStatus.SUBMITTED_TO_WORKER
GROUP_WAITS = (PlacementGroupStatus.PENDING, PlacementGroupStatus.RESCHEDULING)
DEAD_ACTOR, REMOVED = ActorStatus.DEAD, PlacementGroupStatus.REMOVED
AVAILABLE = (READY, FAILED, SPILLED)  # an object in one of these states has a value or an error


class InvariantBroken(AssertionError):
    """Two tables of the core disagree. This is a bug in miniray, never in the program: please report it with this
    text."""


def check(cluster: Any, refs: Mapping[ObjectRecord, int] | None = None) -> None:
    """Raise InvariantBroken, with the history of the entity, unless every rule holds.

    refs: how many references the program holds to each object, if the caller knows; an object that is missing has none.
    """
    try:
        nothing_is_left_to_do(cluster)
        workers_hold_what_they_lease(cluster)
        queues_hold_what_waits(cluster)
        tasks_are_where_they_say(cluster)
        actors_agree_with_their_calls(cluster)
        owners_end_with_their_work(cluster)
        stores_hold_what_is_located(cluster)
        references_are_counted(cluster, refs)
        times_and_states_agree(cluster)
        records_are_bounded(cluster)
    except _Broken as broken:
        raise InvariantBroken(f"{broken}{history_of(cluster, broken.entity)}") from None


class _Broken(Exception):
    """A rule does not hold. entity: the record or the table that breaks it."""

    def __init__(self, text: str, entity: Any):
        super().__init__(text)
        self.entity = entity


def require(holds: Any, entity: Any, what: str, *about: Any) -> None:
    """Fail unless `holds`. The error names the entity and continues with `what`, in which `about` fills the braces. The
    text is formatted only if the rule is broken, since a check after every event must be cheap."""
    if not holds:
        raise _Broken(f"{entity!r}: {what.format(*about)}", entity)


def history_of(cluster: Any, entity: Any) -> str:
    """What happened to an entity, as lines of text: first from its own record, if that tells its story, then from the
    event log. Empty if neither says anything."""
    told = entity.story() if hasattr(entity, "story") else []
    logged = [f"at {event.at:.6f}: {event.text}" for event in cluster.events if event.about is entity]
    lines = [*told, *logged]
    return "\nIts history:" + "".join(f"\n  {line}" for line in lines) if lines else ""


def nothing_is_left_to_do(cluster: Any) -> None:
    """Every event is processed to its end: all worklists are empty."""
    require(not cluster.ready, cluster.ready, "the waiters of these objects were not told")
    require(not cluster.actions, cluster.actions, "no event returned these actions")
    require(
        not cluster.references._worklist and not cluster.references._running,
        cluster.references._worklist,
        "these objects were not checked",
    )
    require(not cluster.drained, cluster.drained, "the ends of these owners were not decided")
    require(cluster.scheduler.reporting is None, cluster.scheduler.reporting, "is still marked as reporting")
    require(cluster.scheduler.vacant is None, cluster.scheduler.vacant, "has no task and is still marked as vacant")


# ---------------------------------------------------------------- workers and their resources


def workers_hold_what_they_lease(cluster: Any) -> None:
    """On every node and in every bundle, the free resources and those that living workers hold add up to the total."""
    held: dict[Any, dict[str, int]] = {}
    for node in cluster.nodes.values():
        require(node.alive == (node in cluster.scheduler.alive), node, "its `alive` and the scheduler's list disagree")
        if node.alive:
            _workers_of(cluster, node, held)
        else:
            require(
                not node.idle and not node.workers,
                node,
                "is dead and has workers: {}, idle {}",
                node.workers,
                node.idle,
            )
    for group in cluster.placement_groups.values():
        if group.status is not REMOVED or group.number in cluster.groups.waiting:
            _bundles_of(cluster, group, held)
    for node in cluster.scheduler.alive:
        _adds_up(node, node.total, node.available, held.pop(node, {}))
    require(not held, list(held), "workers hold resources of these nodes or bundles, which do not exist")


def _workers_of(cluster: Any, node: NodeRecord, held: dict[Any, dict[str, int]]) -> None:
    """Add what the node's workers hold to `held`, under their bundle or else under the node."""
    starting = idle = 0
    free = {(name, index): left for name, each in node.free_devices.items() for index, left in each.items()}
    for worker in node.workers.values():
        _worker(cluster, node, worker)
        starting += worker.status is WorkerStatus.STARTING and worker.actor is None
        idle += worker.status is WorkerStatus.IDLE
        if worker.lease is None:
            continue
        taken = held.setdefault(worker.bundle or node, {})
        for name, amount in worker.lease.hold.items():
            taken[name] = taken.get(name, 0) + amount
        if worker.lent:
            taken["CPU"] -= worker.lent
        for name, indices in worker.devices.items():
            for index in indices:
                free[name, index] += min(UNIT, worker.lease.hold[name])
    require(node.starting == starting, node, "counts {} starting workers and has {}", node.starting, starting)
    require(
        idle == len(node.idle) == len({worker.number for worker in node.idle}),
        node,
        "has {} idle workers and lists {}",
        idle,
        node.idle,
    )
    for (name, index), amount in free.items():
        left = node.free_devices[name][index]
        require(
            amount == UNIT and left >= 0,
            node,
            "{} {}: {} units are free, with those that workers hold {}",
            name,
            index,
            left,
            amount,
        )


def _worker(cluster: Any, node: NodeRecord, worker: WorkerRecord) -> None:
    """A living worker has exactly what its status allows."""
    status, task, lease = worker.status, worker.task, worker.lease
    require(status is not WorkerStatus.DEAD, worker, "is dead and still on {}", node)
    require(
        worker.node is node and cluster.workers.get(worker.number) is worker,
        worker,
        "is on another node, or not in the table, but {} lists it",
        node,
    )
    if status is WorkerStatus.IDLE:
        require(
            task is None and lease is None and not worker.lent and worker.actor is None,
            worker,
            "is idle and has a task, a lease or an actor",
        )
        require(worker in node.idle, worker, "is idle and not in the list of {}", node)
        return
    if worker.actor is None:
        require(
            task is not None and lease is not None, worker, "is leased with the task {} and the lease {}", task, lease
        )
        require(
            task.worker is worker and task.status is IN_WORKER,
            worker,
            "has the task {}, which is not submitted to it; the worker of that task is {}",
            task,
            task.worker,
        )
        require(lease is task.spec.scheduling_class, worker, "has the lease {} for {}", lease, task)
    else:
        if worker.drain is not None and worker.drain.actor is None:  # the actor has been declared dead already
            require(task is None and not worker.running, worker, "only waits for its work, but runs {}", task)
        else:
            require(worker.actor.status is not DEAD_ACTOR, worker, "is alive, but {} is dead", worker.actor)
            require(worker in worker.group.workers, worker, "is not among the workers of its group of {}", worker.actor)
            first = worker.actor.worker  # it has the actor's lease, and the actor's other threads have none
            wanted = worker.actor.creation.spec.scheduling_class if worker is first else None
            require(first is None or lease is wanted, worker, "has the lease {} and not {}", lease, wanted)
    if lease is None:
        require(not worker.lent and not worker.devices, worker, "has no lease and still has devices or has lent a CPU")
        return
    if lease.group is None:
        allowed = worker.bundle is None and cluster.scheduler._allowed(node, lease)
    else:
        bundle, index = worker.bundle, lease.strategy[2]
        allowed = bundle in lease.group.bundles and bundle.node is node and index in (-1, bundle.index)
    require(allowed, worker, "holds {} on {}, which its strategy or its labels exclude", lease, node)
    require(0 <= worker.lent <= lease.hold.get("CPU", 0), worker, "has lent {} units of {}", worker.lent, lease)
    counts = {name: max(1, lease.hold[name] // UNIT) for name in lease.devices}
    require(
        {name: len(indices) for name, indices in worker.devices.items()} == counts,
        worker,
        "holds {} and was given the devices {}",
        lease,
        worker.devices,
    )


def _bundles_of(cluster: Any, group: PlacementGroupRecord, held: dict[Any, dict[str, int]]) -> None:
    """The resources of a placed bundle add up, and the bundle holds them of its node."""
    require(
        (group.number in cluster.groups.waiting) == (group.status in GROUP_WAITS),
        group,
        "is {}, and this does not agree with the table of waiting groups",
        group.status.name,
    )
    for bundle in group.bundles:
        if bundle.node is None:
            require(group.status in GROUP_WAITS, group, "is placed, but its bundle {} is not", bundle.index)
            require(
                bundle not in held,
                group,
                "a worker holds resources of its bundle {}, which is not placed",
                bundle.index,
            )
            continue
        require(bundle.node.alive, group, "its bundle {} is on a dead node", bundle.index)
        _adds_up(group, bundle.total, bundle.available, held.pop(bundle, {}))
        reserved = held.setdefault(bundle.node, {})
        for name, amount in bundle.total.items():
            reserved[name] = reserved.get(name, 0) + amount


def _adds_up(entity: Any, total: dict[str, int], available: dict[str, int], held: dict[str, int]) -> None:
    for name, amount in total.items():
        free, taken = available.get(name, 0), held.get(name, 0)
        if free < 0 or taken < 0 or free + taken != amount:
            raise _Broken(f"{entity!r}: of {amount} {name}, {free} are free and {taken} are held", entity)
    for name in held:
        require(name in total, entity, "workers hold {} of it, but it has none", name)


# ---------------------------------------------------------------- queues


def queues_hold_what_waits(cluster: Any) -> None:
    """A class with a waiting task is either waiting or infeasible, and no task waits if a node has room for it."""
    scheduler = cluster.scheduler
    for wanted in scheduler.classes.values():
        if not wanted.queue:
            continue
        head = None
        for task in wanted.queue:
            require(task.spec.scheduling_class is wanted, task, "is in the queue of {}", wanted)
            if head is None and task.status is WAITS_FOR_NODE:
                head = task
        waits, infeasible = wanted in scheduler.waiting, wanted in scheduler.infeasible
        require(not (waits and infeasible), wanted, "is both waiting and infeasible")
        if head is None:
            continue
        require(
            waits or infeasible, wanted, "{} is in its queue, but the class is neither waiting nor infeasible", head
        )
        require(
            scheduler.feasible(wanted) == waits, wanted, "is marked as waiting: {}; fits a node: {}", waits, not waits
        )
        require(not waits or not _could_run(cluster, head, wanted), head, "waits, although a node has room for it")
    for group in cluster.groups.waiting.values():
        missing = [bundle for bundle in group.bundles if bundle.node is None]
        require(cluster.groups.plan(group, missing) is None, group, "waits, although its bundles fit")


def _could_run(cluster: Any, task: TaskRecord, wanted: SchedulingClass) -> bool:
    """Whether a node, or a bundle, has room for the task now."""
    scheduler = cluster.scheduler
    if wanted.group is not None:
        return any(
            bundle.node is not None
            and fits(bundle.available, wanted.need)
            and devices.pick(bundle.node, wanted) is not None
            for bundle in scheduler._bundles(wanted)
        )
    nodes = scheduler.alive
    if wanted.strategy[0] == "NODE_AFFINITY" and wanted.strategy[2]:  # soft: elsewhere only if it never fits there
        named = scheduler.by_hex.get(wanted.strategy[1])
        if named is not None and fits(named.total, wanted.need) and scheduler._allowed(named, wanted):
            nodes = [named]
    # Every node is looked at, and not the scheduler's ranking: that may have forgotten one.
    return any(scheduler._allowed(node, wanted) and scheduler._has_room(node, task, wanted) for node in nodes)


# ---------------------------------------------------------------- tasks


def tasks_are_where_they_say(cluster: Any) -> None:
    """Each unfinished task is known to the object, queue, actor or worker that its status says it waits for."""
    objects = cluster.objects
    for number, task in cluster.tasks.items():
        status = task.status
        require(task.number == number, task, "is in the table under {}", number)
        if status in OVER:
            require(task.t_finished, task, "has ended, but t_finished is not set")
            require(
                status is TaskStatus.FINISHED or not task.deps and task.args is None,
                task,
                "has failed and keeps its arguments",
            )
            for obj in task.returns:
                require(
                    obj.status is not PENDING or objects.get(obj.number) is not obj,
                    task,
                    "has ended, but {} is pending",
                    obj,
                )
        else:
            require(not task.t_finished, task, "is unfinished, but t_finished is set")
            for dep in task.deps:
                require(objects.get(dep.number) is dep, task, "needs {}, which is not in the table", dep)
            _unfinished(task)
        _times(task)


def _unfinished(task: TaskRecord) -> None:
    """An unfinished task is where its status says."""
    status, worker = task.status, task.worker
    group = None
    if task.spec.kind == ACTOR_TASK:
        require(task.actor.calls.get(task.number) is task, task, "is not among the calls of {}", task.actor)
        group = task.actor.groups[task.spec.group]
    if status is WAITS_FOR_ARGUMENTS:
        missing = [dep for dep in task.deps if dep.status not in AVAILABLE]
        # An argument that had a value and was lost since is not awaited: arguments_ready looks for it after the others.
        awaited = [dep for dep in missing if dep.dependents is not None and task in dep.dependents]
        require(
            task.pending == len(awaited) > 0,
            task,
            "waits for {} arguments; missing: {}, of which {} know of it",
            task.pending,
            missing,
            awaited,
        )
        require(
            group is None or not task.actor.in_order or task in group.queue, task, "is not in the queue of its actor"
        )
    elif status is WAITS_FOR_NODE and group is not None:
        require(
            task.actor.status not in (ActorStatus.ALIVE, DEAD_ACTOR),
            task,
            "waits until its actor is alive, but that is {}",
            task.actor,
        )
        require(task in group.queue, task, "is not in the queue of {}", task.actor)
    elif status is WAITS_FOR_NODE:
        require(task in task.spec.scheduling_class.queue, task, "is not in the queue of its class")
    elif worker is None:
        require(group is not None and task in group.queue, task, "has no worker and is in no queue")
    else:
        require(worker.status is not WorkerStatus.DEAD, task, "runs in {}, which is dead", worker)
        require(
            worker.task is task or task.number in worker.running,
            task,
            "runs in {}, but that worker runs {}",
            worker,
            worker.task,
        )
    require(worker is None or status is IN_WORKER, task, "waits, but has {}", worker)


def _times(task: TaskRecord) -> None:
    """The times that are set are in order."""
    last = 0.0
    for at in (task.t_created, task.t_ready, task.t_leased, task.t_started, task.t_ended, task.t_finished):
        if at:
            if at < last:
                names = [name for name in TaskRecord.__slots__ if name.startswith("t_")]
                times = ", ".join(f"{name} {getattr(task, name)}" for name in names)
                raise _Broken(f"{task!r}: its times are not in order: {times}", task)
            last = at


# ---------------------------------------------------------------- actors


def actors_agree_with_their_calls(cluster: Any) -> None:
    """A dead actor has nothing left. A living one counts its running calls, and starts every call that could run."""
    names = cluster.actor_manager.names
    for actor in cluster.actors.values():
        weak = actor.weak_handle
        require(
            weak is None or cluster.objects.get(weak.number) is weak, actor, "its weak handle {} is not a table's", weak
        )
        if actor.status is DEAD_ACTOR:
            require(
                not (actor.calls or actor.worker or actor.lease),
                actor,
                "is dead and still has {}",
                actor.calls or actor.worker,
            )
            require(actor.failure is not None, actor, "is dead without a reason")
            for group in actor.groups.values():
                require(
                    not (group.running or group.queue or group.workers or group.idle),
                    actor,
                    "is dead, and its group {!r} has {} running calls and the workers {}",
                    group.name,
                    group.running,
                    group.workers,
                )
            continue
        # An actor that was revived to rebuild a result lost its name when it died; another actor may have the name now.
        named = actor.name and not (actor.out_of_scope and actor.restarts)
        require(
            not named or names.get((actor.namespace, actor.name)) is actor, actor, "its name leads to another actor"
        )
        require(actor.status is not ActorStatus.ALIVE or actor.worker is not None, actor, "is alive and has no worker")
        _somebody_wants(actor)
        for task in actor.calls.values():
            require(task.status not in OVER, actor, "has ended {} among its calls", task)
        for group in actor.groups.values():
            _concurrency_group(actor, group)
    for key, actor in names.items():
        require(
            actor.status is not DEAD_ACTOR and key == (actor.namespace, actor.name),
            actor,
            "is dead, or has another name, but the table of names has it under {}",
            key,
        )


def _somebody_wants(actor: ActorRecord) -> None:
    """Somebody holds the actor, or it has calls, or its constructor runs."""
    handle = actor.handle
    if not (handle.refs or handle.uses or handle.held or actor.detached or actor.calls):
        require(
            actor.status is not ActorStatus.ALIVE and actor.worker is not None,
            actor,
            "is not dead, but nobody holds a handle and it has no calls",
        )


def _concurrency_group(actor: ActorRecord, group: ConcurrencyGroup) -> None:
    """A group counts its running calls, and each waiting call is in its queue once and has a reason to wait."""
    if actor.is_async:
        running = [task for worker in group.workers for task in worker.running.values()]
        require(not group.idle, actor, "is async and has idle workers")
        require(len(group.workers) <= 1, actor, "is async, and its group {!r} has several workers", group.name)
        for task in running:
            require(task.spec.group == group.name, actor, "runs {} in the worker of its group {!r}", task, group.name)
        for worker in group.workers:
            require(
                worker.task is None or worker.task.spec.kind == ACTOR_CREATION_TASK,
                actor,
                "is async, but its {} has the single task {}",
                worker,
                worker.task,
            )
    else:
        running = [
            worker.task for worker in group.workers if worker.task is not None and worker.task.spec.kind == ACTOR_TASK
        ]
        for worker in group.idle:
            require(
                worker in group.workers and worker.task is None,
                actor,
                "its idle {} runs {}, or is not in the group",
                worker,
                worker.task,
            )
    require(
        group.running == len(running) <= group.limit,
        actor,
        "counts {} running calls of at most {}, and runs {}",
        group.running,
        group.limit,
        running,
    )
    if actor.status is ActorStatus.ALIVE and actor.drain is None and group.queue and group.running < group.limit:
        # A call may wait for its own arguments, or behind a call of the same caller that does. A call that was
        # cancelled is skipped later.
        blocked = set()
        for task in group.queue:
            if task.status is WAITS_FOR_ARGUMENTS:
                blocked.add(task.owner)
            require(task.status in OVER or task.owner in blocked, actor, "lets {} wait, although it could run", task)
    if group.queue:
        queued = [task.number for task in group.queue if task.status not in OVER]
        require(len(queued) == len(set(queued)), actor, "a call is in its queue twice: {}", queued)
        waiting = [task.number for task in actor.calls.values() if task.worker is None]
        require(
            not actor.in_order or sorted(queued) == sorted(waiting),
            actor,
            "its queue has the calls {}, but {} are waiting",
            queued,
            waiting,
        )


# ---------------------------------------------------------------- owners


def owners_end_with_their_work(cluster: Any) -> None:
    """Each owner counts its unfinished work, and an owner that waits for its work before it ends has some left."""
    unfinished: dict[WorkerRecord, int] = {}
    for task in cluster.tasks.values():
        if task.owner is not None and task.status not in OVER and task.spec.kind != ACTOR_CREATION_TASK:
            unfinished[task.owner] = unfinished.get(task.owner, 0) + 1
    drains = cluster.ownership.drains
    for worker in [*unfinished, *cluster.workers.values()]:
        require(
            worker.unfinished == unfinished.get(worker, 0),
            worker,
            "counts {} unfinished tasks, but owns {}",
            worker.unfinished,
            unfinished.get(worker, 0),
        )
        require(worker.drain is None or worker.drain in drains, worker, "is in {}, which is over", worker.drain)
    for drain in drains:
        require(cluster.ownership._waits(drain), drain, "waits for nothing")
        for worker in drain.workers:
            require(worker.drain is drain, worker, "is not in {}, which has it", drain)
        require(
            drain.actor is None or drain.actor.drain is drain and drain.actor.status is not DEAD_ACTOR,
            drain,
            "its actor is dead, or in another drain",
        )
    for actor in cluster.actors.values():
        require(actor.drain is None or actor.drain in drains, actor, "is in {}, which is over", actor.drain)
        require(actor.lineage >= 0, actor, "counts {} calls that can run again", actor.lineage)


# ---------------------------------------------------------------- object stores


def stores_hold_what_is_located(cluster: Any) -> None:
    """A store counts the bytes of the objects in it, and each object is in the stores that its locations name."""
    spilled = dict.fromkeys(cluster.nodes, 0)
    for obj in cluster.objects.values():
        locations = obj.locations
        if locations is None:
            continue
        require(
            locations and obj.status in (READY, SPILLED),
            obj,
            "has the locations {}, but is neither in memory nor in a file",
            locations,
        )
        for number, node in locations.items():
            require(node.alive, obj, "has a location on {}", node)
            if obj.status is SPILLED:
                spilled[number] += obj.size
                require(
                    len(locations) == 1 and obj.number not in node.store.objects,
                    obj,
                    "is spilled, but in memory on {}, or has several locations",
                    node,
                )
            else:
                require(node.store.objects.get(obj.number) is obj, obj, "is not in the store of {}", node)
    for node in cluster.nodes.values():
        store = node.store
        used = 0
        for number, obj in store.objects.items():
            require(
                cluster.objects.get(number) is obj and obj.locations and node.number in obj.locations,
                obj,
                "is in the store of {}, but not in the table of objects or not located there",
                node,
            )
            used += obj.size
        require(store.used == used, node, "its store counts {} bytes and holds {}", store.used, used)
        require(
            store.spilled == spilled[node.number],
            node,
            "its store counts {} spilled bytes and has {}",
            store.spilled,
            spilled[node.number],
        )
        for number, obj in store.spilling.items():
            require(number in store.objects, obj, "is being spilled on {}, but is not in the store", node)
        for number, file in store.files.items():
            obj = cluster.objects.get(number)
            require(
                obj is not None and node.number in (obj.locations or ()),
                number,
                "{} has a file for this object, which is not located there",
                node,
            )
            require(
                obj.status is not SPILLED or obj.value is file,
                obj,
                "is spilled on {}, but its value is not the file",
                node,
            )
            require(number not in store.spilling, obj, "is being spilled on {}, but has a file already", node)


# ---------------------------------------------------------------- references


def references_are_counted(cluster: Any, refs: Mapping[ObjectRecord, int] | None = None) -> None:
    """Each count of an object is the number of its holders, and an object that nobody needs is not in the table."""
    objects = cluster.objects
    uses: dict[ObjectRecord, int] = {}
    held: dict[ObjectRecord, int] = {}
    lineage: dict[ObjectRecord, int] = {}
    for task in _tasks_that_hold(cluster):
        # A finished task keeps its arguments only as lineage; a finished constructor keeps them for a restart.
        count = lineage if task.status is TaskStatus.FINISHED and task.spec.kind != ACTOR_CREATION_TASK else uses
        for dep in task.deps:
            count[dep] = count.get(dep, 0) + 1
        for inner in task.contained:
            held[inner] = held.get(inner, 0) + 1
    for obj in objects.values():
        for inner in obj.contained:
            held[inner] = held.get(inner, 0) + 1
    for number, obj in objects.items():
        if (
            obj.number != number
            or obj.uses != uses.get(obj, 0)
            or obj.held != held.get(obj, 0)
            or obj.lineage != lineage.get(obj, 0)
            or obj.refs < 0
        ):
            raise _Broken(
                f"{obj!r}, in the table under {number}: refs {obj.refs}, uses {obj.uses} of {uses.get(obj, 0)}, "
                f"held {obj.held} of {held.get(obj, 0)}, lineage {obj.lineage} of {lineage.get(obj, 0)}",
                obj,
            )
        if refs is not None:
            stream = obj.task.stream if obj.task is not None else None  # which holds the items not taken yet
            wanted = refs.get(obj, 0) + (stream is not None and obj in stream.items)
            require(obj.refs == wanted, obj, "counts {} references, but the program holds {}", obj.refs, wanted)
        if not (obj.refs or obj.uses or obj.held):
            _kept_for_a_reason(cluster, obj)
        require(obj.waiters != [] and obj.dependents != [], obj, "keeps an empty list of those who wait for it")
        if obj.waiters or obj.dependents:
            require(
                obj.status not in AVAILABLE, obj, "has a value, but {} were not told", obj.waiters or obj.dependents
            )
            require(
                obj.status is not LOST or obj.task is not None and not obj.task.t_finished,
                obj,
                "is lost and awaited, but nobody rebuilds it",
            )
    for counts in (uses, held):
        for obj in counts:
            require(objects.get(obj.number) is obj, obj, "is held, but is not in the table")


def _kept_for_a_reason(cluster: Any, obj: ObjectRecord) -> None:
    """An object with no holder is the handle of a living actor, or is lineage, or its task is unfinished."""
    if obj.actor is not None:
        require(obj.actor.handle is obj, obj, "is the weak handle of an actor, and nobody needs it")
        require(obj.actor.status is not DEAD_ACTOR, obj, "is the handle of a dead actor, and nobody needs it")
    elif not obj.lineage or cluster.references.rebuildable(obj):
        require(
            obj.status is PENDING and obj.task is not None and not obj.task.t_finished,
            obj,
            "nobody needs it, but it is still in the table",
        )


def _tasks_that_hold(cluster: Any) -> Iterator[TaskRecord]:
    """Every task that may hold objects: those in the table, those that made an object, and those in their lineage."""
    seen: dict[int, TaskRecord] = dict(cluster.tasks)
    unseen = list(seen.values())

    def visit(task: TaskRecord | None) -> None:
        if task is not None and task.number not in seen:
            seen[task.number] = task
            unseen.append(task)

    for obj in cluster.objects.values():
        visit(obj.task)
    for actor in cluster.actors.values():
        visit(actor.creation)
    while unseen:
        task = unseen.pop()
        if task.actor is not None:
            visit(task.actor.creation)
        if task.deps or task.contained:
            yield task
            for dep in task.deps:
                visit(dep.task)


# ---------------------------------------------------------------- records


def times_and_states_agree(cluster: Any) -> None:
    """What a record has been through is noted in it: the time of each state, the earlier attempts, the reason of an
    end."""
    for task in cluster.tasks.values():
        _attempts(task)
    for obj in cluster.objects.values():
        require(obj.status not in AVAILABLE or obj.t_ready or obj.actor is not None, obj, "is there, but since when?")
    for node in cluster.nodes.values():
        require(node.alive != bool(node.t_died), node, "is alive: {}; died at {}", node.alive, node.t_died)
    for worker in cluster.workers.values():
        if worker.status is WorkerStatus.DEAD:
            require(worker.t_died and worker.exit_type, worker, "is dead, but since when, and why?")
        else:
            started = worker.status is not WorkerStatus.STARTING
            require(started == bool(worker.t_started), worker, "has started at {}", worker.t_started)
            require(not worker.t_died and not worker.exit_type, worker, "is alive and has died at {}", worker.t_died)
    for actor in cluster.actors.values():
        dead = actor.status is DEAD_ACTOR
        require(dead == bool(actor.t_died) and dead == (actor.failure is not None), actor, "died at {}", actor.t_died)
        require(actor.status is not ActorStatus.ALIVE or actor.t_alive, actor, "is alive, but since when?")
        first = actor.status in (ActorStatus.DEPENDENCIES_UNREADY, ActorStatus.PENDING_CREATION)
        require(not first or not actor.t_alive, actor, "was never alive, and has been since {}", actor.t_alive)
        # A restart that comes before the constructor was given to a worker needs no further attempt of it.
        require(actor.creation.attempt <= actor.restarts, actor, "was constructed again, and counts no restart")
    for group in cluster.placement_groups.values():
        placed = group.status is PlacementGroupStatus.CREATED
        require(not placed or group.t_placed, group, "is placed, but since when?")


def _attempts(task: TaskRecord) -> None:
    """The current attempt has the times of its status, and every earlier one is in the history, over."""
    status = task.status
    ready = status is not WAITS_FOR_ARGUMENTS and status is not TaskStatus.FAILED
    require(task.t_ready or not ready, task, "is ready, but since when?")
    in_worker = task.worker is not None and status is not TaskStatus.FAILED
    require(bool(task.t_leased) == in_worker or status in OVER, task, "was leased at {}", task.t_leased)
    history = task.history or ()
    require(len(history) == task.attempt, task, "has {} earlier attempts in its history", len(history))
    for number, attempt in enumerate(history):
        require(attempt.number == number and attempt.t_finished, task, "its attempt {} is not over", attempt.number)


def records_are_bounded(cluster: Any) -> None:
    """The history keeps no more finished tasks than its limit, and no node lists a dead worker."""
    history = cluster.history
    require(
        len(history.finished) <= history.limit,
        history,
        "keeps {} finished tasks of at most {}",
        len(history.finished),
        history.limit,
    )
    living = sum(worker.status is not WorkerStatus.DEAD for worker in cluster.workers.values())
    listed = sum(len(node.workers) for node in cluster.nodes.values())
    require(living == listed, cluster.workers, "{} workers are alive, but the nodes list {}", living, listed)
