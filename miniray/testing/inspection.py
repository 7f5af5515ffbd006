"""What the pytest plugin asks about a session: what is pending and why, the workers' stacks, a test's leftovers."""

from __future__ import annotations

import gc
import os
import re
import threading
import traceback
from collections.abc import Iterable
from typing import Any

from ..core.transitions import ActorStatus, PlacementGroupStatus, TaskStatus, WorkerStatus
from ..ids import INDEX_BITS
from ..observe.escape import escaped
from ..observe.explain.explanation import explain
from ..runtime.frames import current_frames

HERE = os.path.dirname(__file__)
_TEST_RUNNER = re.compile(r"[/\\](_pytest|pluggy)[/\\]")
_RUNTIME = re.compile(r"[/\\](miniray[/\\]runtime[/\\]|threading\.py|asyncio[/\\])|^<frozen")
MOST = 50  # lines of one kind in a report; a last line says how many more there are
ENDED = (TaskStatus.FINISHED, TaskStatus.FAILED)
NOT_ALIVE_YET = (ActorStatus.DEPENDENCIES_UNREADY, ActorStatus.PENDING_CREATION, ActorStatus.RESTARTING)


def pending_report(runtime: Any) -> str:
    """What each pending task, actor and placement group waits for, then the stack of each worker and thread."""
    with runtime.locked() as cluster:
        waiting = [task for task in cluster.tasks.values() if task.status not in ENDED]
        waiting += [actor for actor in cluster.actors.values() if actor.status in NOT_ALIVE_YET]
        waiting += [
            group
            for group in cluster.placement_groups.values()
            if group.status in (PlacementGroupStatus.PENDING, PlacementGroupStatus.RESCHEDULING)
        ]
        ids = [record.hex for record in waiting]
        workers = [worker for worker in cluster.workers.values() if worker.status is not WorkerStatus.DEAD]
    lines = ["Pending:", *(_indented(_shortened([_why(runtime, id) for id in ids])) or ["  nothing"])]
    frames = current_frames()
    for worker in workers:
        frame = frames.pop(getattr(worker.handle, "ident", 0), None)
        tasks = [worker.task] if worker.task is not None else list(worker.running.values())
        doing = (
            "is idle"
            if not tasks
            else f"runs {escaped(tasks[0].spec.name)}"
            if len(tasks) == 1
            else f"runs {len(tasks)} calls"
        )
        lines.append(f"Worker {worker.number} {doing}" + ("" if frame is not None and doing != "is idle" else "."))
        if frame is not None and doing != "is idle":
            lines += _stack(frame)
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in frames.items():
        lines += [f"Thread {escaped(names.get(ident, str(ident)))}", *_stack(frame)]
    return "\n".join(lines)


def _why(runtime: Any, id: str) -> str:
    try:
        return str(explain(runtime, id))
    except ValueError:  # its record has been dropped since the ids were collected
        return f"{id} is no longer pending"


def _stack(frame: Any) -> list[str]:
    """A stack as lines, without the frames of this report, and of the test runner and runtime below the user's code."""
    frames = traceback.extract_stack(frame)
    while frames and frames[-1].filename.startswith(HERE):
        frames.pop()
    first = max((i + 1 for i, entry in enumerate(frames) if _TEST_RUNNER.search(entry.filename)), default=0)
    while first < len(frames) - 1 and _RUNTIME.search(frames[first].filename):
        first += 1
    return "".join(traceback.format_list(frames[first:])).rstrip().split("\n")


def last_number(runtime: Any) -> int:
    """The last number that the session has given to a task, actor, object or group. Later ones get higher numbers."""
    number: int = runtime.cluster.number
    return number


def left_behind(runtime: Any, since: int = 0) -> list[str]:
    """One line for each thing that a test has left in its session.

    These are unfinished tasks, actors, placement groups, and objects that the program still refers to. An actor without
    handles is about to end and is not reported; a detached actor is. since: report only what was created after this
    `last_number`.
    """
    gc.collect()  # drop the references that are only part of a cycle
    with runtime.locked() as cluster:
        tasks = [task for task in cluster.tasks.values() if task.number > since and task.status not in ENDED]
        actors = [
            actor
            for actor in cluster.actors.values()
            if actor.number > since and actor.status is not ActorStatus.DEAD and not actor.out_of_scope
        ]
        groups = [
            group
            for group in cluster.placement_groups.values()
            if group.number > since and group.status is not PlacementGroupStatus.REMOVED
        ]
        own = {id(record.handle) for record in cluster.actors.values()}
        own |= {id(record.weak_handle) for record in cluster.actors.values()}
        own |= {id(group.ready) for group in cluster.placement_groups.values()}
        objects = [
            obj
            for obj in cluster.objects.values()
            if obj.refs > 0 and id(obj) not in own and obj.number >> INDEX_BITS > since
        ]
        ending = {id(actor) for actor in cluster.actors.values() if actor.out_of_scope}
    lines = _shortened(
        [
            f"task {escaped(task.spec.name)} ({'RUNNING' if task.t_started else task.status.name})"
            for task in tasks
            if task.actor is None or id(task.actor) not in ending
        ]
    )
    lines += _shortened(
        [
            f"actor {escaped(actor.class_name)}"
            + (f" {escaped(actor.name)!r}" if actor.name else "")
            + f" ({actor.status.name})"
            for actor in actors
        ]
    )
    lines += _shortened(
        [
            f"object {obj.hex}, " + (f"of task {escaped(obj.task.spec.name)}" if obj.task is not None else "put")
            for obj in objects
        ]
    )
    lines += _shortened(
        [f"placement group {escaped(group.name or group.hex)} ({group.status.name})" for group in groups]
    )
    return lines


def threads_left(runtime: Any, before: Iterable[threading.Thread]) -> list[str]:
    """One line for each thread that is not in `before`.

    runtime: of an ended session; its stuck workers are named as such.
    """
    known = set(before)
    stuck = {handle.ident: handle.record for handle in list(getattr(runtime, "threads", ()))}
    lines = [f"worker {record.number}, whose thread did not end" for record in stuck.values()]
    lines += [
        f"thread {escaped(thread.name)}"
        for thread in threading.enumerate()
        if thread.is_alive()
        and thread not in known
        and thread.ident not in stuck
        and not isinstance(thread, threading._DummyThread)
    ]
    return lines


def _shortened(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MOST else [*lines[:MOST], f"... and {len(lines) - MOST} more"]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
