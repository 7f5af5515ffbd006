"""Placement groups: bundles of resources reserved together, before the work that will use them.

All bundles are placed in one step or none is. Ray: gcs/gcs_placement_group_manager.h, bundle_scheduling_policy.h.
"""

from __future__ import annotations

from typing import Any

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

CREATED, PENDING = PlacementGroupStatus.CREATED, PlacementGroupStatus.PENDING
REMOVED, RESCHEDULING = PlacementGroupStatus.REMOVED, PlacementGroupStatus.RESCHEDULING


class PlacementGroups:
    """The groups that wait for their bundles, and those that have them."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.waiting: dict[int, PlacementGroupRecord] = {}

    def create(self, now: float, group: PlacementGroupRecord) -> None:
        """A group is asked for. Its `ready` object has one reference, which belongs to the caller. Raises actor_manager.NameTaken,
        and then changes nothing."""
        cluster = self.cluster
        if group.name:
            for other in cluster.placement_groups.values():
                if other.name == group.name and other.status is not PlacementGroupStatus.REMOVED:
                    raise NameTaken(group.name)
        cluster.number = group.number = cluster.number + 1
        group.t_created = now
        group.ready = ObjectRecord(
            group.number << 32 | 1
        )  # the cluster's: it outlives the worker that asked for the group
        cluster.objects[group.ready.number] = group.ready
        cluster.placement_groups[group.number] = group
        if group.owner is not None:
            group.owner.owns = True
        self.waiting[group.number] = group
        self._try(now, group)

    def retry(self, now: float) -> None:
        """Resources came: groups that wait may fit now, oldest first."""
        for group in list(self.waiting.values()):
            if group.number in self.waiting:  # what starts in one may end an actor, and that place another
                self._try(now, group)

    def _try(self, now: float, group: PlacementGroupRecord) -> None:
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
        """The object that becomes ready with the group, with one more reference. A removed group gets a new one, which has failed,
        if the old one was ready."""
        cluster, obj = self.cluster, group.ready
        if group.status is REMOVED and obj.status is not FAILED:
            cluster.number += 1
            obj = ObjectRecord(cluster.number << 32 | 1)
            obj.value = Failure("TASK_PLACEMENT_GROUP_REMOVED", "the group was removed", about=group)
            cluster.task_manager.value_there(now, obj, FAILED, -1)
        else:
            obj.refs += 1
            if obj.status is RELEASED:  # everybody who asked before has dropped it
                move(obj, READY)
        if obj.status is not FAILED:
            obj.value = value
        cluster.objects[obj.number] = obj
        return obj

    def plan(self, group: PlacementGroupRecord, bundles: list[Bundle]) -> list[tuple[Bundle, NodeRecord]] | None:
        """A node for each bundle, by the group's strategy, from what is free now; None when they do not all fit."""
        return self._plan(group, bundles, {n.number: dict(n.available) for n in self.cluster.scheduler.alive})

    def feasible(self, group: PlacementGroupRecord) -> bool:
        """Whether the group would fit if nothing else ran."""
        return (
            self._plan(
                group, group.bundles, {n.number: dict(n.total) for n in self.cluster.scheduler.alive}, fresh=True
            )
            is not None
        )

    def scheduling_state(self, group: PlacementGroupRecord) -> str:
        """How far the scheduler has come with the group, in Ray's words."""
        if group.status is CREATED:
            return "FINISHED"
        if group.status is REMOVED:
            return "REMOVED"
        return "NO_RESOURCES" if self.feasible(group) else "INFEASIBLE"

    def _plan(self, group, bundles, free: dict[int, dict[str, int]], fresh: bool = False):
        nodes = self.cluster.scheduler.alive
        taken = {bundle.node.number for bundle in group.bundles if bundle.node is not None and not fresh}
        strategy = group.strategy
        # The largest first: they have the fewest places to go to.
        order = sorted(bundles, key=lambda b: (-len(b.total), -sum(b.total.values())))
        if strategy == "STRICT_PACK":
            need: dict[str, int] = {}
            for bundle in order:
                for name, amount in bundle.total.items():
                    need[name] = need.get(name, 0) + amount
            among = [
                n
                for n in nodes
                if (not taken or n.number in taken)
                and fits(free[n.number], need)
                and all(labels_match(n.labels, b.selector) for b in order)
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
            else:  # PACK: where the group already is, if it fits there
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
        """Give back the bundles; what runs in them ends, what waits for them waits for ever."""
        if group.status is REMOVED:
            return
        cluster = self.cluster
        move(group, REMOVED)
        self.waiting.pop(group.number, None)
        cluster.events.add(now, "placement_group_removed", f"placement group {group.hex} was removed", group)
        self._evict(now, group.bundles, "its placement group was removed", "PLACEMENT_GROUP_REMOVED")
        for bundle in group.bundles:
            if bundle.node is not None and bundle.node.alive:
                for name, amount in bundle.total.items():
                    bundle.node.available[name] += amount
                cluster.scheduler.given_back.note(bundle.node)
            bundle.node = None
        if group.ready.status is NOT_READY:
            group.ready.value = Failure("TASK_PLACEMENT_GROUP_REMOVED", "the placement group was removed", about=group)
            cluster.task_manager.value_there(now, group.ready, FAILED, -1)
        cluster.scheduler.sort_again(now)
        cluster.scheduler.resources_freed(now)

    def _evict(self, now: float, bundles: list[Bundle], why: str, error_type: str) -> None:
        cluster = self.cluster
        for worker in list(cluster.workers.values()):
            if worker.status is WorkerStatus.DEAD or worker.bundle is None or worker.bundle not in bundles:
                continue
            if worker.actor is not None:
                cluster.actor_manager.died(
                    now,
                    worker.actor,
                    Failure(
                        "ACTOR_" + error_type if error_type == "PLACEMENT_GROUP_REMOVED" else "ACTOR_DIED",
                        why,
                        about=worker.actor,
                    ),
                    may_restart=False,
                )
            else:
                task = worker.task
                if task is not None:
                    cluster.task_manager.fail(now, task, Failure("TASK_" + error_type, why, about=task))
                cluster.worker_pool.kill(now, worker, Failure("WORKER_DIED", why, about=worker))

    def node_died(self, node: NodeRecord) -> None:
        """Bundles on the node are lost, and are to be reserved anew; the others stay.

        A new record takes the place of each: workers on the dead node still hold of the old one, and will give it back there.
        """
        for group in self.cluster.placement_groups.values():
            lost = [bundle for bundle in group.bundles if bundle.node is node]
            for bundle in lost:
                group.bundles[bundle.index] = Bundle(bundle.index, bundle.total, bundle.selector)
            if lost and group.status is CREATED:
                move(group, RESCHEDULING)
                self.waiting[group.number] = group


def _room_left(free: dict[str, int], need: dict[str, int]) -> float:
    """How empty a node would still be: the share of each wanted resource that would be left, added up. The emptiest is taken,
    the first of several. Ray: LeastResourceScorer."""
    return sum((free[name] - amount) / free[name] for name, amount in need.items() if free.get(name))
