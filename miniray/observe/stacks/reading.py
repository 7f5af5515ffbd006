"""Whose each stack is: the tasks, actor methods and coroutines that run at this moment, the threads that they have
started, and the driver.

Reading takes no lock, so that it also answers about a program that hangs while a thread holds the core's lock. It
copies tables in single steps, and reads slots of records that other threads may write meanwhile. So one stack is true
for one moment, but two of them may be a moment apart.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from contextvars import Context
from inspect import CO_COROUTINE
from types import FrameType
from typing import Any

from ...core.records import TaskRecord, WorkerRecord
from ...process import context, our_code
from ...process.context import current
from ...process.threads import real_main_thread
from ...process.worker_process import STAMP, STARTED_IN, WorkerProcess, serving, threads
from ...runtime.frames import current_frames
from .coroutines import chain_of, name_of
from .frames import Frame, Place, begins_a_thread, shown

DRIVER, TASK, COROUTINE, THREAD = "driver", "task", "coroutine", "thread"
"""The kinds of stacks: a thread of the driver; a task, or a method of an actor; a coroutine that a program has started
by itself, as an asyncio task; and a thread that a task has started."""

IDLE = "idle"  # with all frames: a thread of a worker that runs no task, or of this library


class CallStack:
    """One stack. kind: see above. name: of the task, the coroutine or the thread. task, attempt: what runs in it, or
    what has started it. worker: None for the driver. thread: the ident of its thread, 0 for a coroutine that is
    suspended. waiting: whether it waits in `get`, `wait` or an await, or sleeps in a task. frames: the outermost call
    first. awaits: see `coroutines.Chain`. now: the time on the runtime's clock."""

    __slots__ = (
        "kind",
        "name",
        "task",
        "attempt",
        "worker",
        "thread",
        "thread_name",
        "waiting",
        "frames",
        "awaits",
        "now",
    )

    def __init__(self, kind: str, name: str, frames: list[Frame], now: float):
        self.kind, self.name, self.frames, self.now = kind, name, frames, now
        self.task: TaskRecord | None = None
        self.attempt = 0
        self.worker: WorkerRecord | None = None
        self.thread, self.thread_name = 0, ""
        self.waiting = False
        self.awaits: list[str] = []

    def belongs_to(self, task: TaskRecord | None, worker: WorkerRecord | None, attempt: int | None = None) -> None:
        """Say whose it is. attempt: by default the task's current one."""
        self.task, self.worker = task, worker
        if task is not None:
            self.attempt = task.attempt if attempt is None else attempt

    @property
    def since(self) -> float:
        """When the task's code was entered, on the runtime's clock; 0.0 if that is not known, or for the driver."""
        known = self.task is not None and self.task.attempt == self.attempt and self.kind == TASK
        return self.task.t_started if known and self.task is not None else 0.0


def read(runtime: Any, all_frames: bool = False) -> list[CallStack]:
    """The stacks of a session: the driver's first, then in the order of the workers and their tasks.

    all_frames: with the frames that are not the program's, and with the stacks that have no others. A session that was
    read from a recording has none.
    """
    if context.recorded.get() is not None:
        return []
    frames = current_frames()
    stacks: dict[int, list[FrameType]] = {}
    try:
        # First of all, and without anything in between: the threads go on, and a call that has returned meanwhile no
        # longer leads to its caller.
        stacks.update((ident, _outermost_first(frame)) for ident, frame in frames.items())
        for _ in range(READ_AGAIN):
            cut = [ident for ident, stack in stacks.items() if not begins_a_thread(stack[0].f_code)]
            if not cut:
                break
            frames.clear()
            frames.update(current_frames())
            for ident in cut:
                again = _outermost_first(frames.get(ident))
                if len(again) > len(stacks[ident]) or again and begins_a_thread(again[0].f_code):
                    stacks[ident] = again
                del again
        return _Reading(runtime, all_frames).read(stacks)
    finally:
        frames.clear()  # they contain this very frame, which would keep it, and all others, alive
        stacks.clear()


READ_AGAIN = 5  # times, if a call returned while its stack was read; some threads begin with a function of the program


def _outermost_first(innermost: FrameType | None) -> list[FrameType]:
    found: list[FrameType] = []
    frame = innermost
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    found.reverse()
    return found


