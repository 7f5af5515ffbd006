"""The scheduler: which node a task goes to, and when. It does nothing else.

Theory of operation.

*Classes.* A scheduling class is one demand: resources, strategy and label selector. All tasks with the same demand
share a class, and a class is a queue. If the head of the queue cannot be placed, no task behind it can be placed
either. Therefore the scheduler tries one task per class and never scans a queue. A task that was cancelled, or placed
before its turn, stays in its queue until it reaches the head; `_head` discards it there.

*Waiting and infeasible.* A class with a queue is in one of two tables. It is *waiting* if some living node could run
its tasks when idle, or if its placement group has a bundle on a node. `dispatch` gives the waiting classes their turns,
round-robin, when resources are returned. Otherwise the class is *infeasible*: the user is warned once, and the class is
left alone until a node joins or a group is placed (`retry_infeasible`). When a node dies or a group is removed,
`review_classes` looks for waiting classes that have become infeasible. Tasks that must run on a dead node fail.

*Leases.* To place a task is to lease a worker for it. The worker takes what the class holds (`hold`) from its node, or
from a bundle of the placement group. The lease belongs to the worker and to the class, not to the task. If nothing but
its own class is waiting, a worker that ends a task keeps its lease and runs the next task of the class (`worker_free`).
If other classes wait too, the lease ends: each gets its turn. An idle worker has no lease. An actor's lasts for life.

*The worker that reports.* Two attributes describe the event in progress; both are None between events. `reporting` is
the worker whose report the core is handling. This worker reads its next task from its record when the event returns, so
`_assign` asks for no RunTask. `vacant` is a worker that has just ended a task while nothing was waiting. It keeps its
lease: if the result makes a task of the same class ready, as in a chain, that task runs on it at once (`enqueue`).
Otherwise `vacate` returns the lease, at the end of the event or as soon as a task of another class needs a place. A
worker becomes vacant only where nothing could be better: on a single node, without a strategy or a waiting group.

*Lending a CPU.* A task that blocks in `get` or `wait` would deadlock with its own children on a machine that is full.
Therefore its worker lends its CPU to the node (`worker_blocked`). The tasks that it waits for come first, before their
turn. When its task is woken or resumes, the worker takes back as much as is free (`take_back`) and goes on without the
rest, because waiting for the rest could deadlock again. `WorkerRecord.lent` is what the worker has not got back. It is
settled when the lease ends, so no count ever becomes negative; for a while more tasks may run than there are CPUs. A
blocked worker keeps its accelerators, which are counted as any resource is, and also one by one (see `devices`).

Ray: raylet/scheduling/cluster_lease_manager.h, policy/hybrid_scheduling_policy.h.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import devices
from .actions import RunTask, Say, StartWorker, StopWorker
from .node_ranking import FreedNodes, NodeRanking, rank
from .records import (
    ACTOR_CREATION_TASK,
    UNIT,
    Bundle,
    Failure,
    NodeRecord,
    SchedulingClass,
    TaskRecord,
    TaskSpec,
    WorkerRecord,
    amounts,
)
from .tables import Tables
from .transitions import PlacementGroupStatus, TaskStatus, WorkerStatus, move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PENDING_ARGS_AVAIL = TaskStatus.PENDING_ARGS_AVAIL
PENDING_NODE_ASSIGNMENT, SUBMITTED_TO_WORKER = TaskStatus.PENDING_NODE_ASSIGNMENT, TaskStatus.SUBMITTED_TO_WORKER
IDLE_SPARE = 8  # how many idle workers a node keeps beyond one per CPU


def fits(available: dict[str, int], need: dict[str, int]) -> bool:
    """Whether every amount in `need` is available."""
    for name, amount in need.items():
        if available.get(name, 0) < amount:
            return False
    return True


def labels_match(labels: dict[str, str], selector: tuple[Any, ...]) -> bool:
    """Whether labels satisfy every (key, operator, values) of a selector. Operators: in, not_in, exists, absent."""
    for key, operator, values in selector:
        has = key in labels
        among = has and labels[key] in values
        if operator == "in" and not among or operator == "not_in" and among:
            return False
        if operator == "exists" and not has or operator == "absent" and has:
            return False
    return True


class Scheduler:
    """The scheduling classes with their queues, and the living nodes.

    waiting: classes with a queue that some node or group could run, in the order of their turns. infeasible: classes
    with a queue that no node or group could run. Classes are never dropped: a program has few of them.
    """

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.classes: dict[tuple[Any, ...], SchedulingClass] = {}
        self.waiting: dict[SchedulingClass, None] = {}
        self.infeasible: dict[SchedulingClass, None] = {}
        self.alive: list[NodeRecord] = []
        self.by_hex: dict[str, NodeRecord] = {}  # the living nodes by the id that users see
        self.freed_nodes = FreedNodes()  # not kept up to date while there is only one node
        self.reporting: WorkerRecord | None = None  # its report is being handled; it needs no RunTask (see above)
        self.vacant: WorkerRecord | None = None  # it has ended its task and keeps its lease until the event ends
        self._warned: set[SchedulingClass] = set()  # infeasible classes of which the user has been told

    def scheduling_class(
        self,
        need: dict[str, int],
        hold: dict[str, int],
        strategy: tuple[Any, ...] = ("DEFAULT",),
        selector: tuple[Any, ...] = (),
    ) -> SchedulingClass:
        """The one class for this demand, created on first use. SchedulingClass describes the arguments."""
        key = tuple(sorted(need.items())), tuple(sorted(hold.items())), strategy, selector
        found = self.classes.get(key)
        if found is None:
            found = self.classes[key] = SchedulingClass(need, hold, strategy, selector)
            if strategy[0] == "PLACEMENT_GROUP":
                found.group = self.cluster.placement_groups.get(strategy[1])
        return found

    def node_joined(self, node: NodeRecord) -> None:
        """A node has joined: it may be given tasks."""
        self.alive.append(node)
        self.by_hex[node.hex] = node
        if len(self.alive) == 2:
            self.freed_nodes.forget()  # while there was one node, nothing was ranked and nothing was noted
        self.freed_nodes.note(node)

    def node_left(self, node: NodeRecord) -> None:
        """A node has died: it is given no more tasks."""
        self.alive.remove(node)
        del self.by_hex[node.hex]

    # ------------------------------------------------------------ queues

    def enqueue(self, now: float, task: TaskRecord) -> None:
        """The task's arguments are ready: place the task, or append it to the queue of its class."""
        if task.status is PENDING_ARGS_AVAIL:  # `move`, written out
            task.status = PENDING_NODE_ASSIGNMENT
        elif task.status is not PENDING_NODE_ASSIGNMENT:
            move(task, PENDING_NODE_ASSIGNMENT)
        task.t_ready = now
        wanted = task.spec.scheduling_class
        vacant = self.vacant
        if vacant is not None:
            if vacant.lease is wanted and task.actor is None:
                self.vacant = None
                self._assign(now, vacant, task)  # the next task of a chain runs where its argument was made
                return
            self.vacate(now, vacant)
        queue = wanted.queue
        if queue and queue[0].status is not PENDING_NODE_ASSIGNMENT:
            self._head(wanted)  # discards tasks that were cancelled or placed before their turn
        if queue or not self._place(now, task, wanted):
            queue.append(task)
            if len(queue) == 1:
                self._list_class(wanted)

    def _list_class(self, wanted: SchedulingClass) -> None:
        """Enter a class whose queue is not empty in the table where it belongs. Warn once if it is infeasible."""
        if self.feasible(wanted):
            self.waiting[wanted] = None
            return
        self.infeasible[wanted] = None
        if wanted not in self._warned and wanted.group is None:
            self._warned.add(wanted)
            text = (
                f"No available node types can fulfill resource request {amounts(wanted.need)}: "
                f"{wanted.queue[0].spec.name} waits until a node that has this joins the cluster."
            )
            self.cluster.actions.append(Say("WARNING", text))

    def feasible(self, wanted: SchedulingClass) -> bool:
        """Whether some living node, or the class's placement group, could run its tasks if nothing else ran."""
        if wanted.group is not None:
            return any(bundle.node is not None for bundle in self._bundles(wanted))
        for node in self.alive:
            if fits(node.total, wanted.need) and self._allowed(node, wanted):
                return True
        return False

    def _allowed(self, node: NodeRecord, wanted: SchedulingClass) -> bool:
        """Whether the strategy and the labels permit this node. Does not look at resources."""
        strategy = wanted.strategy
        if wanted.selector and not labels_match(node.labels, wanted.selector):
            return False
        if strategy[0] == "NODE_AFFINITY" and not strategy[2]:
            return self.by_hex.get(strategy[1]) is node
        if strategy[0] == "NODE_LABEL":
            return labels_match(node.labels, strategy[1])
        return True

    def _head(self, wanted: SchedulingClass) -> TaskRecord | None:
        """The first task of the class that is still to be placed. Discards the others in front of it."""
        queue = wanted.queue
        while queue:
            task = queue[0]
            if task.status is PENDING_NODE_ASSIGNMENT:
                return task
            queue.popleft()
        return None

    def dispatch(self, now: float, node: NodeRecord | None = None) -> None:
        """Resources were returned, on this node if one is given: give the waiting classes their turns."""
        waiting = self.waiting
        progress = True
        while progress and waiting:
            progress = False
            for wanted in list(waiting):
                if (
                    node is not None
                    and wanted.group is None
                    and wanted.need.get("CPU", 0) > node.available.get("CPU", 0)
                ):
                    continue  # no room; this is the usual case, in which the last task took what was returned
                task = self._head(wanted)
                if task is None:
                    waiting.pop(wanted, None)
                    continue
                if not self._place(now, task, wanted, node):
                    continue
                # A task that fails in _place may end an actor, and the actor's resources are dispatched at once, by a
                # nested call of this method. So the head may be another task by now.
                if wanted.queue and wanted.queue[0] is task:
                    wanted.queue.popleft()
                waiting.pop(wanted, None)
                if wanted.queue:  # its next turn comes after all other classes have had theirs
                    waiting[wanted] = None
                    progress = True
            if node is not None and not node.available:
                return

    def resources_freed(self, now: float) -> None:
        """Resources were returned: give the waiting groups their turns, and then the waiting classes."""
        if self.cluster.groups.waiting:
            self.cluster.groups.retry(now)
        if self.waiting:
            self.dispatch(now)

    def retry_infeasible(self, now: float) -> None:
        """A node joined or a group was placed: infeasible classes may be feasible now."""
        for wanted in list(self.infeasible):
            if self._head(wanted) is None:
                del self.infeasible[wanted]
            elif self.feasible(wanted):
                del self.infeasible[wanted]
                self.waiting[wanted] = None
        self.dispatch(now)

    def review_classes(self, now: float) -> None:
        """A node died or a group was removed: waiting classes may be infeasible now, or have become impossible."""
        for wanted in [*self.waiting, *self.infeasible]:
            if self._is_impossible(wanted):
                while (task := self._head(wanted)) is not None:
                    self._place(now, task, wanted)  # fails the task
            elif wanted in self.waiting and not self.feasible(wanted):
                del self.waiting[wanted]
                if self._head(wanted) is not None:
                    self._list_class(wanted)

    def _is_impossible(self, wanted: SchedulingClass) -> bool:
        """Whether the only node on which the class may run is gone, or is too small. No node that joins can help."""
        return wanted.strategy[0] == "NODE_AFFINITY" and not wanted.strategy[2] and not self.feasible(wanted)

    def worker_free(self, now: float, worker: WorkerRecord) -> None:
        """A task ended: its worker runs the next one of its class, becomes vacant, or becomes idle (see above)."""
        wanted, waiting = worker.lease, self.waiting
        if worker.task is not None and worker.task.spec.max_calls and self._is_spent(worker, worker.task.spec):
            self.worker_idle(worker)
            why = "it ran a function as often as its max_calls allows"
            self._retire(now, worker.node.idle.pop(), "INTENDED_USER_EXIT", why)
            if waiting:
                self.dispatch(now, worker.node)
            return
        worker.task = None
        if len(waiting) == 1 and wanted in waiting and wanted.plain and not worker.lent:
            queue = wanted.queue
            task = queue[0] if queue else None
            if task is not None and task.status is not PENDING_NODE_ASSIGNMENT:
                task = self._head(wanted)
            if task is not None and task.actor is None:  # a constructor needs a new worker, the actor's own
                queue.popleft()
                if not queue:
                    del waiting[wanted]
                if task.status is PENDING_NODE_ASSIGNMENT and not task.deps and worker is self.reporting:
                    task.status = SUBMITTED_TO_WORKER  # `_assign`, and `move` in it, written out
                    task.t_leased, task.worker, task.node = now, worker, worker.node
                    worker.task = task
                else:
                    self._assign(now, worker, task)
                return
        alone = len(self.alive) == 1 and not self.cluster.groups.waiting
        if alone and wanted.plain and not waiting and not worker.lent:
            self.vacant = worker  # a task that the result makes ready may take over the lease
            return
        self.worker_idle(worker)
        if waiting:
            self.dispatch(now, worker.node)

    def vacate(self, now: float, worker: WorkerRecord) -> None:
        """No task of its class has become ready: the vacant worker returns its lease."""
        self.vacant = None
        self.worker_idle(worker)
        if self.waiting:
            self.dispatch(now, worker.node)

    def worker_idle(self, worker: WorkerRecord) -> None:
        """The worker has nothing to do: it returns its lease. The last worker to become idle is leased first."""
        worker.task = None
        self.give_back(worker)
        move(worker, WorkerStatus.IDLE)
        worker.node.idle.append(worker)

    def retire_spare(self, now: float, node: NodeRecord) -> None:
        """Stop the worker that has been idle longest if the node has more idle workers than are useful."""
        if len(node.idle) > node.total.get("CPU", 0) // UNIT + IDLE_SPARE:
            self._retire(now, node.idle.pop(0), "INTENDED_SYSTEM_EXIT", "the worker was idle and not needed")

    def _retire(self, now: float, worker: WorkerRecord, exit_type: str, why: str) -> None:
        """Stop an idle worker. The caller has removed it from `node.idle`. The objects that it owns stay."""
        move(worker, WorkerStatus.DEAD)
        worker.t_died, worker.exit_type, worker.exit_detail = now, exit_type, why
        self.cluster.worker_pool.bury(worker)
        self.cluster.actions.append(StopWorker(worker))

    @staticmethod
    def _is_spent(worker: WorkerRecord, spec: TaskSpec) -> bool:
        """Count one call of the function. Returns whether the worker has now reached the function's max_calls."""
        if worker.calls is None:
            worker.calls = {}
        key = spec.module, spec.func_name
        worker.calls[key] = worker.calls.get(key, 0) + 1
        return worker.calls[key] >= spec.max_calls

    # ------------------------------------------------------------ placement

    def _place(self, now: float, task: TaskRecord, wanted: SchedulingClass, freed: NodeRecord | None = None) -> bool:
        """Lease a worker for the task if a node has room. freed: the only node that can have gained room, if known.

        Returns whether the task has left the queue: it has a worker, or it has failed for good.
        """
        if wanted.plain and len(self.alive) == 1:  # the common case of the code below
            only = self.alive[0]
            if self._has_room(only, task, wanted):
                self._lease(now, task, wanted, only, None)
                return True
            return False
        if wanted.group is not None:
            return self._place_in_group(now, task, wanted)
        strategy = wanted.strategy
        if strategy[0] == "NODE_AFFINITY" and self._is_impossible(wanted):
            self._unschedulable(now, task, wanted)
            return True
        if strategy[0] == "NODE_LABEL" and not any(labels_match(n.labels, strategy[1]) for n in self.alive):
            return False
        node = self._choose(task, wanted, freed)
        if node is None:
            return False
        self._lease(now, task, wanted, node, None)
        return True

    def _unschedulable(self, now: float, task: TaskRecord, wanted: SchedulingClass) -> None:
        """Fail a task, or kill an actor, whose class is impossible."""
        why = (
            f"the node {wanted.strategy[1]} that it must run on does not exist, is dead, or has less than it asks for."
        )
        if task.spec.kind == ACTOR_CREATION_TASK:
            failure = Failure("ACTOR_UNSCHEDULABLE_ERROR", why, about=task.actor)
            self.cluster.actor_manager.died(now, task.actor, failure, may_restart=False)
        else:
            self.cluster.task_manager.fail(now, task, Failure("TASK_UNSCHEDULABLE_ERROR", why, about=task))

    def _has_room(self, node: NodeRecord, task: TaskRecord, wanted: SchedulingClass) -> bool:
        """Whether the node could run the task now."""
        for name, amount in wanted.need.items():  # fits(), inlined: this is the hot path
            if node.available.get(name, 0) < amount:
                return False
        if wanted.devices and devices.pick(node, wanted) is None:
            return False
        # Tasks without a CPU demand wait only while as many workers are starting as there are CPUs. So short tasks
        # share a few workers. Tasks that block, on each other for example, still get a worker each: a worker that has
        # started no longer counts.
        return (
            bool(node.idle)
            or "CPU" in wanted.need
            or task.actor is not None
            or node.starting * UNIT < max(node.total.get("CPU", 0), UNIT)
        )

    def _choose(self, task: TaskRecord, wanted: SchedulingClass, freed: NodeRecord | None) -> NodeRecord | None:
        """The node that the class's strategy prefers among those with room. None if no node has room."""
        alive, kind = self.alive, wanted.strategy[0]
        if len(alive) == 1 and kind in ("DEFAULT", "SPREAD") and not wanted.selector:
            return alive[0] if self._has_room(alive[0], task, wanted) else None
        if kind == "SPREAD":
            steps: Iterable[int] = range(len(alive))
            if freed is not None and freed.alive:
                steps = (alive.index(freed) - wanted.spread_at,)
            for step in steps:
                node = alive[(wanted.spread_at + step) % len(alive)]
                if self._allowed(node, wanted) and self._has_room(node, task, wanted):
                    wanted.spread_at = (wanted.spread_at + step + 1) % len(alive)
                    return node
            return None
        if kind == "NODE_AFFINITY":  # if soft, another node is chosen only if this one can never run the task
            named = self.by_hex.get(wanted.strategy[1])
            if named is not None and fits(named.total, wanted.need) and self._allowed(named, wanted):
                return named if self._has_room(named, task, wanted) else None
        if kind == "NODE_LABEL" and wanted.strategy[2]:  # nodes that match the soft labels come first
            for node in alive:
                liked = labels_match(node.labels, wanted.strategy[2])
                if liked and self._allowed(node, wanted) and self._has_room(node, task, wanted):
                    return node
        if freed is not None:
            fine = freed.alive and self._allowed(freed, wanted) and self._has_room(freed, task, wanted)
            return freed if fine else None
        return self._hybrid(task, wanted)

    def _hybrid(self, task: TaskRecord, wanted: SchedulingClass) -> NodeRecord | None:
        """Ray's default policy: the preferred node if it is at most half used, otherwise the first node that is,
        otherwise the least used node."""
        if len(self.alive) == 1:
            only = self.alive[0]
            return only if self._allowed(only, wanted) and self._has_room(only, task, wanted) else None
        first, need = self._preferred(task), wanted.need
        if (
            first is not None
            and not rank(first, need)
            and self._allowed(first, wanted)
            and self._has_room(first, task, wanted)
        ):
            return first
        if "CPU" not in need or wanted.devices:  # the ranking knows neither starting workers nor single devices
            among = [n for n in self.alive if self._allowed(n, wanted) and self._has_room(n, task, wanted)]
            return min(among, key=lambda n: (rank(n, need), n is not first), default=None)
        if wanted.ranking is None:
            wanted.ranking = NodeRanking(need)
        best: NodeRecord | None = wanted.ranking.best(
            self.alive, self.freed_nodes, None if wanted.plain else lambda n: self._allowed(n, wanted)
        )
        if (
            first is not None
            and best is not None
            and first is not best
            and self._allowed(first, wanted)
            and rank(first, need) <= rank(best, need)
        ):
            return first
        return best

    def _preferred(self, task: TaskRecord) -> NodeRecord | None:
        """The node with most of the arguments' bytes, otherwise the submitter's. None for the driver: its node is
        first."""
        if task.deps:
            node = self._node_of_arguments(task)
            if node is not None:
                return node
        owner: WorkerRecord | None = task.owner
        return owner.node if owner is not None and owner.node.alive else None

    @staticmethod
    def _node_of_arguments(task: TaskRecord) -> NodeRecord | None:
        """The node whose store has most bytes of the task's arguments. None if no argument is in a store."""
        sizes: dict[int, int] = {}
        nodes: dict[int, NodeRecord] = {}
        for dep in task.deps:
            for node in (dep.locations or {}).values():
                sizes[node.number] = sizes.get(node.number, 0) + dep.size
                nodes[node.number] = node
        return nodes[max(sizes, key=sizes.__getitem__)] if sizes else None

    def _place_in_group(self, now: float, task: TaskRecord, wanted: SchedulingClass) -> bool:
        """`_place` for a class that runs in a placement group: in the first bundle with room."""
        for bundle in self._bundles(wanted):
            node = bundle.node
            if (
                node is not None
                and fits(bundle.available, wanted.need)
                and (not wanted.devices or devices.pick(node, wanted) is not None)
            ):
                self._lease(now, task, wanted, node, bundle)
                return True
        return False

    @staticmethod
    def _bundles(wanted: SchedulingClass) -> list[Bundle]:
        """The bundles that tasks of the class may use. A group that lost a node still offers its other bundles."""
        group, index = wanted.group, wanted.strategy[2]
        if group.status is not PlacementGroupStatus.CREATED and group.status is not PlacementGroupStatus.RESCHEDULING:
            return []
        return group.bundles if index < 0 else [group.bundles[index]]

    # ------------------------------------------------------------ leases

    def _lease(
        self, now: float, task: TaskRecord, wanted: SchedulingClass, node: NodeRecord, bundle: Bundle | None
    ) -> None:
        """Lease an idle worker of the node, or a new one, for the task. A constructor always gets a new one."""
        creation = task.spec.kind == ACTOR_CREATION_TASK
        started = None
        if node.idle and not creation:
            worker = node.idle.pop()
        else:
            worker = started = self.cluster.worker_pool.new(now, node, task.actor if creation else None)
            if not creation:
                node.starting += 1
        self.take(worker, wanted, bundle)
        if worker.status is not WorkerStatus.STARTING:
            move(worker, WorkerStatus.LEASED)
        if creation:
            self.cluster.actor_manager.placed(now, task.actor, worker)
        self._assign(now, worker, task, started is not None)
        if started is not None:
            self.cluster.actions.append(StartWorker(worker))

    def take(self, worker: WorkerRecord, wanted: SchedulingClass, bundle: Bundle | None) -> None:
        """Start a lease: the worker takes what the class holds from the bundle, or without a bundle from its node."""
        worker.lease, worker.bundle = wanted, bundle
        available = worker.node.available if bundle is None else bundle.available
        for name, amount in wanted.hold.items():
            available[name] -= amount
        if wanted.devices:
            devices.take(worker, wanted)

    def give_back(self, worker: WorkerRecord) -> None:
        """End the worker's lease, if it has one, and return what it holds and has not lent."""
        wanted, bundle = worker.lease, worker.bundle
        if wanted is None:
            return
        node = worker.node
        available = node.available if bundle is None else bundle.available
        for name, amount in wanted.hold.items():
            available[name] += amount
        if worker.lent:
            available["CPU"] -= worker.lent
            worker.lent = 0
        if len(self.alive) > 1:
            self.freed_nodes.note(node)
        if worker.devices:
            devices.give_back(worker, wanted)
        worker.lease = worker.bundle = None

    def _assign(self, now: float, worker: WorkerRecord, task: TaskRecord, starting: bool = False) -> None:
        """Give the task to the worker. One that reports or starts reads it from its record; others get a RunTask."""
        if task.status is PENDING_NODE_ASSIGNMENT:  # `move`, written out
            task.status = SUBMITTED_TO_WORKER
        else:
            move(task, SUBMITTED_TO_WORKER)
        task.t_leased, task.worker, task.node = now, worker, worker.node
        worker.task = task
        for dep in task.deps:
            if dep.locations is not None:
                self.cluster.store.fetched(now, dep, worker.node)
        if worker is not self.reporting and not starting:
            self.cluster.actions.append(RunTask(worker, task))

    # ------------------------------------------------------------ lending a CPU

    def worker_blocked(self, now: float, worker: WorkerRecord, objects: Iterable[Any] = ()) -> None:
        """A worker's task waits in get or wait for these objects and streams: the worker lends its CPU.

        The tasks that make the objects are placed first. If they had to wait for their turns, each task that waits for
        a child would let one more task of its own kind start, until all of them wait.
        """
        move(worker, WorkerStatus.BLOCKED)
        # The worker may still lend what it did not get back after an earlier wait.
        more = worker.lease.hold.get("CPU", 0) - worker.lent if worker.lease is not None else 0
        if not more:
            return
        worker.lent += more
        available = worker.node.available if worker.bundle is None else worker.bundle.available
        available["CPU"] += more
        if len(self.alive) > 1:
            self.freed_nodes.note(worker.node)
        for obj in objects:
            task = obj.task
            if task is not None and task.status is PENDING_NODE_ASSIGNMENT and task.actor is None:
                if not self._place(now, task, task.spec.scheduling_class):
                    break
                # The task stays in its queue; _head discards it later, because it is no longer pending.
        if available["CPU"]:
            self.dispatch(now, worker.node)
            if self.cluster.groups.waiting:
                self.cluster.groups.retry(now)

    def worker_unblocked(self, now: float, worker: WorkerRecord) -> None:
        """The worker's task resumes: it takes back what is free of its CPU, and goes on without the rest."""
        move(worker, WorkerStatus.LEASED)
        if worker.lent:
            self.take_back(worker)

    def take_back(self, worker: WorkerRecord) -> None:
        """Return to the worker as much of its lent CPU as is free."""
        available = worker.node.available if worker.bundle is None else worker.bundle.available
        back = min(worker.lent, available.get("CPU", 0))
        available["CPU"] -= back
        worker.lent -= back
