"""Why a thing does not go on: one step of an explanation, for a task, actor, placement group, object or stream.

A Link says what a record waits for, as a phrase and as data, and names the record that is to be asked next. The reasons
are those that the scheduler, the actor manager and the placement groups can give. The caller holds the runtime's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...core.cluster import Cluster
from ...core.records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    FAILED,
    LOST,
    PENDING,
    READY,
    SPILLED,
    UNIT,
    ActorRecord,
    Bundle,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
    SchedulingClass,
    StreamRecord,
    TaskRecord,
    WorkerRecord,
    amounts,
)
from ...core.scheduler import fits, labels_match
from ...core.transitions import ActorStatus, PlacementGroupStatus, TaskStatus, WorkerStatus
from ...ids import INDEX_BITS
from ..state.lookup import object_id

Record = Any  # TaskRecord | ActorRecord | PlacementGroupRecord | ObjectRecord | StreamRecord
HOLDERS_NAMED = 5  # how many holders of a resource a sentence names


@dataclass(slots=True)
class Link:
    """One step. name: what the record is called; reason: a short word; phrase: goes on after the name, and is followed
    by the name of `next` when there is one; details: the same as data."""

    kind: str
    id: str
    name: str
    reason: str
    phrase: str
    details: dict[str, Any] = field(default_factory=dict)
    next: Record = None


def link(runtime: Any, record: Record) -> Link:
    """The step from this record. Never empty: what does not wait says so."""
    if isinstance(record, TaskRecord):
        return _of_task(runtime, record)
    if isinstance(record, ActorRecord):
        return _of_actor(record)
    if isinstance(record, PlacementGroupRecord):
        return _of_group(runtime.cluster, record)
    if isinstance(record, StreamRecord):
        return _link(record, "next_item", "waits for the next item of", next=record.task)
    return _of_object(runtime.cluster, record)


def _link(record: Record, reason: str, phrase: str, next: Record = None, **details: Any) -> Link:
    kind, id = identity(record)
    return Link(kind, id, name_of(record), reason, phrase, details, next)


def identity(record: Record) -> tuple[str, str]:
    """What kind of thing it is, and its id. A stream has that of the object which is ready at its end."""
    if isinstance(record, StreamRecord):
        return "object", record.task.returns[0].hex if record.task.returns else record.task.hex
    kinds: dict[type, str] = {TaskRecord: "task", ActorRecord: "actor", PlacementGroupRecord: "placement_group"}
    return kinds.get(type(record), "object"), object_id(record) if isinstance(record, ObjectRecord) else record.hex


def name_of(record: Record) -> str:
    """What a sentence calls it."""
    if isinstance(record, TaskRecord):
        if record.spec.kind == ACTOR_CREATION_TASK:
            return f"the constructor of {name_of(record.actor)}"
        return f"{'call' if record.spec.kind == ACTOR_TASK else 'task'} {record.spec.name}"
    if isinstance(record, ActorRecord):
        return f"actor {record.class_name.rpartition('.')[2]}" + (f" named {record.name!r}" if record.name else "")
    if isinstance(record, PlacementGroupRecord):
        return f"placement group {record.name!r}" if record.name else f"placement group {record.hex[-16:-8]}"
    if isinstance(record, StreamRecord):
        return f"the consumer of {name_of(record.task)}"
    return "a put object" if record.task is None else f"the result of {name_of(record.task)}"


def group_of_ready(cluster: Cluster, obj: ObjectRecord) -> PlacementGroupRecord | None:
    """The placement group whose `ready` this object is."""
    group = cluster.placement_groups.get(obj.number >> INDEX_BITS) if obj.task is None else None
    return group if group is not None and group.ready is obj else None


def missing(objects: Iterable[Any]) -> list[Any]:
    """Those that have neither a value nor an error yet; of streams, those with no item to take. A value in a file is there."""
    return [
        o
        for o in objects
        if (
            not (o.taken < len(o.items) or o.ended)
            if isinstance(o, StreamRecord)
            else o.status not in (READY, FAILED, SPILLED)
        )
    ]


def producer(cluster: Cluster, obj: Any) -> Record:
    """Whom to ask why an object or stream is not there: its task, its placement group, else itself."""
    if isinstance(obj, StreamRecord):
        return obj.task
    return obj.task or group_of_ready(cluster, obj) or obj


def spell(units: dict[str, int]) -> str:
    """Amounts of resources for a sentence: `2 CPU and 0.5 GPU`."""
    said = [f"{amount:g} {name}" for name, amount in amounts(units).items() if amount]
    return " and ".join(filter(None, (", ".join(said[:-1]), said[-1]))) if said else "no resources"


# ------------------------------------------------------------ objects


def _of_object(cluster: Cluster, obj: ObjectRecord) -> Link:
    if obj.status is READY:
        return _link(obj, "ready", "is there", size=obj.size)
    if obj.status is FAILED:
        failure: Any = obj.value
        return _link(
            obj, "failed", f"holds an error: {failure.error_type}: {failure.message}", error_type=failure.error_type
        )
    if obj.status is SPILLED:
        return _link(obj, "spilled", "stands in a file, and is read back by whoever takes it", size=obj.size)
    maker = producer(cluster, obj)
    if maker is not obj and (obj.status is PENDING or isinstance(maker, TaskRecord) and not maker.t_finished):
        return _link(obj, "not_made_yet", "waits for", next=maker)
    if obj.status is LOST:
        return _link(obj, "lost", "was lost, and is made again when it is wanted")
    return _link(obj, "ended", "belongs to a session that has ended, or was let go")


# ------------------------------------------------------------ tasks


def _of_task(runtime: Any, task: TaskRecord) -> Link:
    status, cluster = task.status, runtime.cluster
    if status is TaskStatus.FINISHED:
        return _link(task, "finished", "has finished", attempt=task.attempt)
    if status is TaskStatus.FAILED:
        failure = task.failure
        said = failure.message if failure is not None else ""
        return _link(
            task, "failed", f"has failed: {said}", error_type=failure.error_type if failure is not None else ""
        )
    if status is TaskStatus.PENDING_ARGS_AVAIL:
        return _of_arguments(cluster, task)
    if status is TaskStatus.PENDING_NODE_ASSIGNMENT:
        return _of_actor_to_come(task) if task.spec.kind == ACTOR_TASK else _of_scheduling(cluster, task)
    if task.worker is None:
        return _of_mailbox(task)
    return _of_running(runtime, task)


def _of_arguments(cluster: Cluster, task: TaskRecord) -> Link:
    absent = missing(task.deps)
    if not absent:
        return _link(task, "arguments_there", "has its arguments and is about to be scheduled")
    first = absent[0]
    more = f"{len(absent)} arguments, first" if len(absent) > 1 else "its argument"
    details = {"missing": [obj.hex for obj in absent]}
    return _link(task, "argument_missing", f"waits for {more} from", next=producer(cluster, first), **details)


def _of_actor_to_come(task: TaskRecord) -> Link:
    actor = task.actor
    assert actor is not None
    restarting = actor.status is ActorStatus.RESTARTING
    return _link(
        task,
        "actor_restarting" if restarting else "actor_not_alive",
        f"waits for its actor, which is {'restarting' if restarting else 'not alive yet'}:",
        next=actor.creation,
        actor_id=actor.hex,
        actor_state=actor.status.name,
    )


def calls_ahead(task: TaskRecord) -> tuple[str, list[TaskRecord]]:
    """Why a call in its actor's queue does not run, and the calls of which one has to go on first."""
    actor = task.actor
    assert actor is not None
    group = actor.groups[task.spec.group]
    running = [
        call
        for call in actor.calls.values()
        if call.worker is not None and not call.t_finished and call.spec.group == task.spec.group
    ]
    if actor.in_order and not running:
        for call in group.queue:  # the first of the same caller that waits for its arguments
            if call is task:
                break
            if call.owner is task.owner and call.status is TaskStatus.PENDING_ARGS_AVAIL:
                return "mailbox_order", [call]
    return "mailbox_order" if group.limit == 1 else "concurrency_limit", running


