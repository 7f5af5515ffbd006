"""What must hold between the tables after every event. Tests and simulations call `check`; a session never does.

Each rule is a function that reads the tables and raises InvariantBroken with the entity that breaks it. A rule says what the
rest of the core may rely on, so this is also the page to read before changing any of it.
"""
from __future__ import annotations

from typing import Any, Iterator, Mapping

from .records import (ACTOR_CREATION_TASK, ACTOR_TASK, FAILED, LOST, PENDING, READY, SPILLED, UNIT, ActorRecord, NodeRecord, ObjectRecord,
                      SchedulingClass, TaskRecord, WorkerRecord)
from .scheduler import fits
from .transitions import ActorStatus, PlacementGroupStatus, TaskStatus, WorkerStatus

WAITS_FOR_ARGUMENTS, WAITS_FOR_NODE = TaskStatus.PENDING_ARGS_AVAIL, TaskStatus.PENDING_NODE_ASSIGNMENT
OVER = (TaskStatus.FINISHED, TaskStatus.FAILED)
THERE = (READY, FAILED, SPILLED)
IN_WORKER = (TaskStatus.SUBMITTED_TO_WORKER, TaskStatus.RUNNING)


class InvariantBroken(AssertionError):
    """Two tables of the core disagree. A mistake in miniray, never in the program: please report it."""


def check(cluster: Any, refs: Mapping[ObjectRecord, int] | None = None) -> None:
    """Raise InvariantBroken unless every rule holds. refs: how many references the program holds to each object, when the
    caller knows: one that is missing there has none."""
    nothing_is_left_to_do(cluster)
    workers_hold_what_they_lease(cluster)
    queues_hold_what_waits(cluster)
    tasks_are_where_they_say(cluster)
    actors_agree_with_their_calls(cluster)
    stores_hold_what_is_located(cluster)
    references_are_counted(cluster, refs)
    records_are_bounded(cluster)


def require(holds: Any, entity: Any, what: str) -> None:
    """The entity is named in the error, and what was to hold of it."""
    if not holds:
        raise InvariantBroken(f"{entity!r}: {what}")


def nothing_is_left_to_do(cluster: Any) -> None:
    """An event is carried through to the end: no worklist outlives it."""
    require(not cluster.ready, cluster.ready, "objects whose waiters were not told")
    require(not cluster.actions, cluster.actions, "actions that no event returned")
    require(not cluster.references._worklist and not cluster.references._running, cluster.references._worklist,
            "objects that were to be looked at")
    require(cluster.scheduler.reporting is None, cluster.scheduler.reporting, "still counts as reporting")


# ---------------------------------------------------------------- workers, and what they hold


def workers_hold_what_they_lease(cluster: Any) -> None:
    """On every node, and in every bundle: what is free and what living workers hold is all there is, and none of it negative."""
    held: dict[Any, dict[str, int]] = {}
    gpus: dict[tuple[int, int], int] = {}
    for node in cluster.nodes.values():
        require(node.alive == (node in cluster.scheduler.alive), node, "its being alive and the scheduler's list disagree")
        if not node.alive:
            require(not node.idle and not node.workers, node, f"dead, and has workers: {node.workers or node.idle}")
            continue
        starting = idle = 0
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
                gpus[node.number, index] = gpus.get((node.number, index), 0) + min(UNIT, worker.lease.hold["GPU"])
        require(node.starting == starting, node, f"counts {node.starting} starting workers, has {starting}")
        require(idle == len(node.idle) == len({worker.number for worker in node.idle}), node, f"{idle} idle workers, list: {node.idle}")
        for index, free in node.gpu_free.items():
            used = gpus.get((node.number, index), 0)
            require(free >= 0 and free + used == UNIT, node, f"GPU {index}: {free} free and {used} in use")
    for group in cluster.placement_groups.values():
        placed = group.status is PlacementGroupStatus.CREATED
        require((group.number in cluster.groups.waiting) == (group.status in (
            PlacementGroupStatus.PENDING, PlacementGroupStatus.RESCHEDULING)), group, "its status and the list of waiting groups disagree")
        for bundle in group.bundles:
            if bundle.node is None:
                require(not placed, group, f"is placed, but not its bundle {bundle.index}")
                require(bundle not in held, group, f"a worker holds of its bundle {bundle.index}, which is nowhere")
                continue
            require(bundle.node.alive, group, f"its bundle {bundle.index} is on a dead node")
            _adds_up(group, bundle.total, bundle.available, held.pop(bundle, {}))
            reserved = held.setdefault(bundle.node, {})
            for name, amount in bundle.total.items():
                reserved[name] = reserved.get(name, 0) + amount
    for node in cluster.scheduler.alive:
        _adds_up(node, node.total, node.available, held.pop(node, {}))
    require(not held, list(held), "resources are held of what is not there")


