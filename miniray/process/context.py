"""Which session runs, and which task runs here: all that a worker's thread, or a coroutine, knows about itself."""

from __future__ import annotations

import os
import sys
import threading
from contextvars import ContextVar

from ..core.records import TaskRecord, WorkerRecord
from ..exceptions import RaySystemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class Execution:
    """One attempt of a task that is being run.

    runtime: the session's runtime, a `runtime.Runtime` (this module may not import it). worker: its `key` tells workers
    apart, as a process id does in Ray. space: the worker's copies of classes and functions, a `values.spaces.Space`.
    thread: the ident of the thread that runs the attempt. For a thread that the task's code starts see
    `worker_process.caller`. instance: the actor, in a call of an actor. environ: unset until the task reads
    `os.environ` (see `environment`). trace: what its calls share, None before the first one (see `trace_context`).
    """

    __slots__ = ("runtime", "worker", "task", "space", "thread", "instance", "environ", "trace", "_hex")
    environ: Any

    def __init__(
        self, runtime: Any, worker: WorkerRecord, task: TaskRecord, space: Any, thread: int, instance: Any = None
    ):
        self.runtime, self.worker, self.task = runtime, worker, task  # Python builds a tuple for more than three
        self.space, self.thread, self.instance = space, thread, instance
        self.trace: Any = None
        self._hex = ""

    @property
    def hex(self) -> str:
        """The task's id in hex, computed when it is first needed."""
        self._hex = self._hex or self.task.hex
        return self._hex


current: ContextVar[Execution | None] = ContextVar("miniray_current", default=None)
_main_thread = threading.main_thread  # the original: `threads` replaces it while a session runs
session: Any = None  # the runtime of the session that runs; set only by `init` and `shutdown`
simulation: Any = None  # the `runtime.simulated.simulation.Simulation` that runs; set only by itself
# In a thread, or a coroutine, that reads a recording: the session in it, a `telemetry.recording.restore.Restored`, with
# its `logs`, and with the `pid` and the `entrypoint` of the program that was recorded. Set only by that module.
recorded: ContextVar[Any] = ContextVar("miniray_recorded", default=None)
# Modules that keep something for a session add functions to these lists.
at_end: list[Callable[[], None]] = []  # called when a session has ended
in_forked_child: list[Callable[[], None]] = []  # called in a forked child, where the session is the parent's


class _NobodyWaits:
    """A context manager that does nothing. `contextlib` takes time to import."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


NOBODY_WAITS = _NobodyWaits()


def in_turn(lock: Any) -> Any:
    """A context manager to enter before a real lock that a thread holds while it calls the runtime, or code of the
    program: `with in_turn(lock), lock:`.

    A thread of a simulation that waited for a real lock would keep the baton, so the thread that has the lock could
    never go on. So threads of a simulation first take a turn, which is a lock of the simulation.
    """
    running = simulation  # it may end meanwhile, if this thread takes no part in it
    return NOBODY_WAITS if running is None else running.turn(lock)


def shown_pid() -> int:
    """The process id that rows and the names of logs show: this process's, or the recorded program's."""
    read = recorded.get()
    return os.getpid() if read is None else int(read.pid)


def shown_entrypoint() -> str:
    """The command line that the job's row shows."""
    read = recorded.get()
    return " ".join(getattr(sys, "orig_argv", sys.argv)) if read is None else str(read.entrypoint)


def exit_of_the_program() -> SystemExit | None:
    """For a daemon thread of the driver that still runs while the interpreter is about to end: the SystemExit that ends
    the thread silently. None in any other case.

    If the thread runs an event loop, the loop's exception handler is silenced as well: it would report every coroutine.
    """
    main = _main_thread()
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
    """The error of the state API and the log API. next_step: what the reader can do about it; a command of the command
    line has its own answer. The first sentence is Ray's."""
    return ConnectionError(f"Could not find any running Ray instance. {next_step}")


def running() -> Any:
    """The runtime of the running session. Raises RuntimeError if there is none, SystemExit at the program's end."""
    if session is None:
        raise exit_of_the_program() or not_started()
    return session
