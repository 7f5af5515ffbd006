"""What must hold between the tables after every event. Tests and simulations call `check`; a session never does.

Each rule is a function that reads the tables and raises InvariantBroken with the entity that breaks it. A rule says what the
rest of the core may rely on, so this is also the page to read before changing any of it.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

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
THERE = (READY, FAILED, SPILLED)


class InvariantBroken(AssertionError):
    """Two tables of the core disagree. This is a bug in miniray, never in the program: please report it with the text."""


def check(cluster: Any, refs: Mapping[ObjectRecord, int] | None = None) -> None:
    """Raise InvariantBroken, with the history of the entity, unless every rule holds. refs: how many references the program holds
    to each object, when the caller knows; an object that is missing there has none."""
    try:
        nothing_is_left_to_do(cluster)
        workers_hold_what_they_lease(cluster)
        queues_hold_what_waits(cluster)
        tasks_are_where_they_say(cluster)
        actors_agree_with_their_calls(cluster)
        stores_hold_what_is_located(cluster)
        references_are_counted(cluster, refs)
        records_are_bounded(cluster)
    except _Broken as broken:
        raise InvariantBroken(f"{broken}{history_of(cluster, broken.entity)}") from None


class _Broken(Exception):
    """A rule does not hold. entity: the record, or whatever else, that breaks it."""

    def __init__(self, text: str, entity: Any):
        super().__init__(text)
        self.entity = entity


def require(holds: Any, entity: Any, what: str, *about: Any) -> None:
    """The error names the entity and says which rule it breaks. about: what goes into the braces of that sentence. It is formatted
    only if the rule is broken, since a check after every event must be cheap."""
    if not holds:
        raise _Broken(f"{entity!r}: {what.format(*about)}", entity)


def history_of(cluster: Any, entity: Any) -> str:
    """What happened to an entity, as lines of text: its own record, then the lines about it in the event log. Empty for what
    is not a record."""
    if not hasattr(entity, "story"):
        return ""
    logged = [f"at {event.at:.6f}: {event.text}" for event in cluster.events if event.about is entity]
    return "\nIts history:" + "".join(f"\n  {line}" for line in [*entity.story(), *logged])


def nothing_is_left_to_do(cluster: Any) -> None:
    """An event is carried through to the end: no worklist outlives it."""
    require(not cluster.ready, cluster.ready, "objects whose waiters were not told")
    require(not cluster.actions, cluster.actions, "actions that no event returned")
    require(
        not cluster.references._worklist and not cluster.references._running,
        cluster.references._worklist,
        "objects that were to be looked at",
    )
    require(cluster.scheduler.reporting is None, cluster.scheduler.reporting, "still counts as reporting")
    require(cluster.scheduler.vacant is None, cluster.scheduler.vacant, "has no task, and holds resources")


# ---------------------------------------------------------------- workers, and what they hold


def workers_hold_what_they_lease(cluster: Any) -> None:
    """On every node, and in every bundle: what is free and what living workers hold is all there is, and none of it negative."""
    held: dict[Any, dict[str, int]] = {}
    for node in cluster.nodes.values():
        require(
            node.alive == (node in cluster.scheduler.alive), node, "its being alive and the scheduler's list disagree"
        )
        if node.alive:
            _workers_of(cluster, node, held)
        else:
            require(not node.idle and not node.workers, node, "dead, and has workers: {} {}", node.workers, node.idle)
    for group in cluster.placement_groups.values():
        if group.status is not REMOVED or group.number in cluster.groups.waiting:
            _bundles_of(cluster, group, held)
    for node in cluster.scheduler.alive:
        _adds_up(node, node.total, node.available, held.pop(node, {}))
    require(not held, list(held), "resources are held of what is not there")


def _workers_of(cluster: Any, node: NodeRecord, held: dict[Any, dict[str, int]]) -> None:
    """Add up what the node's workers hold, of bundles or else of the node."""
    starting = idle = 0
    gpus = dict(node.gpu_free)
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
        for index in worker.gpu_ids:
            gpus[index] += min(UNIT, worker.lease.hold["GPU"])
    require(node.starting == starting, node, "counts {} starting workers, has {}", node.starting, starting)
    require(
        idle == len(node.idle) == len({worker.number for worker in node.idle}),
        node,
        "{} idle workers, list: {}",
        idle,
        node.idle,
    )
    for index, amount in gpus.items():
        require(
            amount == UNIT and node.gpu_free[index] >= 0,
            node,
            "GPU {}: {} free; with what workers hold {}",
            index,
            node.gpu_free[index],
            amount,
        )