def _of_mailbox(task: TaskRecord) -> Link:
    actor = task.actor
    if actor is None:  # it is a normal task that was leased and let go again in one step
        return _link(task, "about_to_run", "is about to be given to a worker")
    reason, ahead = calls_ahead(task)
    group = actor.groups[task.spec.group]
    details = {
        "actor_id": actor.hex,
        "limit": group.limit,
        "running": [call.hex for call in ahead],
        "queued": len(group.queue),
        "concurrency_group": group.name,
    }
    if not ahead:
        return _link(task, "about_to_run", f"is about to be run by {name_of(actor)}", **details)
    where = f"the queue of {name_of(actor)}" + (f", group {group.name!r}," if group.name else "")
    if reason == "concurrency_limit":
        return _link(
            task,
            reason,
            f"stands in {where} which runs {len(ahead)} of at most {group.limit} calls at once, among them",
            next=ahead[0],
            **details,
        )
    return _link(task, reason, f"stands in {where} behind", next=ahead[0], **details)


def _of_running(runtime: Any, task: TaskRecord) -> Link:
    worker = task.worker
    assert worker is not None
    details: dict[str, Any] = {"worker_id": worker.hex, "node_id": worker.node.hex}
    if worker.status is WorkerStatus.STARTING:
        return _link(task, "worker_starting", "was given to a worker whose thread is starting", **details)
    absent = missing(runtime.waiting_for(worker))
    if absent and (worker.task is task or worker.running):
        return _link(
            task,
            "waits_in_get",
            "waits in get or wait for",
            next=producer(runtime.cluster, absent[0]),
            missing=[o.hex for o in absent if isinstance(o, ObjectRecord)],
            **details,
        )
    if task.stream is not None and task.stream.producer_waiter is not None:
        return _link(
            task,
            "backpressure",
            f"has yielded {len(task.stream.items)} items, and waits until its consumer takes more",
            produced=len(task.stream.items),
            taken=task.stream.taken,
            **details,
        )
    if not task.t_started:
        return _link(task, "about_to_run", "was given to a worker and is about to start", **details)
    return _link(task, "running", "is running", **details)


