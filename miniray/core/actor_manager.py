"""The actor manager: actors from their creation to their death, their calls, restarts and names.

Theory of operation.

*Creation.* An actor is a worker of its own, in which its calls run. `create` makes the actor's record, the object that
all its handles refer to, and a task for the constructor. The scheduler places that task like any other, but always in a
new worker, and the lease lasts for the actor's whole life. Calls that are submitted before the constructor has returned
wait in their queue; `created` starts them.

*Order.* A plain actor runs one call at a time, and the calls of each caller in the order of their submission. So its
queue also holds calls that wait for arguments: such a call blocks the later calls of the same caller, but not those of
others (`_overtaking`). Two callers may wait for each other's calls; an order between callers would turn that into a
deadlock.

*Concurrency.* Each concurrency group has a queue, a limit, and workers (threads) up to that limit, which are added when
calls need them. There is no order among the calls of a concurrent actor: a call joins its queue when its arguments are
ready. A group of an async actor has one worker, an event loop that runs up to `limit` coroutines of the group at once.
The worker of the default group runs the constructor, too. So a call that blocks its loop holds up its own group only,
as in Ray.

*Restarts.* When the actor's worker dies, `died` ends all its workers. If the actor has restarts left, it becomes
RESTARTING, and its constructor runs again as a further attempt of the same task. Calls that were never sent keep their
place in the queue. Calls that were sent are retried if they have retries left, and otherwise fail with
ACTOR_UNAVAILABLE (`_retry_or_fail_calls`). New calls wait until the actor is ALIVE again.

*Handles.* Every handle refers to an object, which counts it (`reference_counter`). A handle that was found by the
actor's name, or by the actor itself, is weak, as in Ray, and so are its copies, wherever they are sent: it refers to a
second object, `weak_handle`, which does not keep the actor alive. A call that was made through it does, until it has
ended.

*Death.* An actor ends for one of these reasons: its last handle was dropped and its last call has ended
(`end_if_unwanted`); it was killed; it called exit_actor; its constructor raised, or has an argument that is an error;
its worker died and no restart is left; its owner died and it is not detached. If it ended itself, it lives on without
taking calls until the work that it has submitted is done (`exited`; see `ownership`). Its unfinished calls fail with
the reason, and so does every later call (`submit`). Its name is free again. The record stays for the state rows, up to
`dead_kept` records.

*After death.* A finished call whose value is in an object store can be needed again: its value may be lost.
`ActorRecord.lineage` counts such calls. An actor that died because nobody held it, and has restarts left, is restarted
to rebuild such a value (`revive`), so the arguments of its constructor are kept as long as there is lineage.

Ray: gcs/gcs_actor_manager.h, core_worker/task_submission/actor_task_submitter.h.
"""

from __future__ import annotations

from collections.abc import Iterable

from .actions import RunTask, StartWorker
from .records import (
    ACTOR_CREATION_TASK,
    NO_DEVICES,
    READY,
    ActorRecord,
    ConcurrencyGroup,
    Failure,
    ObjectRecord,
    TaskRecord,
    WorkerRecord,
)
from .tables import Tables
from .transitions import ActorStatus, TaskStatus, WorkerStatus, move

PENDING_ARGS_AVAIL, PENDING_NODE = TaskStatus.PENDING_ARGS_AVAIL, TaskStatus.PENDING_NODE_ASSIGNMENT
SUBMITTED = TaskStatus.SUBMITTED_TO_WORKER
ALIVE, DEAD, RESTARTING = ActorStatus.ALIVE, ActorStatus.DEAD, ActorStatus.RESTARTING
UNWANTED = "all references to the actor were removed"  # the reason of an end, for errors and state rows
DEAD_KEPT = 100_000  # Ray: maximum_gcs_destroyed_actor_cached_count
MOST_FAILED_STARTS = 100  # so many workers in a row may die in the constructor if restarts have no limit


class NameTaken(Exception):
    """Another living actor has this name in this namespace."""


