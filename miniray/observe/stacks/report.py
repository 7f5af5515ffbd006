"""The report of `miniray stack`: what is pending and why, and the stacks of the workers, threads and the driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...core.records import TaskRecord, WorkerRecord
from ...core.transitions import ActorStatus, PlacementGroupStatus, TaskStatus, WorkerStatus
from ...process.threads import real_main_thread
from ...runtime.frames import current_frames
from ..escape import escaped
from ..explain.explanation import explain
from .frames import as_lines, places, places_of_traceback, shown
from .reading import DRIVER, TASK, CallStack, read
from .rows import title

MOST = 50  # lines of one kind in a report; a last line says how many more there are
ENDED = (TaskStatus.FINISHED, TaskStatus.FAILED)
NOT_ALIVE_YET = (ActorStatus.DEPENDENCIES_UNREADY, ActorStatus.PENDING_CREATION, ActorStatus.RESTARTING)


@dataclass
class Running:
    """A worker that is busy. tasks: those that it runs. lines: the stack of each of them, the innermost call last.

    blocked: whether its thread waits in `get` or `wait`. stacks: the same stacks with what they belong to.
    """

    worker: WorkerRecord
    tasks: list[TaskRecord]
    lines: list[str]
    blocked: bool
    stacks: list[CallStack]


def busy_workers(runtime: Any, stacks: list[CallStack] | None = None) -> list[Running]:
    """The workers that run tasks, with their stacks. stacks: if they have been read already."""
    stacks = read(runtime) if stacks is None else stacks
    found = []
    for worker in living_workers(runtime):
        tasks = [worker.task] if worker.task else list(worker.running.copy().values())
        if tasks:
            own = [stack for stack in stacks if stack.worker is worker and stack.kind == TASK]
            lines = [line for stack in own for line in as_lines(stack.frames)]
            found.append(Running(worker, tasks, lines, bool(getattr(worker.handle, "waiting", ())), own))
    return found


def living_workers(runtime: Any) -> list[WorkerRecord]:
    """The workers that are not dead. Takes no lock."""
    workers = runtime.cluster.workers.copy().values()
    return [worker for worker in workers if worker.status is not WorkerStatus.DEAD]


def driver_stack() -> list[str]:
    """The stack of the driver's main thread."""
    frame = current_frames().get(real_main_thread().ident or 0)
    return as_lines(shown(places(frame))) if frame is not None else []


def of_traceback(trace: Any) -> list[str]:
    """The stack of an exception as lines, up to where it was raised."""
    return as_lines(shown(places_of_traceback(trace)))


# ------------------------------------------------------------ the report


def pending_report(runtime: Any) -> str:
    """What each pending task, actor and placement group waits for, then the stack of each worker and thread."""
    return str(Report(runtime))


class Report:
    """What a session is doing at one moment.

    pending: what each pending task, actor and placement group waits for; None if that is not known. workers: each
    living worker, with what it runs, None if it is idle. others: the stacks of the threads and coroutines that are no
    tasks themselves: those of the driver, and those that tasks have started.
    """

    def __init__(self, runtime: Any, pending: list[str] | None = None, asks: bool = True):
        """pending: if it has been read already. asks: whether to read it otherwise, which takes the core's lock."""
        self.pending = pending_of(runtime) if asks and pending is None else pending
        stacks = read(runtime)
        busy = {running.worker.number: running for running in busy_workers(runtime, stacks)}
        self.workers = [(worker, busy.get(worker.number)) for worker in living_workers(runtime)]
        told = {id(stack) for running in busy.values() for stack in running.stacks}
        self.others = [stack for stack in stacks if id(stack) not in told]
        self.now = runtime.now()

    def __str__(self) -> str:
        pending = ["not known"] if self.pending is None else shortened(self.pending) or ["nothing"]
        lines = ["Pending:", *(f"  {line}" for line in pending)]
        for worker, running in self.workers:
            lines += [f"Worker {worker.number} is idle."] if running is None else self._worker(running)
        for stack in self.others:
            name = "Thread MainThread" if stack.name == "driver" and stack.kind == DRIVER else title(stack)
            lines += [escaped(name) + _whose(stack), *as_lines(stack.frames), *_awaits(stack)]
        return "\n".join(lines)

    def _worker(self, running: Running) -> Iterator[str]:
        tasks = running.tasks
        doing = f"runs {escaped(tasks[0].spec.name)}" if len(tasks) == 1 else f"runs {len(tasks)} calls"
        if len(tasks) > 1 or not running.stacks:
            yield f"Worker {running.worker.number} {doing}{'' if running.lines else '.'}"
        for stack in running.stacks:
            said = f"task {stack.task.hex}" if stack.task is not None else ""
            said += f", attempt {stack.attempt}" * bool(stack.attempt)
            said += f", {stack.now - stack.since:,.1f} s" * bool(stack.since)
            name = f"Worker {running.worker.number} {doing}" if len(tasks) == 1 else f" Call {escaped(stack.name)}"
            yield f"{name} ({said})"
            yield from as_lines(stack.frames)
            yield from _awaits(stack)

    def asdict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "pending": self.pending,
            "workers": [
                {
                    "worker": worker.number,
                    "tasks": [{"task_id": task.hex, "name": task.spec.name} for task in running.tasks]
                    if running
                    else [],
                    "blocked": running is not None and running.blocked,
                    "stack": running.lines if running else [],
                    "awaits": [line for stack in running.stacks for line in stack.awaits] if running else [],
                }
                for worker, running in self.workers
            ],
            "threads": [
                {
                    "name": stack.thread_name or stack.name,
                    "kind": stack.kind,
                    "task_id": stack.task.hex if stack.task is not None else None,
                    "stack": as_lines(stack.frames),
                    "awaits": stack.awaits,
                }
                for stack in self.others
            ],
        }


def _whose(stack: CallStack) -> str:
    """The end of the heading of a thread or a coroutine: what it belongs to."""
    if stack.task is not None:
        return f" of {escaped(stack.task.spec.name)}, task {stack.task.hex}"
    return f" of worker {stack.worker.number}" if stack.worker is not None else ""


def _awaits(stack: CallStack) -> list[str]:
    return [f"  awaits {escaped(line)}" for line in stack.awaits]


def pending_of(runtime: Any) -> list[str]:
    """What each pending task, actor and placement group waits for. Takes the core's lock."""
    return list(_pending(runtime))


def _pending(runtime: Any) -> Iterator[str]:
    with runtime.locked() as cluster:
        waiting: list[Any] = [task for task in cluster.tasks.values() if task.status not in ENDED]
        waiting += [actor for actor in cluster.actors.values() if actor.status in NOT_ALIVE_YET]
        waiting += [
            group
            for group in cluster.placement_groups.values()
            if group.status in (PlacementGroupStatus.PENDING, PlacementGroupStatus.RESCHEDULING)
        ]
        ids = [record.hex for record in waiting]
    for id in ids:
        try:
            yield str(explain(runtime, id))
        except ValueError:  # its record has been dropped since the ids were collected
            yield f"{id} is no longer pending"


def shortened(lines: list[str]) -> list[str]:
    """At most MOST lines, then a line that says how many more there are."""
    return lines if len(lines) <= MOST else [*lines[:MOST], f"... and {len(lines) - MOST} more"]
