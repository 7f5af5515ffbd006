"""The cluster: the one door to the core.

Each method is an event: something happened, at `now` seconds on the runtime's clock. It changes the tables and returns the
actions that follow, in the order in which they must be carried out. An event is carried through to the end: its consequences
go into a worklist that is empty when the method returns. The caller holds the runtime's one lock.
"""
from __future__ import annotations

from collections import deque

from .actions import Action, KillWorker, Wake
from .actor_manager import ActorManager
from .object_store import INLINE_BYTES, ObjectStore, Stores
from .placement_group import PlacementGroups
from .records import (ACTOR_CREATION_TASK, ACTOR_TASK, FAILED, LOST, NORMAL_TASK, READY, SPILLED, ActorRecord, Failure,
                      NodeRecord, ObjectRecord, PlacementGroupRecord, StreamRecord, TaskRecord, Waiter, WorkerRecord)
from .reference_counter import ReferenceCounter
from .scheduler import IDLE_SPARE, Scheduler
from .task_events import EventLog, History
from .task_manager import TaskManager
from .transitions import TaskStatus, WorkerStatus, move

NOTHING: list[Action] = []      # never changed: most events ask for nothing
DEAD_WORKERS_KEPT = 1_000
DEAD = WorkerStatus.DEAD


class Cluster:
    """All of the core's tables, and an event for everything that can happen to them."""

    def __init__(self, record_limit: int = 100_000):
        """record_limit: how many finished tasks are remembered."""
        self.number = 0                             # the last number given to a task, actor, object, group
        self.tasks: dict[int, TaskRecord] = {}
        self.objects: dict[int, ObjectRecord] = {}
        self.actors: dict[int, ActorRecord] = {}
        self.nodes: dict[int, NodeRecord] = {}
        self.workers: dict[int, WorkerRecord] = {}
        self.placement_groups: dict[int, PlacementGroupRecord] = {}
        self.record_limit = record_limit
        self.resumes_at_wake = True                 # a waiter that is woken can go on: not so where all share one thread
        self.events = EventLog()
        self.history = History(self, record_limit)
        self.references = ReferenceCounter(self)
        self.store = Stores(self)
        self.scheduler = Scheduler(self)
        self.task_manager = TaskManager(self)
        self.actor_manager = ActorManager(self)
        self.groups = PlacementGroups(self)
        self.actions: list[Action] = []
        self.ready: deque[ObjectRecord] = deque()   # objects that got their value: those who wait are still to be told
        self.dead_workers_kept = DEAD_WORKERS_KEPT
        self._dead_workers: deque[int] = deque()
        self._last_worker = 0
        self._counts = {"actors": 0, "workers": 0}

    @property
    def dropped(self) -> dict[str, int]:
        """How many records of each kind were let go because their table was full."""
        self._counts["tasks"], self._counts["events"] = self.history.dropped, self.events.dropped
        return self._counts

    # ------------------------------------------------------------ the end of every event

    def _settle(self, now: float) -> None:
        ready = self.ready
        while ready:
            self._tell(now, ready.popleft())

    def _done(self, now: float) -> list[Action]:
        if self.ready:
            self._settle(now)
        actions = self.actions
        if actions:
            self.actions = []
            return actions
        return NOTHING

    def _tell(self, now: float, obj: ObjectRecord) -> None:
        """Tell those who wait for an object that it has its value, or its error."""
        waiters, obj.waiters = obj.waiters, None
        if waiters:
            failed = obj.done == FAILED
            for waiter in waiters:
                if not waiter.fired:                # as satisfy(), without the call: this is the hot path
                    waiter.need -= 1
                    if waiter.need <= 0 or failed and waiter.hasty:
                        self.wake(waiter)
        dependents, obj.dependents = obj.dependents, None
        if dependents:
            for task in dependents:
                task.pending -= 1
                if not task.pending:
                    self.task_manager.arguments_ready(now, task)
        if not (obj.refs or obj.uses or obj.held):
            self.references.check(now, obj)

    def satisfy(self, waiter: Waiter, failed: bool) -> None:
        """One of the things that a waiter waits for is there."""
        if not waiter.fired:
            waiter.need -= 1
            if waiter.need <= 0 or failed and waiter.hasty:
                self.wake(waiter)

    def wake(self, waiter: Waiter) -> None:
        """Wake a waiter, once."""
        if not waiter.fired:
            waiter.fired = True
            if waiter.worker is not None and waiter.worker.lent:
                self.scheduler.take_back(waiter.worker)
            self.actions.append(Wake(waiter))

    # ------------------------------------------------------------ nodes

    def add_node(self, now: float, number: int, resources: dict[str, int], labels: dict[str, str] | None = None,
                 store_bytes: int = 1 << 62, is_head: bool = False) -> tuple[NodeRecord, list[Action]]:
        """A node joins. resources: units by name. Returns its record too."""
        node = NodeRecord(number, resources, labels or {}, is_head, ObjectStore(store_bytes), now)
        self.nodes[number] = node
        self.scheduler.node_joined(node)
        self.events.add(now, "node_joined", f"node {node.hex} joined", node)
        self.groups.retry(now)
        self.scheduler.retry_infeasible(now)
        return node, self._done(now)

    def remove_node(self, now: float, node: NodeRecord, why: str = "it was removed") -> list[Action]:
        """A node dies with everything on it: workers, actors, the only copies of values, bundles."""
        if not node.alive:
            return self._done(now)
        node.alive, node.t_died, node.death_message = False, now, why
        self.scheduler.node_left(node)
        self.events.add(now, "node_died", f"node {node.hex}: {why}", node)
        lost = self.store.node_died(now, node)
        self.groups.node_died(node)                 # before its workers: nothing is to be placed there any more
        node.idle.clear()
        failure = Failure("NODE_DIED", f"the node {node.hex} it was on died: {why}", about=node)
        for worker in list(node.workers.values()):
            if worker.status is not DEAD:
                self._worker_died(now, worker, failure)
        self.scheduler.sort_again(now)
        self.resources_freed(now)                   # those that preferred the node go elsewhere now
        for obj in lost:
            if (obj.waiters or obj.dependents) and obj.done == LOST:
                self.task_manager.rebuild(now, obj)
        return self._done(now)

    # ------------------------------------------------------------ workers

    def new_worker(self, now: float, node: NodeRecord, actor: ActorRecord | None) -> WorkerRecord:
        """A record for a worker that is about to be started."""
        self._last_worker += 1
        worker = WorkerRecord(self._last_worker, node, actor)
        worker.t_created = now
        self.workers[worker.number] = node.workers[worker.number] = worker
        return worker

    def worker_started(self, now: float, worker: WorkerRecord) -> list[Action]:
        """A worker that was ordered is there. It finds its task, if it has one, in its record."""
        if worker.status is DEAD:
            return self._done(now)
        move(worker, WorkerStatus.LEASED)
        worker.t_started = now
        if worker.actor is None:
            worker.node.starting -= 1
            self.scheduler.reporting = worker
            if self.scheduler.waiting:
                self.scheduler.dispatch(now, worker.node)
            self.scheduler.reporting = None
        return self._done(now)

    def worker_died(self, now: float, worker: WorkerRecord, failure: Failure, exit_type: str = "SYSTEM_ERROR") -> list[Action]:
        """A worker's thread has ended, or was made to end: what ran in it is retried or fails."""
        if worker.status is DEAD:
            return self._done(now)
        self._worker_died(now, worker, failure, exit_type)
        return self._done(now)

    def _worker_died(self, now: float, worker: WorkerRecord, failure: Failure, exit_type: str = "SYSTEM_ERROR") -> None:
        actor, task = worker.actor, worker.task
        if actor is not None:
            self.actor_manager.died(now, actor, Failure(
                "ACTOR_DIED", failure.message, error=failure.error, cause=failure, about=actor), may_restart=True,
                exit_type=exit_type)
            return
        self.end_worker(now, worker, failure, exit_type)
        if task is not None and task.worker is worker and task.status not in (TaskStatus.FINISHED, TaskStatus.FAILED):
            self.task_manager.attempt_failed(now, task, failure, retry=True)
        self.owner_died(now, worker)
        self.resources_freed(now)

    def kill_worker(self, now: float, worker: WorkerRecord, failure: Failure) -> None:
        """Declare a worker dead whose task is already over."""
        self.end_worker(now, worker, failure, "INTENDED_SYSTEM_EXIT")
        self.owner_died(now, worker)
        self.resources_freed(now)

    def end_worker(self, now: float, worker: WorkerRecord, failure: Failure, exit_type: str) -> None:
        """From now on nothing that the worker reports counts, and it holds nothing."""
        if worker.status is DEAD:
            return
        if worker.status is WorkerStatus.STARTING and worker.actor is None:
            worker.node.starting -= 1
        if worker.status is WorkerStatus.IDLE and worker in worker.node.idle:
            worker.node.idle.remove(worker)
        move(worker, DEAD)
        worker.t_died, worker.exit_type, worker.exit_detail = now, exit_type, failure.message
        self.scheduler.give_back(worker)
        self.actions.append(KillWorker(worker))
        if exit_type == "SYSTEM_ERROR":
            self.events.add(now, "worker_died", f"worker {worker.hex}: {failure.message}", worker)
        self.worker_gone(worker)

    def worker_gone(self, worker: WorkerRecord) -> None:
        """A dead worker's record is kept for a while."""
        worker.node.workers.pop(worker.number, None)
        self._dead_workers.append(worker.number)
        if len(self._dead_workers) > self.dead_workers_kept:
            self.workers.pop(self._dead_workers.popleft(), None)
            self._counts["workers"] += 1

    def owner_died(self, now: float, worker: WorkerRecord) -> None:
        """What the worker owned goes with it: its children, its tasks, its values that others still hold."""
        if not worker.owns:
            return
        worker.owns = False
        for actor in list(self.actors.values()):
            if actor.owner is worker and not actor.detached:
                self.actor_manager.died(now, actor, Failure(
                    "ACTOR_DIED", "its owner, the worker that created it, has died", about=actor), may_restart=False)
        for task in list(self.tasks.values()):
            if task.owner is not worker or task.spec.kind == ACTOR_CREATION_TASK:
                continue
            failure = Failure("OWNER_DIED", "the worker that owned it has died", about=task)
            if task.status not in (TaskStatus.FINISHED, TaskStatus.FAILED):
                runner = task.worker
                self.task_manager.fail(now, task, failure)
                if runner is not None and runner.actor is None and runner.status is not DEAD:
                    self.kill_worker(now, runner, failure)
            else:
                for obj in task.returns:
                    # A small result is with whoever has a reference to it, as in Ray, where that is a process of its own.
                    if not (obj.done == READY and obj.locations is None and (obj.refs or obj.uses)):
                        self._owner_lost(now, obj, failure)
        for obj in list(self.objects.values()):
            if obj.owner is worker and obj.actor is None:
                self._owner_lost(now, obj, Failure("OWNER_DIED", "the worker that owned it has died", about=obj))

    def _owner_lost(self, now: float, obj: ObjectRecord, failure: Failure) -> None:
        if self.objects.get(obj.number) is not obj or obj.done == FAILED:
            return
        if obj.locations is not None:
            self.store.forget(obj)
        self.references.freed.append(obj.value)
        obj.value = failure
        self.task_manager.value_there(now, obj, FAILED, obj.size)

    def resources_freed(self, now: float) -> None:
        """Something was given back: groups and tasks that wait have their turns."""
        if self.groups.waiting:
            self.groups.retry(now)
        if self.scheduler.waiting:
            self.scheduler.dispatch(now)

    def blocked(self, now: float, worker: WorkerRecord) -> list[Action]:
        """A worker's task waits: it lends its CPU."""
        if worker.status is WorkerStatus.LEASED:
            self.scheduler.worker_blocked(now, worker)
        return self._done(now)

    def unblocked(self, now: float, worker: WorkerRecord) -> list[Action]:
        """A worker's task goes on."""
        if worker.status is WorkerStatus.BLOCKED:
            self.scheduler.worker_unblocked(now, worker)
        return self._done(now)

    # ------------------------------------------------------------ tasks

    def submit_task(self, now: float, task: TaskRecord) -> list[Action]:
        """`.remote()` of a function was called. Each of task.returns has one reference, which belongs to the caller."""
        self.task_manager.register(now, task)
        if not task.pending:
            if task.deps:
                self.task_manager.arguments_ready(now, task)
            else:
                self.scheduler.enqueue(now, task)
        if self.ready or self.actions:
            return self._done(now)
        return NOTHING

    def task_finished(self, now: float, worker: WorkerRecord, task: TaskRecord, sizes, contained=None) -> list[Action]:
        """A worker reports that an attempt returned.

        sizes: bytes of each return value, in order. contained: for each the tuple of records inside it, or None when there is
        none in any. The runtime has put the values into `task.returns` under the same lock, after asking `is_current`.
        The worker finds its next task, if there is one, in `worker.task`.
        Ray: core_worker/task_manager.h, CompletePendingTask.
        """
        if worker.status is DEAD or task.worker is not worker:
            return self._done(now)
        kind = task.spec.kind
        if task.cancelled and kind == ACTOR_TASK:   # it went on to its end, and nobody gets what it made, as in Ray
            return self.task_failed(now, worker, task, Failure("TASK_CANCELLED", "it was cancelled", about=task), False)
        self.scheduler.reporting = worker
        worker.tasks_done += 1
        task.cancelled = 0
        if kind == NORMAL_TASK:
            if task.returns and task.returns[0].waiters is not None and self._lent_for(task.returns[0].waiters) \
                    and not task.spec.max_calls:
                self._return_cpu(now, worker, task, sizes, contained)
            else:                                   # the worker first: a task that this one makes ready then runs on it
                self.scheduler.worker_free(now, worker)
                self.task_manager.complete(now, task, sizes, contained)
            if self.groups.waiting:
                self.groups.retry(now)
        elif kind == ACTOR_TASK:
            if not task.t_finished:                 # else its owner has died, and the call with it
                self.task_manager.complete(now, task, sizes, contained)
            self.actor_manager.worker_free(now, worker, task)
            if task.t_finished:                     # else it runs once more already, for an item that was lost meanwhile
                task.actor.calls.pop(task.number, None)
                if task.actor.out_of_scope:
                    self.actor_manager.end_if_unwanted(now, task.actor)
        else:
            self._constructed(now, worker, task)
        return self._reported(now, worker)

    @staticmethod
    def _lent_for(waiters: list[Waiter]) -> bool:
        for waiter in waiters:
            if waiter.worker is not None:
                return True
        return False

    def _return_cpu(self, now: float, worker: WorkerRecord, task: TaskRecord, sizes, contained) -> None:
        """The task that waits for this one lent its CPU for it, and gets it back before anybody else can have it.

        Were the next in the queue to have it, one more task would be at work after every such wait.
        """
        self.scheduler.worker_idle(worker)
        self.task_manager.complete(now, task, sizes, contained)
        self._settle(now)
        if self.scheduler.waiting:
            self.scheduler.dispatch(now, worker.node)

    def _constructed(self, now: float, worker: WorkerRecord, task: TaskRecord) -> None:
        move(task, TaskStatus.RUNNING)
        move(task, TaskStatus.FINISHED)
        task.t_finished = now
        worker.task = None
        actor = task.actor
        if not actor.max_restarts:                  # it will not be made again: its constructor's arguments may go
            self.references.release_arguments(now, task)
        self.history.task_ended(task)
        self.actor_manager.created(now, actor)

    def _reported(self, now: float, worker: WorkerRecord) -> list[Action]:
        if self.ready:
            self._settle(now)
        vacant = self.scheduler.vacant
        if vacant is not None:
            self.scheduler.vacate(now, vacant)
        actions = self._done(now)
        self.scheduler.reporting = None
        if worker.task is None and worker.actor is None and worker.status is WorkerStatus.IDLE \
                and len(worker.node.idle) > IDLE_SPARE:
            self.scheduler.retire_spare(worker.node)
            if self.actions:
                return actions + self._done(now)
        return actions

    def is_current(self, worker: WorkerRecord, task: TaskRecord) -> bool:
        """Whether a report of this worker about this task still counts."""
        return worker.status is not DEAD and task.worker is worker

    def task_failed(self, now: float, worker: WorkerRecord, task: TaskRecord, failure: Failure, retry: bool) -> list[Action]:
        """A worker reports that an attempt raised. retry: whether the task's options let this error be tried again."""
        if worker.status is DEAD or task.worker is not worker:
            return self._done(now)
        self.scheduler.reporting = worker
        worker.tasks_done += 1
        kind = task.spec.kind
        if kind == NORMAL_TASK:
            self.scheduler.worker_free(now, worker)
            self.task_manager.attempt_failed(now, task, failure, retry)
            if self.groups.waiting:
                self.groups.retry(now)
        elif kind == ACTOR_TASK:
            if task.t_finished:
                pass                                # its owner has died, and the call with it
            elif retry and task.retries_left and not task.cancelled:
                move(task, TaskStatus.RUNNING)
                if task.retries_left > 0:
                    task.retries_left -= 1
                self.actor_manager.retry_call(now, task, failure)
            else:
                if task.status is TaskStatus.SUBMITTED_TO_WORKER:
                    move(task, TaskStatus.RUNNING)
                self.task_manager.fail(now, task, failure)
            self.actor_manager.worker_free(now, worker, task)
        else:
            move(task, TaskStatus.RUNNING)
            worker.task = None
            self.actor_manager.died(now, task.actor, Failure(
                "ACTOR_DIED", "its constructor failed", cause=failure, about=task.actor), may_restart=False,
                exit_type="USER_ERROR")
        return self._reported(now, worker)

    def arguments_lost(self, now: float, worker: WorkerRecord, task: TaskRecord) -> list[Action]:
        """A worker reports that an argument of the task it was given is lost. It does not wait for it: what makes the argument
        again may need this very worker, as an earlier call of the same actor does."""
        if worker.status is DEAD or task.worker is not worker:
            return self._done(now)
        if task.cancelled or task.t_finished:       # its owner may have died meanwhile, and a call with it
            return self.task_failed(now, worker, task, Failure("TASK_CANCELLED", "it was cancelled", about=task), False)
        self.scheduler.reporting = worker
        self.task_manager.not_begun(now, task)
        if task.spec.kind == ACTOR_TASK:
            self.actor_manager.call_not_begun(now, worker, task)
        else:
            self.scheduler.worker_free(now, worker)
            if not task.pending:
                self.task_manager.arguments_ready(now, task)
            if self.groups.waiting:
                self.groups.retry(now)
        return self._reported(now, worker)

    def stream_item(self, now: float, worker: WorkerRecord, task: TaskRecord, value, size: int,
                    contained: tuple = ()) -> list[Action]:
        """A generator yielded a value (opaque)."""
        if not self.is_current(worker, task):
            return self._done(now)
        self.task_manager.stream_item(now, task, value, size, contained)
        return self._done(now)

    def cancel(self, now: float, task: TaskRecord, force: bool, recursive: bool) -> list[Action]:
        """`cancel` was called."""
        self.task_manager.cancel(now, task, force, recursive)
        return self._done(now)

    def timer(self, now: float) -> list[Action]:
        """A time that an action named has come."""
        self.task_manager.give_up_interrupted(now)
        return self._done(now)

    # ------------------------------------------------------------ actors

    def create_actor(self, now: float, actor: ActorRecord, creation: TaskRecord) -> list[Action]:
        """`.remote()` of an actor class was called. Raises actor_manager.NameTaken, and then nothing has changed."""
        self.actor_manager.create(now, actor, creation)
        return self._done(now)

    def submit_actor_task(self, now: float, task: TaskRecord) -> list[Action]:
        """`.remote()` of a method was called."""
        self.actor_manager.submit(now, task)
        if self.ready or self.actions:
            return self._done(now)
        return NOTHING

    def kill_actor(self, now: float, actor: ActorRecord, no_restart: bool = True) -> list[Action]:
        """`kill` was called."""
        self.actor_manager.died(now, actor, Failure("ACTOR_DIED", "it was killed by `ray.kill`", about=actor),
                                may_restart=not no_restart, exit_type="INTENDED_SYSTEM_EXIT")
        return self._done(now)

    def actor_exited(self, now: float, worker: WorkerRecord, why: str) -> list[Action]:
        """The actor ended itself (exit_actor): it is not made anew."""
        if worker.status is DEAD:
            return self._done(now)
        self.actor_manager.died(now, worker.actor, Failure("ACTOR_DIED", why, about=worker.actor), may_restart=False,
                                exit_type="INTENDED_USER_EXIT")
        return self._done(now)

    # ------------------------------------------------------------ objects

    def put(self, now: float, obj: ObjectRecord, size: int, node: NodeRecord) -> list[Action]:
        """A value was put; the runtime has it in obj.value. Its one reference belongs to the caller."""
        self.number += 1
        obj.number = self.number << 32 | 0x8000_0001
        if obj.owner is not None:
            obj.owner.owns = True
        obj.t_created = obj.t_ready = now
        obj.size, obj.done = size, READY
        for inner in obj.contained:
            inner.held += 1
        self.objects[obj.number] = obj
        if size > INLINE_BYTES:
            self.store.created(now, obj, node)
        if self.ready or self.actions:
            return self._done(now)
        return NOTHING

    def wait_for(self, now: float, waiter: Waiter, objects, worker: WorkerRecord | None = None) -> list[Action]:
        """Somebody waits for objects and streams. worker: the worker whose task does, when it is to lend its CPU."""
        for obj in objects:
            if type(obj) is StreamRecord:
                if obj.taken < len(obj.items) or obj.ended:
                    self.satisfy(waiter, False)
                elif obj.waiters is None:
                    obj.waiters = [waiter]
                else:
                    obj.waiters.append(waiter)
                continue
            done = obj.done
            if done == READY or done == FAILED or done == SPILLED:
                self.satisfy(waiter, done == FAILED)
                continue
            if obj.waiters is None:
                obj.waiters = [waiter]
            else:
                obj.waiters.append(waiter)
            if done == LOST:
                self.task_manager.rebuild(now, obj)
        if worker is not None and not waiter.fired and worker.status is WorkerStatus.LEASED:
            if self.resumes_at_wake:
                waiter.worker = worker
            self.scheduler.worker_blocked(now, worker, objects)
        return self._done(now)

    def stop_waiting(self, now: float, waiter: Waiter, objects, worker: WorkerRecord | None = None) -> list[Action]:
        """A waiter was woken, or has given up."""
        if not waiter.fired:
            waiter.fired = True
        for obj in objects:
            if obj.waiters is not None and waiter in obj.waiters:
                obj.waiters.remove(waiter)
                if not obj.waiters:
                    obj.waiters = None
        if worker is not None and worker.status is WorkerStatus.BLOCKED:
            self.scheduler.worker_unblocked(now, worker)
        return self._done(now)

    def dropped_references(self, now: float, dropped: deque) -> list[Action]:
        """The program let go of ObjectRefs, handles or streams. dropped: a deque of their records, emptied here."""
        self.references.drop(now, dropped)
        return self._done(now)

    def take_freed(self) -> list:
        """Values that nobody can reach any more: the caller lets go of them after it has released the lock."""
        freed = self.references.freed
        if freed:
            self.references.freed = []
        return freed

    def object_spilled(self, now: float, obj: ObjectRecord) -> list[Action]:
        """A value stands in its file."""
        self.store.spilled(now, obj)
        return self._done(now)

    def spill_failed(self, now: float, obj: ObjectRecord, why: str) -> list[Action]:
        """A value could not be written to a file."""
        self.store.spill_failed(now, obj, why)
        return self._done(now)

    def object_restored(self, now: float, obj: ObjectRecord) -> list[Action]:
        """A spilled value was read from its file. It is in memory again when obj.done is READY then."""
        self.store.restored(now, obj)
        return self._done(now)

    def make_room(self, now: float, node: NodeRecord, size: int) -> list[Action]:
        """So many bytes are about to be stored on the node."""
        self.store.make_room(now, node, size)
        return self._done(now)

    def lose_object(self, now: float, obj: ObjectRecord) -> list[Action]:
        """A fault: every copy of a large value vanishes."""
        if self.store.lose(now, obj):
            self.events.add(now, "object_lost", f"object {obj.hex} was lost", obj)
            if obj.waiters or obj.dependents:
                self.task_manager.rebuild(now, obj)
        return self._done(now)

    # ------------------------------------------------------------ placement groups

    def create_placement_group(self, now: float, group: PlacementGroupRecord) -> list[Action]:
        """`placement_group` was called."""
        self.groups.create(now, group)
        return self._done(now)

    def remove_placement_group(self, now: float, group: PlacementGroupRecord) -> list[Action]:
        """`remove_placement_group` was called."""
        self.groups.remove(now, group)
        return self._done(now)
