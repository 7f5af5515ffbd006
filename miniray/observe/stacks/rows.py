"""The stacks as rows of `miniray.state`: one row for each stack, every column filled."""

from __future__ import annotations

from typing import Any

from ...core.records import ACTOR_CREATION_TASK
from ...ids import worker_hex
from ..state.task_columns import process_of
from .reading import CallStack, read


def stack_rows(runtime: Any, all_frames: bool = False) -> list[dict[str, Any]]:
    """The rows that `miniray.state.stacks` returns, and in their order."""
    return [row(stack, runtime) for stack in read(runtime, all_frames)]


def row(stack: CallStack, runtime: Any) -> dict[str, Any]:
    """One stack as a row. See `miniray.state.stacks` for its columns."""
    task, worker, since = stack.task, stack.worker, stack.since
    actor = task.actor if task is not None else worker.actor if worker is not None else None
    head = next(iter(runtime.cluster.nodes.copy().values()), None)
    node = worker.node if worker is not None else head
    return {
        "kind": stack.kind,
        "name": stack.name,
        "type": task.spec.kind if task is not None else None,
        "state": "WAITING" if stack.waiting else "RUNNING",
        "task_id": task.hex if task is not None else None,
        "attempt_number": stack.attempt if task is not None else None,
        "actor_id": actor.hex if actor is not None else None,
        "node_id": node.hex if node is not None else None,
        "worker_id": process_of(worker).hex if worker is not None else worker_hex(0),
        "thread_id": stack.thread or None,
        "thread_name": stack.thread_name or None,
        "start_time_ms": (since + runtime.epoch) * 1000 if since else None,
        "duration_ms": (stack.now - since) * 1000 if since else None,
        "awaits": stack.awaits,
        "stack": [frame.asdict() for frame in stack.frames],
    }


def title(stack: CallStack) -> str:
    """What a stack belongs to, in words: the subject of its heading in a report."""
    task = stack.task
    if stack.kind == "driver":
        return "The driver" if stack.name == "driver" else f"Thread {stack.name}"
    if stack.kind == "task" and task is not None:
        if task.spec.kind == ACTOR_CREATION_TASK:
            return f"The constructor of {task.actor.class_name}"
        return f"Call {stack.name}" if task.actor is not None else f"Task {stack.name}"
    return {"coroutine": f"Coroutine {stack.name}", "thread": f"Thread {stack.name}"}.get(stack.kind, stack.name)
