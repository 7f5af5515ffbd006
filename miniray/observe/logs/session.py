"""A session's logs: what tasks write is kept, made into whole lines, and shown on the driver behind its prefix.

    (NAME pid=N) text       NAME: the task's name, or the actor's class or repr; behind the pid `, ip=A` of another node
    (raylet) text           what the system has to say

A line is shown when it ends, by the thread that prints it: what a task has printed is on the driver's screen before its
result is. Ray: print_worker_logs in _private/worker.py, log_monitor.py.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ...core.records import ACTOR_TASK
from ...core.transitions import WorkerStatus
from . import files
from ...process import standard_streams
from ..escape import escaped
from .files import Attempt, LogFile, WorkerLog, actor_label
from .folding import SYSTEM, Labelled, folding_from_environment

if TYPE_CHECKING:
    from ...core.records import NodeRecord, WorkerRecord
    from ...runtime.runtime import Runtime
    from ...process.context import Execution

DEAD = WorkerStatus.DEAD
CYAN, YELLOW, GREEN, RESET = "\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[0m"
MANY = [f"\x1b[{code}m" for code in (35, 36, 32, 90, 94, 95)]  # RAY_COLOR_PREFIX=1: one for each worker


def switched_on(variable: str, default: bool) -> bool:
    """Whether an environment variable is on, as Ray reads one: "1" or "true" in any case."""
    value = os.environ.get(variable)
    return default if value is None else value.lower() in ("1", "true")


class Unfinished:
    """What there is of a line that has not ended."""

    __slots__ = ("outlet", "_pieces", "_size")

    def __init__(self, outlet: WorkerLog):
        self.outlet, self._size = outlet, 0
        self._pieces: list[str] = []

    def add(self, text: str) -> int:
        """Go on with the line. Returns its length."""
        self._pieces.append(text)
        self._size += len(text)
        return self._size

    def text(self) -> str:
        """The line so far."""
        return "".join(self._pieces)


class SessionLogs:
    """The logs of one session. `lock` guards the logs, the unfinished lines and the folding; nothing of the user's runs
    under it, save a finaliser that prints, for which it can be taken twice.

    unfinished: the pieces of lines that have not ended, by attempt and stream; workers look whether it is empty when a
    task ends. unshown: how many times the driver's screen could not be written to.
    """

    def __init__(self, runtime: "Runtime"):
        self.runtime = runtime
        self.lock = threading.RLock()
        self.outlets: dict[int, WorkerLog] = {}  # by worker number; several numbers may share one
        self.unfinished: dict[tuple[Attempt, str], Unfinished] = {}
        self.system = LogFile("raylet.out")
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
        green = ("", "") if self.colour == "0" else (GREEN, RESET)
        self.folding = {name: folding_from_environment(green) for name in standard_streams.NAMES}

    # ------------------------------------------------------------ what workers write

    def outlet(self, execution: "Execution") -> standard_streams.Outlet | None:
        """Who takes what this task writes; None in local mode, where it is the driver itself."""
        worker = execution.worker
        if execution.runtime is not self.runtime or worker.status is DEAD:
            return standard_streams.NOWHERE
        if self.runtime.local:
            return None
        return self.outlets.get(worker.number) or self.outlet_of(worker)

    def outlet_of(self, worker: "WorkerRecord") -> WorkerLog:
        """The logs of a worker, made when they are first asked for."""
        actor = worker.actor
        first = actor.worker if actor is not None and actor.worker is not None else worker
        with self.lock:
            outlet = self.outlets.get(first.number)
            if outlet is None:
                outlet = self.outlets[first.number] = WorkerLog(first, self.write)
                if len(self.outlets) > files.MOST_WORKERS:
                    self._forget_a_dead_one()
            outlet.keys.add(worker.number)
            self.outlets[worker.number] = outlet
        return outlet

    def _forget_a_dead_one(self) -> None:
        for outlet in self.outlets.values():
            if outlet.worker.status is DEAD:
                for key in outlet.keys:
                    del self.outlets[key]
                self.size -= sum(file.size for file in outlet.files.values())
                self.dropped_workers += 1
                return

    def write(self, outlet: WorkerLog, execution: "Execution", name: str, text: str) -> None:
        """Take a piece of text of a task. Lines that it ends are kept and shown; the rest waits for its end."""
        task = execution.task
        attempt = (task.number, task.attempt)
        if not text.isascii():  # a lone surrogate has no bytes: it becomes an escape
            text = text.encode(errors="backslashreplace").decode()
        with self.lock:
            started = self.unfinished.get((attempt, name))
            if "\n" not in text:
                if started is None:
                    started = self.unfinished[attempt, name] = Unfinished(outlet)
                if started.add(text) < files.LONGEST_LINE:
                    return
                text = "\n"
            if started is not None:
                del self.unfinished[attempt, name]
                text = started.text() + text
            lines = text.split("\n")
            rest = lines.pop()
            if rest:
                self.unfinished[attempt, name] = started = Unfinished(outlet)
                started.add(rest)
            shown = self._keep(outlet, execution, name, lines, "\n")
        self._show(name, shown)
        self._tell_followers(outlet.files[name])

    def end_lines(self, execution: "Execution") -> None:
        """A task ends: what it has left of a line is a line. Called before its result is stored."""
        task = execution.task
        for name in standard_streams.NAMES:
            with self.lock:
                started = self.unfinished.pop(((task.number, task.attempt), name), None)
                if started is None:
                    continue
                shown = self._keep(started.outlet, execution, name, [started.text()], "")
            self._show(name, shown)
            self._tell_followers(started.outlet.files[name])

    def unfinished_in(self, file: LogFile, attempt: Attempt | None) -> list[bytes]:
        """The lines of a log that have not ended, of one attempt or all."""
        return [
            started.text().encode()
            for (writer, name), started in self.unfinished.items()
            if started.outlet.files[name] is file and attempt in (None, writer)
        ]

    def _keep(self, outlet: WorkerLog, execution: "Execution", name: str, lines: list[str], end: str) -> list[Labelled]:
        """Put lines into the log. Returns what is to be shown of them, and of what was held back."""
        task, file = execution.task, outlet.files[name]
        before = file.size
        kind, label = ("actor", actor_label(task.actor)) if task.actor is not None else ("task", task.spec.name)
        attempt = (task.number, task.attempt)
        if file.label != label or kind == "task" and file.marked != attempt:
            file.label, file.marked = label, attempt
            file.add(None, f":{kind}_name:{escaped(label)}\n".encode())
        for line in lines:
            file.add(attempt, (line + end).encode())
        self.size += file.size - before
        if self.size > files.ALL_BYTES:
            self._shrink_all()
        if not self.to_driver:
            return []
        source: tuple[Any, ...] = (label, execution.worker)
        lines = [line.rstrip("\r") for line in lines]
        return self._fold(name, outlet.worker.number, source, lines)

    def _shrink_all(self) -> None:
        outlets = {id(outlet): outlet for outlet in self.outlets.values()}
        for outlet in outlets.values():
            for file in outlet.files.values():
                before = file.size
                file.shrink(file.size // 2)
                self.size -= before - file.size

    # ------------------------------------------------------------ what the driver sees

    def say(self, level: str, text: str) -> None:
        """Something the system has to say, also without log_to_driver. level: logging's name for it."""
        with self.lock:
            self.system.add(None, f"[{level}] {text}\n".encode(errors="backslashreplace"))
            shown = self._fold("stdout", SYSTEM, (SYSTEM, level), [text])
        self._show("stdout", shown)

    def _fold(self, name: str, source: Hashable, label: Any, lines: list[str]) -> list[Labelled]:
        if self.fold_never or not self.fold_always and self._is_captured(name):
            return [(label, line) for line in lines]
        return self.folding[name].fold(self.runtime.now(), source, label, lines)

    @staticmethod
    def _is_captured(name: str) -> bool:
        """Whether the program put a stream of its own there: whoever reads that wants every line."""
        return standard_streams.driver_stream(name) is not getattr(sys, f"__{name}__")

    def _show(self, name: str, shown: list[Labelled]) -> None:
        if shown:
            text = "".join([f"{self._prefix(*label)}{line}\n" for label, line in shown])
            if not standard_streams.write_to_driver(name, text):
                with self.lock:
                    self.unshown += 1

    def _prefix(self, label: str, source: Any) -> str:
        if label is SYSTEM:
            text, colour = "(raylet)", CYAN if source == "INFO" else YELLOW
        else:
            if not self.prefixed:
                return ""
            text = f"({escaped(label)} pid={os.getpid()}{self._ip(source.node)})"
            colour = MANY[source.number % len(MANY)] if self.colour == "1" else CYAN
        return f"{text} " if self.colour == "0" else f"{colour}{text}{RESET} "

    def _ip(self, node: "NodeRecord") -> str:
        return "" if node.is_head else f", ip={node.name}"

    # ------------------------------------------------------------ followers, the end

    @staticmethod
    def _tell_followers(file: LogFile) -> None:
        for follower in list(file.followers):
            follower.wake()

    def worker_ended(self, worker: "WorkerRecord") -> None:
        """A worker is dead: who follows its logs waits in vain."""
        outlet = self.outlets.get(worker.number)
        if outlet is not None:
            for file in list(outlet.files.values()):  # a thread that its code has left behind may open one
                self._tell_followers(file)

    def close(self) -> None:
        """The session ends: unfinished lines and what was held back are shown, followers are woken."""
        with self.lock:
            left = [(name, started) for (_, name), started in self.unfinished.items()]
            self.unfinished.clear()
            self.closed = True
            held = {name: folding.flush() for name, folding in self.folding.items()}
            files = [file for outlet in self.outlets.values() for file in outlet.files.values()]
        if self.to_driver:
            for name, started in left:
                outlet = started.outlet
                self._show(name, [((outlet.files[name].label, outlet.worker), started.text())])
        for name, shown in held.items():
            self._show(name, shown)
        for file in files:
            self._tell_followers(file)


