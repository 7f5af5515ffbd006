"""Ownership: what becomes of the work and the values of a worker that ends.

Theory of operation. A worker owns the tasks and calls that it submitted, the values that it put, and the actors that it
created. (The driver owns what it made itself; that ends with the session.) An owner ends in one of two ways.

*In good order.* Its process stays until all tasks and calls that it has submitted are over, retries included. This is
the *drain*. Only then is it gone. The ends in good order are: the last handle of the actor was dropped; the actor called
exit_actor or `__ray_terminate__`, or raised SystemExit; its constructor raised. A plain task that has ended is no end of
an owner: its worker stays.

*By a crash.* It is gone at once: `kill`, a worker or a node that dies, SystemExit in a plain task, cancel(force=True), the
death of the actor's own owner, and a drain that has passed its limit.

What then happens:

| of the owner | while it drains | when it is gone after a drain | when it crashes |
|---|---|---|---|
| tasks, queued or running, and their retries | run to their end | (over) | end: OWNER_DIED |
| calls that were sent to an actor | run to their end | (over) | run to their end, once |
| calls that were not sent: an argument is missing, or the actor is not alive | run to their end | (over) | end: OWNER_DIED |
| values that it put, large values that its tasks returned | there | OWNER_DIED | OWNER_DIED |
| small values that its tasks returned and that somebody holds | there | there | there |
| returns that have no value yet | come | (over) | OWNER_DIED |
| actors that it created, unless detached | live; are not waited for | die, by a crash | die, by a crash |
| placement groups, detached actors | stay | stay | stay |

*Why a sent call survives.* In Ray it is in the queue of the actor's process, which knows nothing of the caller's end. The
owner is missing only when the call fails (it decides about retries) and when somebody wants the value. So `_orphan` takes
the retries from the call, and gives its returns the error at once. A task needs its owner for longer: the owner holds the
lease of the worker that runs it.

*The limit.* A drain has no limit, except that after the last handle of the actor was dropped, the drain may take
`drop_limit_s` longer. A drain that is cut then is a crash, as is a `kill` during the drain. A worker whose running task
ended because the owner of that task crashed has the same limit for the work of the task.

*During the drain* an actor that ended itself is still ALIVE and found by its name. Calls that run in its other threads go
on, and the drain waits for them, too. The actor starts no other call: these wait, and share the fate of its worker. If it
was dropped, it is DEAD and its name is free. In both cases the worker keeps its lease.

*How the end is noticed.* `WorkerRecord.unfinished` counts the tasks and calls of a worker that are not over. All workers
of an actor are one owner, as they are one process in Ray, so a `Drain` has a list of workers. Whoever ends the last task
of a draining worker puts its Drain on the worklist `Tables.drained`; `settle` works that off at the end of the event.

Ray: core_worker/core_worker.h (Exit), gcs/gcs_actor_manager.h, raylet/node_manager.h.
"""

from __future__ import annotations

from .actions import CallLater
from .records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    FAILED,
    READY,
    ActorRecord,
    Drain,
    Failure,
    ObjectRecord,
    TaskRecord,
    WorkerRecord,
)
from .tables import Tables
from .transitions import TaskStatus

OVER = TaskStatus.FINISHED, TaskStatus.FAILED
DROP_LIMIT_S = 5.0  # Ray: kill_worker_timeout_milliseconds


