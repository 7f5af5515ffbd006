"""The worker pool: the records of workers, from the order to start one until its death, and what dies with it.

Ray: raylet/worker_pool.h; what happens to the property of a dead worker is in core_worker/reference_counter.h.
"""

from __future__ import annotations

from collections import deque

from .actions import KillWorker
from .records import (
    ACTOR_CREATION_TASK,
    FAILED,
    READY,
    ActorRecord,
    Failure,
    NodeRecord,
    ObjectRecord,
    TaskRecord,
    WorkerRecord,
)
from .tables import Tables
from .transitions import TaskStatus, WorkerStatus, move

DEAD = WorkerStatus.DEAD
DEAD_WORKERS_KEPT = 1_000
OVER = TaskStatus.FINISHED, TaskStatus.FAILED


class WorkerPool:
    """Creates and ends the records of workers. It keeps the records of the last `dead_kept` dead workers for the state rows."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.dead_kept = DEAD_WORKERS_KEPT
        self._dead: deque[int] = deque()
        self._last_number = 0

    def new(self, now: float, node: NodeRecord, actor: ActorRecord | None) -> WorkerRecord:
        """Make the record of a worker that is about to be started."""
        self._last_number += 1
        worker = WorkerRecord(self._last_number, node, actor)
        worker.t_created = now
        self.cluster.workers[worker.number] = node.workers[worker.number] = worker
        return worker

    def died(self, now: float, worker: WorkerRecord, failure: Failure, exit_type: str = "SYSTEM_ERROR") -> None:
        """A worker died: its actor may restart, and its task is retried or fails."""
        actor, task = worker.actor, worker.task
        if actor is not None:
            self.cluster.actor_manager.died(
                now,
                actor,
                Failure("ACTOR_DIED", failure.message, error=failure.error, cause=failure, about=actor),
                may_restart=True,
                exit_type=exit_type,
            )
            return
        self.end(now, worker, failure, exit_type)
        if task is not None and task.worker is worker and task.status not in OVER:
            self.cluster.task_manager.attempt_failed(now, task, failure, retry=True)
        self.owner_died(now, worker)
        self.cluster.scheduler.resources_freed(now)

    def kill(self, now: float, worker: WorkerRecord, failure: Failure) -> None:
        """End a worker whose task is already over."""
        self.end(now, worker, failure, "INTENDED_SYSTEM_EXIT")
        self.owner_died(now, worker)
        self.cluster.scheduler.resources_freed(now)

    def end(self, now: float, worker: WorkerRecord, failure: Failure, exit_type: str) -> None:
        """Declare a worker dead: it returns its resources, and the core ignores its later reports."""
        if worker.status is DEAD:
            return
        if worker.status is WorkerStatus.STARTING and worker.actor is None:
            worker.node.starting -= 1
        if worker.status is WorkerStatus.IDLE and worker in worker.node.idle:
            worker.node.idle.remove(worker)
        move(worker, DEAD)
        worker.t_died, worker.exit_type, worker.exit_detail = now, exit_type, failure.message
        self.cluster.scheduler.give_back(worker)
        self.cluster.actions.append(KillWorker(worker))
        if exit_type == "SYSTEM_ERROR":
            self.cluster.events.add(now, "worker_died", f"worker {worker.hex}: {failure.message}", worker)
        self.bury(worker)

    def bury(self, worker: WorkerRecord) -> None:
        """Keep the record of a dead worker for a while."""
        worker.node.workers.pop(worker.number, None)
        self._dead.append(worker.number)
        if len(self._dead) > self.dead_kept:
            self.cluster.workers.pop(self._dead.popleft(), None)
            self.cluster.dropped["workers"] += 1

    def owner_died(self, now: float, worker: WorkerRecord) -> None:
        """What a dead worker owned dies with it: its child actors, its tasks, and the values that others still hold."""
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
        for task in list(cluster.tasks.values()):
            if task.owner is worker and task.spec.kind != ACTOR_CREATION_TASK:
                self._orphan(now, task)
        for obj in list(cluster.objects.values()):
            if obj.owner is worker and obj.actor is None:
                self._owner_lost(now, obj, Failure("OWNER_DIED", "the worker that owned it has died", about=obj))

    def _orphan(self, now: float, task: TaskRecord) -> None:
        failure = Failure("OWNER_DIED", "the worker that owned it has died", about=task)
        if task.status not in OVER:
            runner = task.worker
            self.cluster.task_manager.fail(now, task, failure)
            if runner is not None and runner.actor is None and runner.status is not DEAD:
                self.kill(now, runner, failure)
            return
        for obj in task.returns:
            # A small result stays with everybody who has a reference to it, as in Ray, where each of them is a process.
            if not (obj.status is READY and obj.locations is None and (obj.refs or obj.uses)):
                self._owner_lost(now, obj, failure)

    def _owner_lost(self, now: float, obj: ObjectRecord, failure: Failure) -> None:
        if self.cluster.objects.get(obj.number) is not obj or obj.status is FAILED:
            return
        if obj.locations is not None:
            self.cluster.store.forget(obj)
        self.cluster.references.freed.append(obj.value)
        obj.value = failure
        self.cluster.task_manager.value_there(now, obj, FAILED, obj.size)