def keeps_no_log_of_its_own(kind: str) -> bool:
    """Whether such tasks are read in their actor's log: methods, as in Ray, unless a variable says otherwise."""
    return kind == ACTOR_TASK and not switched_on("RAY_ENABLE_RECORD_ACTOR_TASK_LOGGING", False)


# ---------------------------------------------------------------- of the session that runs

running: SessionLogs | None = None


def install(runtime: Runtime) -> SessionLogs:
    """A session starts: from now on what its tasks write is kept and shown. Its options `log_to_driver` and
    `logging_config` are read, and the variables RAY_DEDUP_LOGS..., RAY_COLOR_PREFIX, RAY_DISABLE_WORKER_LOG_PREFIX and
    MINIRAY_LOG_PREFIX.
    """
    global running
    logs = running = SessionLogs(runtime)
    runtime.say = logs.say
    runtime.unfinished_lines, runtime.end_lines = logs.unfinished, logs.end_lines
    runtime.worker_ended = logs.worker_ended
    standard_streams.open_doors(logs, logs.outlet)
    return logs


def uninstall(runtime: Runtime) -> None:
    """The session has ended: `sys` is as it was, what was held back is shown, the logs are let go."""
    global running
    logs = running
    if logs is not None and logs.runtime is runtime:
        logs.close()
        standard_streams.close_doors(logs)
        running = None


def after_fork() -> None:
    """In a forked child: `sys` is as it was before the session. What was held back is the parent's to show."""
    global running
    logs, running = running, None
    standard_streams.after_fork()
    if logs is not None:
        standard_streams.close_doors(logs)


def system_message(runtime: Runtime, text: str, level: str = "WARNING") -> None:
    """Show `(raylet) text` on the driver's stdout, as Ray does, and keep it in raylet.out. level: logging's name."""
    if running is not None and running.runtime is runtime:
        running.say(level, text)


def shown_on_driver(runtime: Runtime) -> bool:
    """Whether what this session's workers have to show is to be seen on the driver at all."""
    return running is not None and running.runtime is runtime and running.to_driver