class Ownership:
    """Ends owners. drains: the drains in progress, in the order of their begin; a drain leaves when it is over."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.drains: dict[Drain, None] = {}
        self.drop_limit_s = DROP_LIMIT_S

    # ------------------------------------------------------------ the drain

    def drain(
        self,
        now: float,
        workers: list[WorkerRecord],
        failure: Failure,
        exit_type: str,
        actor: ActorRecord | None = None,
        may_restart: bool = False,
        limited: bool = False,
    ) -> bool:
        """Let an owner, which is these workers, end in good order. Returns False, and does nothing, if it has no
        unfinished work: the caller ends it at once.

        failure, exit_type: of the workers, when they are gone. actor: the actor that ended itself and is still ALIVE; it
        dies, or restarts, when the drain is over. limited: the drain has a limit.
        """
        drain = Drain(workers, failure, exit_type, actor, may_restart)
        if not self._waits(drain):
            return False
        for worker in workers:
            if worker.drain is not None:  # the actor ended itself, and now its last handle was dropped, too
                self.drains.pop(worker.drain, None)
            worker.drain = drain
        self.drains[drain] = None
        if actor is not None:
            actor.drain = drain
        if limited:
            drain.until = now + self.drop_limit_s
            self.cluster.actions.append(CallLater(drain.until))
        return True

    @staticmethod
    def _waits(drain: Drain) -> bool:
        """Whether there is something left that the drain waits for."""
        for worker in drain.workers:
            if worker.unfinished:
                return True
        return drain.actor is not None and any(group.running for group in drain.actor.groups.values())

    def settle(self, now: float) -> None:
        """End the owners whose last work is over, and settle what follows from that."""
        cluster = self.cluster
        while cluster.drained:
            drain = cluster.drained.popleft()
            if drain in self.drains and not self._waits(drain):
                self._gone(now, drain, drain.exit_type)
            if cluster.ready:
                cluster.wakeups.settle(now)

    def time_is_up(self, now: float) -> None:
        """Cut the drains that have passed their limit."""
        for drain in list(self.drains):
            if drain.until and drain.until <= now and drain in self.drains:
                self.cut(now, drain)

    def cut(self, now: float, drain: Drain) -> None:
        """End a drain by a crash: its owner loses what it has left."""
        self._gone(now, drain, "SYSTEM_ERROR")

    def _gone(self, now: float, drain: Drain, exit_type: str) -> None:
        if drain.actor is not None:
            self.cluster.actor_manager.died(now, drain.actor, drain.failure, drain.may_restart, exit_type)
            return
        self.forget(drain)
        for worker in drain.workers:
            self.cluster.worker_pool.end(now, worker, drain.failure, exit_type)
        for worker in drain.workers:
            self.owner_gone(now, worker)
        self.cluster.scheduler.resources_freed(now)

    def forget(self, drain: Drain) -> None:
        """The drain is over, or another end has overtaken it."""
        self.drains.pop(drain, None)
        for worker in drain.workers:
            worker.drain = None
        if drain.actor is not None:
            drain.actor.drain = None

    # ------------------------------------------------------------ the owner is gone

    def owner_gone(self, now: float, worker: WorkerRecord) -> None:
        """What a dead worker owned ends with it, as far as the table above says so."""
        if not worker.owns:
            return
        worker.owns = False
        cluster = self.cluster
        for actor in list(cluster.actors.values()):
            if actor.owner is worker and not actor.detached:
                cluster.actor_manager.died(
                    now,
                    actor,
                    Failure("ACTOR_DIED", "its owner, the worker that created it, has died", about=actor),
                    may_restart=False,
                )
        # The last call first: whether a call was sent depends on the calls before it.
        for task in reversed(list(cluster.tasks.values())):
            if task.owner is worker and task.spec.kind != ACTOR_CREATION_TASK:
                self._orphan(now, task)
        for obj in list(cluster.objects.values()):
            if obj.owner is worker and obj.actor is None:
                self._owner_lost(now, obj, Failure("OWNER_DIED", "the worker that owned it has died", about=obj))

    def _orphan(self, now: float, task: TaskRecord) -> None:
        """The owner of a task is gone."""
        failure = Failure("OWNER_DIED", "the worker that owned it has died", about=task)
        if task.status in OVER:
            for obj in task.returns:
                # A small value survives while anybody holds a reference. In Ray, the process of each holder has a copy.
                if not (obj.status is READY and obj.locations is None and (obj.refs or obj.uses)):
                    self._owner_lost(now, obj, failure)
        elif task.spec.kind == ACTOR_TASK and self._was_sent(task):
            task.retries_left = 0
            for obj in task.returns:
                self._owner_lost(now, obj, failure)
        else:
            runner = task.worker
            self.cluster.task_manager.fail(now, task, failure)
            if runner is not None:
                self._end_runner(now, task, runner)

    @staticmethod
    def _was_sent(call: TaskRecord) -> bool:
        """Whether a call had left its caller. It had not if it waits for an argument, or for an earlier call of the same
        caller that does, or if its actor is not alive."""
        if call.worker is not None:
            return True
        if call.status is not TaskStatus.SUBMITTED_TO_WORKER:
            return False
        actor = call.actor
        if actor.in_order:
            for other in actor.groups[""].queue:
                if other is call:
                    break
                if other.owner is call.owner and other.status is TaskStatus.PENDING_ARGS_AVAIL:
                    return False
        return True

    def _end_runner(self, now: float, task: TaskRecord, runner: WorkerRecord) -> None:
        """End the worker that ran a task whose owner is gone. The work that the task has submitted may go on for a
        while."""
        cluster, why = self.cluster, "the owner of its task has died"
        failure = Failure("WORKER_DIED", why, about=runner)
        task.failure = Failure("WORKER_DIED", why, about=task)  # what its row says; its returns say OWNER_DIED
        cluster.worker_pool.end(now, runner, failure, "INTENDED_SYSTEM_EXIT")
        if not self.drain(now, [runner], failure, "INTENDED_SYSTEM_EXIT", limited=True):
            self.owner_gone(now, runner)
        cluster.scheduler.resources_freed(now)

    def _owner_lost(self, now: float, obj: ObjectRecord, failure: Failure) -> None:
        """The owner of an object is gone: the object holds this failure in place of its value."""
        if self.cluster.objects.get(obj.number) is not obj or obj.status is FAILED:
            return
        if obj.locations is not None:
            self.cluster.store.forget(obj)
        self.cluster.references.freed.append(obj.value)
        obj.value = failure
        self.cluster.task_manager.value_there(now, obj, FAILED, obj.size)
        self.cluster.references.check(now, obj)  # nobody may need the return of a call that still runs
