"""Which session runs, and which task runs here: what a worker's thread, or a coroutine of an async actor, knows of itself."""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar
from typing import Any, Callable

from ..core.records import TaskRecord, WorkerRecord
from ..exceptions import RaySystemError


class Execution:
    """One attempt of a task that is being run.

    runtime: the runtime of its session (`runtime.Runtime`, which is above this module). worker.key tells workers apart as a
    process id would in Ray. space: the copies of classes and functions that this worker sees (`values.spaces.Space`). thread: the
    ident of the thread that runs it; a thread that user code starts in a task copies nothing of this, and counts as the driver.
    environ: unset until somebody reads `os.environ` (see `environment`).
    """

    __slots__ = ("runtime", "worker", "task", "space", "thread", "instance", "environ", "_hex")
    environ: Any

    def __init__(
        self, runtime: Any, worker: WorkerRecord, task: TaskRecord, space: Any, thread: int, instance: Any = None
    ):
        self.runtime, self.worker, self.task, self.space, self.thread = runtime, worker, task, space, thread
        self.instance = instance
        self._hex = ""

    @property
    def hex(self) -> str:
        """The task's id, spelled when somebody asks for it."""
        self._hex = self._hex or self.task.hex
        return self._hex


current: ContextVar[Execution | None] = ContextVar("miniray_current", default=None)
session: Any = None  # the one that runs; set by `init` and `shutdown` alone
at_end: list[Callable[[], None]] = []  # of modules that keep something for a session: called when one has ended
in_forked_child: list[Callable[[], None]] = []  # and in a child, where it is the parent's session


def exit_of_the_program() -> SystemExit | None:
    """For a daemon thread of the driver's that goes on while the interpreter is about to end: SystemExit ends it without a word.
    An event loop that it runs would speak of every coroutine that this ends, and is told not to."""
    main = threading.main_thread()
    if main.is_alive() or main.ident == threading.get_ident():
        return None
    asyncio = sys.modules.get("asyncio")
    loop = asyncio._get_running_loop() if asyncio is not None else None
    if loop is not None:
        loop.set_exception_handler(lambda loop, context: None)
    return SystemExit("the program has ended")


# When no session is running, Ray raises one of three classes, depending on who asks. Each has its one text here.
_NOT_STARTED = "miniray has not been started yet: call `miniray.init()` first."


def not_started() -> RuntimeError:
    """The error of a function that works on the running session and does not start one."""
    return RuntimeError(_NOT_STARTED)


def not_connected() -> RaySystemError:
    """The error of `nodes` and the functions beside it, and of Ray's private `global_worker`."""
    return RaySystemError(_NOT_STARTED)


def not_found(
    next_step: str = "Call miniray.init(): tables and logs belong to a session of this process, and end with it.",
) -> ConnectionError:
    """The error of the state API and the log API. next_step: what the reader can do about it; a command of the command line
    has its own answer. The first sentence is Ray's."""
    return ConnectionError(f"Could not find any running Ray instance. {next_step}")


def running() -> Any:
    """The running session. Raises RuntimeError when there is none."""
    if session is None:
        raise exit_of_the_program() or not_started()
    return session
