"""What a worker has for itself because it would be a process: its main thread, signal handlers, exit functions, random
numbers, child processes.

A worker's handle holds one WorkerProcess, and all threads of an actor share it. The modules beside this one ask
`here()` for that of the caller, and keep what they need in it.
"""

from __future__ import annotations

import itertools
import threading

from ..core.records import NORMAL_TASK, TaskRecord, TaskSpec
from . import context
from .context import Execution, current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAIN, LOOP, POOL = "main", "loop", "pool"
"""What a worker's thread does: it runs plain tasks, or the calls of an actor one by one; an async actor's event loop;
or some of the calls of an actor with several threads."""

# Threads by ident. `threading.current_thread()` would add an entry for a thread that threading does not know.
threads: dict[int, threading.Thread] = getattr(threading, "_active", {})
serving: dict[
    int, tuple["WorkerProcess", str]
] = {}  # by ident of the thread: whom each thread of a worker serves, and how
native_ids: dict[int, int] = {}  # by ident of a worker's thread: the system's number of the thread
STAMP = "_miniray_process"  # an attribute of a thread that a worker or its tasks started: the WorkerProcess
EXECUTION = "_miniray_execution"  # an attribute of a thread that a task started: see `caller`
STARTED_IN = "_miniray_started_in"  # an attribute of a thread that a task started: (number of the task, attempt)
get_ident, get_native_id = threading.get_ident, threading.get_native_id
any_started: list[bool] = []  # not empty once a task has started a thread; before, a caller is a task or the driver
_numbers = itertools.count(1 << 62)  # of the tasks that such threads seem to run: beyond all real ones


class WorkerProcess:
    """One worker's share of what Python has once per process. Each slot is filled when it is first needed.

    main_ident: of the worker's thread, if this counts as a main thread (MAIN above); otherwise 0, also in local_mode,
    where tasks run on their caller's thread. unnamed_threads: how many of its other threads have got a name.
    exit_functions: see `exit_functions`. exits: its code has raised SystemExit. children: see `children`; the processes
    that it has started, by number. random, numpy_random: its generators, see `random_numbers`. signals: its table, see
    `worker_signals`. handle: the WorkerHandle of its thread, of an actor's first thread; None in local_mode, and when
    the thread has ended.
    """

    __slots__ = (
        "main_ident",
        "unnamed_threads",
        "exit_functions",
        "exits",
        "children",
        "random",
        "numpy_random",
        "signals",
        "handle",
    )

    def __init__(self) -> None:
        self.main_ident = self.unnamed_threads = 0
        self.exit_functions: list[Any] | None = None
        self.exits = False
        self.children: dict[int, str] | None = None
        self.random: Any = None
        self.numpy_random: Any = None
        self.signals: Any = None
        self.handle: Any = None


def here() -> WorkerProcess | None:
    """The WorkerProcess to which the calling thread or coroutine belongs; None on the driver."""
    execution = current.get()
    if execution is None:
        return getattr(threads.get(get_ident()), STAMP, None)
    handle: Any = execution.worker.handle
    return handle.process if handle is not None else None  # None: the thread has outlived its worker


def caller() -> Execution | None:
    """For whom the calling code calls miniray: the running task, or in a thread that a task has started, the task's
    worker. None for the driver."""
    execution = current.get()
    if execution is None and any_started:
        execution = getattr(threads.get(get_ident()), EXECUTION, None)
    return execution


def thread_starts(thread: threading.Thread, process: WorkerProcess) -> None:
    """Called by the thread of a worker that starts another thread. The new one belongs to the worker, too.

    As on Ray, it seems to run a task of its own without a name, which nobody has submitted.
    """
    vars(thread)[STAMP] = process
    execution = current.get()
    if execution is not None:
        vars(thread)[STARTED_IN] = execution.task.number, execution.task.attempt
    else:  # it is started by a thread that a task has started
        vars(thread)[STARTED_IN] = getattr(threads.get(get_ident()), STARTED_IN, None)
    starter = caller()
    if starter is None:  # the worker runs no task at this moment: a finaliser has started it
        return
    spec = TaskSpec(NORMAL_TASK, "", "", runtime_env=starter.task.spec.runtime_env)
    task = TaskRecord(spec, number=next(_numbers))
    vars(thread)[EXECUTION] = Execution(
        starter.runtime, starter.worker, task, starter.space, starter.thread, starter.instance
    )
    if not any_started:
        any_started.append(True)


def thread_begins(handle: Any, role: str) -> None:
    """Called by each thread of a worker when it begins to serve. handle: its WorkerHandle."""
    ident, process = get_ident(), handle.process
    if process.handle is None:
        process.handle = handle
    serving[ident] = process, role
    native_ids[ident] = get_native_id()
    if role == MAIN:
        process.main_ident = ident


def thread_ends() -> None:
    """Called by each thread of a worker when it has served."""
    ident = get_ident()
    serving.pop(ident, None)
    native_ids.pop(ident, None)
    thread: Any = threads.pop(ident, None)  # made by `current_thread()` in a task
    if thread is not None and hasattr(thread, "set_done"):
        thread.set_done()


context.in_forked_child += serving.clear, native_ids.clear  # new threads may get the idents of the parent's
