"""The worker pool: the records of workers, from the action that starts a worker until its death.

What becomes of that which a worker owned is told in `ownership`. Ray: raylet/worker_pool.h.
"""

from __future__ import annotations

from collections import deque

from .actions import KillWorker
from .records import ActorRecord, Failure, NodeRecord, WorkerRecord
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
        if worker.drain is not None and worker.drain.actor is None:  # its actor is DEAD already
            self.cluster.ownership.cut(now, worker.drain)
            return
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
        self.cluster.ownership.owner_gone(now, worker)
        self.cluster.scheduler.resources_freed(now)

    def kill(self, now: float, worker: WorkerRecord, failure: Failure) -> None:
        """End a worker whose task is over already. What it owned dies with it."""
        self.end(now, worker, failure, "INTENDED_SYSTEM_EXIT")
        self.cluster.ownership.owner_gone(now, worker)
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
            self.cluster.totals.worker_failed(worker)
        self.bury(worker)

    def bury(self, worker: WorkerRecord) -> None:
        """Keep the record of a dead worker until `dead_kept` more workers have died."""
        worker.node.workers.pop(worker.number, None)
        self._dead.append(worker.number)
        if len(self._dead) > self.dead_kept:
            dropped = self.cluster.workers.pop(self._dead.popleft(), None)
            self.cluster.dropped["workers"] += 1
            if dropped is not None:
                self.cluster.totals.worker_dropped(dropped)
