"""Why something does not go on, and whether it ever can: the two questions, answered from the core's tables.

`explain` follows a chain from one record to the record that it waits for, and so on. `find_deadlock` tells whether a
`get` or `wait` can never return.
"""

from __future__ import annotations

from typing import Any

from ...core.records import ObjectRecord, StreamRecord, Waiter
from ..state.lookup import find, id_text
from .circles import circle_of, something_runs, stuck_among
from .links import link, missing
from .sentence import Explanation, Record, tell


def explain(runtime: Any, thing: Any) -> Explanation:
    """Why a task, actor, placement group or object does not go on, or what it is doing.

    thing: an ObjectRef, an actor handle, a PlacementGroup, or an id of one of them or of a task as hexadecimal text.
    The caller does not hold the lock. Raises ValueError if the session has no record with this id, or no longer has it;
    TypeError for a thing without an id.
    """
    text = id_text(thing)
    with runtime.locked() as cluster:
        record = find(cluster, text)
        if record is None:
            raise ValueError(f"{text!r} is not the id of a task, an actor, an object or a placement group known here")
        return _explain(runtime, record)


def explain_object(runtime: Any, obj: ObjectRecord | StreamRecord) -> str:
    """The sentence for an object or stream that somebody waits for. The caller does not hold the lock."""
    with runtime.locked():
        return _explain(runtime, obj).sentence


def _explain(runtime: Any, record: Record) -> Explanation:
    circle = circle_of(runtime, record)
    if circle is not None:
        return circle
    links, seen = [link(runtime, record)], {id(record)}
    while (after := links[-1].next) is not None and id(after) not in seen:
        seen.add(id(after))
        links.append(link(runtime, after))
    if isinstance(record, (ObjectRecord, StreamRecord)) and len(links) > 1:
        del links[0]  # the task that makes the object tells more
    return tell(record, links, links[-1].reason)


def find_deadlock(runtime: Any, objects: list[Any]) -> Explanation | None:
    """Why a get or wait for these objects and streams can never return; None if it may return.

    It cannot if the objects wait, in turn, for themselves. It cannot either if nothing runs that could change anything:
    every task with a worker waits without a timeout, no worker is starting, and every thread of the program itself,
    daemon threads apart, waits in miniray too. The caller does not hold the lock.
    """
    with runtime.locked() as cluster:
        waiter = _waiter_for(runtime, objects)
        absent = missing(objects)
        need = waiter.need if waiter is not None else len(absent)
        if not absent or need < 1:
            return None
        stuck = stuck_among(runtime, absent)
        free = [obj for obj in absent if id(obj) not in stuck]
        if len(free) < need and len(absent) > len(free):
            return circle_of(runtime, next(obj for obj in absent if id(obj) in stuck), stuck)
        if something_runs(runtime, cluster):
            return None
        found = _explain(runtime, absent[0])
        found.sentence += "; nothing else runs that could change this"
        return found


def _waiter_for(runtime: Any, objects: list[Any]) -> Waiter | None:
    """The waiter of the thread that waits for this very list."""
    waiters: dict[Waiter, list[Any]] = runtime.driver_waiters.copy()  # threads leave the dict without the lock
    for waiter, waited in waiters.items():
        if waited is objects:
            return waiter
    for worker in runtime.cluster.workers.values():
        if worker.handle is not None and worker.handle.waiting is objects:
            found: Waiter | None = worker.handle.waiter
            return found
    return None