class ActorManager:
    """Creates, runs and ends actors, and knows the names of the living. The records are in `Tables.actors`."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.names: dict[tuple[str, str], ActorRecord] = {}  # (namespace, name) -> an actor that is not DEAD
        self.dead: dict[int, ActorRecord] = {}  # the last `dead_kept` dead actors, oldest first
        self.dead_kept = DEAD_KEPT

    # ------------------------------------------------------------ creation

    def create(self, now: float, actor: ActorRecord, creation: TaskRecord) -> None:
        """Create an actor and submit its constructor, the task `creation`. The handle has one reference, which belongs
        to the caller. Raises NameTaken, and then changes nothing."""
        cluster = self.cluster
        if actor.name:
            key = actor.namespace, actor.name
            if key in self.names:
                raise NameTaken(actor.name)
            self.names[key] = actor
        cluster.number = actor.number = cluster.number + 1
        actor.t_created = now
        actor.creation, creation.actor, actor.owner = creation, actor, creation.owner
        if actor.owner is not None:
            actor.owner.owns = True
        handle = ObjectRecord(actor.number << 32 | 1, owner=actor.owner, actor=actor, status=READY)
        actor.handle = handle
        handle.t_created = now
        cluster.objects[handle.number] = handle
        cluster.actors[actor.number] = actor
        cluster.task_manager.register(now, creation)
        if not creation.pending:
            cluster.task_manager.arguments_ready(now, creation)

    def constructor_ready(self, now: float, actor: ActorRecord) -> None:
        """The arguments of the constructor are ready: the scheduler may place the actor."""
        if actor.status is ActorStatus.DEPENDENCIES_UNREADY:
            move(actor, ActorStatus.PENDING_CREATION)

    def placed(self, now: float, actor: ActorRecord, worker: WorkerRecord) -> None:
        """The scheduler has leased a worker for the constructor. The actor keeps the lease until it dies."""
        actor.worker, actor.node, actor.lease, actor.devices = worker, worker.node, worker.lease, worker.devices
        group = actor.groups[""]
        worker.group = group
        group.workers.append(worker)

    def created(self, now: float, actor: ActorRecord) -> None:
        """The constructor has returned: start the calls that wait."""
        move(actor, ALIVE)
        actor.t_alive = now
        actor.failed_starts = 0
        group = actor.groups[""]
        if not actor.is_async:
            group.idle.append(actor.worker)
        for task in actor.calls.values():
            if task.status is PENDING_NODE:
                move(task, SUBMITTED)
        for group in actor.groups.values():
            self._start_calls(now, actor, group)
        self.end_if_unwanted(now, actor)

    # ------------------------------------------------------------ calls

    def submit(self, now: float, task: TaskRecord) -> None:
        """Submit a method call: start it, or put it into a queue. A call of a dead actor fails at once."""
        actor, cluster = task.actor, self.cluster
        if task.spec.num_returns == 1 and task.owner is None and not task.deps and not task.contained:
            cluster.number = number = cluster.number + 1  # the common case: `register`, written out
            task.number, task.t_created = number, now
            cluster.tasks[number] = task
            key = number << 32 | 1
            cluster.objects[key] = obj = ObjectRecord(key, task)
            task.returns = (obj,)
        else:
            cluster.task_manager.register(now, task)
        if actor.status is DEAD:
            cluster.task_manager.fail(now, task, actor.failure)
            return
        actor.calls[task.number] = task
        group = actor.groups.get(task.spec.group)
        if group is None:  # an unknown group: the worker that runs the call will die of it, as in Ray
            group = actor.groups[task.spec.group] = ConcurrencyGroup(task.spec.group, 1)
        if task.deps:
            self._enqueue(now, actor, task)
            return
        group.queue.append(task)  # the common case: `call_ready`, written out
        task.t_ready = now
        if task.status is PENDING_ARGS_AVAIL:  # `move`, written out
            task.status = PENDING_NODE
        if actor.status is ALIVE:
            if task.status is PENDING_NODE:  # `move`, written out
                task.status = SUBMITTED
            if group.running < group.limit:
                self._start_calls(now, actor, group, task)

    def _enqueue(self, now: float, actor: ActorRecord, task: TaskRecord, before_later_calls: bool = False) -> None:
        """Put a call into its queue, and start it if it is ready. The caller has counted its missing arguments.

        before_later_calls: the call was submitted before others that may be in the queue, and goes in front of those.
        """
        group = actor.groups[task.spec.group]
        if actor.in_order:  # now, even if the call waits for arguments: this keeps the order
            queue, place = group.queue, len(group.queue)
            while before_later_calls and place and queue[place - 1].number > task.number:
                place -= 1
            queue.insert(place, task)
        if not task.pending:
            if task.deps:
                self.cluster.task_manager.arguments_ready(now, task)
            else:
                self.call_ready(now, task)

    def call_again(self, now: float, task: TaskRecord) -> None:
        """Queue a finished call once more, to rebuild a lost value. It goes in front of later calls: one of them may be
        waiting for that value and block the queue. The call fails if the actor was revived for it and is dead again: an
        argument of the constructor may have become an error."""
        actor = task.actor
        if actor.status is DEAD:
            self.cluster.task_manager.fail(now, task, actor.failure)
            return
        actor.calls[task.number] = task
        self._enqueue(now, actor, task, before_later_calls=True)

    def call_not_begun(self, now: float, worker: WorkerRecord, task: TaskRecord) -> None:
        """A worker found an argument of its call lost: the call waits again, in front of later calls."""
        self._enqueue(now, task.actor, task, before_later_calls=True)
        task.actor.tasks_done -= 1
        self.worker_free(now, worker, task)

    def call_ready(self, now: float, task: TaskRecord) -> None:
        """The arguments of a call are ready: start it, or let it wait for its turn."""
        actor = task.actor
        group = actor.groups[task.spec.group]
        if not actor.in_order:
            group.queue.append(task)
        task.t_ready = now
        move(task, PENDING_NODE)
        if actor.status is ALIVE:
            move(task, SUBMITTED)
            if group.running < group.limit:
                self._start_calls(now, actor, group, task)

    def _start_calls(
        self, now: float, actor: ActorRecord, group: ConcurrencyGroup, newly_ready: TaskRecord | None = None
    ) -> None:
        """Start the calls at the head of the group's queue, up to its limit.

        newly_ready: the call that became ready, if nothing else has changed since the last look. If it waits behind a
        call of the same caller, no other call can start either, and the queue need not be searched.
        """
        queue = group.queue
        if actor.drain is not None:
            return  # it has ended itself
        while queue and group.running < group.limit and actor.status is ALIVE:
            task = queue[0]
            if task.status is not SUBMITTED:
                if task.status is not PENDING_ARGS_AVAIL:
                    queue.popleft()  # it has failed: cancelled, or an argument is an error
                    continue
                if newly_ready is not None and newly_ready.owner is task.owner:
                    return
                overtaking = self._overtaking(queue)
                if overtaking is None:
                    return
                task = overtaking
                queue.remove(task)
            else:
                queue.popleft()
            group.running += 1
            if actor.is_async:
                worker = group.workers[0] if group.workers else self._add_worker(now, actor, group)
                self._start_coroutine(now, task, worker)
                continue
            worker = group.idle.pop() if group.idle else self._add_worker(now, actor, group)
            task.t_leased, task.worker, task.node = now, worker, worker.node
            worker.task = task
            for dep in task.deps:
                if dep.locations is not None:
                    self.cluster.store.fetched(now, dep, worker.node)
            # A worker that reports, or that has not started yet, looks for its next call in its record.
            if worker is not self.cluster.scheduler.reporting and worker.status is not WorkerStatus.STARTING:
                self.cluster.actions.append(RunTask(worker, task))

    @staticmethod
    def _overtaking(queue: Iterable[TaskRecord]) -> TaskRecord | None:
        """The first call that may run while the head of the queue waits for arguments: none of its caller's earlier
        calls waits for any. As in Ray, order is kept among the calls of each caller, not between callers."""
        waiting = set()  # callers; only looked up, never iterated over
        for task in queue:
            if task.status is PENDING_ARGS_AVAIL:
                waiting.add(task.owner)
            elif task.status is SUBMITTED and task.owner not in waiting:
                return task
        return None

    def _add_worker(self, now: float, actor: ActorRecord, group: ConcurrencyGroup) -> WorkerRecord:
        """Have one more worker started for the group."""
        worker: WorkerRecord = self.cluster.worker_pool.new(now, actor.node, actor)
        worker.group = group
        group.workers.append(worker)
        self.cluster.actions.append(StartWorker(worker))
        return worker

    def _start_coroutine(self, now: float, task: TaskRecord, worker: WorkerRecord) -> None:
        """Give a call to a worker of an async actor. Such a worker runs many calls at once, so each is handed to it; if
        the worker has not started yet, `worker_started` does that."""
        task.t_leased, task.worker, task.node = now, worker, worker.node
        worker.running[task.number] = task
        for dep in task.deps:
            if dep.locations is not None:
                self.cluster.store.fetched(now, dep, worker.node)
        if worker.status is not WorkerStatus.STARTING:
            self.cluster.actions.append(RunTask(worker, task))

    def worker_started(self, worker: WorkerRecord) -> None:
        """A worker of an actor has started. Hand it the calls that it was given meanwhile, if it is an event loop."""
        for task in worker.running.values():
            self.cluster.actions.append(RunTask(worker, task))

    def worker_free(self, now: float, worker: WorkerRecord, task: TaskRecord) -> None:
        """A call has ended in this worker: start the next call of the group."""
        actor = worker.actor
        if worker.status is WorkerStatus.DEAD or actor.status is DEAD:
            return  # the end of the call was also the end of the actor
        group = actor.groups[task.spec.group]
        actor.tasks_done += 1
        queue = group.queue
        if (
            actor.in_order
            and queue
            and queue[0].status is SUBMITTED
            and not queue[0].deps
            and actor.drain is None
            and worker is self.cluster.scheduler.reporting
        ):  # the worker goes on with the next call: `_start_calls`, written out
            following = queue.popleft()
            following.t_leased, following.worker, following.node = now, worker, worker.node
            worker.task = following
            return
        group.running -= 1
        worker.task = None
        if actor.is_async:
            worker.running.pop(task.number, None)
        else:
            group.idle.append(worker)
        if queue:
            self._start_calls(now, actor, group)
        if actor.drain is not None:
            self.cluster.drained.append(actor.drain)

    def call_over(self, now: float, task: TaskRecord) -> None:
        """A call has failed, perhaps before it was sent. Start the calls that it blocked; end the actor if it was the
        last call of an actor that nobody holds."""
        actor = task.actor
        if actor.calls.pop(task.number, None) is None:
            return
        if actor.in_order and actor.status is ALIVE:
            group = actor.groups[""]
            if group.queue and group.running < group.limit:
                self._start_calls(now, actor, group)
        if actor.out_of_scope:
            self.end_if_unwanted(now, actor)

    # ------------------------------------------------------------ death

    def last_handle_dropped(self, now: float, actor: ActorRecord) -> None:
        """Nobody holds a handle any longer: the actor ends when its unfinished calls have ended."""
        objects = self.cluster.objects
        handle: ObjectRecord = actor.handle
        if objects.get(handle.number) is not handle:
            return  # the handle belongs to a session that has ended
        if actor.status is DEAD:
            del objects[handle.number]
            self._forget_class(actor)
            return
        actor.out_of_scope = True
        self.end_if_unwanted(now, actor)

    def weak_handle(self, now: float, actor: ActorRecord) -> ObjectRecord:
        """The object that counts the actor's weak handles. The caller counts a reference to it at once."""
        objects = self.cluster.objects
        record: ObjectRecord | None = actor.weak_handle
        if record is None:
            record = ObjectRecord(actor.number << 32 | 2, owner=actor.owner, actor=actor, refs=0, status=READY)
            record.t_created = now
            actor.weak_handle = objects[record.number] = record
        return record

    def last_weak_handle_dropped(self, record: ObjectRecord) -> None:
        """Nobody holds a weak handle any longer. The actor lives on."""
        actor = record.actor
        if actor.weak_handle is not record or self.cluster.objects.pop(record.number, None) is not record:
            return  # the handle belongs to a session that has ended
        actor.weak_handle = None
        if actor.status is DEAD:
            self._forget_class(actor)

    @staticmethod
    def _wanted(actor: ActorRecord) -> bool:
        """Whether somebody holds a handle, the actor is detached, or it has unfinished calls."""
        handle = actor.handle
        return bool(handle.refs or handle.uses or handle.held or actor.detached or actor.calls)

    def end_if_unwanted(self, now: float, actor: ActorRecord) -> None:
        """End an actor that nobody holds and that has no unfinished calls. Called when either may just have changed."""
        handle = actor.handle
        if handle.refs or handle.uses or handle.held:
            actor.out_of_scope = False  # somebody got a new handle by the actor's name (get_if_exists)
            return
        if self._wanted(actor) or actor.status is DEAD or not actor.out_of_scope:
            return
        if actor.status is not ALIVE and actor.worker is not None and actor.drain is None:
            return  # its constructor runs; `created` comes here again when it has returned
        self.died(
            now,
            actor,
            Failure("ACTOR_DIED", UNWANTED, about=actor),
            False,
            exit_type="INTENDED_SYSTEM_EXIT",
            unwanted=True,
        )

    def exited(
        self,
        now: float,
        worker: WorkerRecord,
        task: TaskRecord,
        failure: Failure,
        may_restart: bool,
        exit_type: str,
    ) -> None:
        """The actor ended itself in this call, or its constructor failed. It dies, or restarts, when the work that it
        has submitted and its other running calls are over: at once, if there are none."""
        cluster, actor = self.cluster, worker.actor
        workers = [worker for group in actor.groups.values() for worker in group.workers]
        constructs = task.spec.kind == ACTOR_CREATION_TASK
        # This call counts as running until the actor has died. It is no reason to wait.
        if not constructs:
            actor.groups[task.spec.group].running -= 1
        waits = actor.drain is not None or cluster.ownership.drain(now, workers, failure, exit_type, actor, may_restart)
        if not constructs:
            actor.groups[task.spec.group].running += 1
        if not waits:
            worker.task = None
            self.died(now, actor, failure, may_restart, exit_type)
        elif not constructs:
            self.worker_free(now, worker, task)
            self._fail_or_retry_sent(now, actor, task, "ending", failure)
        elif not may_restart:  # otherwise the constructor will run again, and is unfinished until then
            worker.task = None
            cluster.task_manager.fail(now, task, failure)

    def died(
        self,
        now: float,
        actor: ActorRecord,
        failure: Failure,
        may_restart: bool,
        exit_type: str = "SYSTEM_ERROR",
        unwanted: bool = False,
    ) -> None:
        """End the actor's workers. Then restart the actor if it may and has restarts left; otherwise declare it dead.

        failure: the reason. exit_type: of its workers, see WorkerRecord. unwanted: the actor ends because nobody holds
        it; then it can be revived to rebuild a result (see above). Does nothing to a dead actor.
        """
        if actor.status is DEAD or may_restart and actor.status is ActorStatus.DEPENDENCIES_UNREADY:
            return  # nothing of it runs yet that could be ended and restarted; as in Ray
        cluster = self.cluster
        if actor.drain is not None:
            may_restart = may_restart and actor.drain.may_restart  # it may have ended itself for good already
            cluster.ownership.forget(actor.drain)
        workers = [worker for group in actor.groups.values() for worker in group.workers]
        for group in actor.groups.values():
            group.workers, group.idle, group.running = [], [], 0
            group.queue.clear()
        node_alive = actor.node is None or actor.node.alive
        drains = unwanted and cluster.ownership.drain(now, workers, failure, exit_type, limited=True)
        for worker in workers:
            if drains:  # the call that is just ending may be the last
                worker.task = None
                worker.running.clear()
            else:
                cluster.worker_pool.end(now, worker, failure, exit_type)
        if actor.status is not ALIVE and actor.creation.worker is not None:
            actor.failed_starts += 1
        # An actor whose constructor crashes each time would restart forever, and its calls would never be answered.
        endless = actor.max_restarts < 0 and actor.failed_starts < MOST_FAILED_STARTS
        restarts_left = endless or actor.restarts < actor.max_restarts
        restart = may_restart and restarts_left and self._wanted(actor)
        may_revive = (may_restart or unwanted) and restarts_left and actor.lineage
        creation = actor.creation
        actor.worker = actor.node = actor.lease = None
        actor.devices = NO_DEVICES
        if restart:
            move(actor, RESTARTING)
            actor.restarts += 1
            cluster.events.add(now, "actor_restarting", f"{actor.class_name}: {failure.message}", actor)
            self._retry_or_fail_calls(now, actor, failure)
            # If the constructor has no worker, it waits for a node already. If the actor is DEAD by now, the failure of
            # its last call has ended it.
            if creation.worker is not None and actor.status is RESTARTING:
                cluster.task_manager.again(now, creation, failure)
        else:
            move(actor, DEAD)
            actor.failure, actor.t_died = failure, now
            if actor.name and self.names.get((actor.namespace, actor.name)) is actor:
                del self.names[actor.namespace, actor.name]
            cluster.events.add(now, "actor_died", f"{actor.class_name}: {failure.message}", actor)
            if not creation.t_finished:
                cluster.task_manager.fail(now, creation, failure)
            elif creation.args is not None and not may_revive:
                cluster.references.release_arguments(now, creation)
            for task in list(actor.calls.values()):
                if task.status not in (TaskStatus.FINISHED, TaskStatus.FAILED):
                    cluster.task_manager.fail(now, task, failure)
            actor.calls.clear()
            handle = actor.handle
            if not (handle.refs or handle.uses or handle.held):  # nobody is left to drop the handle
                cluster.objects.pop(handle.number, None)
                self._forget_class(actor)
            self._keep_dead(actor)
        if not drains:
            for worker in workers:
                cluster.ownership.owner_gone(now, worker)
        if node_alive:
            cluster.scheduler.resources_freed(now)

    def can_revive(self, actor: ActorRecord) -> bool:
        """Whether the actor is not dead, or can be revived: the arguments of its constructor were kept for that."""
        return actor.status is not DEAD or actor.creation.args is not None

    def revive(self, now: float, actor: ActorRecord) -> None:
        """Restart a dead actor that nobody holds, to rebuild a value that one of its calls made, as Ray does."""
        if self.dead.pop(actor.number, None) is None:
            self.cluster.dropped["actors"] -= 1  # its record had been dropped
            self.cluster.totals.actor_dropped(actor, -1)
        self.cluster.actors[actor.number] = actor
        failure, actor.failure, actor.t_died = actor.failure, None, 0.0
        move(actor, RESTARTING)
        actor.restarts += 1
        self.cluster.events.add(
            now, "actor_restarting", f"{actor.class_name}: one of its results was lost and is needed", actor
        )
        self.cluster.task_manager.again(now, actor.creation, failure)

    def lineage_released(self, now: float, actor: ActorRecord) -> None:
        """One finished call less can run again. With the last one, the actor can no longer be revived."""
        actor.lineage -= 1
        if not actor.lineage and actor.status is DEAD and actor.creation.args is not None:
            self.cluster.references.release_arguments(now, actor.creation)
            self._forget_class(actor)

    def _forget_class(self, actor: ActorRecord) -> None:
        """Drop the class of an actor that is dead forever and that nobody can call. The rest of the record stays."""
        gone = actor.handle.number not in self.cluster.objects and actor.weak_handle is None
        if gone and not self.can_revive(actor):
            self.cluster.references.freed.append(actor.meta)
            actor.meta = None

    def _retry_or_fail_calls(self, now: float, actor: ActorRecord, failure: Failure) -> None:
        """Decide about the unfinished calls of an actor that restarts, in order of submission. A call that was sent to
        the dead worker is retried if it has retries left, and fails otherwise. A call counts as sent if the actor was
        ALIVE, even if it was still in our queue: in Ray, that queue is in the worker and dies with it."""
        for task in sorted(actor.calls.values(), key=lambda call: call.number):
            if task.pending or task.status is PENDING_NODE:  # it was never sent: it keeps its place and its retries
                if actor.in_order or not task.pending:
                    actor.groups[task.spec.group].queue.append(task)
                continue
            self._fail_or_retry_sent(now, actor, task, "restarting", failure)

    def _fail_or_retry_sent(self, now: float, actor: ActorRecord, task: TaskRecord, what: str, why: Failure) -> None:
        """A call cannot be answered, since its actor is restarting or ending (what). It waits for the restarted actor
        if it has retries left, and fails otherwise."""
        unavailable = Failure("ACTOR_UNAVAILABLE", f"the actor is {what}: {why.message}", cause=why, about=actor)
        if task.cancel_requested or not self.cluster.task_manager.take_retry(task):
            self.cluster.task_manager.fail(now, task, unavailable)
            return
        self.cluster.task_manager.again(now, task, unavailable)
        self._enqueue(now, actor, task)

    def retry_call(self, now: float, task: TaskRecord, failure: Failure) -> None:
        """Retry a call that raised, in the living actor and in front of all other calls of its group."""
        actor = task.actor
        self.cluster.task_manager.again(now, task, failure)
        group = actor.groups[task.spec.group]
        if not task.pending:
            task.t_ready = now
            move(task, PENDING_NODE)
            move(task, SUBMITTED)
            group.queue.appendleft(task)
        elif actor.in_order:  # an argument was lost meanwhile: the later calls of the same caller wait, too
            group.queue.appendleft(task)

    def _keep_dead(self, actor: ActorRecord) -> None:
        """Keep the record of a dead actor, and drop the oldest one if there are too many."""
        self.dead[actor.number] = actor
        if len(self.dead) > self.dead_kept:
            number = next(iter(self.dead))
            dropped = self.dead.pop(number)
            self.cluster.actors.pop(number, None)
            self.cluster.dropped["actors"] += 1
            self.cluster.totals.actor_dropped(dropped)

    def find(self, name: str, namespace: str) -> ActorRecord | None:
        """The actor of this name that is not dead, or None."""
        return self.names.get((namespace, name))
