"""Why something does not run, and whether it ever can: sentences and data from the core's tables.

`explain` follows from one record to what it waits for, and from there on. A deadlock is found by asking which of the
things that are waited for, directly or in turn, could still go on: what needs only things that cannot, cannot either.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

from ...core.cluster import Cluster
from ...core.records import ACTOR_TASK, ActorRecord, ObjectRecord, StreamRecord, TaskRecord, Waiter, WorkerRecord
from ...core.transitions import TaskStatus, WorkerStatus
from ..state.lookup import find, id_text
from .links import Link, Record, calls_ahead, identity, link, missing, name_of

LINKS_SPOKEN = 6  # a longer chain is told by its first links and its last
LINKS_KEPT = 1_000


@dataclass
class Explanation:
    """Why something does not go on. str() of it is the sentence.

    reason: a short word for the end of the chain, or "deadlock". kind, id, name: what was asked about. chain: each step
    as a dict with kind, id, name, reason, text and details. details: those of the last step, which is the cause.
    """

    reason: str
    sentence: str
    kind: str = ""
    id: str = ""
    name: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    chain: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        return self.sentence

    def asdict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self)


def explain(runtime: Any, thing: Any) -> Explanation:
    """Why a task, actor, placement group or object does not go on, or what it is doing.

    thing: an ObjectRef, an actor handle, a PlacementGroup, or an id of one or of a task as hexadecimal text.
    ValueError when nothing of the session has this id, any more or at all.
    """
    text = id_text(thing)
    with runtime.locked() as cluster:
        record = find(cluster, text)
        if record is None:
            raise ValueError(f"{text!r} is not the id of a task, an actor, an object or a placement group known here")
        return _explain(runtime, record)


def explain_object(runtime: Any, obj: ObjectRecord) -> str:
    """The sentence for an object that somebody waits for."""
    with runtime.locked():
        return _explain(runtime, obj).sentence


# ------------------------------------------------------------ following the chain


def _explain(runtime: Any, record: Record) -> Explanation:
    circle = _circle(runtime, record)
    if circle is not None:
        return circle
    links, seen = [link(runtime, record)], {id(record)}
    while links[-1].next is not None and id(links[-1].next) not in seen:
        seen.add(id(links[-1].next))
        links.append(link(runtime, links[-1].next))
    if isinstance(record, (ObjectRecord, StreamRecord)) and len(links) > 1:
        del links[0]  # it is told by the task that makes it
    return _told(record, links, links[-1].reason, "")


def _told(record: Record, links: list[Link], reason: str, prefix: str) -> Explanation:
    first, last = links[0], links[-1]
    spoken = links if len(links) <= LINKS_SPOKEN else links[: LINKS_SPOKEN - 1]
    words = [f"{prefix}{first.name} {first.phrase}"]
    words += [f"{one.name}, which {one.phrase}" for one in spoken[1:]]
    if len(spoken) < len(links):
        words.append(
            f"{links[len(spoken)].name}, and so on over {len(links) - len(spoken)} more, the last of which, "
            f"{last.name}, {last.phrase}"
        )
    sentence = " ".join(words)
    if last.next is not None:
        sentence += f" {name_of(last.next)}"
    chain = [
        {
            "kind": one.kind,
            "id": one.id,
            "name": one.name,
            "reason": one.reason,
            "text": f"{one.name} {one.phrase}",
            "details": one.details,
        }
        for one in links[:LINKS_KEPT]
    ]
    kind, id = identity(record)
    return Explanation(reason, sentence, kind, id, name_of(record), last.details, chain)


# ------------------------------------------------------------ what can never go on


def find_deadlock(runtime: Any, objects: list) -> Explanation | None:
    """Why a get or wait for these objects and streams can never return; None when it may.

    Either what is waited for waits in turn for itself. Or nothing runs: every task that has a worker waits without a
    timeout, no worker is starting, and every thread of the program itself waits in miniray too, so that nobody is left
    who could change anything; daemon threads do not count as such. The lock must not be held.
    """
    with runtime.locked() as cluster:
        waiter = _waiter_for(runtime, objects)
        absent = missing(objects)
        need = waiter.need if waiter is not None else len(absent)
        if not absent or need < 1:
            return None
        stuck = _stuck(runtime, absent)
        free = [obj for obj in absent if id(obj) not in stuck]
        if len(free) < need and len(absent) > len(free):
            return _circle(runtime, next(obj for obj in absent if id(obj) in stuck), stuck)
        if _something_runs(runtime, cluster):
            return None
        found = _explain(runtime, absent[0])
        found.sentence += "; nothing else runs that could change this"
        return found


def _waiter_for(runtime: Any, objects: list) -> Waiter | None:
    """The waiter of whoever waits for exactly this list."""
    for waiter, waited in runtime.driver_waiters.copy().items():  # who has waited steps out of it without the lock
        if waited is objects:
            return waiter
    for worker in runtime.cluster.workers.values():
        if worker.handle is not None and worker.handle.waiting is objects:
            return worker.handle.waiter
    return None


def _needs(runtime: Any, record: Record) -> tuple[int, list[Record]] | None:
    """How many of which records must go on before this one can; None when it may go on without any of them."""
    if isinstance(record, ActorRecord):
        record = record.creation
    if isinstance(record, (ObjectRecord, StreamRecord)):
        waits = bool(missing([record])) and record.task is not None and not record.task.t_finished
        return (1, [record.task]) if waits else None
    if not isinstance(record, TaskRecord) or record.t_finished:
        return None
    if record.status is TaskStatus.PENDING_ARGS_AVAIL:
        absent = missing(record.deps)
        return (len(absent), absent) if absent else None
    if record.status is TaskStatus.PENDING_NODE_ASSIGNMENT:
        return (1, [record.actor.creation]) if record.spec.kind == ACTOR_TASK and record.actor is not None else None
    if record.worker is None:
        ahead = calls_ahead(record)[1] if record.actor is not None else []
        return (1, list(ahead)) if ahead else None
    return _blocked(runtime, record.worker)


def _blocked(runtime: Any, worker: WorkerRecord) -> tuple[int, list[Record]] | None:
    """What the worker's thread waits for without a timeout."""
    waiter = worker.handle.waiter if worker.handle is not None else None
    if waiter is None or waiter.fired or waiter.timed:
        return None
    absent = missing(runtime.waiting_for(worker))
    return (waiter.need, absent) if absent else None


