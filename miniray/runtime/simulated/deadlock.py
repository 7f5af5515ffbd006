"""The texts of the DeadlockErrors: who waits for what, the circles, and where in the program each thread waits."""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType
from typing import Any

from ...core.records import ACTOR_TASK, PENDING, ObjectRecord, StreamRecord, TaskRecord
from .baton import Fiber
from .locks import SimLock

PACKAGE = __file__.partition(f"{os.sep}runtime{os.sep}simulated")[0] + os.sep
LIBRARY = os.path.dirname(os.__file__) + os.sep
INSTALLED = os.path.join(LIBRARY, "site-packages") + os.sep
THREAD_RUN = threading.Thread.run.__code__
MOST_NAMES = 20  # of threads, in one text


def reasons(runtime: Any, stuck: list[Fiber]) -> list[str]:
    """Why each of these fibers waits forever. runtime: of the session, None without one.

    A text begins with the fiber's own wait and the waits behind it, until one comes up again. The waits of the other
    fibers follow.
    """
    frames = sys._current_frames()
    links: dict[Fiber, tuple[str, Fiber | None]] = {}
    chains = {fiber: _chain(runtime, fiber, links, frames) for fiber in stuck}
    return [_reason(fiber, chains, links) for fiber in stuck]


def _chain(
    runtime: Any, fiber: Fiber, links: dict[Fiber, tuple[str, Fiber | None]], frames: dict[int, FrameType]
) -> list[Fiber]:
    """The fibers that a fiber waits for, one behind the other, beginning with itself. The last one is there twice if
    the waits are a circle."""
    chain: list[Fiber] = []
    at: Fiber | None = fiber
    while at is not None:
        chain.append(at)
        if at in chain[:-1]:
            break
        if at not in links:
            links[at] = _link(runtime, at, frames.get(at.ident))
        at = links[at][1]
    return chain


def _circle(chain: list[Fiber]) -> list[Fiber]:
    """The circle at the end of a chain, with its first fiber at both ends; [] if there is none."""
    first = chain.index(chain[-1])
    return chain[first:] if first < len(chain) - 1 else []


def _reason(fiber: Fiber, chains: dict[Fiber, list[Fiber]], links: dict[Fiber, tuple[str, Fiber | None]]) -> str:
    told = dict.fromkeys(chains[fiber])
    circle = _circle(chains[fiber])
    parts = [links[one][0] for one in told]
    if len(circle) > 2:  # a thread that waits for itself alone has been told
        parts.append(f"the circle is {' -> '.join(one.name for one in circle)}")
    names = _shortened([one.name for one in chains])
    text = (
        f"no thread of the simulation can go on, and no timer is pending: {'; '.join(parts)}. {len(chains)} "
        f"thread{'s wait' if len(chains) != 1 else ' waits'} forever: {', '.join(names)}"
    )
    others, besides = [one for one in chains if one not in told], []
    for other in others:
        circle = _circle(chains[other])
        if len(circle) > 2 and not told.keys() & circle:
            told.update(dict.fromkeys(circle))
            besides.append(f"another circle is {' -> '.join(one.name for one in circle)}")
    if others:
        text += f". Besides, {'; '.join(_shortened([links[other][0] for other in others]) + besides)}"
    return text


def _shortened(texts: list[str]) -> list[str]:
    return texts if len(texts) <= MOST_NAMES else [*texts[:MOST_NAMES], f"and {len(texts) - MOST_NAMES} more"]


def _link(runtime: Any, fiber: Fiber, frame: FrameType | None) -> tuple[str, Fiber | None]:
    """What a fiber waits for, as text; and the fiber that would have to do it. frame: the innermost of its thread."""
    objects = _awaited(runtime, fiber) if runtime is not None else []
    if objects:
        for record in objects:
            task = record.task if isinstance(record, (ObjectRecord, StreamRecord)) else None
            if task is not None:
                text, behind = _who_runs(runtime, task)
                return f"{fiber.name} waits for {task.spec.name}, {text}", behind
        why = runtime.why_stuck(objects)
        return f"{fiber.name} waits for an object" + (f" ({why})" if why else ""), None
    waiting: Any = fiber.waiting
    if isinstance(waiting, Fiber):
        return f"{fiber.name} waits for the end of {waiting.name}", waiting
    if isinstance(waiting, SimLock):
        return _lock_link(fiber, waiting, frame)
    return f"{fiber.name} waits for {waiting}", None


def _lock_link(fiber: Fiber, lock: SimLock, frame: FrameType | None) -> tuple[str, Fiber | None]:
    """The same for a lock. Conditions, events, queues and semaphores wait for a lock of their own, which belongs to
    nobody: they are named after the function of the standard library that the program has called."""
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    is_notified, called = frame is not None and _is_library(frame) and frame.f_code.co_name == "wait", ""
    while frame is not None and _is_library(frame):
        if frame.f_code is THREAD_RUN:  # the thread runs a function of the library
            frame = None
            break
        called = _name_of(frame)
        frame = frame.f_back
    place = f" ({os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})" if frame is not None else ""
    if is_notified:
        return f"{fiber.name} waits in {called}{place}", None
    text, owner = f"{fiber.name} waits for {lock.name}{place}", lock.owner
    if owner is None:
        return text, None
    if owner is fiber:
        return f"{text}, which it has itself", fiber
    if owner.is_over:
        return f"{text}, which {owner.name} has not released before its end", None
    return f"{text}, which {owner.name} has", owner


def _is_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(LIBRARY) and not file.startswith((INSTALLED, PACKAGE))


def _name_of(frame: FrameType) -> str:
    """The name of a function, with the class of its object."""
    name, owner = frame.f_code.co_name, frame.f_locals.get("self")
    return name if owner is None else f"{type(owner).__name__}.{name}"


def _awaited(runtime: Any, fiber: Fiber) -> list[Any]:
    handle = fiber.handle
    if handle is not None:
        return [record for record in handle.waiting if not _ready(record)]
    for waiter, objects in runtime.driver_waiters.copy().items():
        if waiter.thread == fiber.ident:
            return [record for record in objects if not _ready(record)]
    return []


def _ready(record: Any) -> bool:
    # That of a placement group has its value from the beginning, and is pending until there is room.
    return isinstance(record, ObjectRecord) and record.value is not None and record.status is not PENDING


def _who_runs(runtime: Any, task: TaskRecord) -> tuple[str, Fiber | None]:
    """Where a task that has not finished is, and the fiber on which that depends."""
    worker = task.worker
    if worker is not None and worker.handle is not None and worker.task is task:
        fiber = runtime.fiber_of(worker.handle)
        return f"which {fiber.name if fiber is not None else 'a worker'} runs", fiber
    if worker is not None and worker.handle is not None and task.t_started:
        fiber = runtime.fiber_of(worker.handle)
        return f"which has begun at {fiber.name if fiber is not None else 'a worker'}, and waits there", None
    actor = task.actor
    if task.spec.kind == ACTOR_TASK and actor is not None and actor.worker is not None:
        handle = actor.worker.handle
        fiber = runtime.fiber_of(handle) if handle is not None else None
        busy = actor.worker.task
        text = f"which is queued at {fiber.name if fiber is not None else actor.class_name}"
        return text + (f" behind {busy.spec.name}" if busy is not None else ""), fiber
    for dep in task.deps or ():
        if not _ready(dep) and dep.task is not None:
            return f"which needs the result of {dep.task.spec.name}", None
    why = runtime.why_stuck(list(task.returns) or [task])
    return "which has not been given to a worker" + (f" ({why})" if why else ""), None
