"""The scheduler: which node a task goes to, and when. It does nothing else.

Tasks that ask for the same stand in one queue (a SchedulingClass), so what cannot be placed is looked at once per class and
never scanned. A worker that ends a task takes the next of its class together with the resources it holds.
Ray: raylet/scheduling/cluster_lease_manager.h, policy/hybrid_scheduling_policy.h.
"""

from __future__ import annotations

from .actions import RunTask, Say, StartWorker, StopWorker
from .node_ranking import GivenBack, NodeRanking, rank
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

PENDING_NODE_ASSIGNMENT, SUBMITTED_TO_WORKER = TaskStatus.PENDING_NODE_ASSIGNMENT, TaskStatus.SUBMITTED_TO_WORKER
IDLE_SPARE = 8  # parked workers kept beyond one per CPU


def fits(available: dict[str, int], need: dict[str, int]) -> bool:
    """Whether every amount that is needed is there."""
    for name, amount in need.items():
        if available.get(name, 0) < amount:
            return False
    return True


def labels_match(labels: dict[str, str], selector: tuple) -> bool:
    """Whether a node's labels meet every (key, operator, values) of a selector; operators: in, not_in, exists, absent."""
    for key, operator, values in selector:
        has = key in labels
        if operator == "in" and not (has and labels[key] in values):
            return False
        if operator == "not_in" and has and labels[key] in values:
            return False
        if operator == "exists" and not has or operator == "absent" and has:
            return False
    return True