class _Reading:
    def __init__(self, runtime: Any, all_frames: bool):
        self.runtime, self.all_frames, self.now = runtime, all_frames, runtime.now()
        self.found: list[CallStack] = []
        handles = dict.fromkeys(
            worker.handle for worker in runtime.cluster.workers.copy().values() if worker.handle is not None
        )
        handles.update(getattr(runtime, "threads", {}).copy())  # also those of dead workers whose threads go on
        self.by_thread: dict[int, list[Any]] = {}
        for handle in handles:
            self.by_thread.setdefault(handle.ident, []).append(handle)
        loops = [(handle, getattr(handle.loop, "loop", None)) for handle in handles]
        self.loops = [(handle, loop) for handle, loop in loops if loop is not None]  # of async actors
        self.on_stack: set[int] = set()  # ids of the frames of coroutines that are on the stack of a thread
        self.driver_waits = {waiter.thread for waiter in runtime.driver_waiters.copy()}
        self.threads = threads.copy()

    def read(self, stacks: dict[int, list[FrameType]]) -> list[CallStack]:
        """See `read` above. stacks: of each thread, the outermost frame first."""
        main = real_main_thread().ident
        loops: list[Any] = []
        calls = {
            id(frame): (handle, number)
            for handle, _ in self.loops
            for number, call in handle.loop.calls.copy().items()
            if (frame := getattr(call.get_coro(), "cr_frame", None)) is not None
        }
        for ident in sorted(stacks, key=lambda ident: ident != main):
            self.thread(ident, stacks[ident], calls)
            if ident not in self.by_thread or self.runtime.local:
                loops += _loops_in(stacks[ident])
        for handle, loop in self.loops:
            self.suspended(handle, loop)
        for loop in loops:
            self.coroutines(loop, None)
        return sorted(self.found, key=_order)

    # ------------------------------------------------------------ threads

    def thread(self, ident: int, frames: list[FrameType], calls: dict[int, Any]) -> None:
        """Add the stacks of one thread. In local mode a thread has one for each task that it is inside of."""
        stack: list[Place] = [(frame.f_code, frame.f_lineno) for frame in frames]
        entered = [calls[id(frame)] for frame in reversed(frames) if id(frame) in calls]  # calls of async actors
        self.on_stack.update(map(id, frames))
        handles = self.by_thread.get(ident, [])
        attempts = sorted(
            (handle for handle in handles if handle.loop is None and _task_of(handle) is not None),
            key=lambda handle: _task_of(handle).t_started or self.now,
        )
        starts = [n for n, (code, _) in enumerate(stack) if code in our_code.attempts]
        owners: list[tuple[Any, TaskRecord | None]] = []
        for n in starts:
            if stack[n][0].co_flags & CO_COROUTINE:
                handle, number = entered.pop() if entered else (None, 0)
                owners.append((handle, _call_of(handle, number)))
            else:
                handle = attempts.pop(0) if attempts else None
                owners.append((handle, _task_of(handle)))
        if handles and not self.runtime.local and starts:
            starts[0] = 0  # the thread serves a worker, so all of it belongs to the task
        else:
            starts, owners = [0, *starts], [(None, None), *owners]
        for begin, end, (handle, task) in zip(starts, [*starts[1:], len(stack)], owners):
            part = shown(stack[begin:end], self.all_frames)
            if part or task is not None:
                self.part(ident, part, handle, task, end < len(stack))

    def part(self, ident: int, frames: list[Frame], handle: Any, task: TaskRecord | None, runs_another: bool) -> None:
        """Add one part of a thread's stack. runs_another: this part waits for a task that runs further up the stack."""
        thread = self.threads.get(ident)
        served = [] if self.runtime.local else self.by_thread.get(ident, [])
        name = thread.name if thread is not None else f"thread {ident}"
        name = f"worker {served[0].record.number}" if served else name
        process: WorkerProcess | None = getattr(thread, STAMP, None)
        if handle is not None and task is not None:
            made = CallStack(TASK, task.spec.name, frames, self.now)
            made.belongs_to(task, handle.record)
            made.waiting = handle.waiter is not None or runs_another
        elif served:
            runs = served[0].loop is not None and not self.all_frames
            made = CallStack(COROUTINE if runs else IDLE, frames[0].function if runs else name, frames, self.now)
            made.belongs_to(None, served[0].record)
        elif process is not None:
            made = CallStack(THREAD, name, frames, self.now)
            number, attempt = getattr(thread, STARTED_IN, None) or (0, 0)
            task = self.runtime.cluster.tasks.get(number)  # None if its record has been dropped
            made.belongs_to(task, process.handle.record if process.handle is not None else None, attempt)
        elif ident in serving and not self.runtime.local and not self.all_frames:
            return  # a worker of an ended session, whose thread could not be interrupted
        else:
            made = CallStack(DRIVER, "driver" if ident == real_main_thread().ident else name, frames, self.now)
            made.waiting = ident in self.driver_waits or runs_another
        made.thread, made.thread_name = ident, name
        self.found.append(made)

    # ------------------------------------------------------------ coroutines

    def suspended(self, handle: Any, loop: Any) -> None:
        """Add the calls of an async actor that are suspended, and the asyncio tasks that they have started."""
        mine = handle.loop.calls.copy()
        for number, call in mine.items():
            coroutine = call.get_coro()
            task = _call_of(handle, number)
            if task is None or id(getattr(coroutine, "cr_frame", None)) in self.on_stack:
                continue
            chain = chain_of(coroutine, call, self.all_frames)
            made = CallStack(TASK, task.spec.name, shown(chain.stack, self.all_frames), self.now)
            made.belongs_to(task, handle.record)
            made.awaits, made.waiting = chain.awaits, True
            self.found.append(made)
        self.coroutines(loop, handle, set(map(id, mine.values())))

    def coroutines(self, loop: Any, handle: Any, known: Iterable[int] = ()) -> None:
        """Add the asyncio tasks of a loop, except for the known ones and those that are on the stack of a thread."""
        asyncio = sys.modules["asyncio"]
        for one in sorted(asyncio.all_tasks(loop), key=lambda one: _natural(one.get_name())):
            coroutine = one.get_coro()
            if id(one) in known or id(getattr(coroutine, "cr_frame", None)) in self.on_stack:
                continue
            chain = chain_of(coroutine, one, self.all_frames)
            frames = shown(chain.stack, self.all_frames)
            if not frames:
                continue
            made = CallStack(COROUTINE, f"{name_of(coroutine)} ({one.get_name()})", frames, self.now)
            made.awaits, made.waiting = chain.awaits, True
            if handle is not None:
                execution = context_of(one).get(current)
                made.belongs_to(execution.task if execution is not None else None, handle.record)
            self.found.append(made)