# ------------------------------------------------------------ what the scheduler waits for


def _of_scheduling(cluster: Cluster, task: TaskRecord) -> Link:
    wanted = task.spec.scheduling_class
    assert wanted is not None
    if wanted.group is not None:
        return _of_bundle(task, wanted, wanted.group)
    alive = cluster.scheduler.alive
    allowed = [node for node in alive if _may_run_on(node, wanted)]
    needs = {"needs": amounts(wanted.need)}
    if not allowed:
        return _link(
            task,
            "no_such_node",
            f"needs a node {_condition(wanted)}, and none of the {len(alive)} nodes that are alive is one",
            **needs,
            strategy=list(wanted.strategy),
            label_selector=list(wanted.selector),
        )
    able = [node for node in allowed if fits(node.total, wanted.need)]
    if not able:
        near, lacks = nearest(allowed, wanted.need)
        return _link(
            task,
            "infeasible",
            f"needs {spell(wanted.need)}, and no node has that much: the nearest, node {near.name}, "
            f"has {spell_or_none(near.total, lacks)}",
            **needs,
            nearest_node=near.hex,
            nearest_has={name: near.total.get(name, 0) / UNIT for name in lacks},
        )
    return _of_busy_nodes(cluster, task, wanted, able, needs)


def _of_busy_nodes(
    cluster: Cluster, task: TaskRecord, wanted: SchedulingClass, able: list[NodeRecord], needs: dict[str, Any]
) -> Link:
    def freedom(node: NodeRecord) -> float:
        return min(
            (node.available.get(name, 0) / amount for name, amount in wanted.need.items() if amount), default=1.0
        )

    node = max(able, key=freedom)
    short = {name: amount for name, amount in wanted.need.items() if node.available.get(name, 0) < amount}
    free = amounts({name: node.available.get(name, 0) for name in short})
    ahead = wanted.queue.index(task) if task in wanted.queue else 0
    details = {**needs, "node_id": node.hex, "ahead_in_queue": ahead, "free": free}
    if short:
        held = holders(cluster, node, short)
        queue = f"; {ahead} that ask for the same stand before it" if ahead else ""
        return _link(
            task,
            "resources_busy",
            f"waits for {spell(short)} on node {node.name}, where {_free(node, short)}: {_spell_holders(held)}{queue}",
            holders=held,
            **details,
        )
    if "GPU" in wanted.need:
        return _link(
            task,
            "no_whole_gpu",
            f"needs {spell({'GPU': wanted.need['GPU']})} of one device, and on node {node.name} no "
            "single GPU has so much left",
            **details,
        )
    if node.starting:
        return _link(
            task,
            "workers_starting",
            f"waits for one of the {node.starting} workers that are being started on node {node.name}",
            **details,
        )
    return _link(task, "about_to_run", f"is about to be given to a worker of node {node.name}", **details)


