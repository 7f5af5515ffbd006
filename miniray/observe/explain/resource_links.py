"""What a task waits for that needs a node or a bundle, and what a placement group waits for: a step of an explanation.

The reasons are those of the scheduler and of the placement groups. The caller of every function here holds the
runtime's lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...core.cluster import Cluster
from ...core.records import (
    UNIT,
    ActorRecord,
    Bundle,
    NodeRecord,
    PlacementGroupRecord,
    SchedulingClass,
    TaskRecord,
    WorkerRecord,
    amounts,
)
from ...core.scheduler import fits, labels_match
from ...core.transitions import PlacementGroupStatus
from ..amounts import count
from .sentence import Link, link_from, name_of, spell, spell_bundles, spell_holders, spell_of

# ------------------------------------------------------------ tasks


def of_scheduling(cluster: Cluster, task: TaskRecord) -> Link:
    """Why a task with all its arguments has no worker."""
    wanted = task.spec.scheduling_class
    assert wanted is not None
    if wanted.group is not None:
        return _of_bundle(task, wanted, wanted.group)
    alive = cluster.scheduler.alive
    allowed = [node for node in alive if _may_run_on(node, wanted)]
    needs: dict[str, Any] = {"needs": amounts(wanted.need)}
    if not allowed:
        nodes = "1 node is alive" if len(alive) == 1 else f"{len(alive)} nodes are alive"
        return link_from(
            task,
            "no_such_node",
            f"needs a node {_condition(wanted)}, but there is no such node ({nodes})",
            **needs,
            strategy=list(wanted.strategy),
            label_selector=list(wanted.selector),
        )
    able = [node for node in allowed if fits(node.total, wanted.need)]
    if not able:
        near, lacks = _nearest(allowed, wanted.need)
        return link_from(
            task,
            "infeasible",
            f"needs {spell(wanted.need)}, and no node has that much: the nearest, node {near.name}, "
            f"has {spell_of(near.total, lacks)}",
            **needs,
            nearest_node=near.hex,
            nearest_has={name: near.total.get(name, 0) / UNIT for name in lacks},
        )
    if wanted.strategy[0] == "NODE_AFFINITY":  # if soft, other nodes count only if the named one can never run the task
        able = [node for node in able if node.hex == wanted.strategy[1]] or able
    return _of_busy_nodes(cluster, task, wanted, able, needs)


def _of_busy_nodes(
    cluster: Cluster, task: TaskRecord, wanted: SchedulingClass, able: list[NodeRecord], needs: dict[str, Any]
) -> Link:
    """able: the nodes that could run the task if they were idle; the one that is closest to it now is named."""

    def freedom(node: NodeRecord) -> float:
        shares = (node.available.get(name, 0) / amount for name, amount in wanted.need.items() if amount)
        return min(shares, default=1.0)

    node = max(able, key=freedom)
    short = {name: amount for name, amount in wanted.need.items() if node.available.get(name, 0) < amount}
    free = amounts({name: node.available.get(name, 0) for name in short})
    ahead = wanted.queue.index(task) if task in wanted.queue else 0
    details = {**needs, "node_id": node.hex, "ahead_in_queue": ahead, "free": free}
    if short:
        held = _holders(cluster, node, short)
        queue = ""
        if ahead:
            queue = f"; {count(ahead, 'task')} with the same request {'is' if ahead == 1 else 'are'} ahead of it"
        return link_from(
            task,
            "resources_busy",
            f"waits for {spell(short)} on node {node.name}, where {_free(node, short)}: {spell_holders(held)}{queue}",
            holders=held,
            **details,
        )
    for name, amount in wanted.devices.items():
        left = [units for units in node.free_devices[name].values() if units >= min(amount, UNIT)]
        if len(left) < max(1, amount // UNIT):
            return link_from(
                task,
                "no_whole_device",
                f"needs {spell({name: amount})} of one device, and no single {name} of node {node.name} has that much "
                "left",
                **details,
            )
    if node.starting:
        which = "the worker that is" if node.starting == 1 else f"one of the {node.starting} workers that are"
        return link_from(task, "workers_starting", f"waits for {which} starting on node {node.name}", **details)
    return link_from(task, "about_to_run", f"is about to be given to a worker of node {node.name}", **details)


def _of_bundle(task: TaskRecord, wanted: SchedulingClass, group: PlacementGroupRecord) -> Link:
    index = wanted.strategy[2]
    bundles: list[Bundle] = group.bundles if index < 0 else [group.bundles[index]]
    details = {"placement_group_id": group.hex, "bundle_index": index, "needs": amounts(wanted.need)}
    if group.status is PlacementGroupStatus.REMOVED:
        return link_from(
            task, "placement_group_removed", f"can never run, because {name_of(group)} was removed", **details
        )
    if group.status is not PlacementGroupStatus.CREATED:
        return link_from(task, "placement_group_pending", "waits for", next=group, **details)
    where = f"bundle {index} of {name_of(group)}" if index >= 0 else f"a bundle of {name_of(group)}"
    able = [bundle for bundle in bundles if fits(bundle.total, wanted.need)]
    if not able:
        largest = max(bundles, key=lambda bundle: sum(bundle.total.values()))
        has = "which has" if index >= 0 else "whose largest bundle has"
        return link_from(
            task,
            "bundle_too_small",
            f"needs {spell(wanted.need)} in {where}, {has} {spell(largest.total)}: it will never fit",
            **details,
        )
    held = [
        one
        for bundle in able
        if bundle.node is not None
        for worker in bundle.node.workers.values()
        if worker.bundle is bundle
        for one in _held_by(worker, wanted.need)
    ]
    return link_from(
        task,
        "bundle_busy",
        f"waits for {spell(wanted.need)} in {where}: {spell_holders(held)}",
        holders=held,
        **details,
    )


# ------------------------------------------------------------ placement groups


def of_placement_group(cluster: Cluster, group: PlacementGroupRecord) -> Link:
    """What a placement group waits for, or that it has its resources."""
    bundles = [amounts(bundle.total) for bundle in group.bundles]
    details: dict[str, Any] = {"strategy": group.strategy, "bundles": bundles}
    if group.status is PlacementGroupStatus.CREATED:
        return link_from(group, "created", "has its resources", **details)
    if group.status is PlacementGroupStatus.REMOVED:
        return link_from(group, "placement_group_removed", "was removed", **details)
    alive = cluster.scheduler.alive
    again = "lost a node and " if group.status is PlacementGroupStatus.RESCHEDULING else ""
    needs = f"{again}needs {spell_bundles(group)} ({group.strategy})"
    if cluster.groups.feasible(group):
        names = list({name: None for bundle in group.bundles for name in bundle.total})
        held = [one for node in alive for one in _holders(cluster, node, names)]
        phrase = f"{needs}, and there is not enough free: {spell_holders(held)}"
        return link_from(group, "resources_busy", phrase, holders=held, **details)
    large = [bundle for bundle in group.bundles if not any(fits(node.total, bundle.total) for node in alive)]
    if large and alive:
        near, lacks = _nearest(alive, large[0].total)
        return link_from(
            group,
            "infeasible",
            f"{needs}, and no node has room for bundle {large[0].index}: the nearest, node {near.name}, "
            f"has {spell_of(near.total, lacks)}",
            nearest_node=near.hex,
            nearest_has={name: near.total.get(name, 0) / UNIT for name in lacks},
            **details,
        )
    nodes = "the only living node" if len(alive) == 1 else f"the {len(alive)} living nodes"
    phrase = f"{needs}, and {nodes} cannot satisfy that, even when idle" if alive else f"{needs}, and no node is alive"
    return link_from(group, "infeasible", phrase, num_nodes=len(alive), **details)


# ------------------------------------------------------------ nodes and their resources


def _may_run_on(node: NodeRecord, wanted: SchedulingClass) -> bool:
    """Whether the labels and the strategy of a request allow this node."""
    strategy = wanted.strategy
    if not labels_match(node.labels, wanted.selector):
        return False
    if strategy[0] == "NODE_AFFINITY" and not strategy[2]:
        return bool(node.hex == strategy[1])
    return strategy[0] != "NODE_LABEL" or labels_match(node.labels, strategy[1])


def _condition(wanted: SchedulingClass) -> str:
    """Which nodes a request allows, in words that follow "a node". A request without a condition comes here only if no
    node is alive."""
    if wanted.strategy[0] == "NODE_AFFINITY":
        return f"with the id {wanted.strategy[1]}"
    selector = wanted.selector or (wanted.strategy[1] if wanted.strategy[0] == "NODE_LABEL" else ())
    words = {"not_in": "not in", "exists": "set", "absent": "not set"}
    said = [
        f"{key} {words.get(operator, operator)} {', '.join(map(str, values))}".rstrip()
        for key, operator, values in selector
    ]
    return "whose labels match: " + " and ".join(said) if said else "of any kind"


def _nearest(nodes: list[NodeRecord], need: dict[str, int]) -> tuple[NodeRecord, list[str]]:
    """The node that comes closest to a demand, and the resources of which it has too little even when idle."""

    def meets(node: NodeRecord) -> tuple[int, float]:
        shares = [min(1.0, node.total.get(name, 0) / amount) for name, amount in need.items() if amount]
        return sum(share >= 1 for share in shares), sum(shares)

    near = max(nodes, key=meets)
    return near, [name for name, amount in need.items() if near.total.get(name, 0) < amount]


def _free(node: NodeRecord, names: Iterable[str]) -> str:
    """How much of some resources of a node is free: `0 of 4 CPU are free`."""
    said = (f"{max(0, node.available.get(name, 0)) / UNIT:g} of {node.total[name] / UNIT:g} {name}" for name in names)
    return " and ".join(said) + " are free"


def _holders(cluster: Cluster, node: NodeRecord, names: Iterable[str]) -> list[dict[str, Any]]:
    """Who holds some resources of a node: tasks, actors and the bundles of placement groups, the largest first."""
    found: list[dict[str, Any]] = []
    for worker in node.workers.values():
        if worker.lease is not None and worker.bundle is None:
            found += _held_by(worker, names)
    for group in cluster.placement_groups.values():
        for bundle in group.bundles:
            if bundle.node is node:
                found += [
                    {"holder": name_of(group), "id": group.hex, "resource": name, "amount": amount / UNIT}
                    for name, amount in bundle.total.items()
                    if name in names and amount
                ]
    return sorted(found, key=lambda holder: -float(holder["amount"]))


def _held_by(worker: WorkerRecord, names: Iterable[str]) -> list[dict[str, Any]]:
    """What a worker's actor or task holds of some resources, without the CPUs that it gave back while it is blocked."""
    who: TaskRecord | ActorRecord | None = worker.actor or worker.task
    if who is None or worker.lease is None:
        return []
    held = {name: worker.lease.hold.get(name, 0) - (worker.lent if name == "CPU" else 0) for name in names}
    return [
        {"holder": name_of(who), "id": who.hex, "resource": name, "amount": amount / UNIT}
        for name, amount in held.items()
        if amount > 0
    ]