def _order(stack: CallStack) -> tuple[Any, ...]:
    worker = stack.worker.number if stack.worker is not None else 0
    kinds = (DRIVER, TASK, COROUTINE, THREAD, IDLE)
    return worker, kinds.index(stack.kind), stack.task.number if stack.task is not None else 0


def _natural(name: str) -> tuple[str, int]:
    """The key by which Task-10 comes after Task-9."""
    digits = len(name) - len(name.rstrip("0123456789"))
    return name[: len(name) - digits], int(name[len(name) - digits :] or 0)


def _task_of(handle: Any) -> Any:
    """The task whose attempt a worker's thread runs, loads or reports; None if it is idle."""
    return None if handle is None else handle.user_task or handle.record.task


def _call_of(handle: Any, number: int) -> TaskRecord | None:
    """An unfinished call of an async actor, by its number."""
    if handle is None:
        return None
    worker: WorkerRecord = handle.record
    if worker.task is not None and worker.task.number == number:
        constructor: TaskRecord = worker.task
        return constructor
    return worker.running.get(number)


def context_of(task: Any) -> Any:
    """The context in which an asyncio task runs. Before 3.12 asyncio has no function for it."""
    if hasattr(task, "get_context"):
        return task.get_context()
    return next((one for one in gc.get_referents(task) if isinstance(one, Context)), {})


def _loops_in(frames: list[FrameType]) -> list[Any]:
    """The event loops that run on a thread."""
    events = sys.modules.get("asyncio.base_events")
    code = events.BaseEventLoop.run_forever.__code__ if events is not None else None
    return [frame.f_locals["self"] for frame in frames if frame.f_code is code]
