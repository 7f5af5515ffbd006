"""The worker pool: the records of workers, from the action that starts a worker until its death, and what dies with it.

A worker owns the tasks that it submitted, the actors that it created and the values that it put. When it dies, they
die. Ray: raylet/worker_pool.h; for what a dead worker owned, core_worker/reference_counter.h.
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
DEAD_WORKERS_KEPT = 1_000  # records, for the state rows
OVER = TaskStatus.FINISHED, TaskStatus.FAILED


class WorkerPool:
    """Creates the records of workers, declares workers dead, and keeps the last `dead_kept` dead records."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.dead_kept = DEAD_WORKERS_KEPT
        self._dead: deque[int] = deque()
        self._last_number = 0

    def new(self, now: float, node: NodeRecord, actor: ActorRecord | None) -> WorkerRecord:
        """Create the record of a worker that is about to be started. actor: the actor that will live in it."""
        self._last_number += 1
        worker = WorkerRecord(self._last_number, node, actor)
        worker.t_created = now
        self.cluster.workers[worker.number] = node.workers[worker.number] = worker
        return worker

    def died(self, now: float, worker: WorkerRecord, failure: Failure, exit_type: str = "SYSTEM_ERROR") -> None:
        """A worker died: its actor is restarted or dies, its task is retried or fails, what it owned dies."""
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
        """End a worker whose task is over already. What it owned dies with it."""
        self.end(now, worker, failure, "INTENDED_SYSTEM_EXIT")
        self.owner_died(now, worker)
        self.cluster.scheduler.resources_freed(now)

    def end(self, now: float, worker: WorkerRecord, failure: Failure, exit_type: str) -> None:
        """Declare a worker dead: it returns its lease, and the core ignores its later reports."""
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
        """Keep the record of a dead worker until `dead_kept` more workers have died."""
        worker.node.workers.pop(worker.number, None)
        self._dead.append(worker.number)
        if len(self._dead) > self.dead_kept:
            self.cluster.workers.pop(self._dead.popleft(), None)
            self.cluster.dropped["workers"] += 1

    def owner_died(self, now: float, worker: WorkerRecord) -> None:
        """What a dead worker owned dies: its actors, unless detached, its tasks, and the values that others hold."""
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
        """The owner of a task died: an unfinished task fails and its worker ends; a finished one loses its values."""
        failure = Failure("OWNER_DIED", "the worker that owned it has died", about=task)
        if task.status not in OVER:
            runner = task.worker
            self.cluster.task_manager.fail(now, task, failure)
            if runner is not None and runner.actor is None and runner.status is not DEAD:
                self.kill(now, runner, failure)
            return
        for obj in task.returns:
            # A small value survives while anybody holds a reference. In Ray, the process of each holder has a copy.
            if not (obj.status is READY and obj.locations is None and (obj.refs or obj.uses)):
                self._owner_lost(now, obj, failure)

    def _owner_lost(self, now: float, obj: ObjectRecord, failure: Failure) -> None:
        """The owner of an object has died: the object holds this failure in place of its value."""
        if self.cluster.objects.get(obj.number) is not obj or obj.status is FAILED:
            return
        if obj.locations is not None:
            self.cluster.store.forget(obj)
        self.cluster.references.freed.append(obj.value)
        obj.value = failure
        self.cluster.task_manager.value_there(now, obj, FAILED, obj.size)
