"""What the program is doing at this moment: what is pending and why, and the stacks of its workers and threads.

A stack is shown as the program sees it. It begins where the program's own code begins, and ends in the line of the
program that waits or runs; frames of this library, of the test runner and of the command line are left out.
"""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from ..core.records import TaskRecord, WorkerRecord
from ..core.transitions import ActorStatus, PlacementGroupStatus, TaskStatus, WorkerStatus
from ..runtime.frames import current_frames
from ..process.our_code import FOLDER
from .escape import escaped
from .explain.explanation import explain

MOST = 50  # lines of one kind in a report; a last line says how many more there are
ENDED = (TaskStatus.FINISHED, TaskStatus.FAILED)
NOT_ALIVE_YET = (ActorStatus.DEPENDENCIES_UNREADY, ActorStatus.PENDING_CREATION, ActorStatus.RESTARTING)
_RUNS_THE_PROGRAM = re.compile(r"[/\\](_pytest|pluggy|miniray[/\\]cli)[/\\]")
_BELOW_A_TASK = re.compile(r"[/\\](threading\.py|asyncio[/\\])|^<frozen")


@dataclass
class Running:
    """A worker that is busy. tasks: those that it runs. lines: the stack of each of them, the innermost call last.

    blocked: whether its thread waits in `get` or `wait`.
    """

    worker: WorkerRecord
    tasks: list[TaskRecord]
    lines: list[str]
    blocked: bool


def busy_workers(runtime: Any, frames: dict[int, FrameType] | None = None) -> list[Running]:
    """The workers that run tasks, with their stacks. frames: of all threads; those of the workers are removed."""
    if frames is None:
        frames = current_frames()
        try:
            return busy_workers(runtime, frames)
        finally:
            frames.clear()  # it contains this very frame, which would keep it, and all others, alive
    with runtime.locked() as cluster:
        workers = [worker for worker in cluster.workers.values() if worker.status is not WorkerStatus.DEAD]
        running = [(worker, [worker.task] if worker.task else list(worker.running.values())) for worker in workers]
    found = []
    for worker, tasks in running:
        frame = frames.pop(getattr(worker.handle, "ident", 0) or 0, None)
        if tasks:
            calls = getattr(getattr(worker.handle, "loop", None), "calls", {})
            lines = [line for task in tasks if task.number in calls for line in _of_coroutine(calls[task.number])]
            blocked = bool(getattr(worker.handle, "waiting", ()))
            found.append(Running(worker, tasks, lines or (stack(frame) if frame is not None else []), blocked))
    return found


def stack(frame: FrameType) -> list[str]:
    """A thread's stack as lines, from its innermost frame."""
    return _lines([*traceback.walk_stack(frame)][::-1])


def driver_stack() -> list[str]:
    """The stack of the driver's main thread."""
    frame = current_frames().get(threading.main_thread().ident or 0)
    return stack(frame) if frame is not None else []


def of_traceback(trace: Any) -> list[str]:
    """The stack of an exception as lines, up to where it was raised."""
    return _lines(list(traceback.walk_tb(trace)))


def _of_coroutine(call: Any) -> list[str]:
    """The stack of a coroutine that is suspended, from its asyncio task."""
    found, coroutine = [], call.get_coro()
    while getattr(coroutine, "cr_frame", None) is not None:
        found.append((coroutine.cr_frame, coroutine.cr_frame.f_lineno))
        coroutine = coroutine.cr_await
    return _lines(found) if found else []


def _lines(frames: list[tuple[FrameType, int]]) -> list[str]:
    """The program's frames of a stack, the outermost first, as lines."""
    names = [frame.f_code.co_filename for frame, _ in frames]
    last = len(names)
    while last > 1 and names[last - 1].startswith(FOLDER):
        last -= 1
    first = max((n + 1 for n, name in enumerate(names[: last - 1]) if _RUNS_THE_PROGRAM.search(name)), default=0)
    while first < last - 1 and (names[first].startswith(FOLDER) or _BELOW_A_TASK.search(names[first])):
        first += 1
    rest = [name for name in names[first:last] if not name.startswith(("<frozen", FOLDER))]
    ours = any(name.startswith(FOLDER) for name in names)
    if not rest or ours and all(map(_BELOW_A_TASK.search, rest)):
        return []  # the command line itself, or a thread of this library
    shown = traceback.StackSummary.extract(iter(frames[first:last]))
    return "".join(traceback.format_list(shown)).rstrip().split("\n")


# ------------------------------------------------------------ the report


def pending_report(runtime: Any) -> str:
    """What each pending task, actor and placement group waits for, then the stack of each worker and thread."""
    return str(Report(runtime))


class Report:
    """What a session is doing at one moment.

    pending: what each pending task, actor and placement group waits for. workers: the number of each living worker,
    with what it runs, None if it is idle. threads: name and stack of each other thread that runs code of the program.
    """

    def __init__(self, runtime: Any):
        self.pending = list(_pending(runtime))
        frames = current_frames()
        busy = {running.worker.number: running for running in busy_workers(runtime, frames)}
        with runtime.locked() as cluster:
            living = [worker for worker in cluster.workers.values() if worker.status is not WorkerStatus.DEAD]
        self.workers = [(worker.number, busy.get(worker.number)) for worker in living]
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        stacks = [(names.get(ident, str(ident)), stack(frame)) for ident, frame in frames.items()]
        frames.clear()  # it contains this very frame, which would keep it, and all others, alive
        self.threads = [(name, found) for name, found in stacks if found]

    def __str__(self) -> str:
        lines = ["Pending:", *([f"  {line}" for line in shortened(self.pending)] or ["  nothing"])]
        for number, running in self.workers:
            if running is None:
                lines.append(f"Worker {number} is idle.")
                continue
            tasks = running.tasks
            doing = f"runs {escaped(tasks[0].spec.name)}" if len(tasks) == 1 else f"runs {len(tasks)} calls"
            lines += [f"Worker {number} {doing}{'' if running.lines else '.'}", *running.lines]
        for name, found in self.threads:
            lines += [f"Thread {escaped(name)}", *found]
        return "\n".join(lines)

    def asdict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "pending": self.pending,
            "workers": [
                {
                    "worker": number,
                    "tasks": [{"task_id": task.hex, "name": task.spec.name} for task in running.tasks]
                    if running
                    else [],
                    "blocked": running is not None and running.blocked,
                    "stack": running.lines if running else [],
                }
                for number, running in self.workers
            ],
            "threads": [{"name": name, "stack": lines} for name, lines in self.threads],
        }


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
