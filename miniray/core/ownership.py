"""Ownership: what becomes of the work and the values of a worker that ends.

Theory of operation. A worker owns the tasks and calls that it submitted, the values that it put, and the actors that it
created. (What the driver owns ends with the session.) An owner ends in one of two ways.

*In good order.* The owner stays until all tasks and calls that it has submitted are over, retries included: it
*drains*. Only then is it gone. These are the ends in good order: the last handle of an actor was dropped; an actor
called exit_actor or `__ray_terminate__`, or raised SystemExit; a constructor raised. The end of a plain task is not the
end of an owner, because the task's worker stays.

*By a crash.* The owner is gone at once. These are the crashes: `kill`, the death of a worker or a node, SystemExit in a
plain task, `cancel` by force, the end of the actor's own owner, and a drain that has passed its limit.

What then becomes of what it owned:

| | while it drains | gone after a drain | gone by a crash |
|---|---|---|---|
| tasks and their retries | run to their end | (over) | end: OWNER_DIED |
| calls that were sent to an actor | run to their end | (over) | run to their end, once |
| calls that were not sent yet | run to their end | (over) | end: OWNER_DIED |
| returns without a value | come | (over) | OWNER_DIED |
| small returns that somebody holds | stay | stay | stay |
| large returns, values that were put | stay | OWNER_DIED | OWNER_DIED |
| its actors, unless they are detached | live; nobody waits for them | crash | crash |
| detached actors, placement groups | stay | stay | stay |

*Why a sent call survives a crash.* In Ray the call is in the queue of the actor's process, which does not notice the
end of the caller. Only two things need the owner: a retry, and the value. So `_orphan` takes the retries from the call
and puts the error into its returns at once. A call was sent if its arguments are ready, its actor is alive, and no
earlier call of the same caller waits for an argument. A normal task needs its owner for longer, since the owner holds
the lease of the task's worker.

*The limit.* A drain may take forever, with one exception: from the moment when the last handle of the actor is dropped,
the drain may take `drop_limit_s` longer. Then it is cut, which is a crash; so is `kill` during a drain. The worker of a
task whose owner has crashed has the same limit for the work that the task has submitted.

*During the drain* an actor that ended itself is still ALIVE (after a failed constructor: PENDING_CREATION), and its
name is taken. The drain also waits for the calls that run in the actor's other threads. The actor starts no further
call; those wait, and fail with it. An actor that was dropped is DEAD, and its name is free. In both cases the worker
keeps its lease.

*How the end is noticed.* `WorkerRecord.unfinished` counts the tasks and calls of a worker that are not over. All
workers of an actor are one owner, as they are one process in Ray; `Drain` lists them. When a task of a draining worker
ends, the task manager puts the Drain on the worklist `Tables.drained`. `settle` works the list off at the end of the
event.

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

        failure, exit_type: of the workers, when they are gone. actor: the actor that ended itself and is still ALIVE;
        it dies, or restarts, when the drain is over. limited: the drain has a limit.
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
        """Whether a call had left its caller. It had not if it waits for an argument, or is behind a call of the same
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
