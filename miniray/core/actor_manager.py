"""The actor manager: actors from their creation to their death, their queues, restarts and names.

An actor is a worker of its own, in which calls run one at a time in the order of submission, or several at once where it was
made so. Ray: gcs/gcs_actor_manager.h, core_worker/task_submission/actor_task_submitter.h.
"""

from __future__ import annotations

from collections.abc import Iterable

from .actions import RunTask, StartWorker
from .records import READY, ActorRecord, ConcurrencyGroup, Failure, ObjectRecord, TaskRecord, WorkerRecord
from .tables import Tables
from .transitions import ActorStatus, TaskStatus, WorkerStatus, move

PENDING_ARGS_AVAIL, PENDING_NODE = TaskStatus.PENDING_ARGS_AVAIL, TaskStatus.PENDING_NODE_ASSIGNMENT
SUBMITTED = TaskStatus.SUBMITTED_TO_WORKER
ALIVE, DEAD, RESTARTING = ActorStatus.ALIVE, ActorStatus.DEAD, ActorStatus.RESTARTING
DEAD_KEPT = 100_000  # Ray: maximum_gcs_destroyed_actor_cached_count


class NameTaken(Exception):
    """Another living actor has this name in this namespace."""


class ActorManager:
    """The actors, and who is called what."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.names: dict[tuple[str, str], ActorRecord] = {}
        self.dead: dict[int, ActorRecord] = {}  # oldest first
        self.dead_kept = DEAD_KEPT

    # ------------------------------------------------------------ birth

    def create(self, now: float, actor: ActorRecord, creation: TaskRecord) -> None:
        """An actor is asked for. Its handle's one reference belongs to the caller. Raises NameTaken, and then changes nothing."""
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
        handle = actor.handle = ObjectRecord(actor.number << 32 | 1, owner=actor.owner, actor=actor, status=READY)
        handle.t_created = now
        cluster.objects[handle.number] = handle
        cluster.actors[actor.number] = actor
        cluster.task_manager.register(now, creation)
        if not creation.pending:
            cluster.task_manager.arguments_ready(now, creation)

    def constructor_ready(self, now: float, actor: ActorRecord) -> None:
        """Its constructor's arguments are there: it may be placed."""
        if actor.status is ActorStatus.DEPENDENCIES_UNREADY:
            move(actor, ActorStatus.PENDING_CREATION)

    def placed(self, now: float, actor: ActorRecord, worker: WorkerRecord) -> None:
        """It has a node and a worker; its constructor is about to run. It holds its resources until it dies."""
        actor.worker, actor.node, actor.lease, actor.gpu_ids = worker, worker.node, worker.lease, worker.gpu_ids
        group = actor.groups[""]
        worker.group = group
        group.workers.append(worker)

    def created(self, now: float, actor: ActorRecord) -> None:
        """Its constructor has returned: it takes calls."""
        move(actor, ALIVE)
        actor.t_alive = now
        group = actor.groups[""]
        if not actor.is_async:
            group.idle.append(actor.worker)
        for task in actor.calls.values():
            if task.status is PENDING_NODE:
                move(task, SUBMITTED)
        for group in actor.groups.values():
            self.pump(now, actor, group)
        self.end_if_unwanted(now, actor)

    # ------------------------------------------------------------ calls

    def submit(self, now: float, task: TaskRecord) -> None:
        """A method was called."""
        actor = task.actor
        self.cluster.task_manager.register(now, task)
        if actor.status is DEAD:
            self.cluster.task_manager.fail(now, task, actor.failure)
            return
        actor.calls[task.number] = task
        group = actor.groups.get(task.spec.group)
        if group is None:  # the actor does not have it: the call will end its worker, as in Ray
            group = actor.groups[task.spec.group] = ConcurrencyGroup(task.spec.group, 1)
        if task.deps:
            self._line_up(now, actor, task)
            return
        group.queue.append(task)  # the common case: nothing to wait for
        task.t_ready = now
        move(task, PENDING_NODE)
        if actor.status is ALIVE:
            move(task, SUBMITTED)
            if group.running < group.limit:
                self.pump(now, actor, group, task)

    def _line_up(self, now: float, actor: ActorRecord, task: TaskRecord, before_later_calls: bool = False) -> None:
        group = actor.groups[task.spec.group]
        if actor.in_order:  # the queue holds also what waits for arguments, so that order is kept
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
        """A call that had ended is made once more, for the sake of a value of its that was lost. It comes before those that were
        made after it: one of them may be waiting for that value, and all behind it with it."""
        actor = task.actor
        actor.calls[task.number] = task
        self._line_up(now, actor, task, before_later_calls=True)

    def call_not_begun(self, now: float, worker: WorkerRecord, task: TaskRecord) -> None:
        """A call was given to a worker that found an argument gone: it waits again, before the calls that were made after it."""
        self._line_up(now, task.actor, task, before_later_calls=True)
        task.actor.tasks_done -= 1
        self.worker_free(now, worker, task)

    def call_ready(self, now: float, task: TaskRecord) -> None:
        """The call's arguments are there."""
        actor = task.actor
        group = actor.groups[task.spec.group]
        if not actor.in_order:
            group.queue.append(task)
        task.t_ready = now
        move(task, PENDING_NODE)
        if actor.status is ALIVE:
            move(task, SUBMITTED)
            if group.running < group.limit:
                self.pump(now, actor, group, task)

    def pump(self, now: float, actor: ActorRecord, group: ConcurrencyGroup, come: TaskRecord | None = None) -> None:
        """Start calls of the group, up to its limit. come: the call that became ready, where nothing else has changed."""
        queue = group.queue
        while queue and group.running < group.limit and actor.status is ALIVE:
            task = queue[0]
            if task.status is not SUBMITTED:
                if task.status is not PENDING_ARGS_AVAIL:
                    queue.popleft()  # cancelled, or failed for an argument
                    continue
                if come is not None and come.owner is task.owner:
                    return  # in order: no later call of the same caller overtakes it
                overtaking = self._overtaking(queue)
                if overtaking is None:
                    return
                task = overtaking
                queue.remove(task)
            else:
                queue.popleft()
            group.running += 1
            if actor.is_async:
                worker = actor.worker
                worker.running[task.number] = task
                self._start(now, task, worker)
            elif group.idle:
                worker = group.idle.pop()
                self._start(now, task, worker)
            else:
                worker = self.cluster.worker_pool.new(now, actor.node, actor)
                worker.group = group
                group.workers.append(worker)
                self._start(now, task, worker, starting=True)
                self.cluster.actions.append(StartWorker(worker))

    @staticmethod
    def _overtaking(queue: Iterable[TaskRecord]) -> TaskRecord | None:
        """The first call that may run although the head waits for its arguments: order is kept among the calls of each caller,
        not between callers. So it is in Ray, and what one waits for may be a call of another."""
        waiting = set()
        for task in queue:
            if task.status is PENDING_ARGS_AVAIL:
                waiting.add(task.owner)
            elif task.status is SUBMITTED and task.owner not in waiting:
                return task
        return None

    def _start(self, now: float, task: TaskRecord, worker: WorkerRecord, starting: bool = False) -> None:
        task.t_leased, task.worker, task.node, worker.task = now, worker, worker.node, task
        for dep in task.deps:
            if dep.locations is not None:
                self.cluster.store.fetched(now, dep, worker.node)
        # An async actor's worker takes many calls at once, so it does not look for one next: each is handed to it.
        if (worker is not self.cluster.scheduler.reporting or worker.actor.is_async) and not starting:
            self.cluster.actions.append(RunTask(worker, task))

    def worker_free(self, now: float, worker: WorkerRecord, task: TaskRecord) -> None:
        """A call has ended in this worker: it takes the next of its group."""
        if worker.status is WorkerStatus.DEAD:
            return  # the end of the call has ended the actor
        actor, group = worker.actor, worker.actor.groups[task.spec.group]
        actor.tasks_done += 1
        group.running -= 1
        worker.task = None
        if actor.is_async:
            worker.running.pop(task.number, None)
        else:
            group.idle.append(worker)
        if group.queue:
            self.pump(now, actor, group)

    def call_over(self, now: float, task: TaskRecord) -> None:
        """A call has failed, or was let go of."""
        actor = task.actor
        if actor.calls.pop(task.number, None) is None:
            return
        if actor.in_order and actor.status is ALIVE:
            group = actor.groups[""]
            if group.queue and group.running < group.limit:  # others may have stood behind it
                self.pump(now, actor, group)
        if actor.out_of_scope:
            self.end_if_unwanted(now, actor)

    # ------------------------------------------------------------ death

    def handles_gone(self, now: float, actor: ActorRecord) -> None:
        """Nobody holds a handle any more: the actor ends when the calls already made are over."""
        objects = self.cluster.objects
        if objects.get(actor.handle.number) is not actor.handle:
            return  # of an ended session
        if actor.status is DEAD:
            del objects[actor.handle.number]
            self._forget_class(actor)
            return
        actor.out_of_scope = True
        self.end_if_unwanted(now, actor)

    @staticmethod
    def _wanted(actor: ActorRecord) -> bool:
        """Whether somebody holds a handle, or calls are still to be run."""
        handle = actor.handle
        return bool(handle.refs or handle.uses or handle.held or actor.detached or actor.calls)

    def end_if_unwanted(self, now: float, actor: ActorRecord) -> None:
        """Nobody holds it, or one call less is to be run: it ends when that was all it was there for."""
        handle = actor.handle
        if handle.refs or handle.uses or handle.held:
            actor.out_of_scope = False  # somebody got a new one, by its name
            return
        if self._wanted(actor) or actor.status is DEAD or not actor.out_of_scope:
            return
        if actor.status is not ALIVE and actor.worker is not None:
            return  # its constructor runs; it ends when that has returned
        self.died(
            now,
            actor,
            Failure("ACTOR_DIED", "all references to the actor were removed", about=actor),
            False,
            exit_type="INTENDED_SYSTEM_EXIT",
            unwanted=True,
        )

    def died(
        self,
        now: float,
        actor: ActorRecord,
        failure: Failure,
        may_restart: bool,
        exit_type: str = "SYSTEM_ERROR",
        unwanted: bool = False,
    ) -> None:
        """The actor's worker is gone, or was made to go. It is made anew when it may be and has restarts left. unwanted: it ends
        because nobody holds it; then it can come back for the sake of a result, as long as there is one that could be lost."""
        if actor.status is DEAD or may_restart and actor.status is ActorStatus.DEPENDENCIES_UNREADY:
            return  # nothing runs yet that could be ended and made anew, as in Ray
        cluster = self.cluster
        workers = [worker for group in actor.groups.values() for worker in group.workers]
        for group in actor.groups.values():
            group.workers, group.idle, group.running = [], [], 0
            group.queue.clear()
        node_alive = actor.node is None or actor.node.alive
        for worker in workers:
            cluster.worker_pool.end(now, worker, failure, exit_type)
        restarts_left = actor.max_restarts < 0 or actor.restarts < actor.max_restarts
        restart = may_restart and restarts_left and self._wanted(actor)
        may_come_back = (may_restart or unwanted) and restarts_left and actor.lineage
        creation = actor.creation
        actor.worker = actor.node = actor.lease = None
        actor.gpu_ids = ()
        if restart:
            move(actor, RESTARTING)
            actor.restarts += 1
            cluster.events.add(now, "actor_restarting", f"{actor.class_name}: {failure.message}", actor)
            self._calls_of_the_dead(now, actor, failure)
            # Without a worker it waits for a node already; dead, the failure of its last call has ended it.
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
            elif creation.args is not None and not may_come_back:
                cluster.references.release_arguments(now, creation)
            for task in list(actor.calls.values()):
                if task.status not in (TaskStatus.FINISHED, TaskStatus.FAILED):
                    cluster.task_manager.fail(now, task, failure)
            actor.calls.clear()
            handle = actor.handle
            if not (
                handle.refs or handle.uses or handle.held
            ):  # its last holder was waited for, or it was never let go
                cluster.objects.pop(handle.number, None)
                self._forget_class(actor)
            self._bury(actor)
        for worker in workers:
            cluster.worker_pool.owner_died(now, worker)
        if node_alive:
            cluster.scheduler.resources_freed(now)

    def can_come_back(self, actor: ActorRecord) -> bool:
        """Whether an actor that ended because nobody held it can be made anew: what its constructor takes was kept for that."""
        return actor.status is not DEAD or actor.creation.args is not None

    def come_back(self, now: float, actor: ActorRecord) -> None:
        """An actor that nobody holds is made anew, since a value that it made was lost and is wanted. Ray does so, too."""
        if self.dead.pop(actor.number, None) is None:
            self.cluster.dropped["actors"] -= 1  # its record had been let go of
        self.cluster.actors[actor.number] = actor
        failure, actor.failure, actor.t_died = actor.failure, None, 0.0
        move(actor, RESTARTING)
        actor.restarts += 1
        self.cluster.events.add(now, "actor_restarting", f"{actor.class_name}: a lost result of it is wanted", actor)
        self.cluster.task_manager.again(now, actor.creation, failure)

    def lineage_gone(self, now: float, actor: ActorRecord) -> None:
        """One value less for which the actor could be asked once more."""
        actor.lineage -= 1
        if not actor.lineage and actor.status is DEAD and actor.creation.args is not None:
            self.cluster.references.release_arguments(now, actor.creation)
            self._forget_class(actor)

    def _forget_class(self, actor: ActorRecord) -> None:
        """It is dead for good, and nobody can ask for its methods any more: its record is kept, its class need not be."""
        if actor.handle.number not in self.cluster.objects and not self.can_come_back(actor):
            actor.meta = None

    def _calls_of_the_dead(self, now: float, actor: ActorRecord, failure: Failure) -> None:
        """What had been sent to the worker that died is tried again where that is allowed, in the same order, and fails else."""
        for task in sorted(actor.calls.values(), key=lambda call: call.number):
            if task.pending or task.status is PENDING_NODE:  # it was never sent: it keeps its place, and its retries
                if actor.in_order or not task.pending:
                    actor.groups[task.spec.group].queue.append(task)
                continue
            unavailable = Failure(
                "ACTOR_UNAVAILABLE", f"the actor is restarting: {failure.message}", cause=failure, about=actor
            )
            if task.cancel_requested or not self.cluster.task_manager.take_retry(task):
                self.cluster.task_manager.fail(now, task, unavailable)
                continue
            self.cluster.task_manager.again(now, task, unavailable)
            self._line_up(now, actor, task)

    def retry_call(self, now: float, task: TaskRecord, failure: Failure) -> None:
        """A call that raised is tried again in the living actor, before those behind it."""
        actor = task.actor
        self.cluster.task_manager.again(now, task, failure)
        group = actor.groups[task.spec.group]
        if not task.pending:
            task.t_ready = now
            move(task, PENDING_NODE)
            move(task, SUBMITTED)
            group.queue.appendleft(task)
        elif actor.in_order:  # an argument was lost meanwhile: those behind it wait, too
            group.queue.appendleft(task)

    def _bury(self, actor: ActorRecord) -> None:
        self.dead[actor.number] = actor
        if len(self.dead) > self.dead_kept:
            number = next(iter(self.dead))
            del self.dead[number]
            self.cluster.actors.pop(number, None)
            self.cluster.dropped["actors"] += 1

    def find(self, name: str, namespace: str) -> ActorRecord | None:
        """The living actor of this name."""
        return self.names.get((namespace, name))
