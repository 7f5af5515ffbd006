"""Which records can never go on, because they wait for each other in a circle, and whether anything still runs.

The caller of every function here holds the runtime's lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from ...core.cluster import Cluster
from ...core.records import ACTOR_TASK, ActorRecord, ObjectRecord, StreamRecord, TaskRecord, Waiter, WorkerRecord
from ...core.transitions import TaskStatus, WorkerStatus
from .links import calls_ahead, link, missing, not_run_by_ending_actor, work_of
from .sentence import Explanation, Link, Record, tell


def stuck_among(runtime: Any, roots: Sequence[Record]) -> dict[int, Record]:
    """The records that can never go on, by id(): some of the roots, and of the records that they wait for in turn.

    Assume first that every record is stuck. A record that needs nothing goes on; so does a record once enough of the
    records that it needs go on; and so forth. The records that are never reached in this way wait in a circle, or for
    one.
    """
    still_needs: dict[int, int] = {}  # how many more records must go on before this one does
    known: dict[int, Record] = {}
    needed_by: dict[int, list[int]] = {}
    goes_on: deque[int] = deque()
    worklist = deque(roots)
    while worklist:
        record = worklist.popleft()
        if id(record) in known:
            continue
        known[id(record)] = record
        needs = _needs(runtime, record)
        if needs is None:
            goes_on.append(id(record))
            continue
        still_needs[id(record)] = needs[0]
        for other in needs[1]:
            needed_by.setdefault(id(other), []).append(id(record))
            worklist.append(other)
    stuck = dict(known)
    while goes_on:
        key = goes_on.popleft()
        if stuck.pop(key, None) is None:
            continue
        for waiting in needed_by.get(key, ()):
            still_needs[waiting] -= 1
            if still_needs[waiting] <= 0:
                goes_on.append(waiting)
    return stuck


def circle_of(runtime: Any, record: Record, stuck: dict[int, Record] | None = None) -> Explanation | None:
    """The circle that a record is part of, or waits for, told from this record on; None if there is none.

    stuck: the result of `stuck_among`, if the caller has it already.
    """
    if stuck is None:
        stuck = stuck_among(runtime, [record])
    if id(record) not in stuck:
        return None
    links: list[Link] = []
    seen: set[int] = set()
    at: Record | None = record
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        needs = _needs(runtime, at)
        after = next((other for other in (needs[1] if needs is not None else ()) if id(other) in stuck), None)
        if not isinstance(at, (ObjectRecord, StreamRecord)):  # the task that makes an object stands for it
            links.append(link(runtime, at))
            links[-1].next = after.task if isinstance(after, (ObjectRecord, StreamRecord)) else after
        at = after
    return tell(record, links, "deadlock", "deadlock: ")


def _needs(runtime: Any, record: Record) -> tuple[int, Sequence[Record]] | None:
    """How many of which records must go on before this one can; None if it can go on without any of them."""
    if isinstance(record, ActorRecord):
        return 1, [record.creation]
    if isinstance(record, (ObjectRecord, StreamRecord)):
        waits = bool(missing([record])) and record.task is not None and not record.task.t_finished
        return (1, [record.task]) if waits else None
    if not isinstance(record, TaskRecord) or record.t_finished:
        return None
    if record.status is TaskStatus.PENDING_ARGS_AVAIL:
        absent = missing(record.deps)
        return (len(absent), absent) if absent else None
    if not_run_by_ending_actor(record) and record.actor is not None:
        work = work_of(runtime.cluster, record.actor.drain)
        return len(work), work
    if record.status is TaskStatus.PENDING_NODE_ASSIGNMENT:
        return (1, [record.actor.creation]) if record.spec.kind == ACTOR_TASK and record.actor is not None else None
    if record.worker is None:
        ahead = calls_ahead(record)[1] if record.actor is not None else []
        return (1, ahead) if ahead else None
    return _blocked(runtime, record.worker)


def _blocked(runtime: Any, worker: WorkerRecord) -> tuple[int, Sequence[Record]] | None:
    """What the worker's thread waits for without a timeout, as `_needs` has it."""
    waiter: Waiter | None = worker.handle.waiter if worker.handle is not None else None
    if waiter is None or waiter.fired or waiter.timed:
        return None
    absent = missing(runtime.waiting_for(worker))
    return (waiter.need, absent) if absent else None


def something_runs(runtime: Any, cluster: Cluster) -> bool:
    """Whether anything is left that could change the state of the session: a worker or a thread of the program.

    Daemon threads do not count, because a program cannot rely on them.
    """
    for worker in cluster.workers.values():
        if worker.status is WorkerStatus.DEAD:
            continue
        if worker.status is WorkerStatus.STARTING:
            return True
        busy = worker.running or worker.task is not None
        if busy and _blocked(runtime, worker) is None and not _held_back(worker):
            return True
    if any(drain.until for drain in cluster.ownership.drains):
        return True  # it will be cut
    return bool(cluster.task_manager.interrupted) or any(
        not runtime.waits_forever(thread.ident or 0) for thread in threading.enumerate() if not thread.daemon
    )


def _held_back(worker: WorkerRecord) -> bool:
    """Whether a task of the worker is a generator that waits for its consumer, and holds up the whole worker."""
    tasks = [worker.task] if worker.task is not None else worker.running.values()
    return any(task.stream is not None and task.stream.producer_waiter is not None for task in tasks)