def _may_run_on(node: NodeRecord, wanted: SchedulingClass) -> bool:
    strategy = wanted.strategy
    if not labels_match(node.labels, wanted.selector):
        return False
    if strategy[0] == "NODE_AFFINITY" and not strategy[2]:
        return node.hex == strategy[1]
    return strategy[0] != "NODE_LABEL" or labels_match(node.labels, strategy[1])


def _condition(wanted: SchedulingClass) -> str:
    if wanted.strategy[0] == "NODE_AFFINITY":
        return f"with the id {wanted.strategy[1]}"
    selector = wanted.selector or (wanted.strategy[1] if wanted.strategy[0] == "NODE_LABEL" else ())
    words = {"not_in": "not in", "exists": "set", "absent": "not set"}
    said = [
        f"{key} {words.get(operator, operator)} {', '.join(map(str, values))}".rstrip()
        for key, operator, values in selector
    ]
    return "whose labels are " + " and ".join(said) if said else "of any kind"  # without one that is alive


def nearest(nodes: list[NodeRecord], need: dict[str, int]) -> tuple[NodeRecord, list[str]]:
    """The node that comes nearest to a demand, and the resources of which it has too little even when idle."""

    def meets(node: NodeRecord) -> tuple[int, float]:
        shares = [min(1.0, node.total.get(name, 0) / amount) for name, amount in need.items() if amount]
        return sum(share >= 1 for share in shares), sum(shares)

    near = max(nodes, key=meets)
    return near, [name for name, amount in need.items() if near.total.get(name, 0) < amount]


def spell_or_none(total: dict[str, int], names: list[str]) -> str:
    """What a node has of some resources, also where that is nothing."""
    return " and ".join(f"{total.get(name, 0) / UNIT:g} {name}" for name in names)


def _free(node: NodeRecord, short: dict[str, int]) -> str:
    return (
        " and ".join(
            f"{max(0, node.available.get(name, 0)) / UNIT:g} of {node.total[name] / UNIT:g} {name}" for name in short
        )
        + " are free"
    )


def holders(cluster: Cluster, node: NodeRecord, names: Iterable[str]) -> list[dict[str, Any]]:
    """Who holds some of these resources of a node: tasks, actors and placement groups, the largest first."""
    found: list[dict[str, Any]] = []
    for worker in node.workers.values():
        if worker.lease is not None and worker.bundle is None:
            found += _holding(worker, names)
    for group in cluster.placement_groups.values():
        for bundle in group.bundles:
            if bundle.node is node:
                found += [
                    {"holder": name_of(group), "id": group.hex, "resource": name, "amount": amount / UNIT}
                    for name, amount in bundle.total.items()
                    if name in names and amount
                ]
    return sorted(found, key=lambda holder: -holder["amount"])


def _holding(worker: WorkerRecord, names: Iterable[str]) -> list[dict[str, Any]]:
    who: Record = worker.actor or worker.task
    if who is None or worker.lease is None:
        return []
    held = {name: worker.lease.hold.get(name, 0) - (worker.lent if name == "CPU" else 0) for name in names}
    return [
        {"holder": name_of(who), "id": who.hex, "resource": name, "amount": amount / UNIT}
        for name, amount in held.items()
        if amount > 0
    ]


def _spell_holders(held: list[dict[str, Any]]) -> str:
    if not held:
        return "they are just being given back"
    said = [f"{one['holder']} holds {one['amount']:g} {one['resource']}" for one in held[:HOLDERS_NAMED]]
    rest = len(held) - HOLDERS_NAMED
    return ", ".join(said) + (f", and {rest} more hold the rest" if rest > 0 else "")