def _adds_up(entity: Any, total: dict[str, int], available: dict[str, int], held: dict[str, int]) -> None:
    for name, amount in total.items():
        free, taken = available.get(name, 0), held.get(name, 0)
        if free < 0 or taken < 0 or free + taken != amount:
            raise InvariantBroken(f"{entity!r}: of {amount} {name}, {free} are free and {taken} are held")
    for name in held:
        require(name in total, entity, f"{name} is held of it, and it has none")


def _worker(cluster: Any, node: NodeRecord, worker: WorkerRecord) -> None:
    """One living worker: its status says what it has."""
    status, task, lease = worker.status, worker.task, worker.lease
    require(status is not WorkerStatus.DEAD, worker, f"dead, and still on {node!r}")
    require(worker.node is node and cluster.workers.get(worker.number) is worker, worker, f"not where {node!r} has it")
    if status is WorkerStatus.IDLE:
        require(task is None and lease is None and not worker.lent and worker.actor is None, worker, "idle, and holds something")
        require(worker in node.idle, worker, f"idle, and not in the list of {node!r}")
        return
    if worker.actor is None:
        require(task is not None and lease is not None, worker, f"leased, with the task {task!r} and the lease {lease!r}")
        require(task.worker is worker and task.status in IN_WORKER, worker, f"is to run {task!r}, which is in {task.worker!r}")
    else:
        require(worker.actor.status is not ActorStatus.DEAD, worker, f"lives on after {worker.actor!r}")
        require(worker in worker.group.workers, worker, f"its group of {worker.actor!r} does not know it")
    if lease is None:
        require(not worker.lent and not worker.gpu_ids, worker, "has no lease, and holds something")
        return
    require(0 <= worker.lent <= lease.hold.get("CPU", 0), worker, f"has lent {worker.lent} of {lease!r}")
    gpu = lease.hold.get("GPU", 0)
    require(len(worker.gpu_ids) == (max(1, gpu // UNIT) if gpu else 0), worker, f"holds {gpu} GPU, and was given {worker.gpu_ids}")


# ---------------------------------------------------------------- queues


def queues_hold_what_waits(cluster: Any) -> None:
    """A class with a task that waits for a node is in exactly one of the two tables; none waits for what is free."""
    scheduler = cluster.scheduler
    for wanted in scheduler.classes.values():
        head = None
        for task in wanted.queue:
            require(task.spec.scheduling_class is wanted, task, f"stands in the queue of {wanted!r}")
            head = head or (task if task.status is WAITS_FOR_NODE else None)
        waits, stuck = wanted in scheduler.waiting, wanted in scheduler.infeasible
        require(not (waits and stuck), wanted, "is waiting and infeasible at once")
        if head is None:
            continue
        require(waits or stuck, wanted, f"{head!r} is in its queue, and nobody will look there")
        feasible = scheduler.feasible(wanted)
        require(feasible == waits, wanted, f"is {'waiting' if waits else 'infeasible'}, and fits {'a' if feasible else 'no'} node")
        require(not waits or not _could_run(cluster, head, wanted), head, "waits, although a node has room for it")
    for group in cluster.groups.waiting.values():
        missing = [bundle for bundle in group.bundles if bundle.node is None]
        require(cluster.groups.plan(group, missing) is None, group, "waits, although its bundles fit")


def _could_run(cluster: Any, task: TaskRecord, wanted: SchedulingClass) -> bool:
    scheduler = cluster.scheduler
    if wanted.group is not None:
        return any(bundle.node is not None and fits(bundle.available, wanted.need) for bundle in scheduler._bundles(wanted))
    turn = wanted.spread_at
    node = scheduler._choose(task, wanted, None) if scheduler.alive else None
    wanted.spread_at = turn                     # to ask is not to place
    return node is not None


# ---------------------------------------------------------------- tasks


def tasks_are_where_they_say(cluster: Any) -> None:
    """A task's status says what it waits for, and whoever is to end that wait knows the task."""
    for task in cluster.tasks.values():
        status, kind = task.status, task.spec.kind
        if status in OVER:
            require(task.t_finished, task, "is over, and has no time for it")
            require(status is TaskStatus.FINISHED or not task.deps and task.args is None, task, "has failed, and keeps its arguments")
            for obj in task.returns:
                require(obj.done != PENDING or cluster.objects.get(obj.number) is not obj, task, f"is over, and {obj!r} is pending")
        else:
            _unfinished(cluster, task)
        _times(task)


def _unfinished(cluster: Any, task: TaskRecord) -> None:
    status, kind, worker = task.status, task.spec.kind, task.worker
    missing = [dep for dep in task.deps if dep.done not in THERE]
    require(not task.t_finished, task, "goes on, and has a time for its end")
    for dep in task.deps:
        require(cluster.objects.get(dep.number) is dep, task, f"needs {dep!r}, which was let go of")
    if kind == ACTOR_TASK:
        require(task.actor.calls.get(task.number) is task, task, f"is not among the calls of {task.actor!r}")
    if status is WAITS_FOR_ARGUMENTS:
        require(worker is None, task, f"waits for arguments in {worker!r}")
        group = task.actor.groups.get(task.spec.group) if kind == ACTOR_TASK else None
        # What was there when the task came, and was lost since, is looked at again when the last of the others comes.
        awaited = [dep for dep in missing if dep.dependents is not None and task in dep.dependents]
        require(task.pending == len(awaited) > 0, task, f"waits for {task.pending} arguments; missing: {missing}, {awaited} will tell")
        require(group is None or not task.actor.in_order or task in group.queue, task, "has lost its place among the calls")
    elif status is WAITS_FOR_NODE:
        require(worker is None, task, f"waits for a node in {worker!r}")
        if kind == ACTOR_TASK:
            require(task.actor.status not in (ActorStatus.ALIVE, ActorStatus.DEAD), task, f"waits for {task.actor!r}")
            require(task in task.actor.groups[task.spec.group].queue, task, f"is not in the queue of {task.actor!r}")
        else:
            require(task in task.spec.scheduling_class.queue, task, "is not in the queue of its class")
    elif worker is None:
        require(kind == ACTOR_TASK and task in task.actor.groups[task.spec.group].queue, task, "is in no worker and in no queue")
    else:
        require(worker.status is not WorkerStatus.DEAD, task, f"runs in {worker!r}")
        require(worker.task is task or task.number in worker.running, task, f"runs in {worker!r}, which runs {worker.task!r}")


def _times(task: TaskRecord) -> None:
    last = 0.0
    for at in (task.t_created, task.t_ready, task.t_leased, task.t_started, task.t_ended, task.t_finished):
        if at:
            if at < last:
                raise InvariantBroken(f"{task!r}: its times go back: " + ", ".join(
                    f"{name} {getattr(task, name)}" for name in TaskRecord.__slots__ if name.startswith("t_")))
            last = at


# ---------------------------------------------------------------- actors


def actors_agree_with_their_calls(cluster: Any) -> None:
    """A dead actor has nothing left; a living one runs as many calls as it counts, and lets none wait for nothing."""
    for actor in cluster.actors.values():
        if actor.status is ActorStatus.DEAD:
            require(not actor.calls and actor.worker is None and actor.lease is None, actor, f"dead, and has calls {list(actor.calls)}")
            require(actor.failure is not None, actor, "dead, and nobody knows why")
            for group in actor.groups.values():
                require(not (group.running or group.queue or group.workers or group.idle), actor,
                        f"dead, and its group {group.name!r} has {group.running} calls running, workers {group.workers}")
            continue
        if actor.name:
            require(cluster.actor_manager.names.get((actor.namespace, actor.name)) is actor, actor, "its name leads elsewhere")
        require(actor.status is not ActorStatus.ALIVE or actor.worker is not None, actor, "alive, and has no worker")
        _wanted(actor)
        for task in actor.calls.values():
            require(task.status not in OVER, actor, f"has {task!r} among its calls")
        for group in actor.groups.values():
            _concurrency_group(actor, group)
    for key, actor in cluster.actor_manager.names.items():
        require(actor.status is not ActorStatus.DEAD and key == (actor.namespace, actor.name), actor, f"dead, and is called {key}")


def _wanted(actor: ActorRecord) -> None:
    """An actor that nobody holds, and that has nothing to do, is at least being constructed."""
    handle = actor.handle
    if handle.refs or handle.uses or handle.held or actor.detached or actor.calls:
        return
    require(actor.status is not ActorStatus.ALIVE and actor.worker is not None, actor, "lives on, and nobody holds a handle")


def _concurrency_group(actor: ActorRecord, group: Any) -> None:
    running = [task for task in actor.calls.values() if task.worker is not None and task.spec.group == group.name]
    busy = sum(worker.task is not None and worker.task.spec.kind == ACTOR_TASK for worker in group.workers)
    if actor.is_async:
        running_now = sum(task.spec.group == group.name for task in actor.worker.running.values()) if actor.worker is not None else 0
        require(group.running == running_now and not group.idle, actor, f"counts {group.running} calls running, has {running_now}")
    else:
        require(group.running == busy, actor, f"counts {group.running} calls running, has {busy} busy workers")
        for worker in group.idle:
            require(worker in group.workers and worker.task is None, actor, f"its idle {worker!r} runs {worker.task!r}")
    require(len(running) <= group.running <= group.limit, actor, f"{group.running} calls run, limit {group.limit}: {running}")
    if actor.status is ActorStatus.ALIVE and group.queue and group.running < group.limit:
        # The head alone may wait, and only for its arguments; one that was cancelled is passed over when a call ends.
        require(group.queue[0].status is WAITS_FOR_ARGUMENTS, actor, f"lets {group.queue[0]!r} wait, and has room for it")
    order = [task.number for task in group.queue if task.status not in OVER]
    if actor.in_order:
        waiting = [task.number for task in actor.calls.values() if task.worker is None]
        require(sorted(order) == sorted(waiting), actor, f"its queue has {order}, its calls that wait are {waiting}")
    require(len(order) == len(set(order)), actor, f"a call stands twice in its queue: {order}")


# ---------------------------------------------------------------- object stores


def stores_hold_what_is_located(cluster: Any) -> None:
    """A store's bytes are those of the objects in it, and an object is where it says."""
    spilled = dict.fromkeys(cluster.nodes, 0)
    for obj in cluster.objects.values():
        locations = obj.locations
        if locations is None:
            continue
        require(locations and obj.done in (READY, SPILLED), obj, f"has the locations {locations}")
        for number, node in locations.items():
            require(node.alive, obj, f"is located on the dead {node!r}")
            if obj.done == SPILLED:
                spilled[number] += obj.size
                require(len(locations) == 1 and obj.number not in node.store.objects, obj, f"spilled, and in memory on {node!r}")
            else:
                require(node.store.objects.get(obj.number) is obj, obj, f"is not in the store of {node!r}")
    for node in cluster.nodes.values():
        store = node.store
        used = 0
        for number, obj in store.objects.items():
            require(cluster.objects.get(number) is obj and obj.locations and node.number in obj.locations, obj,
                    f"is in the store of {node!r} for nobody")
            used += obj.size
        require(store.used == used, node, f"its store counts {store.used} bytes, and holds {used}")
        require(store.spilled == spilled[node.number], node, f"counts {store.spilled} bytes spilled, has {spilled[node.number]}")
        for number, obj in store.spilling.items():
            require(number in store.objects, obj, f"is being spilled on {node!r}, and is not there")


# ---------------------------------------------------------------- references


def references_are_counted(cluster: Any, refs: Mapping[ObjectRecord, int] | None = None) -> None:
    """Every count of an object is the number of those who hold it, and what nobody holds is gone."""
    uses: dict[ObjectRecord, int] = {}
    held: dict[ObjectRecord, int] = {}
    lineage: dict[ObjectRecord, int] = {}
    for task in _known_tasks(cluster):
        # A finished task keeps its arguments only for its lineage, or so that its actor can be made anew.
        count = lineage if task.status is TaskStatus.FINISHED and task.spec.kind != ACTOR_CREATION_TASK else uses
        for dep in task.deps:
            count[dep] = count.get(dep, 0) + 1
        for inner in task.contained:
            held[inner] = held.get(inner, 0) + 1
    streamed: dict[ObjectRecord, int] = {}
    for obj in cluster.objects.values():
        for inner in obj.contained:
            held[inner] = held.get(inner, 0) + 1
        stream = obj.task.stream if obj.task is not None else None
        if stream is not None and obj in stream.items:
            streamed[obj] = 1                   # what the consumer has not taken yet is the stream's own
    for number, obj in cluster.objects.items():
        require(obj.number == number, obj, f"is filed under {number}")
        if obj.uses != uses.get(obj, 0) or obj.held != held.get(obj, 0) or obj.lineage != lineage.get(obj, 0) or obj.refs < 0:
            raise InvariantBroken(f"{obj!r}: refs {obj.refs}, uses {obj.uses} of {uses.get(obj, 0)}, "
                                  f"held {obj.held} of {held.get(obj, 0)}, lineage {obj.lineage} of {lineage.get(obj, 0)}")
        if refs is not None:
            wanted = refs.get(obj, 0) + streamed.get(obj, 0)
            require(obj.refs == wanted, obj, f"counts {obj.refs} references, the program holds {wanted}")
        if not (obj.refs or obj.uses or obj.held):
            _kept_for_a_reason(cluster, obj)
        if obj.waiters or obj.dependents:
            require(obj.done not in THERE, obj, f"is there, and {obj.waiters or obj.dependents} were not told")
            require(obj.done != LOST or obj.task is not None and not obj.task.t_finished, obj, "is waited for, and nobody makes it")
    for counts in (uses, held):
        for obj in counts:
            require(cluster.objects.get(obj.number) is obj, obj, "is held, and was let go of")


def _kept_for_a_reason(cluster: Any, obj: ObjectRecord) -> None:
    if obj.actor is not None and obj.actor.handle is obj:
        require(obj.actor.status is not ActorStatus.DEAD, obj, "the handle of a dead actor, which nobody holds")
    elif not obj.lineage or cluster.references.rebuildable(obj):
        require(obj.done == PENDING and obj.task is not None and not obj.task.t_finished, obj, "nobody holds it, and it is still there")


def _known_tasks(cluster: Any) -> Iterator[TaskRecord]:
    """Every task that could still hold something: those in the table, those of objects, and what those could be rebuilt with."""
    seen: dict[int, TaskRecord] = dict(cluster.tasks)
    unseen = list(seen.values())
    for task in (*(obj.task for obj in cluster.objects.values()), *(actor.creation for actor in cluster.actors.values())):
        if task is not None and task.number not in seen:
            seen[task.number] = task
            unseen.append(task)
    while unseen:
        task = unseen.pop()
        yield task
        for dep in task.deps:
            if dep.task is not None and dep.task.number not in seen:
                seen[dep.task.number] = dep.task
                unseen.append(dep.task)


# ---------------------------------------------------------------- records


def records_are_bounded(cluster: Any) -> None:
    """No more finished tasks are remembered than the limit and those whose values somebody holds."""
    history = cluster.history
    require(len(history.finished) <= history.limit, history, f"remembers {len(history.finished)} tasks, limit {history.limit}")
    for number, task in cluster.tasks.items():
        require(task.number == number, task, f"is filed under {number}")
    for number, worker in cluster.workers.items():
        require((worker.status is not WorkerStatus.DEAD) == (number in worker.node.workers), worker, "its node's list disagrees")