def _stuck(runtime: Any, roots: list[Record]) -> dict[int, Record]:
    """The records, among those that the roots wait for in turn, that can never go on, by id().

    All are taken to be stuck at first. What needs nothing goes on, then whatever has enough of those that do, and so
    forth; what is never reached so waits in a circle.
    """
    left: dict[int, int] = {}  # how many more it needs
    known: dict[int, Record] = {}
    wanted_by: dict[int, list[int]] = {}
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
        left[id(record)] = needs[0]
        for other in needs[1]:
            wanted_by.setdefault(id(other), []).append(id(record))
            worklist.append(other)
    stuck = dict(known)
    while goes_on:
        one = goes_on.popleft()
        if stuck.pop(one, None) is None:
            continue
        for waiting in wanted_by.get(one, ()):
            left[waiting] -= 1
            if left[waiting] <= 0:
                goes_on.append(waiting)
    return stuck


def _circle(runtime: Any, record: Record, stuck: dict[int, Record] | None = None) -> Explanation | None:
    """The circle that a record waits in or for, told from the record on; None when there is none."""
    if stuck is None:
        stuck = _stuck(runtime, [record])
    if id(record) not in stuck:
        return None
    links: list[Link] = []
    seen: set[int] = set()
    at: Record | None = record
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        needs = _needs(runtime, at)
        after = next((other for other in (needs[1] if needs is not None else ()) if id(other) in stuck), None)
        if not isinstance(at, (ObjectRecord, StreamRecord)):  # these are told by the task that makes them
            links.append(link(runtime, at))
            links[-1].next = after.task if isinstance(after, (ObjectRecord, StreamRecord)) else after
        at = after
    return _told(record, links, "deadlock", "deadlock: ")


def _something_runs(runtime: Any, cluster: Cluster) -> bool:
    """Whether anything is left that could change the state of the session."""
    for worker in cluster.workers.values():
        if worker.status is WorkerStatus.DEAD:
            continue
        if worker.status is WorkerStatus.STARTING:
            return True
        busy = worker.running or worker.task is not None
        if busy and _blocked(runtime, worker) is None and not _held_back(worker):
            return True
    return bool(cluster.task_manager.interrupted) or any(
        not runtime.waits_forever(thread.ident or 0) for thread in threading.enumerate() if not thread.daemon
    )


def _held_back(worker: WorkerRecord) -> bool:
    """Whether a task of it is a generator that waits for its consumer, and holds up the whole worker."""
    tasks = [worker.task] if worker.task is not None else worker.running.values()
    return any(task.stream is not None and task.stream.producer_waiter is not None for task in tasks)