def _of_bundle(task: TaskRecord, wanted: SchedulingClass, group: PlacementGroupRecord) -> Link:
    index = wanted.strategy[2]
    bundles: list[Bundle] = group.bundles if index < 0 else [group.bundles[index]]
    details = {"placement_group_id": group.hex, "bundle_index": index, "needs": amounts(wanted.need)}
    if group.status is PlacementGroupStatus.REMOVED:
        return _link(
            task,
            "placement_group_removed",
            f"waits for ever: {name_of(group)}, in which it was to run, was removed",
            **details,
        )
    if group.status is not PlacementGroupStatus.CREATED:
        return _link(task, "placement_group_pending", "is to run in", next=group, **details)
    where = f"bundle {index} of {name_of(group)}" if index >= 0 else f"a bundle of {name_of(group)}"
    able = [bundle for bundle in bundles if fits(bundle.total, wanted.need)]
    if not able:
        largest = max(bundles, key=lambda bundle: sum(bundle.total.values()))
        return _link(
            task,
            "bundle_too_small",
            f"needs {spell(wanted.need)} in {where}, which has {spell(largest.total)}: it will never fit",
            **details,
        )
    held = [
        one
        for bundle in able
        if bundle.node is not None
        for worker in bundle.node.workers.values()
        if worker.bundle is bundle
        for one in _holding(worker, wanted.need)
    ]
    return _link(
        task,
        "bundle_busy",
        f"waits for {spell(wanted.need)} in {where}: {_spell_holders(held)}",
        holders=held,
        **details,
    )


# ------------------------------------------------------------ actors and placement groups


def _of_actor(actor: ActorRecord) -> Link:
    if actor.status is ActorStatus.DEAD:
        failure: Any = actor.failure
        said = failure.message
        if failure.cause is not None and failure.cause.message not in said:
            said += f": {failure.cause.message}"
        return _link(actor, "actor_dead", f"is dead: {said}", error_type=failure.error_type, restarts=actor.restarts)
    if actor.status is ActorStatus.ALIVE:
        running = sum(call.worker is not None for call in actor.calls.values())
        return _link(
            actor,
            "alive",
            f"is alive: {running} calls run and {len(actor.calls) - running} wait",
            running=running,
            waiting=len(actor.calls) - running,
        )
    again = actor.status is ActorStatus.RESTARTING
    return _link(
        actor,
        "actor_restarting" if again else "actor_not_alive",
        f"is {'being made anew' if again else 'not alive yet'}, for it waits for",
        next=actor.creation,
        restarts=actor.restarts,
    )


def _of_group(cluster: Cluster, group: PlacementGroupRecord) -> Link:
    bundles = [amounts(bundle.total) for bundle in group.bundles]
    details: dict[str, Any] = {"strategy": group.strategy, "bundles": bundles}
    if group.status is PlacementGroupStatus.CREATED:
        return _link(group, "created", "has its resources", **details)
    if group.status is PlacementGroupStatus.REMOVED:
        return _link(group, "placement_group_removed", "was removed", **details)
    alive = cluster.scheduler.alive
    again = "lost a node and " if group.status is PlacementGroupStatus.RESCHEDULING else ""
    asks = f"{again}needs {len(group.bundles)} bundles ({group.strategy}) of {_spell_bundles(group)}"
    if cluster.groups.feasible(group):
        names = list({name: None for bundle in group.bundles for name in bundle.total})
        held = [one for node in alive for one in holders(cluster, node, names)]
        return _link(
            group, "resources_busy", f"{asks}, and not so much is free: {_spell_holders(held)}", holders=held, **details
        )
    large = [bundle for bundle in group.bundles if not any(fits(node.total, bundle.total) for node in alive)]
    if large and alive:
        near, lacks = nearest(alive, large[0].total)
        return _link(
            group,
            "infeasible",
            f"{asks}, and no node has room for bundle {large[0].index}: the nearest, node "
            f"{near.name}, has {spell_or_none(near.total, lacks)}",
            nearest_node=near.hex,
            nearest_has={name: near.total.get(name, 0) / UNIT for name in lacks},
            **details,
        )
    return _link(
        group,
        "infeasible",
        f"{asks}, which the {len(alive)} nodes that are alive could not give together even when idle",
        num_nodes=len(alive),
        **details,
    )


def _spell_bundles(group: PlacementGroupRecord) -> str:
    kinds: dict[str, int] = {}
    for bundle in group.bundles:
        said = spell(bundle.total)
        kinds[said] = kinds.get(said, 0) + 1
    return " and ".join(said if count == 1 else f"{count} times {said}" for said, count in kinds.items())
