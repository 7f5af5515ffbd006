"""What the pytest plugin asks about a session at the end of a test: what the test has left behind."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable
from typing import Any

from ..core.transitions import ActorStatus, PlacementGroupStatus
from ..ids import INDEX_BITS
from ..observe.escape import escaped
from ..observe.stacks.report import ENDED, shortened


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
    lines = shortened(
        [
            f"task {escaped(task.spec.name)} ({'RUNNING' if task.t_started else task.status.name})"
            for task in tasks
            if task.actor is None or id(task.actor) not in ending
        ]
    )
    lines += shortened(
        [
            f"actor {escaped(actor.class_name)}"
            + (f" {escaped(actor.name)!r}" if actor.name else "")
            + f" ({actor.status.name})"
            for actor in actors
        ]
    )
    lines += shortened(
        [
            f"object {obj.hex}, " + (f"of task {escaped(obj.task.spec.name)}" if obj.task is not None else "put")
            for obj in objects
        ]
    )
    lines += shortened(
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
