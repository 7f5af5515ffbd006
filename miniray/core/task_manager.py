"""The task manager: a task from its submission to its last outcome.

Theory of operation.

*The life of a task.* `register` gives the task its number and creates the objects that it will return. `resolve` counts
the arguments that have no value yet, and enters the task in the `dependents` of each. The wake-ups count down as values
arrive, and call `arguments_ready` after the last one. A normal task, or an actor's constructor, then goes to the
scheduler's queue; a method call goes to its actor's queue. From there a worker is told to run it. The worker's report
ends the attempt: `complete` if the function returned, `attempt_failed` or `fail` if it did not. A task whose argument
is an error never runs: it fails with that error, and so do the tasks that depend on it.

*Attempts.* A task has one record and, over time, one or more attempts. The record describes the current attempt;
`again` moves its times, worker and failure into `history` and starts the next. The core counts a report only if it
comes from the worker of the current attempt (`is_current`): a worker that was declared dead may still be running an
earlier one.

*Retries.* `retries_left` goes down by one for each further attempt (`take_retry`), whatever the reason. After a crash,
or the death of a node, a task is retried as long as it has retries. If the user's code raised, the runtime decides
whether the options allow a retry, since only the runtime looks at exceptions. An attempt that never entered the user's
code, because an argument was lost on the way, does not count (`not_begun`). When no retry is left, `fail` stores the
Failure in every return that has no value.

*Streams.* A generator makes an object per yield (`stream_item`). Return 1 of the task is the object of its end; items
have the indices from 2 on. Items wait in `StreamRecord.items` until the program takes them. A retry yields from the
start; an item that already has a value keeps it, so the consumer sees each item once. An exception is one more item,
the last.

*Rebuilding.* When a node dies, the values with no other copy become LOST. The core does nothing until somebody needs
one: a waiter, or an unfinished task that takes it. `rebuild` then reruns the task that made the value, which costs a
retry. If an argument of that task was freed meanwhile, the reference counter puts its record back as LOST
(`use_again`), and `resolve` rebuilds it in turn. A value that cannot be rebuilt becomes an error that gives the
reason.

*Cancellation.* A task that no worker has fails at once, and the queues skip it later. A running task is interrupted; if
it is still running after INTERRUPT_GRACE_S, it fails and its worker is given up: an interrupt cannot reach code that is
not Python. With force, its worker dies at once. A running call of a plain actor is not interrupted, as in Ray, but its
value is discarded.

Ray: core_worker/task_manager.h, dependency_resolver.h.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from .actions import CallLater, InterruptTask, InterruptWait
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SUBMITTED_TO_WORKER = TaskStatus.SUBMITTED_TO_WORKER
FINISHED, TASK_FAILED = TaskStatus.FINISHED, TaskStatus.FAILED
PENDING_ARGS_AVAIL = TaskStatus.PENDING_ARGS_AVAIL
INTERRUPT_GRACE_S = 1.0  # how long a cancelled task may stay in code that cannot be interrupted; a limit of ours


class TaskManager:
    """Registers tasks, counts their missing arguments, and ends their attempts. The records are in `Tables.tasks`."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        # Cancelled tasks that may still run: task number -> (time to give up, task, attempt).
        self.interrupted: dict[int, tuple[float, TaskRecord, int]] = {}
        self.num_reconstructions = 0
        self._lost: deque[ObjectRecord] = deque()  # the worklist of `rebuild`

    def register(self, now: float, task: TaskRecord) -> None:
        """Enter a new task in the table: number it, create its return objects, and count its missing arguments.

        Each return has one reference, which belongs to the caller. The first return of a streaming generator is the
        object of its end: it has a value when the generator has ended.
        """
        cluster = self.cluster
        cluster.number = number = cluster.number + 1
        task.number, task.t_created = number, now
        cluster.tasks[number] = task
        owner = task.owner
        if owner is not None:
            owner.owns = True
            if task.spec.kind != ACTOR_CREATION_TASK:
                owner.unfinished += 1
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
            if len(deps) > 1:
                task.producers = tuple({dep.task.number: None for dep in deps if dep.task is not None})
            elif deps[0].task is not None:
                task.producers = (deps[0].task.number,)
            self.resolve(now, task)
        for inner in task.contained:
            inner.held += 1

    def submit(self, now: float, task: TaskRecord) -> None:
        """Register a call of a function, and queue it unless an argument is missing."""
        self.register(now, task)
        if not task.pending:
            if task.deps:
                self.arguments_ready(now, task)
            else:
                self.cluster.scheduler.enqueue(now, task)

    def resolve(self, now: float, task: TaskRecord) -> None:
        """Count the arguments without a value, enter the task in the `dependents` of each, and rebuild lost ones."""
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
        """All arguments have a value or an error: queue the task, or fail it. Does nothing if it has failed already."""
        if task.status is not PENDING_ARGS_AVAIL:
            return
        if task.deps:
            failed = None
            for dep in task.deps:
                status = dep.status
                if status is FAILED:
                    failed = failed or dep
                elif status is not READY and status is not SPILLED:  # lost while the task waited for the others
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
        """Fail a task with the error of one of its arguments: it never runs. If it is a constructor, the actor dies."""
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

    def complete(
        self, now: float, task: TaskRecord, sizes: Sequence[int], contained: Sequence[tuple[ObjectRecord, ...]] | None
    ) -> None:
        """End an attempt that returned. The runtime has stored the values in `task.returns`.

        sizes: bytes of each value, in order. contained: for each value the records inside it; None if no value contains
        any. A value that could not be stored is a Failure in its place.
        """
        if task.status is SUBMITTED_TO_WORKER:  # `move`, written out
            task.status = FINISHED
        else:
            move(task, FINISHED)
        task.t_finished = now
        cluster, owner = self.cluster, task.owner
        if owner is not None:
            owner.unfinished -= 1
            if owner.drain is not None:
                cluster.drained.append(owner.drain)
        if (
            contained is None
            and len(sizes) == 1
            and sizes[0] <= INLINE_BYTES
            and task.stream is None
            and len(task.returns) == 1
        ):
            obj = task.returns[0]  # the common case, one small value: `_store` and `_end` without the calls
            if obj.status is PENDING and type(obj.value) is not Failure:
                obj.size, obj.t_ready, obj.status = sizes[0], now, READY  # with `move`, written out
                if task.deps or task.contained:
                    cluster.references.release_arguments(now, task)
                else:
                    task.args = None
                history = cluster.history
                history.finished.append(task)  # `History.task_ended`, written out
                if len(history.finished) > history.limit:
                    history.drop_oldest()
                if obj.waiters is not None or obj.dependents is not None:
                    cluster.ready.append(obj)
                elif not (obj.refs or obj.uses or obj.held):
                    cluster.references.check(now, obj)
                return
        large = False  # whether a value is in an object store, where it can be lost
        for index, obj in enumerate(task.returns):
            if obj.status is not PENDING and obj.status is not LOST:
                # It has its value already: an item of the stream, or a value that was not lost when the task ran again.
                large = large or obj.locations is not None
            elif index < len(sizes):
                if type(obj.value) is Failure:  # the value could not be stored
                    self.value_there(now, obj, FAILED, -1)
                elif self._store(now, obj, sizes[index], () if contained is None else contained[index]):
                    large = True
            elif obj.status is LOST:  # an item that was lost after this attempt yielded it: it can be rebuilt
                large = True
            else:  # an earlier attempt yielded more items than this one
                obj.value = Failure(
                    "OBJECT_LOST", "it was lost, and its generator yielded fewer values when it ran again", about=obj
                )
                self.value_there(now, obj, FAILED, -1)
        if task.stream is not None:
            self.end_stream(now, task)
        keep = large and task.retries_left != 0
        if keep and task.actor is not None:
            task.actor.lineage += 1
        self._end(now, task, keep)
        if task.stream is not None:  # a lost item that somebody waits for could not be rebuilt before the attempt ended
            for obj in task.returns:
                if obj.status is LOST and (obj.waiters or obj.dependents):
                    self.rebuild(now, obj)

    def _store(self, now: float, obj: ObjectRecord, size: int, contained: tuple[ObjectRecord, ...]) -> bool:
        """Store a value that a task made. contained: the records inside it. Returns whether it is in an object store,
        where it can be lost; a small value stays with its owner."""
        if contained or obj.contained:
            self._contain(now, obj, contained)
        self.value_there(now, obj, READY, size)
        node = obj.task.node
        if size <= INLINE_BYTES or node is None or not node.alive:
            return False
        self.cluster.store.created(now, obj, node)
        return True

    def _contain(self, now: float, obj: ObjectRecord, contained: tuple[ObjectRecord, ...]) -> None:
        """Count the records inside a new value as held. A rebuilt value releases the records inside the lost value."""
        before, obj.contained = obj.contained, contained
        for inner in contained:
            inner.held += 1
        for inner in before:
            inner.held -= 1
            self.cluster.references.check(now, inner)

    def value_there(self, now: float, obj: ObjectRecord, status: ObjectStatus, size: int) -> None:
        """Give an object its value or its error. The caller has set `obj.value`; size is in bytes, -1 if unknown.

        Does not check whether anybody still needs the object: `_end` does that, after the task's arguments were kept as
        lineage or released.
        """
        obj.size, obj.t_ready = size, now
        move(obj, status)
        if obj.waiters is not None or obj.dependents is not None:
            self.cluster.ready.append(obj)

    def _end(self, now: float, task: TaskRecord, keep_lineage: bool = False) -> None:
        """Release a task's arguments, or keep them as lineage, and drop the return values that nobody needs."""
        references = self.cluster.references
        if task.deps or task.contained:
            if keep_lineage:
                references.keep_lineage(now, task)
            else:
                references.release_arguments(now, task)
        elif not keep_lineage:
            task.args = None
        self.cluster.history.task_ended(task)
        for obj in task.returns:  # the program may have dropped its reference before the value was stored
            if not (obj.refs or obj.uses or obj.held):
                references.check(now, obj)

    def fail(self, now: float, task: TaskRecord, failure: Failure) -> None:
        """End the task with an error, which goes into every return without a value. The caller frees the worker."""
        move(task, TASK_FAILED)
        task.failure = failure
        self._note_end(now, task)
        owner = task.owner
        if owner is not None and task.spec.kind != ACTOR_CREATION_TASK:
            owner.unfinished -= 1
            if owner.drain is not None:
                self.cluster.drained.append(owner.drain)
        self.interrupted.pop(task.number, None)
        for index, obj in enumerate(task.returns):
            if obj.status is not PENDING and obj.status is not LOST:
                continue  # it has a value: the task ran again to rebuild another of its returns
            if (
                not index
                and task.stream is not None
                and failure.error_type == "TASK_EXECUTION_EXCEPTION"
                and failure.cause is None
            ):
                # An exception that the generator raised is an item of its stream, and the end is then no error. Any
                # other failure is an error of the end, too.
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
        """Set `t_finished`, and never earlier than the times that the worker noted. The worker notes them without the
        core's lock, so they can be a little later than this event if something other than the worker ended the
        attempt."""
        task.t_finished = now  # first: the worker notes no more times once this is set
        task.t_finished = max(now, task.t_started, task.t_ended)

    def attempt_failed(self, now: float, task: TaskRecord, failure: Failure, retry: bool) -> None:
        """The running attempt failed: retry the task, or fail it. retry: whether such a failure may be retried."""
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
        """Use up one retry. Returns False, and changes nothing, if the task has none left."""
        if task.retries_left > 0:
            task.retries_left -= 1
            return True
        return task.retries_left < 0  # below zero there is no limit

    @staticmethod
    def is_current(worker: WorkerRecord, task: TaskRecord) -> bool:
        """Whether a report by this worker about this task counts: the worker is alive and runs the current attempt."""
        return worker.status is not WorkerStatus.DEAD and task.worker is worker

    def again(self, now: float, task: TaskRecord, failure: Failure | None) -> None:
        """Start the next attempt, and keep the last one in `history`. failure: why the last one ended; None if it
        succeeded and the task runs again to rebuild a value."""
        if task.number not in self.cluster.tasks:  # it had ended, and the history had dropped its record
            self.cluster.tasks[task.number] = task
            self.cluster.history.in_order = False
            self.cluster.dropped["tasks"] -= 1
            self.cluster.totals.task_dropped(task, -1)
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
        """Let a task wait again, in the same attempt: its worker found an argument lost before entering its code."""
        task.worker = task.node = None
        task.t_ready = task.t_leased = task.t_started = task.t_ended = 0.0
        self.resolve(now, task)
        move(task, PENDING_ARGS_AVAIL)

    # ------------------------------------------------------------ streams

    def stream_item(
        self, now: float, task: TaskRecord, value: Any, size: int, contained: tuple[ObjectRecord, ...]
    ) -> None:
        """The generator yielded a value. value: opaque. size: bytes. contained: the records inside the value."""
        stream = task.stream
        index = stream.produced
        stream.produced += 1
        number = task.number << 32 | index + 2
        if index < len(stream.items):  # an earlier attempt yielded this item, too
            obj = self.cluster.objects.get(number)
            if obj is None or obj.status is not PENDING and obj.status is not LOST:
                return  # the item has a value, or nobody needs it
        else:
            obj = ObjectRecord(number, task)
            self.cluster.objects[number] = obj
            task.returns += (obj,)
            if stream.refs:
                stream.items.append(obj)
            else:  # nobody can take it
                stream.items.append(None)
                obj.refs = 0
        obj.value = value
        self._store(now, obj, size, contained)
        self._wake_stream(stream)
        self.cluster.references.check(now, obj)

    def take_item(self, stream: StreamRecord) -> ObjectRecord | None:
        """Hand out the next item, or None if it has not been yielded yet. Wakes a generator held by back-pressure."""
        if stream.taken >= len(stream.items):
            return None
        item: ObjectRecord | None = stream.items[stream.taken]
        stream.items[stream.taken] = None
        stream.taken += 1
        self.wake_producer(stream)
        return item

    def wake_producer(self, stream: StreamRecord) -> None:
        """Wake a generator that back-pressure holds back: the consumer has taken an item, or will take no more."""
        waiter, stream.producer_waiter = stream.producer_waiter, None
        if waiter is not None:
            self.cluster.wakeups.wake(waiter)

    def stream_error(self, now: float, task: TaskRecord, failure: Failure) -> None:
        """End the stream of a generator that failed: the error is its last item."""
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
        """Mark the end of the stream."""
        task.stream.ended = True
        self._wake_stream(task.stream)

    def _wake_stream(self, stream: StreamRecord) -> None:
        """Wake everybody who waits for the stream's next item or its end."""
        waiters, stream.waiters = stream.waiters, None
        for waiter in waiters or ():
            self.cluster.wakeups.satisfy(waiter, failed=False)

    # ------------------------------------------------------------ lost values

    def rebuild(self, now: float, obj: ObjectRecord) -> None:
        """Rebuild a lost value: run its task again, or store an error that says why this is impossible.

        Called when somebody needs the value. The task may need another lost value, and so on through a long chain, so
        a worklist takes the place of recursion.
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
            return  # it is being rebuilt together with another return of its task
        if task is None:
            self._unbuildable(now, obj, "OBJECT_LOST", "it was put, so there is no task that can rebuild it")
        elif not task.t_finished:
            return  # the task runs already, or waits to run
        elif not task.spec.max_retries:
            self._unbuildable(now, obj, "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED", "its task may not be retried")
        elif not task.retries_left:
            self._unbuildable(
                now, obj, "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED", "its task has no retries left"
            )
        elif task.args is None:
            self._unbuildable(
                now, obj, "OBJECT_UNRECONSTRUCTABLE_LINEAGE_EVICTED", "the arguments of its task were dropped"
            )
        elif task.actor is not None and not self.cluster.actor_manager.can_revive(task.actor):
            obj.value = task.actor.failure
            self.value_there(now, obj, FAILED, obj.size)
        else:
            self.take_retry(task)
            self.num_reconstructions += 1
            if task.owner is not None:
                task.owner.unfinished += 1
            self.cluster.events.add(now, "reconstruction", f"{task.spec.name} runs again to rebuild a lost value", task)
            if task.actor is not None and task.actor.status is ActorStatus.DEAD:
                self.cluster.actor_manager.revive(now, task.actor)
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
        """Cancel a task, unless it has ended. force: kill its worker. recursive: cancel its descendants, too."""
        ended = task.t_finished and task.status in (FINISHED, TASK_FAILED)
        worker = None if ended else task.worker
        if worker is not None:
            task.cancel_requested = True
            if not force:
                # Before its descendants: a task that waits for one of them must see its own interrupt, not the error
                # of that one. Ray: core_worker.cc, HandleCancelTask.
                self._interrupt(now, worker, task)
        if recursive:
            self._cancel_children(now, task, force)
        if ended or worker is not None and not force:
            return
        failure = Failure("TASK_CANCELLED", "it was cancelled", about=task)
        self.fail(now, task, failure)  # if it is in a queue, the queue skips it later
        if worker is not None:
            self.cluster.worker_pool.kill(
                now, worker, Failure("WORKER_DIED", "its task was cancelled by force", about=worker)
            )

    def _interrupt(self, now: float, worker: WorkerRecord, task: TaskRecord) -> None:
        """Have a running task interrupted."""
        if task.spec.kind == ACTOR_TASK and task.number not in worker.running:
            # A plain method goes on, as in Ray, but waits for nothing more. `task_finished` discards its value.
            self.cluster.actions.append(InterruptWait(worker, task))
            return
        self.cluster.actions.append(InterruptTask(worker, task))
        if task.spec.kind != ACTOR_TASK:
            self.interrupted[task.number] = (now + INTERRUPT_GRACE_S, task, task.attempt)
            self.cluster.actions.append(CallLater(now + INTERRUPT_GRACE_S))

    def _cancel_children(self, now: float, task: TaskRecord, force: bool) -> None:
        """Cancel all unfinished descendants of a task, except actors. force: kill the workers of plain tasks, the last
        first, since those whose owner dies before they are cancelled would fail with it."""
        parents, descendants = [task.hex], []
        while parents:
            parent = parents.pop()
            for child in self.cluster.tasks.values():
                if child.parent == parent and not child.t_finished and child.spec.kind != ACTOR_CREATION_TASK:
                    parents.append(child.hex)
                    descendants.append(child)
        for child in reversed(descendants) if force else descendants:
            self.cancel(now, child, force and child.spec.kind != ACTOR_TASK, False)

    def give_up_interrupted(self, now: float) -> None:
        """Fail the cancelled tasks that no interrupt has reached within their grace, and give up their workers."""
        for number, (at, task, attempt) in list(self.interrupted.items()):
            if task.t_finished or task.attempt != attempt or task.was_interrupted:
                # It may be gone: when this loop gave up the task's owner, the task failed with it.
                self.interrupted.pop(number, None)
            elif at <= now:
                del self.interrupted[number]
                worker = task.worker
                self.fail(now, task, Failure("TASK_CANCELLED", "it was cancelled", about=task))
                self.cluster.worker_pool.kill(
                    now, worker, Failure("WORKER_DIED", "its cancelled task could not be interrupted", about=worker)
                )
