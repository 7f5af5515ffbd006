"""What is kept of what workers wrote: bounded, and what the bounds let go is counted and said.

A worker has two logs, as in Ray: `worker-<worker id>-<job id>-<pid>.out` and `.err`. Each line is kept with the attempt
that wrote it, so that a task's own lines can be read out of its worker's. In Ray these are files; here they are memory
of the session.
"""

from __future__ import annotations

import _thread
import os
from collections import deque
from contextlib import suppress
from typing import Any, Callable

from ...core.records import WorkerRecord
from ...ids import JOB_HEX
from ...process.context import Execution
from ..escape import escaped

FILE_BYTES = 4 << 20  # most that one log keeps: the newest lines that fit
ALL_BYTES = 256 << 20  # most that all logs of a session keep
MOST_WORKERS = 10_000  # whose logs are kept, the oldest dead ones go first
LONGEST_LINE = 64 << 10  # a longer unfinished line is taken as if it had ended
LINE_COST = 100  # what keeping a line costs besides its bytes
REMEMBERED = 1_000  # attempts of which a log remembers how much it has let go

Attempt = tuple[int, int]  # a task's number and the attempt's


class Follower:
    """A reader that goes on with what is written from now on. lock: held while there is nothing new for it."""

    __slots__ = ("lines", "lock")

    def __init__(self) -> None:
        self.lines: deque[tuple[Attempt | None, bytes]] = deque()
        self.lock = _thread.allocate_lock()

    def wake(self) -> None:
        """There is something new, or the log has ended."""
        with suppress(RuntimeError):  # it is awake already
            self.lock.release()


class LogFile:
    """One log. Its owner's lock guards it. size: what it keeps, in bytes with the cost of each line.

    label, marked: the name that the last marker line gave, and the attempt it stands before. lost: bytes let go, by
    attempt. followers: get every line that is added; who added it wakes them.
    """

    __slots__ = ("name", "size", "label", "marked", "dropped_lines", "dropped_bytes", "lost", "followers", "_lines")

    def __init__(self, name: str):
        self.name, self.label = name, ""
        self.marked: Attempt | None = None
        self.size = self.dropped_lines = self.dropped_bytes = 0
        self.lost: dict[Attempt, int] = {}
        self.followers: list[Follower] = []
        self._lines: deque[tuple[Attempt | None, bytes]] = deque()

    def add(self, attempt: Attempt | None, line: bytes) -> None:
        """Keep a line; it ends in a newline, unless its task ended in the middle of it. attempt: None for a marker."""
        if len(line) > FILE_BYTES // 4:
            rest = len(line) - FILE_BYTES // 8
            line = line[: FILE_BYTES // 8] + b" [%d more bytes of this line are not kept]\n" % rest
        self._lines.append((attempt, line))
        for follower in self.followers:
            follower.lines.append((attempt, line))
        self.size += len(line) + LINE_COST
        if self.size > FILE_BYTES:
            self.shrink(FILE_BYTES)

    def shrink(self, size: int) -> None:
        """Let the oldest lines go until what is kept has at most this size."""
        while self.size > size:
            attempt, line = self._lines.popleft()
            self.size -= len(line) + LINE_COST
            self.dropped_lines += 1
            self.dropped_bytes += len(line)
            if attempt is not None:
                self.lost[attempt] = self.lost.pop(attempt, 0) + len(line)
                if len(self.lost) > REMEMBERED:
                    del self.lost[next(iter(self.lost))]

    def read(self, attempt: Attempt | None = None) -> list[bytes]:
        """The lines of one attempt, or all. When some were let go, the first line says so."""
        if attempt is None:
            lines = [line for _, line in self._lines]
            if self.dropped_lines:
                lines.insert(
                    0,
                    b"[%d older lines, %d bytes, of this log are not kept]\n"
                    % (self.dropped_lines, self.dropped_bytes),
                )
        else:
            lines = [line for writer, line in self._lines if writer == attempt]
            if attempt in self.lost:
                lines.insert(0, b"[%d older bytes of this task's log are not kept]\n" % self.lost[attempt])
        for i, line in enumerate(lines[:-1]):
            if not line.endswith(b"\n"):  # a task ended in the middle of a line: what follows begins a new one
                lines[i] = line + b"\n"
        return lines


class WorkerLog:
    """A worker's two logs, and where its tasks sent their streams; an actor's threads share one.

    worker: the record of the first of them. keys: the numbers of all of them. keep: takes what a task wrote, with this log, the
    task's execution, "stdout" or "stderr", and the text.
    """

    __slots__ = ("worker", "keys", "files", "redirected", "_keep")

    def __init__(self, worker: WorkerRecord, keep: "Callable[[WorkerLog, Execution, str, str], None]"):
        self.worker, self._keep = worker, keep
        self.keys = {worker.number}
        self.redirected: dict[str, Any] = {}
        base = log_name(worker)
        self.files = {"stdout": LogFile(base + ".out"), "stderr": LogFile(base + ".err")}

    def write(self, execution: Execution, name: str, text: str) -> None:
        """Take what a task of this worker wrote."""
        self._keep(self, execution, name, text)


def log_name(worker: WorkerRecord) -> str:
    """What a worker's logs are called, without .out or .err."""
    return f"worker-{worker.hex}-{JOB_HEX}-{os.getpid()}"


def header(worker: "WorkerRecord", label: str) -> list[bytes]:
    """The marker lines that a worker's log begins with in Ray. label: the name that its own markers gave last."""
    lines = [f":job_id:{JOB_HEX}\n".encode()]
    if worker.actor is not None and not label:
        lines.append(f":actor_name:{escaped(actor_label(worker.actor))}\n".encode())
    return lines


def actor_label(actor: Any) -> str:
    """How an actor is called in front of what it prints: by its repr, if it has one of its own, or its class."""
    return actor.repr_name or actor.class_name.rpartition(".")[2]