def _worker(cluster: Any, node: NodeRecord, worker: WorkerRecord) -> None:
    """One living worker: its status says what it has."""
    status, task, lease = worker.status, worker.task, worker.lease
    require(status is not WorkerStatus.DEAD, worker, "dead, and still on {}", node)
    require(worker.node is node and cluster.workers.get(worker.number) is worker, worker, "not where {} has it", node)
    if status is WorkerStatus.IDLE:
        require(
            task is None and lease is None and not worker.lent and worker.actor is None,
            worker,
            "idle, and holds something",
        )
        require(worker in node.idle, worker, "idle, and not in the list of {}", node)
        return
    if worker.actor is None:
        require(
            task is not None and lease is not None, worker, "leased, with the task {} and the lease {}", task, lease
        )
        require(
            task.worker is worker and task.status is IN_WORKER,
            worker,
            "is to run {}, which is in {}",
            task,
            task.worker,
        )
    else:
        require(worker.actor.status is not DEAD_ACTOR, worker, "lives on after {}", worker.actor)
        require(worker in worker.group.workers, worker, "its group of {} does not know it", worker.actor)
    if lease is None:
        require(not worker.lent and not worker.gpu_ids, worker, "has no lease, and holds something")
        return
    require(0 <= worker.lent <= lease.hold.get("CPU", 0), worker, "has lent {} of {}", worker.lent, lease)
    gpu = lease.hold.get("GPU", 0)
    require(
        len(worker.gpu_ids) == (max(1, gpu // UNIT) if gpu else 0),
        worker,
        "holds {} GPU, was given {}",
        gpu,
        worker.gpu_ids,
    )


def _bundles_of(cluster: Any, group: PlacementGroupRecord, held: dict[Any, dict[str, int]]) -> None:
    """A group's bundles add up themselves, and are held of their nodes."""
    require(
        (group.number in cluster.groups.waiting) == (group.status in GROUP_WAITS),
        group,
        "is, or is not, among those that wait",
    )
    for bundle in group.bundles:
        if bundle.node is None:
            require(group.status in GROUP_WAITS, group, "is placed, but not its bundle {}", bundle.index)
            require(bundle not in held, group, "a worker holds of its bundle {}, which is nowhere", bundle.index)
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
            raise InvariantBroken(f"{entity!r}: of {amount} {name}, {free} are free and {taken} are held")
    for name in held:
        require(name in total, entity, "{} is held of it, and it has none", name)


# ---------------------------------------------------------------- queues


def queues_hold_what_waits(cluster: Any) -> None:
    """A class with a task that waits for a node is in exactly one of the two tables; none waits for what is free."""
    scheduler = cluster.scheduler
    for wanted in scheduler.classes.values():
        if not wanted.queue:
            continue
        head = None
        for task in wanted.queue:
            require(task.spec.scheduling_class is wanted, task, "stands in the queue of {}", wanted)
            if head is None and task.status is WAITS_FOR_NODE:
                head = task
        waits, stuck = wanted in scheduler.waiting, wanted in scheduler.infeasible
        require(not (waits and stuck), wanted, "is waiting and infeasible at once")
        if head is None:
            continue
        require(waits or stuck, wanted, "{} is in its queue, and nobody will look there", head)
        require(scheduler.feasible(wanted) == waits, wanted, "is waiting: {}; fits a node: {}", waits, not waits)
        require(not waits or not _could_run(cluster, head, wanted), head, "waits, although a node has room for it")
    for group in cluster.groups.waiting.values():
        missing = [bundle for bundle in group.bundles if bundle.node is None]
        require(cluster.groups.plan(group, missing) is None, group, "waits, although its bundles fit")


def _could_run(cluster: Any, task: TaskRecord, wanted: SchedulingClass) -> bool:
    scheduler, gpus = cluster.scheduler, wanted.need.get("GPU")
    if wanted.group is not None:
        return any(
            bundle.node is not None
            and fits(bundle.available, wanted.need)
            and (gpus is None or scheduler._pick_gpus(bundle.node, gpus))
            for bundle in scheduler._bundles(wanted)
        )
    turn = wanted.spread_at
    node = scheduler._choose(task, wanted, None) if scheduler.alive else None
    wanted.spread_at = turn  # to ask is not to place
    return node is not None


# ---------------------------------------------------------------- tasks


def tasks_are_where_they_say(cluster: Any) -> None:
    """A task's status says what it waits for, and whoever is to end that wait knows the task."""
    objects = cluster.objects
    for number, task in cluster.tasks.items():
        status = task.status
        require(task.number == number, task, "is filed under {}", number)
        if status in OVER:
            require(task.t_finished, task, "is over, and has no time for it")
            require(
                status is TaskStatus.FINISHED or not task.deps and task.args is None,
                task,
                "has failed, and keeps its arguments",
            )
            for obj in task.returns:
                require(
                    obj.status is not PENDING or objects.get(obj.number) is not obj,
                    task,
                    "is over, and {} is pending",
                    obj,
                )
        else:
            require(not task.t_finished, task, "goes on, and has a time for its end")
            for dep in task.deps:
                require(objects.get(dep.number) is dep, task, "needs {}, which was let go of", dep)
            _unfinished(task)
        _times(task)


def _unfinished(task: TaskRecord) -> None:
    status, worker = task.status, task.worker
    group = None
    if task.spec.kind == ACTOR_TASK:
        require(task.actor.calls.get(task.number) is task, task, "is not among the calls of {}", task.actor)
        group = task.actor.groups[task.spec.group]
    if status is WAITS_FOR_ARGUMENTS:
        missing = [dep for dep in task.deps if dep.status not in THERE]
        # What was there when the task came, and was lost since, is looked at again when the last of the others comes.
        awaited = [dep for dep in missing if dep.dependents is not None and task in dep.dependents]
        require(
            task.pending == len(awaited) > 0,
            task,
            "waits for {} arguments; missing: {}, {} will tell",
            task.pending,
            missing,
            awaited,
        )
        require(
            group is None or not task.actor.in_order or task in group.queue, task, "has lost its place among the calls"
        )
    elif status is WAITS_FOR_NODE and group is not None:
        require(task.actor.status not in (ActorStatus.ALIVE, DEAD_ACTOR), task, "waits for {}", task.actor)
        require(task in group.queue, task, "is not in the queue of {}", task.actor)
    elif status is WAITS_FOR_NODE:
        require(task in task.spec.scheduling_class.queue, task, "is not in the queue of its class")
    elif worker is None:
        require(group is not None and task in group.queue, task, "is in no worker and in no queue")
    else:
        require(worker.status is not WorkerStatus.DEAD, task, "runs in {}", worker)
        require(
            worker.task is task or task.number in worker.running, task, "runs in {}, which runs {}", worker, worker.task
        )
    require(worker is None or status is IN_WORKER, task, "waits in {}", worker)


def _times(task: TaskRecord) -> None:
    last = 0.0
    for at in (task.t_created, task.t_ready, task.t_leased, task.t_started, task.t_ended, task.t_finished):
        if at:
            if at < last:
                raise InvariantBroken(
                    f"{task!r}: its times go back: "
                    + ", ".join(
                        f"{name} {getattr(task, name)}" for name in TaskRecord.__slots__ if name.startswith("t_")
                    )
                )
            last = at


# ---------------------------------------------------------------- actors


def actors_agree_with_their_calls(cluster: Any) -> None:
    """A dead actor has nothing left; a living one runs as many calls as it counts, and lets none wait for nothing."""
    names = cluster.actor_manager.names
    for actor in cluster.actors.values():
        if actor.status is DEAD_ACTOR:
            require(
                not (actor.calls or actor.worker or actor.lease), actor, "dead, and has {}", actor.calls or actor.worker
            )
            require(actor.failure is not None, actor, "dead, and nobody knows why")
            for group in actor.groups.values():
                require(
                    not (group.running or group.queue or group.workers or group.idle),
                    actor,
                    "dead, and its group {!r} has {} calls running, workers {}",
                    group.name,
                    group.running,
                    group.workers,
                )
            continue
        # One that comes back for the sake of a lost result was let go of with its name, which may be another's by now.
        named = actor.name and not (actor.out_of_scope and actor.restarts)
        require(not named or names.get((actor.namespace, actor.name)) is actor, actor, "its name leads elsewhere")
        require(actor.status is not ActorStatus.ALIVE or actor.worker is not None, actor, "alive, and has no worker")
        _somebody_wants(actor)
        for task in actor.calls.values():
            require(task.status not in OVER, actor, "has {} among its calls", task)
        for group in actor.groups.values():
            _concurrency_group(actor, group)
    for key, actor in names.items():
        require(
            actor.status is not DEAD_ACTOR and key == (actor.namespace, actor.name),
            actor,
            "dead, and is called {}",
            key,
        )


def _somebody_wants(actor: ActorRecord) -> None:
    """An actor that nobody holds, and that has nothing to do, is at least being constructed."""
    handle = actor.handle
    if not (handle.refs or handle.uses or handle.held or actor.detached or actor.calls):
        require(
            actor.status is not ActorStatus.ALIVE and actor.worker is not None,
            actor,
            "lives on, and nobody holds a handle",
        )


def _concurrency_group(actor: ActorRecord, group: ConcurrencyGroup) -> None:
    if actor.is_async:
        taken = actor.worker.running.values() if actor.worker is not None else ()
        running = [task for task in taken if task.spec.group == group.name]
        require(not group.idle, actor, "async, and has idle workers")
    else:
        running = [
            worker.task for worker in group.workers if worker.task is not None and worker.task.spec.kind == ACTOR_TASK
        ]
        for worker in group.idle:
            require(worker in group.workers and worker.task is None, actor, "its idle {} runs {}", worker, worker.task)
    require(
        group.running == len(running) <= group.limit,
        actor,
        "counts {} calls running, limit {}: {}",
        group.running,
        group.limit,
        running,
    )
    if actor.status is ActorStatus.ALIVE and group.queue and group.running < group.limit:
        # Only for arguments, its own or those of an earlier call of its caller; one that was cancelled is passed over later.
        held_up = set()
        for task in group.queue:
            if task.status is WAITS_FOR_ARGUMENTS:
                held_up.add(task.owner)
            require(task.status in OVER or task.owner in held_up, actor, "lets {} wait, and has room for it", task)
    if group.queue:
        queued = [task.number for task in group.queue if task.status not in OVER]
        require(len(queued) == len(set(queued)), actor, "a call stands twice in its queue: {}", queued)
        waiting = [task.number for task in actor.calls.values() if task.worker is None]
        require(
            not actor.in_order or sorted(queued) == sorted(waiting),
            actor,
            "its queue has {}, its calls that wait are {}",
            queued,
            waiting,
        )


# ---------------------------------------------------------------- object stores


def stores_hold_what_is_located(cluster: Any) -> None:
    """A store's bytes are those of the objects in it, and an object is where it says."""
    spilled = dict.fromkeys(cluster.nodes, 0)
    for obj in cluster.objects.values():
        locations = obj.locations
        if locations is None:
            continue
        require(locations and obj.status in (READY, SPILLED), obj, "has the locations {}", locations)
        for number, node in locations.items():
            require(node.alive, obj, "is located on the dead {}", node)
            if obj.status is SPILLED:
                spilled[number] += obj.size
                require(
                    len(locations) == 1 and obj.number not in node.store.objects,
                    obj,
                    "spilled, and in memory on {}",
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
                "is in the store of {} for nobody",
                node,
            )
            used += obj.size
        require(store.used == used, node, "its store counts {} bytes, and holds {}", store.used, used)
        require(
            store.spilled == spilled[node.number],
            node,
            "counts {} bytes spilled, has {}",
            store.spilled,
            spilled[node.number],
        )
        for number, obj in store.spilling.items():
            require(number in store.objects, obj, "is being spilled on {}, and is not there", node)
        for number, file in store.files.items():
            obj = cluster.objects.get(number)
            require(obj is not None and node.number in (obj.locations or ()), number, "a file of {} is nobody's", node)
            require(obj.status is not SPILLED or obj.value is file, obj, "is spilled on {}, and not in its file", node)
            require(number not in store.spilling, obj, "is being spilled on {} once more", node)


# ---------------------------------------------------------------- references


def references_are_counted(cluster: Any, refs: Mapping[ObjectRecord, int] | None = None) -> None:
    """Every count of an object is the number of those who hold it, and what nobody holds is gone."""
    objects = cluster.objects
    uses: dict[ObjectRecord, int] = {}
    held: dict[ObjectRecord, int] = {}
    lineage: dict[ObjectRecord, int] = {}
    for task in _tasks_that_hold(cluster):
        # A finished task keeps its arguments only for its lineage, or so that its actor can be made anew.
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
            raise InvariantBroken(
                f"{obj!r}, filed under {number}: refs {obj.refs}, uses {obj.uses} of {uses.get(obj, 0)}, "
                f"held {obj.held} of {held.get(obj, 0)}, lineage {obj.lineage} of {lineage.get(obj, 0)}"
            )
        if refs is not None:
            stream = obj.task.stream if obj.task is not None else None  # what was not taken yet is the stream's own
            wanted = refs.get(obj, 0) + (stream is not None and obj in stream.items)
            require(obj.refs == wanted, obj, "counts {} references, the program holds {}", obj.refs, wanted)
        if not (obj.refs or obj.uses or obj.held):
            _kept_for_a_reason(cluster, obj)
        if obj.waiters or obj.dependents:
            require(obj.status not in THERE, obj, "is there, and was not told to {}", obj.waiters or obj.dependents)
            require(
                obj.status is not LOST or obj.task is not None and not obj.task.t_finished,
                obj,
                "is waited for, and nobody makes it",
            )
    for counts in (uses, held):
        for obj in counts:
            require(objects.get(obj.number) is obj, obj, "is held, and was let go of")


def _kept_for_a_reason(cluster: Any, obj: ObjectRecord) -> None:
    if obj.actor is not None and obj.actor.handle is obj:
        require(obj.actor.status is not DEAD_ACTOR, obj, "the handle of a dead actor, which nobody holds")
    elif not obj.lineage or cluster.references.rebuildable(obj):
        require(
            obj.status is PENDING and obj.task is not None and not obj.task.t_finished,
            obj,
            "nobody holds it, and it is still there",
        )


def _tasks_that_hold(cluster: Any) -> Iterator[TaskRecord]:
    """Every task that could still hold something: those in the table, those of objects, and what those could be rebuilt with."""
    seen: dict[int, TaskRecord] = dict(cluster.tasks)
    unseen = list(seen.values())

    def also(task: TaskRecord | None) -> None:
        if task is not None and task.number not in seen:
            seen[task.number] = task
            unseen.append(task)

    for obj in cluster.objects.values():
        also(obj.task)
    for actor in cluster.actors.values():
        also(actor.creation)
    while unseen:
        task = unseen.pop()
        if task.actor is not None:
            also(task.actor.creation)
        if task.deps or task.contained:
            yield task
            for dep in task.deps:
                also(dep.task)


# ---------------------------------------------------------------- records


def records_are_bounded(cluster: Any) -> None:
    """No more finished tasks are remembered than the limit and those whose values somebody holds; dead workers are in no list."""
    history = cluster.history
    require(
        len(history.finished) <= history.limit,
        history,
        "remembers {} tasks, limit {}",
        len(history.finished),
        history.limit,
    )
    living = sum(worker.status is not WorkerStatus.DEAD for worker in cluster.workers.values())
    listed = sum(len(node.workers) for node in cluster.nodes.values())
    require(living == listed, cluster.workers, "{} live, the nodes list {}", living, listed)
