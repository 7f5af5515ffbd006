"""The text of a DeadlockError: who waits for what, in a circle where there is one."""

from __future__ import annotations

from typing import Any

from ...core.records import ACTOR_TASK, ObjectRecord, StreamRecord, TaskRecord
from .baton import Fiber
from .locks import SimLock


def reason(runtime: Any, fiber: Fiber, stuck: list[Fiber]) -> str:
    """Why a fiber waits forever: its wait, and the waits behind it until one comes up again. runtime: of the session,
    None without one."""
    links: list[str] = []
    seen: list[Fiber] = []
    at: Fiber | None = fiber
    while at is not None and at not in seen:
        seen.append(at)
        text, at = _link(runtime, at, stuck)
        links.append(text)
    if at is not None:
        first = seen.index(at)
        circle = " -> ".join([one.name for one in seen[first:]] + [at.name])
        links.append(f"the circle is {circle}")
    return (
        "no thread of the simulation can go on, and no timer is pending: " + "; ".join(links) + f". {len(stuck)} "
        f"thread{'s wait' if len(stuck) != 1 else ' waits'} forever: {', '.join(one.name for one in stuck)}"
    )


def _link(runtime: Any, fiber: Fiber, stuck: list[Fiber]) -> tuple[str, Fiber | None]:
    """What a fiber waits for, as text; and the fiber that would have to do it."""
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
    if isinstance(waiting, SimLock):
        owner = waiting.owner
        if owner is not None and owner in stuck and owner is not fiber:
            return f"{fiber.name} waits for a lock that {owner.name} has", owner
        return f"{fiber.name} waits for a lock, an event or a queue", None
    return f"{fiber.name} waits for {waiting}", None


def _awaited(runtime: Any, fiber: Fiber) -> list[Any]:
    handle = fiber.handle
    if handle is not None:
        return [record for record in handle.waiting if not _ready(record)]
    for waiter, objects in runtime.driver_waiters.copy().items():
        if waiter.thread == fiber.ident:
            return [record for record in objects if not _ready(record)]
    return []


def _ready(record: Any) -> bool:
    return bool(record.value is not None) if isinstance(record, ObjectRecord) else False


def _who_runs(runtime: Any, task: TaskRecord) -> tuple[str, Fiber | None]:
    """Where a task that has not finished is, and the fiber on which that depends."""
    worker = task.worker
    if worker is not None and worker.handle is not None and worker.task is task:
        fiber = runtime.fiber_of(worker.handle)
        return f"which {fiber.name if fiber is not None else 'a worker'} runs", fiber
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
