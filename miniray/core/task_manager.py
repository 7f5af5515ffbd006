"""The task manager: a task from its submission to its last outcome: arguments, attempts, retries, cancellation.

Ray: core_worker/task_manager.h, dependency_resolver.h.
"""

from __future__ import annotations

from collections import deque

from .actions import CallLater, InterruptTask
from .object_store import INLINE_BYTES
from .records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    FAILED,
    LOST,
    PENDING,
    READY,
    SPILLED,
    Attempt,
    Failure,
    ObjectRecord,
    StreamRecord,
    TaskRecord,
    WorkerRecord,
)
from .tables import Tables
from .transitions import ActorStatus, ObjectStatus, TaskStatus, WorkerStatus, move

FINISHED, TASK_FAILED = TaskStatus.FINISHED, TaskStatus.FAILED
PENDING_ARGS_AVAIL = TaskStatus.PENDING_ARGS_AVAIL
INTERRUPT_GRACE_S = 1.0  # how long a cancelled task may stay in code that cannot be interrupted


class TaskManager:
    """Registers tasks, counts their missing arguments, ends their attempts."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.interrupted: dict[int, tuple[float, TaskRecord, int]] = {}  # number -> (give up at, task, attempt)
        self.num_reconstructions = 0
        self._lost: deque[ObjectRecord] = deque()

    def register(self, now: float, task: TaskRecord) -> None:
        """A task was submitted: it gets its number, the objects it will make, and its place in the table.

        Each return has one reference, which belongs to the caller. A stream's first return is the object that is ready when
        the generator has ended.
        """
        cluster = self.cluster
        cluster.number = number = cluster.number + 1
        task.number, task.t_created = number, now
        cluster.tasks[number] = task
        if task.owner is not None:
            task.owner.owns = True
        returns = task.spec.num_returns
        key = number << 32
        if returns == 1:
            obj = ObjectRecord(key | 1, task)
            cluster.objects[key | 1] = obj
            task.returns = (obj,)
        elif returns:
            if task.spec.streams:
                task.stream = StreamRecord(task)
            count = returns if type(returns) is int else 1
            task.returns = tuple(ObjectRecord(key | index, task) for index in range(1, count + 1))
            for obj in task.returns:
                cluster.objects[obj.number] = obj
            if task.spec.streams:
                task.returns = list(task.returns)  # a tuple would be copied at every yield
        deps = task.deps
        if deps:
            for dep in deps:
                dep.uses += 1
            task.producers = (
                tuple({dep.task.number: None for dep in deps if dep.task is not None})
                if len(deps) > 1
                else (deps[0].task.number,)
                if deps[0].task is not None
                else ()
            )
            self.resolve(now, task)
        for inner in task.contained:
            inner.held += 1

    def resolve(self, now: float, task: TaskRecord) -> None:
        """Count the arguments that have no value at hand, and see to it that each will come."""
        task.pending = 0
        for dep in task.deps:
            status = dep.status
            if status is READY or status is FAILED or status is SPILLED:
                continue
            task.pending += 1
            if dep.dependents is None:
                dep.dependents = [task]
            else:
                dep.dependents.append(task)
            if status is LOST:
                self.rebuild(now, dep)

    def arguments_ready(self, now: float, task: TaskRecord) -> None:
        """The last missing argument came."""
        if task.status is not PENDING_ARGS_AVAIL:
            return
        if task.deps:
            failed = None
            for dep in task.deps:
                status = dep.status
                if status is FAILED:
                    failed = failed or dep
                elif status is not READY and status is not SPILLED:  # it was lost while others were awaited
                    self.resolve(now, task)
                    return
            if failed is not None:
                self.fail_for_argument(now, task, failed)
                return
        if task.spec.kind == ACTOR_TASK:
            self.cluster.actor_manager.call_ready(now, task)
        else:
            if task.spec.kind == ACTOR_CREATION_TASK:
                self.cluster.actor_manager.constructor_ready(now, task.actor)
            self.cluster.scheduler.enqueue(now, task)

    def fail_for_argument(self, now: float, task: TaskRecord, failed: ObjectRecord) -> None:
        """An argument came out as an error: the task never runs and fails with it."""
        cause = failed.value
        failure = Failure(cause.error_type, cause.message, cause=cause, about=task)
        if task.spec.kind == ACTOR_CREATION_TASK:
            self.cluster.actor_manager.died(
                now,
                task.actor,
                Failure("ACTOR_DIED", "an argument of its constructor failed", cause=failure, about=task.actor),
                may_restart=False,
            )
        else:
            self.fail(now, task, failure)

    # ------------------------------------------------------------ outcomes

    def complete(self, now: float, task: TaskRecord, sizes, contained) -> None:
        """The attempt returned; the runtime has put the values in the returns. sizes: bytes of each; contained: for each the
        records inside it, or None when there are none anywhere."""
        move(task, FINISHED)
        task.t_finished = now
        cluster = self.cluster
        if (
            contained is None
            and len(sizes) == 1
            and sizes[0] <= INLINE_BYTES
            and task.stream is None
            and len(task.returns) == 1
        ):
            obj = task.returns[0]  # the common case: one small value
            if obj.status is PENDING and type(obj.value) is not Failure:
                obj.size, obj.t_ready = sizes[0], now
                move(obj, READY)
                if task.deps or task.contained:
                    cluster.references.release_arguments(now, task)
                else:
                    task.args = None
                cluster.history.task_ended(task)
                if obj.waiters is not None or obj.dependents is not None:
                    cluster.ready.append(obj)
                elif not (obj.refs or obj.uses or obj.held):
                    cluster.references.check(now, obj)
                return
        large = False
        for index, obj in enumerate(task.returns):
            if obj.status is not PENDING and obj.status is not LOST:
                large = large or obj.locations is not None
                continue  # an item of a stream, or the task ran again for a sibling's sake
            if (
                index >= len(sizes) and obj.status is LOST
            ):  # an item that went after it was yielded: another run can bring it
                large = True
                continue
            if index >= len(sizes):  # more items of a stream than it yielded this time
                obj.value = Failure(
                    "OBJECT_LOST", "it was lost, and its generator yielded fewer values when it ran again", about=obj
                )
                self.value_there(now, obj, FAILED, -1)
                continue
            if type(obj.value) is Failure:  # this one could not be stored
                self.value_there(now, obj, FAILED, -1)
                continue
            if self._store(now, obj, sizes[index], () if contained is None else contained[index]):
                large = True
        if task.stream is not None:
            self.end_stream(now, task)
        keep = large and task.retries_left != 0
        if keep and task.actor is not None:
            task.actor.lineage += 1
        self._end(now, task, keep)
        if task.stream is not None:  # an item that went meanwhile, and is waited for, had to wait for this end
            for obj in task.returns:
                if obj.status is LOST and (obj.waiters or obj.dependents):
                    self.rebuild(now, obj)

    def _store(self, now: float, obj: ObjectRecord, size: int, contained: tuple) -> bool:
        """A value has arrived. contained: the records inside it. Returns whether an object store holds it: then it can be lost."""
        if contained or obj.contained:
            self._contain(now, obj, contained)
        self.value_there(now, obj, READY, size)
        node = obj.task.node
        if size <= INLINE_BYTES or node is None or not node.alive:
            return False
        self.cluster.store.created(now, obj, node)
        return True

    def _contain(self, now: float, obj: ObjectRecord, contained: tuple) -> None:
        """These records are inside the value now. A value that was lost and rebuilt releases those of the value before it."""
        before, obj.contained = obj.contained, contained
        for inner in contained:
            inner.held += 1
        for inner in before:
            inner.held -= 1
            self.cluster.references.check(now, inner)

    def value_there(self, now: float, obj: ObjectRecord, status: ObjectStatus, size: int) -> None:
        """An object has its value, or its error. Whether anybody holds it is looked at when its task has ended: not before the
        task's arguments have become its lineage, or were let go of."""
        obj.size, obj.t_ready = size, now
        move(obj, status)
        if obj.waiters is not None or obj.dependents is not None:
            self.cluster.ready.append(obj)

    def _end(self, now: float, task: TaskRecord, keep_lineage: bool = False) -> None:
        references = self.cluster.references
        if task.deps or task.contained:
            if keep_lineage:
                references.keep_lineage(now, task)
            else:
                references.release_arguments(now, task)
        elif not keep_lineage:
            task.args = None
        self.cluster.history.task_ended(task)
        for obj in task.returns:  # nobody may have waited for it: the record must not keep it
            if not (obj.refs or obj.uses or obj.held):
                references.check(now, obj)

    def fail(self, now: float, task: TaskRecord, failure: Failure) -> None:
        """No attempt is left: the error is what every return holds."""
        move(task, TASK_FAILED)
        task.failure = failure
        self._note_end(now, task)
        self.interrupted.pop(task.number, None)
        for index, obj in enumerate(task.returns):
            if obj.status is not PENDING and obj.status is not LOST:
                continue  # it ran again for the sake of another
            if (
                not index
                and task.stream is not None
                and failure.error_type == "TASK_EXECUTION_EXCEPTION"
                and failure.cause is None
            ):
                # What a generator raised is an item of its stream, whose end is told without it; all else fails the end, too.
                obj.value = None
                self.value_there(now, obj, READY, 0)
            else:
                obj.value = failure
                self.value_there(now, obj, FAILED, -1)
        if task.stream is not None:
            self.stream_error(now, task, failure)
        if task.spec.kind == ACTOR_TASK:
            self.cluster.actor_manager.call_over(now, task)
        self._end(now, task)

    @staticmethod
    def _note_end(now: float, task: TaskRecord) -> None:
        """An attempt has ended, perhaps by others than its worker. That notes when the task's code began and ended without waiting
        for this event, and its clock may have gone on a little when it did."""
        task.t_finished = now  # first: it notes nothing any more from here on
        task.t_finished = max(now, task.t_started, task.t_ended)

    def attempt_failed(self, now: float, task: TaskRecord, failure: Failure, retry: bool) -> None:
        """The running attempt is over. retry: whether this kind of failure may be tried again, if attempts are left."""
        if task.cancel_requested and failure.error_type != "TASK_CANCELLED" and retry:
            failure = Failure("TASK_CANCELLED", "it was cancelled", about=task)
            retry = False
        if retry and self.take_retry(task):
            self.again(now, task, failure)
        else:
            task.t_finished = now
            self.fail(now, task, failure)

    @staticmethod
    def take_retry(task: TaskRecord) -> bool:
        """Count one retry of the task. Returns False, and counts nothing, when it has none left."""
        if task.retries_left > 0:  # below zero there is no limit
            task.retries_left -= 1
            return True
        return task.retries_left < 0

    @staticmethod
    def is_current(worker: WorkerRecord, task: TaskRecord) -> bool:
        """Whether the core still counts a report of this worker about this task: the worker is alive, and the task's current
        attempt is the one that it runs."""
        return worker.status is not WorkerStatus.DEAD and task.worker is worker

    def again(self, now: float, task: TaskRecord, failure: Failure | None) -> None:
        """Start the next attempt; the last one is kept for its row."""
        if task.number not in self.cluster.tasks:  # it had ended, and its record was let go of
            self.cluster.tasks[task.number] = task
            self.cluster.dropped["tasks"] -= 1
        self._note_end(now, task)
        if task.history is None:
            task.history = []
        task.history.append(Attempt(task, failure))
        task.attempt += 1
        task.worker = task.node = None
        task.t_ready = task.t_leased = task.t_started = task.t_ended = task.t_finished = 0.0
        task.t_created = now
        if task.stream is not None:
            task.stream.produced = 0
        self.resolve(now, task)
        move(task, PENDING_ARGS_AVAIL)
        if not task.pending and task.spec.kind != ACTOR_TASK:
            self.arguments_ready(now, task)

    def not_begun(self, now: float, task: TaskRecord) -> None:
        """Its worker found an argument gone before the task's code was entered: it waits as before, and that was no attempt."""
        task.worker = task.node = None
        task.t_ready = task.t_leased = task.t_started = task.t_ended = 0.0
        self.resolve(now, task)
        move(task, PENDING_ARGS_AVAIL)

    # ------------------------------------------------------------ streams

    def stream_item(self, now: float, task: TaskRecord, value, size: int, contained: tuple) -> None:
        """The generator yielded a value (opaque)."""
        stream = task.stream
        index = stream.produced
        stream.produced += 1
        number = task.number << 32 | index + 2
        if index < len(stream.items):  # an earlier attempt had come as far
            obj = self.cluster.objects.get(number)
            if obj is None or obj.status is not PENDING and obj.status is not LOST:
                return  # and it was not lost since
        else:
            obj = ObjectRecord(number, task)
            self.cluster.objects[number] = obj
            task.returns += (obj,)
            if stream.refs:
                stream.items.append(obj)
            else:  # nobody will ask for it
                stream.items.append(None)
                obj.refs = 0
        obj.value = value
        self._store(now, obj, size, contained)
        self._wake_stream(stream)
        self.cluster.references.check(now, obj)

    def take_item(self, stream: StreamRecord) -> ObjectRecord | None:
        """The next item, if it has been yielded. A generator that waits for its consumer is woken."""
        if stream.taken >= len(stream.items):
            return None
        item, stream.items[stream.taken] = stream.items[stream.taken], None
        stream.taken += 1
        self.wake_producer(stream)
        return item

    def wake_producer(self, stream: StreamRecord) -> None:
        """The stream's consumer has taken an item, or takes no more: its generator may go on."""
        waiter, stream.producer_waiter = stream.producer_waiter, None
        if waiter is not None:
            self.cluster.wakeups.wake(waiter)

    def stream_error(self, now: float, task: TaskRecord, failure: Failure) -> None:
        """The generator failed: the error is one more item, the last."""
        stream = task.stream
        if stream.refs and not stream.ended:
            number = task.number << 32 | len(stream.items) + 2
            obj = ObjectRecord(number, task)
            self.cluster.objects[number] = obj
            task.returns += (obj,)
            obj.value = failure
            stream.items.append(obj)
            self.value_there(now, obj, FAILED, -1)
        self.end_stream(now, task)

    def end_stream(self, now: float, task: TaskRecord) -> None:
        """No more items come."""
        task.stream.ended = True
        self._wake_stream(task.stream)

    def _wake_stream(self, stream: StreamRecord) -> None:
        waiters, stream.waiters = stream.waiters, None
        for waiter in waiters or ():
            self.cluster.wakeups.satisfy(waiter, failed=False)

    # ------------------------------------------------------------ lost values

    def rebuild(self, now: float, obj: ObjectRecord) -> None:
        """A value that somebody needs is gone: run its task again, or say why that cannot be.

        The task may need a value that is gone as well, and so on through a long chain: that goes by a list, not by recursion.
        """
        lost = self._lost
        lost.append(obj)
        if len(lost) == 1:
            while lost:
                self._rebuild(now, lost[0])
                lost.popleft()

    def _rebuild(self, now: float, obj: ObjectRecord) -> None:
        task = obj.task
        if obj.status is not LOST:
            return  # a sibling came first
        if task is None:
            self._unbuildable(now, obj, "OBJECT_LOST", "it was put, so there is no task that could make it again")
        elif not task.t_finished:
            return  # it is being made again already
        elif not task.spec.max_retries:
            self._unbuildable(
                now, obj, "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED", "what made it may not be tried again"
            )
        elif not task.retries_left:
            self._unbuildable(
                now, obj, "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED", "its task has no retries left"
            )
        elif task.args is None:
            self._unbuildable(now, obj, "OBJECT_UNRECONSTRUCTABLE_LINEAGE_EVICTED", "what made it cannot be run again")
        elif task.actor is not None and not self.cluster.actor_manager.can_come_back(task.actor):
            obj.value = task.actor.failure
            self.value_there(now, obj, FAILED, obj.size)
        else:
            self.take_retry(task)
            self.num_reconstructions += 1
            self.cluster.events.add(now, "reconstruction", f"{task.spec.name} runs again to rebuild a lost value", task)
            if task.actor is not None and task.actor.status is ActorStatus.DEAD:
                self.cluster.actor_manager.come_back(now, task.actor)
            self.cluster.references.use_again(task)
            for sibling in task.returns:
                if sibling.status is LOST:
                    move(sibling, PENDING)
            self.again(now, task, None)
            if task.spec.kind == ACTOR_TASK:
                self.cluster.actor_manager.call_again(now, task)

    def _unbuildable(self, now: float, obj: ObjectRecord, error_type: str, why: str) -> None:
        obj.value = Failure(error_type, why, about=obj)
        self.value_there(now, obj, FAILED, obj.size)

    # ------------------------------------------------------------ cancellation

    def cancel(self, now: float, task: TaskRecord, force: bool, recursive: bool) -> None:
        """Stop a task if it has not ended: at once when it waits, by an interrupt when it runs, by its worker's death on force."""
        if recursive:
            self._cancel_children(now, task)
        if task.t_finished and task.status in (FINISHED, TASK_FAILED):
            return
        failure = Failure("TASK_CANCELLED", "it was cancelled", about=task)
        worker = task.worker
        if worker is None:
            self.fail(now, task, failure)  # queues let go of it when they come to it
            return
        task.cancel_requested = True
        if task.spec.kind == ACTOR_TASK and task.number not in worker.running:
            return  # a plain method goes on to its end, as in Ray, though for nothing
        if force:
            self.fail(now, task, failure)
            self.cluster.worker_pool.kill(
                now, worker, Failure("WORKER_DIED", "its task was cancelled by force", about=worker)
            )
            return
        self.cluster.actions.append(InterruptTask(worker, task))
        if task.spec.kind != ACTOR_TASK:
            self.interrupted[task.number] = (now + INTERRUPT_GRACE_S, task, task.attempt)
            self.cluster.actions.append(CallLater(now + INTERRUPT_GRACE_S))

    def _cancel_children(self, now: float, task: TaskRecord) -> None:
        parents = [task.hex]
        while parents:
            parent = parents.pop()
            for child in list(self.cluster.tasks.values()):
                if child.parent == parent and not child.t_finished and child.spec.kind != ACTOR_CREATION_TASK:
                    parents.append(child.hex)
                    self.cancel(now, child, False, False)

    def give_up_interrupted(self, now: float) -> None:
        """Cancelled tasks that sit in code that no interrupt reaches: their workers are left behind, the tasks are over."""
        for number, (at, task, attempt) in list(self.interrupted.items()):
            if task.t_finished or task.attempt != attempt or task.was_interrupted:
                self.interrupted.pop(number, None)  # its owner may have been given up just now, and it with that
            elif at <= now:
                del self.interrupted[number]
                worker = task.worker
                self.fail(now, task, Failure("TASK_CANCELLED", "it was cancelled", about=task))
                self.cluster.worker_pool.kill(
                    now, worker, Failure("WORKER_DIED", "its cancelled task could not be interrupted", about=worker)
                )
