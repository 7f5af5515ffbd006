"""A session's logs: store the output of tasks line by line, and show each line on the driver behind a prefix.

    (NAME pid=N) text       NAME: the task's name, or the actor's class or repr; `, ip=A` follows if on another node
    (raylet) text           a message of the system

The thread that ends a line also shows it. So the driver's screen shows a task's output before the task's result is
available. Ray: print_worker_logs in _private/worker.py, log_monitor.py.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Hashable
from functools import partial

from ...core.records import ACTOR_TASK
from ...core.transitions import WorkerStatus
from . import files
from ...process import context, standard_streams
from ...process.worker_output import NAMES, Pipe, Reader
from ...process.worker_process import WorkerProcess
from ..escape import escaped
from .files import Attempt, LogFile, WorkerLog, actor_label
from .folding import SYSTEM, folding_from_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...core.records import NodeRecord, TaskRecord, WorkerRecord
    from ...runtime.runtime import Runtime
    from ...process.context import Execution
    from .folding import Labelled

DEAD = WorkerStatus.DEAD
CYAN, YELLOW, GREEN, RESET = "\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[0m"
WORKER_COLOURS = [f"\x1b[{code}m" for code in (35, 36, 32, 90, 94, 95)]  # in turn, with RAY_COLOR_PREFIX=1


def switched_on(variable: str, default: bool) -> bool:
    """Whether an environment variable is on. As in Ray, "1" and "true" in any case mean on."""
    value = os.environ.get(variable)
    return default if value is None else value.lower() in ("1", "true")


PIPES = "pipes"  # in place of a stream's name: see `SessionLogs.unfinished`


class Unfinished:
    """The pieces of a line that has not ended. outlet: the logs of the worker that writes it."""

    __slots__ = ("outlet", "_pieces", "_size")

    def __init__(self, outlet: WorkerLog):
        self.outlet, self._size = outlet, 0
        self._pieces: list[str] = []

    def add(self, text: str) -> int:
        """Append to the line. Returns its length."""
        self._pieces.append(text)
        self._size += len(text)
        return self._size

    def text(self) -> str:
        """Return the line so far."""
        return "".join(self._pieces)


class SessionLogs:
    """The logs of one session.

    `lock` guards the logs, the unfinished lines and the folding. No user code runs under it, except a finaliser that
    prints; for its sake the lock is re-entrant, and a loop over a table runs over a copy that is made in a single step.

    outlets: a worker's logs by its number; several workers of one actor may share theirs. unfinished: the lines that
    have not ended, by attempt (or by the WorkerLog, while its worker runs no task) and stream; and a line without text
    for each WorkerLog whose worker has started processes. A worker checks whether it is empty when a task ends.
    reader: reads what these processes write. system: the system's messages. size: the memory of all logs in bytes.
    taps: called with each lot of lines under the lock: worker, task (both None for a message of the system), the
    stream's name (or the message's level), the lines without their ends. dropped_workers: how many workers lost their
    logs. unshown: how many times writing to the driver's screen failed.
    """

    def __init__(self, runtime: "Runtime"):
        self.runtime = runtime
        self.lock = threading.RLock()
        self.outlets: dict[int, WorkerLog] = {}
        self.unfinished: dict[tuple[Hashable, str], Unfinished] = {}
        self.reader = Reader()
        self.system = LogFile("raylet.out")
        self.taps: list[Callable[[WorkerRecord | None, TaskRecord | None, str, list[str]], None]] = []
        self.size = self.dropped_workers = self.unshown = 0
        self.closed = False
        wanted = runtime.options.get("log_to_driver")
        self.to_driver = switched_on("RAY_LOG_TO_DRIVER", True) if wanted is None else bool(wanted)
        raw = not switched_on("MINIRAY_LOG_PREFIX", True)
        self.prefixed = (
            not raw
            and not switched_on("RAY_DISABLE_WORKER_LOG_PREFIX", False)
            and runtime.options.get("logging_config") is None
        )
        self.colour = os.environ.get("RAY_COLOR_PREFIX")
        self.fold_always = os.environ.get("RAY_DEDUP_LOGS") is not None and switched_on("RAY_DEDUP_LOGS", True)
        self.fold_never = raw or not switched_on("RAY_DEDUP_LOGS", True)
        self.folding = {
            name: folding_from_environment((GREEN, RESET) if self._is_coloured(name) else ("", "")) for name in NAMES
        }

    # ------------------------------------------------------------ output of workers

    def outlet(self, writer: "Execution | WorkerProcess") -> standard_streams.Outlet | None:
        """Find the logs that take the output of this task, or of a thread of this worker; None in local mode, where the
        driver's own stream takes it."""
        worker: WorkerRecord
        if isinstance(writer, WorkerProcess):
            if self.runtime.local:
                return None
            if writer.handle is None:
                return standard_streams.NOWHERE
            worker = writer.handle.record
        else:
            worker = writer.worker
            if writer.runtime is not self.runtime:
                return standard_streams.NOWHERE
        if worker.status is DEAD:
            return standard_streams.NOWHERE
        if self.runtime.local:
            return None
        return self.outlets.get(worker.number) or self.outlet_of(worker)

    def outlet_of(self, worker: "WorkerRecord") -> WorkerLog:
        """Return the logs of a worker; the first call makes them."""
        actor = worker.actor
        first = actor.worker if actor is not None and actor.worker is not None else worker
        with self.lock:
            outlet = self.outlets.get(first.number)
            if outlet is None:
                outlet = self.outlets[first.number] = WorkerLog(first, self.write, self._open_pipes)
                if len(self.outlets) > files.MOST_WORKERS:
                    self._drop_oldest_dead()
            outlet.keys.add(worker.number)
            self.outlets[worker.number] = outlet
        return outlet

    def _drop_oldest_dead(self) -> None:
        for outlet in list(self.outlets.values()):
            if outlet.worker.status is DEAD:
                for key in list(outlet.keys):
                    del self.outlets[key]
                self.size -= sum(file.size for file in outlet.files.values())
                self.dropped_workers += 1
                return

    def _open_pipes(self, outlet: WorkerLog) -> None:
        with self.lock:
            if outlet.pipes or self.closed:
                return
            pipes: dict[str, Pipe] = {}
            try:
                for name in NAMES:
                    pipes[name] = Pipe(partial(self.write, outlet, None, name))
            except OSError:
                for pipe in pipes.values():
                    pipe.abandon()
                raise
            outlet.pipes = pipes
            self.unfinished[outlet, PIPES] = Unfinished(outlet)
        for pipe in pipes.values():
            self.reader.add(pipe)

    def write(self, outlet: WorkerLog, execution: "Execution | None", name: str, text: str) -> None:
        """Take a piece of a task's output. Store and show the lines that it ends; keep the rest until its line ends.

        execution: None if a thread or a child process of the worker wrote it. As in Ray, it counts as written by the
        task that the worker runs now.
        """
        task: TaskRecord | None
        if execution is not None:
            task = execution.task
        else:
            handle: Any = outlet.worker.handle
            task = handle.user_task if handle is not None else None
        worker = execution.worker if execution is not None else outlet.worker
        attempt = None if task is None else (task.number, task.attempt)
        writer = attempt or outlet
        if not text.isascii():  # a lone surrogate cannot be encoded, so it becomes an escape
            text = text.encode(errors="backslashreplace").decode()
        with self.lock:
            started = self.unfinished.get((writer, name))
            if "\n" not in text:
                if started is None:
                    started = self.unfinished[writer, name] = Unfinished(outlet)
                if started.add(text) < files.LONGEST_LINE:
                    return
                text = "\n"
            if started is not None:
                del self.unfinished[writer, name]
                text = started.text() + text
            lines = text.split("\n")
            rest = lines.pop()
            if rest:
                self.unfinished[writer, name] = started = Unfinished(outlet)
                started.add(rest)
            shown = self._keep(outlet, worker, task, name, lines, "\n")
        self._show(name, shown)
        self._tell_followers(outlet.files[name])

    def end_lines(self, execution: "Execution") -> None:
        """End the unfinished lines of a task that ends, after taking what its children have written. Called before its
        result is stored."""
        task, worker = execution.task, execution.worker
        outlet = self.outlets.get(worker.number)
        if outlet is not None:
            outlet.drain()
        for name in NAMES:
            with self.lock:
                started = self.unfinished.pop(((task.number, task.attempt), name), None)
                if started is None:
                    continue
                shown = self._keep(started.outlet, worker, task, name, [started.text()], "")
            self._show(name, shown)
            self._tell_followers(started.outlet.files[name])

    def unfinished_in(self, file: LogFile, attempt: Attempt | None) -> list[bytes]:
        """Return the unfinished lines of a log, of one attempt or of all."""
        return [
            started.text().encode()
            for (writer, name), started in self.unfinished.copy().items()
            if started.outlet.files.get(name) is file and attempt in (None, writer)
        ]

    def _keep(
        self,
        outlet: WorkerLog,
        worker: "WorkerRecord",
        task: "TaskRecord | None",
        name: str,
        lines: list[str],
        end: str,
    ) -> list[Labelled]:
        """Add lines to the log. Returns the lines to show now, which may include earlier ones that were held back.

        task: None if the worker runs none; the lines then follow those of its last one.
        """
        attempt = None if task is None else (task.number, task.attempt)
        label = self._add(outlet, worker, task, attempt, name, lines, end)
        if not self.to_driver:
            return []
        source: tuple[Any, ...] = (label, worker)
        lines = [line.rstrip("\r") for line in lines]
        return self._fold(name, outlet.worker.number, source, lines)

    def _add(
        self,
        outlet: WorkerLog,
        worker: "WorkerRecord",
        task: "TaskRecord | None",
        attempt: Attempt | None,
        name: str,
        lines: list[str],
        end: str,
    ) -> str:
        """Store lines, with a marker in front of them if they have another source than the line before. Returns the
        name of the source."""
        file = outlet.files[name]
        before = file.size
        if worker.actor is not None:
            kind, label = "actor", actor_label(worker.actor)
        elif task is not None:
            kind, label = "task", task.spec.name
        else:
            kind, label = "", file.label or max(other.label for other in outlet.files.values())
        if kind and (file.label != label or kind == "task" and file.marked != attempt):
            file.label, file.marked = label, attempt
            file.add(None, f":{kind}_name:{escaped(label)}\n".encode())
        for line in lines:
            file.add(attempt, (line + end).encode())
        for tap in self.taps:
            tap(worker, task, name, lines)
        self.size += file.size - before
        if self.size > files.ALL_BYTES:
            self._shrink_all()
        return label

    def recorded(
        self, worker: "WorkerRecord", task: "TaskRecord | None", attempt: Attempt | None, name: str, line: str
    ) -> None:
        """Add a line from a recording. worker: whose log it is in. The caller is the only one to use these logs."""
        outlet = self.outlets.get(worker.number)
        if outlet is None:
            outlet = self.outlets[worker.number] = WorkerLog(worker, self.write, self._open_pipes)
        self._add(outlet, worker, task, attempt, name, [line], "\n")

    def _shrink_all(self) -> None:
        outlets = {id(outlet): outlet for outlet in list(self.outlets.values())}
        for outlet in outlets.values():
            for file in outlet.files.values():
                before = file.size
                file.shrink(file.size // 2)
                self.size -= before - file.size

    # ------------------------------------------------------------ the driver's screen

    def say(self, level: str, text: str) -> None:
        """Show `(raylet) text` on the driver's stdout, even without log_to_driver, and keep it in raylet.out.

        level: a level's name in `logging`.
        """
        with self.lock:
            self.system.add(None, f"[{level}] {text}\n".encode(errors="backslashreplace"))
            for tap in self.taps:
                tap(None, None, level, [text])
            shown = self._fold("stdout", SYSTEM, (SYSTEM, level), [text])
        self._show("stdout", shown)

    def _fold(self, name: str, source: Hashable, label: Any, lines: list[str]) -> list[Labelled]:
        if self.fold_never or not self.fold_always and self._is_captured(name):
            return [(label, line) for line in lines]
        return self.folding[name].fold(self.runtime.now(), source, label, lines)

    @staticmethod
    def _is_captured(name: str) -> bool:
        """Whether the program replaced this stream. The reader of the replacement wants every line."""
        return standard_streams.driver_stream(name) is not getattr(sys, f"__{name}__")

    def _show(self, name: str, shown: list[Labelled]) -> None:
        if shown:
            coloured = self._is_coloured(name)
            text = "".join([f"{self._prefix(coloured, *label)}{line}\n" for label, line in shown])
            if not standard_streams.write_to_driver(name, text):
                with self.lock:
                    self.unshown += 1

    def _is_coloured(self, name: str) -> bool:
        """Whether prefixes are coloured on this stream: on a terminal, unless NO_COLOR is set. RAY_COLOR_PREFIX=1
        colours them everywhere, and RAY_COLOR_PREFIX=0 nowhere. Ray colours them in files and pipes too.
        """
        if self.colour is not None:
            return self.colour != "0"
        if os.environ.get("NO_COLOR"):
            return False
        try:
            return bool(standard_streams.driver_stream(name).isatty())
        except (AttributeError, ValueError):  # the program's own object, or a closed file
            return False

    def _prefix(self, coloured: bool, label: str, source: Any) -> str:
        if label is SYSTEM:
            text, colour = "(raylet)", CYAN if source == "INFO" else YELLOW
        else:
            if not self.prefixed:
                return ""
            name = f"{escaped(label)} " if label else ""
            text = f"({name}pid={os.getpid()}{self._ip(source.node)})"
            colour = WORKER_COLOURS[source.number % len(WORKER_COLOURS)] if self.colour == "1" else CYAN
        return f"{colour}{text}{RESET} " if coloured else f"{text} "

    def _ip(self, node: "NodeRecord") -> str:
        return "" if node.is_head else f", ip={node.name}"

    # ------------------------------------------------------------ followers, the end

    @staticmethod
    def _tell_followers(file: LogFile) -> None:
        for follower in list(file.followers):
            follower.wake()

    def worker_ended(self, worker: "WorkerRecord") -> None:
        """Wake the followers of a dead worker's logs, because no further line will come."""
        outlet = self.outlets.get(worker.number)
        if outlet is not None:
            if outlet.pipes and worker is outlet.worker:
                outlet.close_pipes()
                with self.lock:
                    self.unfinished.pop((outlet, PIPES), None)
            for file in outlet.files.values():
                self._tell_followers(file)

    def close(self) -> None:
        """End the session's logs: show unfinished lines and those that were held back, and wake the followers."""
        self.reader.stop()
        with self.lock:
            unfinished = [(name, started) for (_, name), started in self.unfinished.copy().items() if name != PIPES]
            self.unfinished.clear()
            self.closed = True
            held_back = {name: folding.flush() for name, folding in self.folding.items()}
            files = [file for outlet in list(self.outlets.values()) for file in outlet.files.values()]
        if self.to_driver:
            for name, started in unfinished:
                outlet = started.outlet
                self._show(name, [((outlet.files[name].label, outlet.worker), started.text())])
        for name, shown in held_back.items():
            self._show(name, shown)
        for file in files:
            self._tell_followers(file)


def keeps_no_log_of_its_own(kind: str) -> bool:
    """Whether tasks of this kind share their actor's log. As in Ray, methods do, unless a variable says otherwise."""
    return kind == ACTOR_TASK and not switched_on("RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING", False)


# ---------------------------------------------------------------- the running session

running: SessionLogs | None = None


def install(runtime: Runtime) -> SessionLogs:
    """Begin to store and show the output of a new session's tasks.

    Reads the options `log_to_driver` and `logging_config`, and the variables RAY_DEDUP_LOGS..., RAY_COLOR_PREFIX,
    NO_COLOR, RAY_DISABLE_WORKER_LOG_PREFIX and MINIRAY_LOG_PREFIX.
    """
    global running
    logs = running = SessionLogs(runtime)
    runtime.say = logs.say
    runtime.unfinished_lines, runtime.end_lines = logs.unfinished, logs.end_lines
    runtime.worker_ended = logs.worker_ended
    standard_streams.open_doors(logs, logs.outlet)
    return logs


def uninstall(runtime: Runtime) -> None:
    """End the logs of a session: restore `sys`, show the lines that were held back, and drop the logs."""
    global running
    logs = running
    if logs is not None and logs.runtime is runtime:
        logs.close()
        standard_streams.close_doors(logs)
        running = None


def shown() -> SessionLogs | None:
    """The logs that readers read: those of the recording that this thread is reading, or of the running session."""
    recorded = context.recorded.get()
    return running if recorded is None else recorded.logs


def after_fork() -> None:
    """Restore `sys` in a forked child. The parent shows the lines that were held back."""
    global running
    logs, running = running, None
    standard_streams.after_fork()
    if logs is not None:
        standard_streams.close_doors(logs)


def shown_on_driver(runtime: Runtime) -> bool:
    """Whether the driver shows the output of this session's workers."""
    return running is not None and running.runtime is runtime and running.to_driver
