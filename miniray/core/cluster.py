"""The cluster: the only entry point to the core.

Theory of operation. Each public method of `Cluster` is an event: it reports that something happened, at `now` seconds
on the runtime's clock. The method changes the tables and returns the actions that the runtime must carry out, in that
order. The caller holds the runtime's lock during the call, and carries out the actions after it has released the lock.

*An event is processed to its end.* Two worklists hold its consequences: `ready`, the objects whose waiters must still
be told, and `actions`, the answer so far. Both are empty between events. There is one exception: the hot paths report
`references_dropped` together with another event under the same lock, and the other event settles the consequences of
both.

*Late reports.* The core may declare a worker dead, and retry its task elsewhere, while the worker's thread is still
running. Therefore every event that a worker reports first asks whether the report still counts: the worker must not be
dead, and the task must still belong to the worker. Otherwise the event changes nothing.

*Components.* Each component of the core has one job and changes its own tables: the task manager (arguments, attempts,
retries), the scheduler (nodes and leases), the actor manager, the worker pool, ownership, the reference counter, the
object stores, the placement groups, the wake-ups. This module only decides which components an event concerns, and in
which order.

*The order* matters most when a worker reports the end of a task. The worker's CPU goes to one of three:

1. A task that waits for this very result, and has lent its CPU, takes the CPU back first (`_return_cpu`). Otherwise the
   next task in the queue would take it, and each nested wait would let one more task run than there are CPUs.
2. Otherwise the worker runs the next task of its scheduling class, under the lease that it has. It does so only if no
   other class is waiting (`Scheduler.worker_free`).
3. If no class is waiting at all, the worker is *vacant* until the event ends. A task that becomes ready through the
   result, as in a chain, runs on it without a new lease. `_reported` ends the lease of a worker that is still vacant.

`Scheduler.reporting` is the worker whose report is being handled. It finds its next task in `worker.task` when the
event returns, so it needs neither a RunTask action nor a wake-up. scheduler.py explains leases, `vacant` and
`reporting`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from .actions import Action, DropValues, KillWorker
from .actor_manager import ActorManager
from .object_store import INLINE_BYTES, ObjectStore, Stores
from .ownership import Ownership
from .placement_group import PlacementGroups
from .records import (
    ACTOR_TASK,
    DROPPED,
    ENDED,
    NORMAL_TASK,
    ActorRecord,
    Failure,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
    StreamRecord,
    TaskRecord,
    Waiter,
    WorkerRecord,
)
from .reference_counter import ReferenceCounter
from .scheduler import IDLE_SPARE, Scheduler
from .tables import Tables
from .task_events import History
from .task_manager import TaskManager
from .transitions import TaskStatus, WorkerStatus, move
from .wakeups import Wakeups
from .worker_pool import WorkerPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

NOTHING: list[Action] = []  # the answer of most events; nobody may append to it
DEAD = WorkerStatus.DEAD
PENDING_ARGS_AVAIL, PENDING_NODE_ASSIGNMENT = TaskStatus.PENDING_ARGS_AVAIL, TaskStatus.PENDING_NODE_ASSIGNMENT
Awaited = Iterable["ObjectRecord | StreamRecord"]


class Cluster(Tables):
    """All of the core's tables, and one method for every event that changes them.

    after_event: hooks for tests and fault injection. Each is called with `now` at the end of every event, when nothing
    more follows from it, and returns further actions. (While a worker reports, it is still `Scheduler.reporting`.) A
    hook may report events of its own; these do not call the hooks again.
    """

    def __init__(self, record_limit: int = 100_000):
        """record_limit: how many finished tasks are kept for the state rows."""
        super().__init__(record_limit)
        self.after_event: list[Callable[[float], list[Action]]] = []
        self.history = History(self, record_limit)
        self.wakeups = Wakeups(self)
        self.references = ReferenceCounter(self)
        self.store = Stores(self)
        self.scheduler = Scheduler(self)
        self.worker_pool = WorkerPool(self)
        self.ownership = Ownership(self)
        self.task_manager = TaskManager(self)
        self.actor_manager = ActorManager(self)
        self.groups = PlacementGroups(self)

    # ------------------------------------------------------------ the end of every event

    def _done(self, now: float) -> list[Action]:
        """Settle what is left, and return the event's actions. The caller must not change the list: it may be
        NOTHING."""
        if self.ready:
            self.wakeups.settle(now)
        if self.drained:
            self.ownership.settle(now)
        actions = self.actions
        if actions:
            self.actions = []
        else:
            actions = NOTHING
        if self.after_event:
            actions = self._call_hooks(now, actions)
        return actions

    def _call_hooks(self, now: float, actions: list[Action]) -> list[Action]:
        hooks, self.after_event = self.after_event, []  # an event that a hook reports must not call the hooks again
        try:
            for hook in tuple(hooks):
                actions = [*actions, *hook(now)]
        finally:
            self.after_event = hooks
        return actions

    # ------------------------------------------------------------ nodes

    def add_node(
        self,
        now: float,
        number: int,
        resources: dict[str, int],
        labels: dict[str, str] | None = None,
        store_bytes: int = 1 << 62,
        is_head: bool = False,
    ) -> tuple[NodeRecord, list[Action]]:
        """A node joins. resources: units by name. Returns the record of the node, and the actions."""
        node = NodeRecord(number, resources, labels or {}, is_head, ObjectStore(store_bytes), now)
        self.nodes[number] = node
        self.scheduler.node_joined(node)
        self.events.add(now, "node_joined", f"node {node.hex} joined", node)
        self.groups.retry(now)
        self.scheduler.retry_infeasible(now)
        return node, self._done(now)

    def remove_node(self, now: float, node: NodeRecord, why: str = "it was removed") -> list[Action]:
        """A node dies with everything on it: workers, actors, bundles, and the only copies of values."""
        if not node.alive:
            return self._done(now)
        node.alive, node.t_died, node.death_message = False, now, why
        self.scheduler.node_left(node)
        self.events.add(now, "node_died", f"node {node.hex}: {why}", node)
        # Nothing was waiting for the values that are lost now, because they had arrived. A task that needs one from now
        # on has it rebuilt.
        self.store.node_died(now, node)
        self.groups.node_died(node)  # before the workers die: nothing may be placed on the node from now on
        node.idle.clear()
        failure = Failure("NODE_DIED", f"the node {node.hex} it was on died: {why}", about=node)
        for worker in list(node.workers.values()):
            if worker.status is not DEAD:
                self.worker_pool.died(now, worker, failure)
        self.scheduler.review_classes(now)
        self.scheduler.resources_freed(now)  # tasks that preferred this node may now go to others
        return self._done(now)

    # ------------------------------------------------------------ workers

    def worker_started(self, now: float, worker: WorkerRecord) -> list[Action]:
        """A worker has started. If it was given a task, it finds the task in its record. The worker of an async actor
        gets its calls by RunTask."""
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
        else:
            self.actor_manager.worker_started(worker)
        return self._done(now)

    def worker_died(
        self, now: float, worker: WorkerRecord, failure: Failure, exit_type: str = "SYSTEM_ERROR"
    ) -> list[Action]:
        """A worker's thread has ended, or was made to end. Its task is retried or fails."""
        if worker.status is not DEAD:
            self.worker_pool.died(now, worker, failure, exit_type)
        return self._done(now)

    def blocked(self, now: float, worker: WorkerRecord) -> list[Action]:
        """A worker's task blocks: the worker lends its CPU."""
        if worker.status is WorkerStatus.LEASED:
            self.scheduler.worker_blocked(now, worker)
        return self._done(now)

    def unblocked(self, now: float, worker: WorkerRecord) -> list[Action]:
        """A worker's task resumes after it was blocked."""
        if worker.status is WorkerStatus.BLOCKED:
            self.scheduler.worker_unblocked(now, worker)
        return self._done(now)

    # ------------------------------------------------------------ tasks

    def submit_task(self, now: float, task: TaskRecord) -> list[Action]:
        """`.remote()` of a function was called. Each of task.returns has one reference, which belongs to the caller."""
        queue = task.spec.scheduling_class.queue
        if (
            queue
            and queue[0].status is PENDING_NODE_ASSIGNMENT
            and task.status is PENDING_ARGS_AVAIL
            and task.spec.num_returns == 1
            and task.owner is None
            and not task.deps
            and not task.contained
        ):  # the common case of a busy driver: `TaskManager.submit`, written out
            self.number = number = self.number + 1
            task.number, task.t_created = number, now
            self.tasks[number] = task
            key = number << 32 | 1
            self.objects[key] = obj = ObjectRecord(key, task)
            task.returns = (obj,)
            task.status, task.t_ready = PENDING_NODE_ASSIGNMENT, now
            queue.append(task)
        else:
            self.task_manager.submit(now, task)
        if self.ready or self.actions or self.drained or self.after_event:
            return self._done(now)
        return NOTHING

    def task_finished(
        self, now: float, worker: WorkerRecord, task: TaskRecord, sizes: Any, contained: Any = None
    ) -> list[Action]:
        """A worker reports that an attempt returned.

        sizes: bytes of each return value, in order. contained: for each value the tuple of records inside it, or None
        if there are none in any value. The runtime has put the values into `task.returns` under the same lock, after
        asking whether the report still counts (`TaskManager.is_current`). The worker finds its next task, if it has
        one, in `worker.task`. Ray: core_worker/task_manager.h, CompletePendingTask.
        """
        if worker.status is DEAD or task.worker is not worker:
            return self._done(now)
        kind = task.spec.kind
        if task.cancel_requested and kind == ACTOR_TASK:  # it returned, but Ray discards the value
            return self.task_failed(now, worker, task, Failure("TASK_CANCELLED", "it was cancelled", about=task), False)
        self.scheduler.reporting = worker
        worker.tasks_done += 1
        task.cancel_requested = False  # the task has returned in spite of the request
        if kind == NORMAL_TASK:
            if (
                task.returns
                and task.returns[0].waiters is not None
                and self._lent_for(task.returns[0].waiters)
                and not task.spec.max_calls
            ):
                self._return_cpu(now, worker, task, sizes, contained)
            else:  # free the worker first, so that a task which this result makes ready can run on it
                self.scheduler.worker_free(now, worker)
                self.task_manager.complete(now, task, sizes, contained)
            if self.groups.waiting:
                self.groups.retry(now)
        elif kind == ACTOR_TASK:
            self.task_manager.complete(now, task, sizes, contained)
            self.actor_manager.worker_free(now, worker, task)
            if task.t_finished:  # otherwise it already runs again, for a stream item that was lost meanwhile
                task.actor.calls.pop(task.number, None)
                if task.actor.out_of_scope:
                    self.actor_manager.end_if_unwanted(now, task.actor)
        else:
            self._constructed(now, worker, task)
        if self.ready:
            self.wakeups.settle(now)
        if worker.task is None or self.ready or self.actions or self.drained or self.after_event:
            return self._reported(now, worker)
        self.scheduler.reporting = None  # nothing follows, and the worker goes on: `_reported`, written out
        return NOTHING

    @staticmethod
    def _lent_for(waiters: list[Waiter]) -> bool:
        """Whether one of these waiters is a task that has lent its CPU."""
        for waiter in waiters:
            if waiter.worker is not None:
                return True
        return False

    def _return_cpu(self, now: float, worker: WorkerRecord, task: TaskRecord, sizes: Any, contained: Any) -> None:
        """Case 1 of the theory above: the waiting task takes its CPU back before the queues are looked at."""
        self.scheduler.worker_idle(worker)
        self.task_manager.complete(now, task, sizes, contained)
        self.wakeups.settle(now)
        if self.scheduler.waiting:
            self.scheduler.dispatch(now, worker.node)

    def _constructed(self, now: float, worker: WorkerRecord, task: TaskRecord) -> None:
        """A constructor returned: its actor is alive."""
        move(task, TaskStatus.FINISHED)
        task.t_finished = now
        worker.task = None
        actor = task.actor
        if not actor.max_restarts:  # no restart will need the constructor's arguments
            self.references.release_arguments(now, task)
        self.history.task_ended(task)
        self.actor_manager.created(now, actor)

    def _reported(self, now: float, worker: WorkerRecord) -> list[Action]:
        """The end of an event that a worker reported: settle its consequences, and end the lease of a vacant worker."""
        if self.ready:
            self.wakeups.settle(now)
        vacant = self.scheduler.vacant
        if vacant is not None:
            self.scheduler.vacate(now, vacant)
        if (
            worker.task is None
            and worker.actor is None
            and worker.status is WorkerStatus.IDLE
            and len(worker.node.idle) > IDLE_SPARE
        ):
            self.wakeups.settle(now)
            self.scheduler.retire_spare(now, worker.node)
        if self.ready or self.actions or self.drained or self.after_event:
            actions = self._done(now)
        else:
            actions = NOTHING
        self.scheduler.reporting = None
        return actions

    def task_failed(
        self, now: float, worker: WorkerRecord, task: TaskRecord, failure: Failure, retry: bool
    ) -> list[Action]:
        """A worker reports that an attempt raised. retry: whether the task's options allow a retry after this error."""
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
            if retry and not task.cancel_requested and self.task_manager.take_retry(task):
                self.actor_manager.retry_call(now, task, failure)
            else:
                self.task_manager.fail(now, task, failure)
            self.actor_manager.worker_free(now, worker, task)
        else:
            self.actor_manager.exited(
                now,
                worker,
                task,
                Failure("ACTOR_DIED", "its constructor failed", cause=failure, about=task.actor),
                may_restart=False,
                exit_type="USER_ERROR",
            )
        return self._reported(now, worker)

    def arguments_lost(self, now: float, worker: WorkerRecord, task: TaskRecord) -> list[Action]:
        """A worker reports that an argument of its task is lost, before it has entered the task's code.

        The worker does not wait for the argument: the task that rebuilds it may need this very worker, for example if
        it is an earlier call of the same actor.
        """
        if worker.status is DEAD or task.worker is not worker:
            return self._done(now)
        if task.cancel_requested:
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

    def stream_item(
        self, now: float, worker: WorkerRecord, task: TaskRecord, value: Any, size: int, contained: tuple[Any, ...] = ()
    ) -> list[Action]:
        """A generator yielded a value (opaque) of `size` bytes. contained: the records inside the value."""
        if self.task_manager.is_current(worker, task):
            self.task_manager.stream_item(now, task, value, size, contained)
        return self._done(now)

    def take_item(self, now: float, stream: StreamRecord) -> tuple[ObjectRecord | None, list[Action]]:
        """The program asks for the next item of a stream. A generator that waits for its consumer is woken.

        Returns the item's object, whose one reference belongs to the caller, or None if the item has not been yielded
        yet.
        """
        item = self.task_manager.take_item(stream)
        return item, self._done(now)

    def producer_waits(self, now: float, stream: StreamRecord, waiter: Waiter, worker: WorkerRecord) -> list[Action]:
        """A generator has yielded as much as its back-pressure allows: it waits until the program takes an item."""
        stream.producer_waiter = waiter
        return self.blocked(now, worker) if worker.actor is None else self._done(now)

    def cancel(self, now: float, task: TaskRecord, force: bool, recursive: bool) -> list[Action]:
        """`cancel` was called. recursive: cancel the tasks that this task has submitted, too."""
        self.task_manager.cancel(now, task, force, recursive)
        return self._done(now)

    def timer(self, now: float) -> list[Action]:
        """The time of a CallLater action has come."""
        self.task_manager.give_up_interrupted(now)
        self.ownership.time_is_up(now)
        return self._done(now)

    # ------------------------------------------------------------ actors

    def create_actor(self, now: float, actor: ActorRecord, creation: TaskRecord) -> list[Action]:
        """`.remote()` of an actor class was called. Raises actor_manager.NameTaken; then nothing has changed."""
        self.actor_manager.create(now, actor, creation)
        return self._done(now)

    def submit_actor_task(self, now: float, task: TaskRecord) -> list[Action]:
        """`.remote()` of a method was called. Each of task.returns has one reference, which belongs to the caller."""
        self.actor_manager.submit(now, task)
        if self.ready or self.actions or self.drained or self.after_event:
            return self._done(now)
        return NOTHING

    def kill_actor(self, now: float, actor: ActorRecord, no_restart: bool = True) -> list[Action]:
        """`kill` was called. no_restart: whether the actor ends even if it has restarts left."""
        self.actor_manager.died(
            now,
            actor,
            Failure("ACTOR_DIED", "it was killed by `ray.kill`", about=actor),
            may_restart=not no_restart,
            exit_type="INTENDED_SYSTEM_EXIT",
        )
        return self._done(now)

    def actor_exited(
        self, now: float, worker: WorkerRecord, task: TaskRecord, why: str, error: bool = False
    ) -> list[Action]:
        """The actor in this worker ended itself in a call, or in its constructor (`task`).

        error: the end counts as an error, after which the actor is restarted if it has restarts left.
        """
        if worker.status is not DEAD:
            actor = worker.actor
            cause = Failure("WORKER_DIED", why, about=worker) if error else None
            self.actor_manager.exited(
                now,
                worker,
                task,
                Failure("ACTOR_DIED", why, cause=cause, about=actor),
                may_restart=error,
                exit_type="SYSTEM_ERROR" if error else "INTENDED_USER_EXIT",
            )
        return self._done(now)

    # ------------------------------------------------------------ objects

    def put(self, now: float, obj: ObjectRecord, size: int, node: NodeRecord | None) -> list[Action]:
        """A value was put. The runtime has stored it in obj.value, and obj is READY. The caller has its one
        reference. node: where a large value is stored; not used for a small one."""
        self.number += 1
        obj.number = self.number << 32 | 0x8000_0001
        if obj.owner is not None:
            obj.owner.owns = True
        obj.t_created = obj.t_ready = now
        obj.size = size
        for inner in obj.contained:
            inner.held += 1
        self.objects[obj.number] = obj
        if size > INLINE_BYTES:
            self.store.created(now, obj, node)
        if self.ready or self.actions or self.drained or self.after_event:
            return self._done(now)
        return NOTHING

    def wait_for(
        self, now: float, waiter: Waiter, objects: Awaited, worker: WorkerRecord | None = None
    ) -> list[Action]:
        """A thread or a callback waits for these. worker: the worker whose task waits, if it lends its CPU."""
        self.wakeups.attach(now, waiter, objects, worker)
        return self._done(now)

    def stop_waiting(
        self, now: float, waiter: Waiter, objects: Awaited, worker: WorkerRecord | None = None
    ) -> list[Action]:
        """A waiter was woken or has given up. worker: as in `wait_for`."""
        self.wakeups.detach(now, waiter, objects, worker)
        return self._done(now)

    def references_dropped(self, now: float, dropped: deque[Any]) -> None:
        """The program dropped ObjectRefs, handles or streams. dropped: a deque of their records, which this method
        empties.

        Returns nothing: before the caller releases the lock it must report another event, or call `settled`.
        """
        gone = []
        while dropped:
            record = dropped.popleft()
            if type(record) is StreamRecord:
                self.references.drop_stream(now, record)
                continue
            record.refs -= 1
            if not (record.refs or record.uses or record.held):
                gone.append(record)
        if gone:
            self.references.release(now, gone)

    def settled(self, now: float) -> list[Action]:
        """Nothing else has happened: settle the consequences of `references_dropped`."""
        return self._done(now)

    def add_reference(self, now: float, record: ObjectRecord) -> None:
        """The program has one more ObjectRef or handle that refers to the record."""
        record.refs += 1

    def add_weak_reference(self, now: float, actor: ActorRecord) -> ObjectRecord:
        """The program has one more handle of the kind that does not keep its actor alive. Returns the record that the
        handle refers to; it is passed on, copied and dropped like any other."""
        record: ObjectRecord = self.actor_manager.weak_handle(now, actor)
        record.refs += 1
        return record

    def object_used(self, now: float, obj: ObjectRecord, node: NodeRecord) -> list[Action]:
        """A large value was read on this node, so the node has a copy now."""
        self.store.fetched(now, obj, node)
        return self._done(now)

    def object_spilled(self, now: float, obj: ObjectRecord) -> list[Action]:
        """A value was written to its file. The runtime has put its name for the file into obj.value."""
        self.store.spilled(now, obj)
        return self._done(now)

    def spill_failed(self, now: float, obj: ObjectRecord, why: str) -> list[Action]:
        """A value could not be written to its file: it stays in memory."""
        self.store.spill_failed(now, obj, why)
        return self._done(now)

    def object_restored(self, now: float, obj: ObjectRecord) -> list[Action]:
        """A spilled value was read from its file. If obj.status is READY afterwards, the value is in memory again."""
        self.store.restored(now, obj)
        return self._done(now)

    def restore_failed(self, now: float, obj: ObjectRecord, why: str) -> list[Action]:
        """The file of a spilled value cannot be read: the value is lost."""
        self.events.add(now, "restore_failed", f"object {obj.hex} could not be restored: {why}", obj)
        return self.lose_object(now, obj)

    def make_room(self, now: float, node: NodeRecord, size: int) -> list[Action]:
        """The runtime is about to store `size` bytes on the node."""
        self.store.make_room(now, node, size)
        return self._done(now)

    def lose_object(self, now: float, obj: ObjectRecord) -> list[Action]:
        """A fault: every copy of a large value vanishes. The value is rebuilt when somebody needs it."""
        if self.store.lose(now, obj):
            self.events.add(now, "object_lost", f"object {obj.hex} was lost", obj)
        return self._done(now)

    # ------------------------------------------------------------ placement groups

    def create_placement_group(self, now: float, group: PlacementGroupRecord) -> list[Action]:
        """`placement_group` was called. Raises actor_manager.NameTaken; then nothing has changed."""
        self.groups.create(now, group)
        return self._done(now)

    def placement_group_ready(
        self, now: float, group: PlacementGroupRecord, value: Any
    ) -> tuple[ObjectRecord, list[Action]]:
        """`ready()` of a group was called. value: opaque, what the object holds once the group is placed.

        Returns the object that becomes ready with the group. The caller gets one reference to it.
        """
        return self.groups.ready_object(now, group, value), self._done(now)

    def remove_placement_group(self, now: float, group: PlacementGroupRecord) -> list[Action]:
        """`remove_placement_group` was called. Whatever runs in the group ends."""
        self.groups.remove(now, group)
        return self._done(now)

    # ------------------------------------------------------------ the end of the session

    def session_ending(self, now: float, waiters: Iterable[Waiter]) -> list[Action]:
        """The session is being shut down. From now on the core ignores the reports of workers, and nothing is retried.

        waiters: those that are attached to no object and must be woken as well. Returns a Wake for each of them, and
        then a KillWorker for each worker that was alive.
        """
        for waiter in waiters:
            self.wakeups.wake(waiter)
        for worker in self.workers.values():
            if worker.status is not DEAD:
                move(worker, DEAD)
                self.actions.append(KillWorker(worker))
        return self._done(now)

    def session_ended(self, now: float) -> list[Action]:
        """The workers have been told to end. Every value is dropped, and every remaining waiter is woken."""
        values = []
        for obj in self.objects.values():
            values.append(obj.value)
            obj.value = DROPPED
            move(obj, ENDED)
        self.actions.append(DropValues(values))
        self.wakeups.wake_all()
        return self._done(now)
