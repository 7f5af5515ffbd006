"""The logs of workers: bounded stores of lines, which count the lines they drop and say so.

A worker has two logs, as in Ray: `worker-<worker id>-<job id>-<pid>.out` and `.err`. Each line is stored with the
attempt that wrote it, so that a task's own lines can be picked from its worker's log. In Ray these are files; here the
session keeps them in memory.
"""

from __future__ import annotations

import _thread
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

from ...core.records import WorkerRecord
from ...ids import JOB_HEX
from ...process.context import Execution, shown_pid
from ...process.worker_output import Pipe
from ..escape import escaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

FILE_BYTES = 4 << 20  # the most that one log keeps: the newest lines that fit
ALL_BYTES = 256 << 20  # the most that all logs of a session keep
MOST_WORKERS = 10_000  # the most workers with logs; the oldest dead workers lose theirs first
LONGEST_LINE = 64 << 10  # characters after which an unfinished line is treated as ended
LINE_COST = 100  # the memory that a line takes besides its bytes
MOST_LOSSES = 1_000  # the most attempts for which a log remembers how many bytes it dropped

Attempt = tuple[int, int]  # a task's number and the attempt's


class Follower:
    """A reader that waits for new lines. lock: held while there are none; the reader parks on it."""

    __slots__ = ("lines", "lock")

    def __init__(self) -> None:
        self.lines: deque[tuple[Attempt | None, bytes]] = deque()
        self.lock = _thread.allocate_lock()

    def wake(self) -> None:
        """Wake the reader: there is a new line, or the log has ended."""
        with suppress(RuntimeError):  # it is already awake
            self.lock.release()


class LogFile:
    """One log; the lock of the session's logs guards it.

    size: the memory that its lines take, in bytes, including the cost of each line. label, marked: the name in the last
    marker line, and the attempt whose lines follow it. lost: bytes dropped, by attempt. followers: readers that get
    every new line; the thread that adds a line wakes them after releasing the lock.
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
        """Add a line. It ends in a newline, unless its task ended in the middle of it. attempt: None for a marker."""
        if len(line) > FILE_BYTES // 4:
            rest = len(line) - FILE_BYTES // 8
            line = line[: FILE_BYTES // 8] + b" [%d more bytes of this line have been dropped]\n" % rest
        self._lines.append((attempt, line))
        for follower in self.followers:
            follower.lines.append((attempt, line))
        self.size += len(line) + LINE_COST
        if self.size > FILE_BYTES:
            self.shrink(FILE_BYTES)

    def shrink(self, size: int) -> None:
        """Drop the oldest lines until the log has at most this size."""
        while self.size > size:
            attempt, line = self._lines.popleft()
            self.size -= len(line) + LINE_COST
            self.dropped_lines += 1
            self.dropped_bytes += len(line)
            if attempt is not None:
                self.lost[attempt] = self.lost.pop(attempt, 0) + len(line)
                if len(self.lost) > MOST_LOSSES:
                    del self.lost[next(iter(self.lost))]

    def all_lines(self) -> tuple[int, deque[tuple[Attempt | None, bytes]]]:
        """How many lines were ever added, markers included, and those that are still there. For reading only."""
        return self.dropped_lines + len(self._lines), self._lines

    def written(self) -> Iterator[tuple[Attempt, bytes]]:
        """Yield each line with the attempt that wrote it, without the markers."""
        return ((attempt, line) for attempt, line in self._lines if attempt is not None)

    def read(self, attempt: Attempt | None = None) -> list[bytes]:
        """Return the lines of one attempt, or all lines. If some were dropped, the first line says so."""
        if attempt is None:
            lines = [line for _, line in self._lines]
            if self.dropped_lines:
                lines.insert(
                    0,
                    b"[%d older lines (%d bytes) of this log have been dropped]\n"
                    % (self.dropped_lines, self.dropped_bytes),
                )
        else:
            lines = [line for writer, line in self._lines if writer == attempt]
            if attempt in self.lost:
                lines.insert(0, b"[%d older bytes of this task's log have been dropped]\n" % self.lost[attempt])
        for i, line in enumerate(lines[:-1]):
            if not line.endswith(b"\n"):  # a task ended in the middle of this line
                lines[i] = line + b"\n"
        return lines


class WorkerLog:
    """A worker's two logs, and the streams to which its tasks redirected theirs. The threads of an actor share one.

    worker: the first worker that uses these logs. keys: the numbers of all workers that do. redirected: a task's own
    streams by name, see `standard_streams`. keep: called with this object, the task's execution (None if a thread or a
    child process of the worker wrote), "stdout" or "stderr", and the text. pipes: by name, to which the worker's
    children write; empty until it starts one. open_pipes: called with this object, fills `pipes`.
    """

    __slots__ = ("worker", "keys", "files", "redirected", "pipes", "_keep", "_open_pipes")

    def __init__(
        self,
        worker: WorkerRecord,
        keep: "Callable[[WorkerLog, Execution | None, str, str], None]",
        open_pipes: "Callable[[WorkerLog], None]",
    ):
        self.worker, self._keep, self._open_pipes = worker, keep, open_pipes
        self.pipes: dict[str, Pipe] = {}
        self.keys = {worker.number}
        self.redirected: dict[str, Any] = {}
        base = log_name(worker)
        self.files = {"stdout": LogFile(base + ".out"), "stderr": LogFile(base + ".err")}

    def write(self, execution: Execution | None, name: str, text: str) -> None:
        """Take the text that a task of this worker wrote, or a thread that a task has started."""
        if self.pipes:  # what a child wrote earlier comes first
            self.pipes[name].drain()
        self._keep(self, execution, name, text)

    def descriptors(self) -> tuple[int, int] | None:
        """See `standard_streams.Outlet`."""
        if not self.pipes:
            self._open_pipes(self)
        ends = tuple(pipe.write_end for pipe in self.pipes.values())
        return (ends[0], ends[1]) if ends and min(ends) >= 0 else None

    def drain(self) -> None:
        """Take what the worker's children have written so far."""
        for pipe in self.pipes.values():
            pipe.drain()

    def close_pipes(self) -> None:
        """The worker has ended."""
        for pipe in self.pipes.values():
            pipe.drain()
            pipe.close()


def log_name(worker: WorkerRecord) -> str:
    """The name of a worker's logs, without .out or .err."""
    return f"worker-{worker.hex}-{JOB_HEX}-{shown_pid()}"


def header(worker: "WorkerRecord", label: str) -> list[bytes]:
    """The marker lines at the top of a worker's log, as in Ray. label: the name in the log's own last marker."""
    lines = [f":job_id:{JOB_HEX}\n".encode()]
    if worker.actor is not None and not label:
        lines.append(f":actor_name:{escaped(actor_label(worker.actor))}\n".encode())
    return lines


def actor_label(actor: Any) -> str:
    """The name of an actor in front of its output: its repr if its class defines one, otherwise the class."""
    return str(actor.repr_name or actor.class_name.rpartition(".")[2])
