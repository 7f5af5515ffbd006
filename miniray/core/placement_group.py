"""Placement groups: bundles of resources reserved together, before the work that will use them.

A group is placed in one step: all of its bundles are reserved, or none is. Work that runs in the group takes its
resources from a bundle, not from the bundle's node. If a node dies, the group keeps its other bundles and waits until
the lost ones fit elsewhere. Ray: gcs/gcs_placement_group_manager.h, bundle_scheduling_policy.h.
"""

from __future__ import annotations

from ..ids import INDEX_BITS
from .actor_manager import NameTaken
from .records import (
    FAILED,
    PENDING as NOT_READY,
    READY,
    RELEASED,
    Bundle,
    Failure,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
)
from .scheduler import fits, labels_match
from .tables import Tables
from .transitions import PlacementGroupStatus, WorkerStatus, move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CREATED, REMOVED = PlacementGroupStatus.CREATED, PlacementGroupStatus.REMOVED
RESCHEDULING = PlacementGroupStatus.RESCHEDULING

Plan = list[tuple[Bundle, NodeRecord]]


class PlacementGroups:
    """Plans, reserves and returns bundles. waiting: the groups with a bundle on no node, oldest first."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.waiting: dict[int, PlacementGroupRecord] = {}

    def create(self, now: float, group: PlacementGroupRecord) -> None:
        """Register a new group, and place it if it fits. The caller has the one reference to its `ready` object.

        Raises actor_manager.NameTaken if another group has the name; then nothing has changed.
        """
        cluster = self.cluster
        if group.name:
            for other in cluster.placement_groups.values():
                if other.name == group.name and other.status is not REMOVED:
                    raise NameTaken(group.name)
        cluster.number = group.number = cluster.number + 1
        group.t_created = now
        # The object has no owner, because it must outlive the worker that asked for the group.
        group.ready = ObjectRecord(group.number << INDEX_BITS | 1)
        cluster.objects[group.ready.number] = group.ready
        cluster.placement_groups[group.number] = group
        if group.owner is not None:
            group.owner.owns = True
        self.waiting[group.number] = group
        self._try(now, group)

    def retry(self, now: float) -> None:
        """Resources were returned: try to place the waiting groups, oldest first."""
        for group in list(self.waiting.values()):
            # Placing one group may start a task that fails, and so end an actor whose resources place the next group.
            if group.number in self.waiting:
                self._try(now, group)

    def _try(self, now: float, group: PlacementGroupRecord) -> None:
        """Reserve all bundles that are on no node, if there is room for all of them. Otherwise change nothing."""
        group.attempts += 1
        open_bundles = [bundle for bundle in group.bundles if bundle.node is None]
        choice = self.plan(group, open_bundles)
        if choice is None:
            return
        for bundle, node in choice:
            for name, amount in bundle.total.items():
                node.available[name] -= amount
            bundle.node, bundle.available = node, dict(bundle.total)
        del self.waiting[group.number]
        move(group, CREATED)
        group.t_placed = now
        ready = group.ready
        if ready.status is NOT_READY:
            self.cluster.task_manager.value_there(now, ready, READY, 0)
        self.cluster.scheduler.retry_infeasible(now)

    def ready_object(self, now: float, group: PlacementGroupRecord, value: Any) -> ObjectRecord:
        """Add a reference to the object that becomes ready with the group. value: opaque, what the object holds then.

        Returns the object. If the group was removed after it had been placed, that is a new object, with the error.
        """
        cluster = self.cluster
        obj: ObjectRecord = group.ready
        if group.status is REMOVED and obj.status is not FAILED:
            cluster.number += 1
            obj = ObjectRecord(cluster.number << INDEX_BITS | 1)
            obj.value = Failure("TASK_PLACEMENT_GROUP_REMOVED", "the group was removed", about=group)
            cluster.task_manager.value_there(now, obj, FAILED, -1)
        else:
            obj.refs += 1
            if obj.status is RELEASED:  # all earlier references were dropped
                move(obj, READY)
        if obj.status is not FAILED:
            obj.value = value
        cluster.objects[obj.number] = obj
        return obj

    def plan(self, group: PlacementGroupRecord, bundles: list[Bundle]) -> Plan | None:
        """Choose a node for each of these bundles of the group, by its strategy. None if they do not all fit."""
        return self._plan(group, bundles, {n.number: dict(n.available) for n in self.cluster.scheduler.alive})

    def feasible(self, group: PlacementGroupRecord) -> bool:
        """Whether the whole group would fit if nothing else ran."""
        return (
            self._plan(
                group, group.bundles, {n.number: dict(n.total) for n in self.cluster.scheduler.alive}, fresh=True
            )
            is not None
        )

    def scheduling_state(self, group: PlacementGroupRecord) -> str:
        """The group's scheduling state in Ray's words (gcs.proto, PlacementGroupStats.SchedulingState)."""
        if group.status is CREATED:
            return "FINISHED"
        if group.status is REMOVED:
            return "REMOVED"
        return "NO_RESOURCES" if self.feasible(group) else "INFEASIBLE"

    def _plan(
        self,
        group: PlacementGroupRecord,
        bundles: list[Bundle],
        free: dict[int, dict[str, int]],
        fresh: bool = False,
    ) -> Plan | None:
        """`plan`, given what is free on each node (changed here). fresh: as if no bundle were placed yet."""
        nodes: list[NodeRecord] = self.cluster.scheduler.alive
        taken = {bundle.node.number for bundle in group.bundles if bundle.node is not None and not fresh}
        strategy = group.strategy
        # The largest bundles first, because fewest nodes have room for them.
        order = sorted(bundles, key=lambda b: (-len(b.total), -sum(b.total.values())))
        if strategy == "STRICT_PACK":
            need: dict[str, int] = {}
            for bundle in order:
                for name, amount in bundle.total.items():
                    need[name] = need.get(name, 0) + amount
            # None of the bundles is placed: they were all on one node, and have lost it together.
            among = [
                n
                for n in nodes
                if fits(free[n.number], need) and all(labels_match(n.labels, b.selector) for b in order)
            ]
            if not among:
                return None
            node = max(among, key=lambda n: _room_left(free[n.number], need))
            return [(bundle, node) for bundle in order]
        choice = []
        for bundle in order:
            fitting = [
                n for n in nodes if fits(free[n.number], bundle.total) and labels_match(n.labels, bundle.selector)
            ]
            unused = [n for n in fitting if n.number not in taken]
            if strategy == "STRICT_SPREAD":
                among = unused
            elif strategy == "SPREAD":
                among = unused or fitting
            else:  # PACK: a node that the group uses already, if the bundle fits there
                among = [n for n in fitting if n.number in taken] or fitting
            if not among:
                return None
            node = max(among, key=lambda n: _room_left(free[n.number], bundle.total))
            taken.add(node.number)
            for name, amount in bundle.total.items():
                free[node.number][name] -= amount
            choice.append((bundle, node))
        return choice

    def remove(self, now: float, group: PlacementGroupRecord) -> None:
        """Return the bundles. What runs in them ends; tasks that wait for a place in them wait forever, as in Ray."""
        if group.status is REMOVED:
            return
        cluster = self.cluster
        move(group, REMOVED)
        self.waiting.pop(group.number, None)
        cluster.events.add(now, "placement_group_removed", f"placement group {group.hex} was removed", group)
        self._evict(now, group)
        for bundle in group.bundles:
            if bundle.node is not None and bundle.node.alive:
                for name, amount in bundle.total.items():
                    bundle.node.available[name] += amount
                cluster.scheduler.freed_nodes.note(bundle.node)
            bundle.node = None
        if group.ready.status is NOT_READY:
            group.ready.value = Failure("TASK_PLACEMENT_GROUP_REMOVED", "the placement group was removed", about=group)
            cluster.task_manager.value_there(now, group.ready, FAILED, -1)
        cluster.scheduler.review_classes(now)
        cluster.scheduler.resources_freed(now)

    def _evict(self, now: float, group: PlacementGroupRecord) -> None:
        """The group was removed: fail what runs in its bundles, and end the workers."""
        cluster, why = self.cluster, "its placement group was removed"
        for worker in list(cluster.workers.values()):
            if worker.status is WorkerStatus.DEAD or worker.bundle is None or worker.bundle not in group.bundles:
                continue
            if worker.drain is not None and worker.drain.actor is None:  # its actor is DEAD already
                cluster.ownership.cut(now, worker.drain)
            elif worker.actor is not None:
                failure = Failure("ACTOR_PLACEMENT_GROUP_REMOVED", why, about=worker.actor)
                cluster.actor_manager.died(now, worker.actor, failure, may_restart=False)
            else:
                task = worker.task
                if task is not None:
                    failure = Failure("TASK_PLACEMENT_GROUP_REMOVED", why, about=task)
                    cluster.task_manager.fail(now, task, failure)
                cluster.worker_pool.kill(now, worker, Failure("WORKER_DIED", why, about=worker))

    def node_died(self, node: NodeRecord) -> None:
        """A node died: its bundles must be reserved again, elsewhere. The other bundles of a group stay.

        A new record replaces each lost bundle. The workers on the dead node still have leases from the old record, and
        will return them to it.
        """
        for group in self.cluster.placement_groups.values():
            lost = [bundle for bundle in group.bundles if bundle.node is node]
            for bundle in lost:
                group.bundles[bundle.index] = Bundle(bundle.index, bundle.total, bundle.selector)
            if lost and group.status is CREATED:
                move(group, RESCHEDULING)
                self.waiting[group.number] = group


def _room_left(free: dict[str, int], need: dict[str, int]) -> float:
    """How empty a node would be with `need` added: the free shares of the needed resources, summed. The emptiest node
    is the best; of several, the first. Ray: LeastResourceScorer."""
    return sum((free[name] - amount) / free[name] for name, amount in need.items() if free.get(name))