class Scheduler:
    """The queues by class, and the placement of their heads.

    waiting: classes that fit a node when something is given back, in the order of their turn. infeasible: classes that fit no
    node or group as things are; they are looked at again when a node joins or a group is placed.
    """

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.classes: dict[tuple, SchedulingClass] = {}
        self.waiting: dict[SchedulingClass, None] = {}
        self.infeasible: dict[SchedulingClass, None] = {}
        self.alive: list[NodeRecord] = []
        self.by_hex: dict[str, NodeRecord] = {}  # those that live, by the id that users name them by
        self.given_back = GivenBack()  # of what several nodes have
        self.reporting: WorkerRecord | None = None  # it asks for its next task itself: no action wakes it
        self.vacant: WorkerRecord | None = None  # it ended a task and holds what it held until the event is over
        self._warned: set[SchedulingClass] = set()

    def scheduling_class(
        self, need: dict[str, int], hold: dict[str, int], strategy: tuple = ("DEFAULT",), selector: tuple = ()
    ) -> SchedulingClass:
        """The one class for this demand."""
        key = tuple(sorted(need.items())), tuple(sorted(hold.items())), strategy, selector
        found = self.classes.get(key)
        if found is None:
            found = self.classes[key] = SchedulingClass(need, hold, strategy, selector)
            if strategy[0] == "PLACEMENT_GROUP":
                found.group = self.cluster.placement_groups.get(strategy[1])
        return found

    def node_joined(self, node: NodeRecord) -> None:
        """A node may be given tasks."""
        self.alive.append(node)
        self.by_hex[node.hex] = node
        if len(self.alive) == 2:
            self.given_back.not_noted()  # while there was one node, nothing was ranked and nothing noted
        self.given_back.note(node)

    def node_left(self, node: NodeRecord) -> None:
        """A node is given nothing any more."""
        self.alive.remove(node)
        del self.by_hex[node.hex]

    # ------------------------------------------------------------ queues

    def enqueue(self, now: float, task: TaskRecord) -> None:
        """The task's arguments are there: place it, or let it wait behind the others of its class."""
        if task.status is not PENDING_NODE_ASSIGNMENT:
            move(task, PENDING_NODE_ASSIGNMENT)
        task.t_ready = now
        wanted = task.spec.scheduling_class
        vacant = self.vacant
        if vacant is not None:
            if vacant.lease is wanted and task.actor is None:
                self.vacant = None
                self._assign(now, vacant, task)  # the next of a chain runs where its argument was made
                return
            self.vacate(now, vacant)
        queue = wanted.queue
        if queue and queue[0].status is not PENDING_NODE_ASSIGNMENT:
            self._head(wanted)  # what was cancelled, or placed before its turn, holds nobody up
        if queue or not self._place(now, task, wanted):
            queue.append(task)
            if len(queue) == 1:
                self._sort_in(wanted)

    def _sort_in(self, wanted: SchedulingClass) -> None:
        if self.feasible(wanted):
            self.waiting[wanted] = None
            return
        self.infeasible[wanted] = None
        if wanted not in self._warned and wanted.group is None:
            self._warned.add(wanted)
            self.cluster.actions.append(
                Say(
                    "WARNING",
                    (
                        f"No available node types can fulfill resource request {amounts(wanted.need)}: {wanted.queue[0].spec.name} "
                        "waits until a node that has this joins the cluster."
                    ),
                )
            )

    def feasible(self, wanted: SchedulingClass) -> bool:
        """Whether some node, or the class's placement group, could ever take it as things are."""
        if wanted.group is not None:
            return any(bundle.node is not None for bundle in self._bundles(wanted))
        for node in self.alive:
            if fits(node.total, wanted.need) and self._allowed(node, wanted):
                return True
        return False

    def _allowed(self, node: NodeRecord, wanted: SchedulingClass) -> bool:
        strategy = wanted.strategy
        if wanted.selector and not labels_match(node.labels, wanted.selector):
            return False
        if strategy[0] == "NODE_AFFINITY" and not strategy[2]:
            return self.by_hex.get(strategy[1]) is node
        if strategy[0] == "NODE_LABEL":
            return labels_match(node.labels, strategy[1])
        return True

    def _head(self, wanted: SchedulingClass) -> TaskRecord | None:
        """The first task of the class that still wants to run; cancelled ones are let go on the way."""
        queue = wanted.queue
        while queue:
            task = queue[0]
            if task.status is PENDING_NODE_ASSIGNMENT:
                return task
            queue.popleft()
        return None

    def dispatch(self, now: float, node: NodeRecord | None = None) -> None:
        """Something was given back (on this node): let the waiting classes have their turns."""
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
                    continue  # there is no room on it: the usual case when a task took what another gave
                task = self._head(wanted)
                if task is None:
                    waiting.pop(wanted, None)
                    continue
                if not self._place(now, task, wanted, node):
                    continue
                # A task that fails here may end an actor, whose resources are dispatched before this goes on.
                if wanted.queue and wanted.queue[0] is task:
                    wanted.queue.popleft()
                waiting.pop(wanted, None)
                if wanted.queue:  # its turn comes again behind the others
                    waiting[wanted] = None
                    progress = True
            if node is not None and not node.available:
                return

    def resources_freed(self, now: float) -> None:
        """Resources were returned: the groups and tasks that wait have their turns."""
        if self.cluster.groups.waiting:
            self.cluster.groups.retry(now)
        if self.waiting:
            self.dispatch(now)

    def retry_infeasible(self, now: float) -> None:
        """A node joined or a group was placed: what fitted nowhere may fit now."""
        for wanted in list(self.infeasible):
            if self._head(wanted) is None:
                del self.infeasible[wanted]
            elif self.feasible(wanted):
                del self.infeasible[wanted]
                self.waiting[wanted] = None
        self.dispatch(now)

    def sort_again(self, now: float) -> None:
        """A node or a group went: what waited may have become infeasible, or can never run."""
        for wanted in [*self.waiting, *self.infeasible]:
            if self._never(wanted):
                while (task := self._head(wanted)) is not None:
                    self._place(now, task, wanted)  # which fails it
            elif wanted in self.waiting and not self.feasible(wanted):
                del self.waiting[wanted]
                if self._head(wanted) is not None:
                    self._sort_in(wanted)

    def _never(self, wanted: SchedulingClass) -> bool:
        """Whether the one node on which the class may run is gone, or has less than it asks for: no node that joins helps."""
        return wanted.strategy[0] == "NODE_AFFINITY" and not wanted.strategy[2] and not self.feasible(wanted)

    def worker_free(self, now: float, worker: WorkerRecord) -> None:
        """A task ended: its worker goes on with the next of its class, or gives back what it held when the event is over."""
        wanted, waiting = worker.lease, self.waiting
        if worker.task is not None and worker.task.spec.max_calls and self._is_spent(worker, worker.task.spec):
            self.worker_idle(worker)
            spent = worker.node.idle.pop()
            self._retire(now, spent, "INTENDED_USER_EXIT", "it ran a function as often as its max_calls allows")
            if waiting:
                self.dispatch(now, worker.node)
            return
        worker.task = None
        if len(waiting) == 1 and wanted in waiting and wanted.plain and not worker.lent:
            task = self._head(wanted)
            if task is not None and task.actor is None:  # an actor gets a worker of its own
                queue = wanted.queue
                queue.popleft()
                if not queue:
                    del waiting[wanted]
                self._assign(now, worker, task)
                return
        if (
            not waiting
            and not worker.lent
            and wanted.plain
            and len(self.alive) == 1
            and not self.cluster.groups.waiting
        ):
            self.vacant = worker  # what its end makes ready may go on with what it holds
            return
        self.worker_idle(worker)
        if waiting:
            self.dispatch(now, worker.node)

    def vacate(self, now: float, worker: WorkerRecord) -> None:
        """Nothing of its class came to the vacant worker."""
        self.vacant = None
        self.worker_idle(worker)
        if self.waiting:
            self.dispatch(now, worker.node)

    def worker_idle(self, worker: WorkerRecord) -> None:
        """The worker has nothing to do: it gives back what it held, and is the first to be taken when there is something."""
        worker.task = None
        self.give_back(worker)
        move(worker, WorkerStatus.IDLE)
        worker.node.idle.append(worker)

    def retire_spare(self, now: float, node: NodeRecord) -> None:
        """Keep no more parked workers than could be useful."""
        if len(node.idle) > node.total.get("CPU", 0) // UNIT + IDLE_SPARE:
            self._retire(now, node.idle.pop(0), "INTENDED_SYSTEM_EXIT", "the worker was idle and not needed")

    def _retire(self, now: float, worker: WorkerRecord, exit_type: str, why: str) -> None:
        """An idle worker, already off its node's list, ends. What it owns stays."""
        move(worker, WorkerStatus.DEAD)
        worker.t_died, worker.exit_type, worker.exit_detail = now, exit_type, why
        self.cluster.worker_pool.bury(worker)
        self.cluster.actions.append(StopWorker(worker))

    @staticmethod
    def _is_spent(worker: WorkerRecord, spec: TaskSpec) -> bool:
        """Whether the worker has now run the function as often as it may."""
        if worker.calls is None:
            worker.calls = {}
        key = spec.module, spec.func_name
        worker.calls[key] = worker.calls.get(key, 0) + 1
        return worker.calls[key] >= spec.max_calls

    # ------------------------------------------------------------ placement

    def _place(self, now: float, task: TaskRecord, wanted: SchedulingClass, freed: NodeRecord | None = None) -> bool:
        """Lease a worker for the task if a node has room. freed: the only node where room may have come since the last look.

        Returns whether the task is off the queue: leased, or failed for good.
        """
        if wanted.plain and len(self.alive) == 1:  # as below, without the questions that do not arise
            only = self.alive[0]
            if self._has_room(only, task, wanted):
                self._lease(now, task, wanted, only, None)
                return True
            return False
        if wanted.group is not None:
            return self._place_in_group(now, task, wanted)
        strategy = wanted.strategy
        if strategy[0] == "NODE_AFFINITY" and self._never(wanted):
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
        why = (
            f"the node {wanted.strategy[1]} that it must run on does not exist, is dead, or has less than it asks for."
        )
        if task.spec.kind == ACTOR_CREATION_TASK:
            self.cluster.actor_manager.died(
                now, task.actor, Failure("ACTOR_UNSCHEDULABLE_ERROR", why, about=task.actor), may_restart=False
            )
        else:
            self.cluster.task_manager.fail(now, task, Failure("TASK_UNSCHEDULABLE_ERROR", why, about=task))

    def _has_room(self, node: NodeRecord, task: TaskRecord, wanted: SchedulingClass) -> bool:
        for name, amount in wanted.need.items():  # as fits(), without the call: this is the hot path
            if node.available.get(name, 0) < amount:
                return False
        if "GPU" in wanted.need and not self._pick_gpus(node, wanted.need["GPU"]):
            return False
        # A task that asks for no CPU is held back only while as many workers are starting as there are CPUs: tasks that end
        # at once then share a few threads, and those that block each other still all get one.
        return (
            bool(node.idle)
            or "CPU" in wanted.need
            or task.actor is not None
            or node.starting * UNIT < max(node.total.get("CPU", 0), UNIT)
        )

    def _choose(self, task: TaskRecord, wanted: SchedulingClass, freed: NodeRecord | None) -> NodeRecord | None:
        alive, kind = self.alive, wanted.strategy[0]
        if len(alive) == 1 and kind in ("DEFAULT", "SPREAD") and not wanted.selector:
            return alive[0] if self._has_room(alive[0], task, wanted) else None
        if kind == "SPREAD":
            for step in (
                range(len(alive)) if freed is None or not freed.alive else (alive.index(freed) - wanted.spread_at,)
            ):
                node = alive[(wanted.spread_at + step) % len(alive)]
                if self._allowed(node, wanted) and self._has_room(node, task, wanted):
                    wanted.spread_at = (wanted.spread_at + step + 1) % len(alive)
                    return node
            return None
        if kind == "NODE_AFFINITY":  # soft: elsewhere only if that node can never take it
            named = self.by_hex.get(wanted.strategy[1])
            if named is not None and fits(named.total, wanted.need) and self._allowed(named, wanted):
                return named if self._has_room(named, task, wanted) else None
        if kind == "NODE_LABEL" and wanted.strategy[2]:  # soft labels: those nodes first
            for node in alive:
                if (
                    labels_match(node.labels, wanted.strategy[2])
                    and self._allowed(node, wanted)
                    and self._has_room(node, task, wanted)
                ):
                    return node
        if freed is not None:
            return (
                freed if freed.alive and self._allowed(freed, wanted) and self._has_room(freed, task, wanted) else None
            )
        return self._hybrid(task, wanted)

    def _hybrid(self, task: TaskRecord, wanted: SchedulingClass) -> NodeRecord | None:
        """Ray's default: the node with most of the arguments' bytes, else the submitter's own, when it is at most half used; then
        the first of those that are; then the least used."""
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
        if (
            "CPU" not in need or "GPU" in need
        ):  # room comes and goes with workers that start, and depends on the single GPUs
            among = [n for n in self.alive if self._allowed(n, wanted) and self._has_room(n, task, wanted)]
            return min(among, key=lambda n: (rank(n, need), n is not first), default=None)
        if wanted.ranking is None:
            wanted.ranking = NodeRanking(need)
        best = wanted.ranking.best(
            self.alive, self.given_back, None if wanted.plain else lambda n: self._allowed(n, wanted)
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
        """The node that comes first among equals. The driver's own is the first of all in any case."""
        if task.deps:
            node = self._node_of_arguments(task)
            if node is not None:
                return node
        return task.owner.node if task.owner is not None and task.owner.node.alive else None

    @staticmethod
    def _node_of_arguments(task: TaskRecord) -> NodeRecord | None:
        sizes: dict[int, int] = {}
        nodes: dict[int, NodeRecord] = {}
        for dep in task.deps:
            for node in (dep.locations or {}).values():
                sizes[node.number] = sizes.get(node.number, 0) + dep.size
                nodes[node.number] = node
        return nodes[max(sizes, key=sizes.__getitem__)] if sizes else None

    def _place_in_group(self, now: float, task: TaskRecord, wanted: SchedulingClass) -> bool:
        for bundle in self._bundles(wanted):
            node = bundle.node
            if (
                node is not None
                and fits(bundle.available, wanted.need)
                and ("GPU" not in wanted.need or self._pick_gpus(node, wanted.need["GPU"]))
            ):
                self._lease(now, task, wanted, node, bundle)
                return True
        return False

    @staticmethod
    def _bundles(wanted: SchedulingClass) -> list[Bundle]:
        """The bundles that a task may run in. Those that are left of a group that lost a node go on taking tasks."""
        group, index = wanted.group, wanted.strategy[2]
        if group.status is not PlacementGroupStatus.CREATED and group.status is not PlacementGroupStatus.RESCHEDULING:
            return []
        return group.bundles if index < 0 else [group.bundles[index]]

    # ------------------------------------------------------------ leases

    def _lease(
        self, now: float, task: TaskRecord, wanted: SchedulingClass, node: NodeRecord, bundle: Bundle | None
    ) -> None:
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
        """The worker holds what the class holds, of the bundle or else of its node."""
        worker.lease, worker.bundle = wanted, bundle
        available = worker.node.available if bundle is None else bundle.available
        for name, amount in wanted.hold.items():
            available[name] -= amount
        if "GPU" in wanted.hold:
            self._take_gpus(worker, wanted.hold["GPU"])

    def give_back(self, worker: WorkerRecord) -> None:
        """The worker holds nothing any more."""
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
            self.given_back.note(node)
        for index in worker.gpu_ids:
            node.gpu_free[index] += min(UNIT, wanted.hold["GPU"])
        worker.gpu_ids, worker.lease, worker.bundle = (), None, None

    def _assign(self, now: float, worker: WorkerRecord, task: TaskRecord, starting: bool = False) -> None:
        move(task, SUBMITTED_TO_WORKER)
        task.t_leased, task.worker, task.node, worker.task = now, worker, worker.node, task
        for dep in task.deps:
            if dep.locations is not None:
                self.cluster.store.fetched(now, dep, worker.node)
        if worker is not self.reporting and not starting:
            self.cluster.actions.append(RunTask(worker, task))

    @staticmethod
    def _pick_gpus(node: NodeRecord, amount: int) -> tuple[int, ...]:
        """Which of the node's GPUs would be given: whole ones, or a part of one that has enough left."""
        if amount >= UNIT:
            free = [index for index, left in node.gpu_free.items() if left == UNIT]
            return tuple(free[: amount // UNIT]) if len(free) >= amount // UNIT else ()
        partly = sorted((left, index) for index, left in node.gpu_free.items() if left >= amount)
        return (partly[0][1],) if partly else ()

    def _take_gpus(self, worker: WorkerRecord, amount: int) -> None:
        worker.gpu_ids = self._pick_gpus(worker.node, amount)
        for index in worker.gpu_ids:
            worker.node.gpu_free[index] -= min(UNIT, amount)

    # ------------------------------------------------------------ a worker that waits lends its CPU

    def worker_blocked(self, now: float, worker: WorkerRecord, objects=()) -> None:
        """Its task waits in get or wait: others may have its CPU meanwhile, and what it waits for (objects) comes first.

        Were they to wait their turn, each task that waits for a child would let one more of its own kind start, until all wait.
        """
        move(worker, WorkerStatus.BLOCKED)
        # What it did not get back after an earlier wait is lent still.
        more = worker.lease.hold.get("CPU", 0) - worker.lent if worker.lease is not None else 0
        if not more:
            return
        worker.lent += more
        available = worker.node.available if worker.bundle is None else worker.bundle.available
        available["CPU"] += more
        if len(self.alive) > 1:
            self.given_back.note(worker.node)
        for obj in objects:
            task = obj.task
            if task is not None and task.status is PENDING_NODE_ASSIGNMENT and task.actor is None:
                if not self._place(now, task, task.spec.scheduling_class):
                    break  # of ten thousand that it waits for, all others would ask in vain, too
                # It stays in its queue, where it is passed over when its turn comes: it is not pending any more.
        if available["CPU"]:
            self.dispatch(now, worker.node)
            if self.cluster.groups.waiting:
                self.cluster.groups.retry(now)

    def worker_unblocked(self, now: float, worker: WorkerRecord) -> None:
        """It goes on. It takes back what is free of its CPU and goes on without the rest: to wait for it could wait for ever."""
        move(worker, WorkerStatus.LEASED)
        if worker.lent:
            self.take_back(worker)

    def take_back(self, worker: WorkerRecord) -> None:
        """As much as is free of the CPU that a waiting worker lent."""
        available = worker.node.available if worker.bundle is None else worker.bundle.available
        back = min(worker.lent, available.get("CPU", 0))
        available["CPU"] -= back
        worker.lent -= back
