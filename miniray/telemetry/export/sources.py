"""What is new in a session since the last look, for the exporter: calls that have ended, and lines.

A look is cheap and does not slow the program. Ended calls are found at the end of the core's table of tasks, which
keeps the order of submission; those that have not ended are looked at again. Only references are taken. Spans are made
of them when a request is built, and never if the collector is not there: what finds no room is only counted.
"""

from __future__ import annotations

import os
import platform
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from ..._version import __ray_version__, __version__
from ...core.records import ACTOR_CREATION_TASK, TaskRecord, WorkerRecord
from ...ids import JOB_HEX
from ...observe.logs import session as log_session
from ...observe.metrics import registry
from ...observe.metrics.system import DRIVER_ID, session_name
from ...observe.state.task_columns import process_of
from ...process.trace_context import span_id_of, trace_of
from ..tracing.spans import Look, Span, spans_of
from . import encoding

STREAMS = ("stdout", "stderr")  # what is printed there has no level


class Made(NamedTuple):
    """The content of a request: what `encoding.body` takes, and how many spans, points or lines that is."""

    items: list[str]
    number: int


class Calls:
    """The calls of a session, and the spans that its program opens.

    waiting: ended calls, oldest first. most: how many may wait, unfinished ones included. dropped: how many calls and
    spans of the program found no room.

    A call that has ended may run again: to rebuild a value, as long as its arguments are kept, or because an actor
    restarts. Such calls are remembered after their spans were made. Constructors are watched; the others are when the
    core has said that some call was rebuilt, and they have begun to run again.
    """

    def __init__(self, runtime: Any, most: int):
        self.runtime, self.most, self.dropped = runtime, most, 0
        self.waiting: deque[TaskRecord] = deque()
        self._made: dict[int, int] = {}  # of the attempts of a waiting call that has run again: whose spans were made
        self._open: dict[int, TaskRecord] = {}
        self._may_run: dict[int, tuple[TaskRecord, int]] = {}
        self._watched: dict[int, tuple[TaskRecord, int]] = {}
        self._rebuilt = 0
        with runtime.lock:
            cluster = runtime.cluster
            self._seen = len(cluster.tasks) + cluster.dropped["tasks"]
            self._last = cluster.number
        self._look = Look(runtime)
        self._own_seen = 0
        self._own: deque[Span] = deque()

    def read(self) -> None:
        """Look for what is new."""
        ended = [task for task in self._open.values() if task.t_finished]
        for task in ended:
            del self._open[task.number]
        self.waiting.extend(ended)
        rebuilt = self._read_again()
        cluster = self.runtime.cluster
        room = self.most - len(self.waiting) - len(self._open)
        with self.runtime.lock:
            total = len(cluster.tasks) + cluster.dropped["tasks"]
            count = total - self._seen
            newest = list(islice(reversed(cluster.tasks.values()), min(count, room))) if count > 0 and room > 0 else []
            last = cluster.number
        self._seen = total
        self.dropped += max(0, count - len(newest))
        newest.reverse()
        if rebuilt:  # a call that had been dropped from the table may be at its end again
            newest = [task for task in newest if task.number > self._last]
        self._last = last
        ended = [task for task in newest if task.t_finished]
        if len(ended) < len(newest):
            known = {task.number for task in ended}
            self._open.update((task.number, task) for task in newest if task.number not in known)
        self.waiting.extend(ended)
        self._read_own()

    def _read_again(self) -> bool:
        """Look for calls that had ended, and have run again. Returns whether the core has rebuilt any since the last
        look."""
        number_rebuilt = self.runtime.cluster.task_manager.num_reconstructions
        rebuilt: bool = number_rebuilt != self._rebuilt
        if rebuilt:
            self._rebuilt = number_rebuilt
            for number, (task, made) in list(self._may_run.items()):
                if task.attempt >= made:
                    self._watched[number] = self._may_run.pop(number)
        for number, (task, made) in list(self._watched.items()):
            if task.t_finished and task.attempt >= made:
                del self._watched[number]
                self._made[number] = made
                self.waiting.append(task)
            elif task.t_finished and task.args is None:
                del self._watched[number]  # it cannot run again
        return rebuilt

    def _read_own(self) -> None:
        tracing = self.runtime.tracing
        if tracing is None:
            return
        own = tracing.own_spans
        total = own.added
        count = total - self._own_seen
        if count > 0:
            taken = own.kept(self._own_seen)[: max(0, self.most - len(self._own))]
            self._own.extend(taken)
            self.dropped += max(0, count - len(taken))
            self._own_seen = total

    def __len__(self) -> int:
        return len(self.waiting) + len(self._own)

    def take(self, most: int) -> Made | None:
        """The spans of the oldest calls, about `most` of them; None if none waits."""
        items: list[str] = []
        while len(items) < most and self.waiting:
            self._spans(self.waiting.popleft(), items)
        while len(items) < most and self._own:
            items.append(encoding.span(self._own.popleft()))
        return Made(items, len(items)) if items else None

    def _spans(self, task: TaskRecord, items: list[str]) -> None:
        """Append the spans of a call, without those that were made before. It may be running again by now: then the
        last attempt has no end, and its turn comes later."""
        made = self._made.pop(task.number, 0)
        over, last = task.t_finished > 0, task.attempt
        until = last + 1 if over else last  # the first attempt whose span is not made now
        for span in spans_of(self._look, task):
            if span.end_ns is not None and (not made if span.attempt is None else made <= span.attempt < until):
                items.append(encoding.span(span))
        if task.args is not None or not over:
            known = self._watched if task.spec.kind == ACTOR_CREATION_TASK or not over else self._may_run
            if len(known) < self.most:
                known[task.number] = task, until

    def drop_all(self) -> int:
        """Forget what waits. Returns how much that was."""
        number = len(self)
        for known in (self.waiting, self._own, self._made):
            known.clear()
        self.dropped += number
        return number

    def close(self) -> None:
        """The session has ended: the calls that have not are no spans."""
        for known in (self._open, self._may_run, self._watched):
            known.clear()


class Line(NamedTuple):
    """One line. at: the runtime's clock. task: that wrote it; None for a message of the system. attempt: of the task.
    stream: "stdout", "stderr" or the level of a message of the system."""

    at: float
    worker: WorkerRecord | None
    task: TaskRecord | None
    attempt: int
    stream: str
    text: str


class Lines:
    """The lines that tasks print, and the messages of the system, from now on. dropped: how many found no room."""

    def __init__(self, runtime: Any, most: int):
        self.runtime, self.most, self.dropped = runtime, most, 0
        self._waiting: deque[Line] = deque()
        self._epoch_ns = round(runtime.epoch * 1e9)
        self._session = session_name(runtime)
        self._logs = log_session.running
        if self._logs is not None:
            self._logs.taps.append(self._tap)

    def _tap(self, worker: WorkerRecord | None, task: TaskRecord | None, stream: str, lines: list[str]) -> None:
        """Called by the thread that ends the lines, under the lock of the logs."""
        room = self.most - len(self._waiting)
        if room < len(lines):
            self.dropped += len(lines) - max(0, room)
            lines = lines[: max(0, room)]
        now, attempt = self.runtime.now(), task.attempt if task is not None else 0
        self._waiting.extend([Line(now, worker, task, attempt, stream, line) for line in lines])

    def read(self) -> None:
        """Nothing to do: lines come by themselves."""

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, most: int) -> Made | None:
        """The oldest lines; None if none waits."""
        taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        if not taken:
            return None
        observed = self._epoch_ns + round(self.runtime.now() * 1e9)
        return Made([self._record(line, observed) for line in taken], len(taken))

    def _record(self, line: Line, observed_ns: int) -> str:
        values = {"ray.job_id": JOB_HEX, "ray.session_name": self._session}
        trace = None
        if line.worker is not None:
            values["log.iostream"] = line.stream
            values["ray.node_id"] = line.worker.node.hex
            values["ray.worker_id"] = process_of(line.worker).hex
            if line.worker.actor is not None:
                values["ray.actor_id"] = line.worker.actor.hex
        task = line.task
        if task is not None:
            values["ray.task_id"], values["ray.task_name"] = task.hex, task.spec.name
            seed = self.runtime.trace_seed
            trace = trace_of(seed, task.trace, task.number), span_id_of(seed, task.number, line.attempt + 1)
        level = "" if line.stream in STREAMS else line.stream
        at = self._epoch_ns + round(line.at * 1e9)
        return encoding.log_record(at, observed_ns, level, line.text.rstrip("\r"), values, trace)

    def drop_all(self) -> int:
        """Forget what waits. Returns how much that was."""
        number = len(self._waiting)
        self._waiting.clear()
        self.dropped += number
        return number

    def close(self) -> None:
        """No further line is wanted."""
        if self._logs is not None and self._tap in self._logs.taps:
            self._logs.taps.remove(self._tap)


class Metrics:
    """All metrics of a session. Each look replaces the one before: the values are totals since the session's start."""

    dropped = 0

    def __init__(self, runtime: Any):
        self.runtime = runtime
        self._start_ns = round((runtime.epoch + runtime.now()) * 1e9)
        self._waiting: Iterator[tuple[list[str], int]] = iter(())
        self._next: Made | None = None

    def read(self) -> None:
        """Take the values of now."""
        now_ns = round((self.runtime.epoch + self.runtime.now()) * 1e9)
        found = registry.families(True, self.runtime)
        self._waiting = encoding.metrics(found, self._start_ns, now_ns)
        self._advance()

    def _advance(self) -> None:
        made = next(self._waiting, None)
        self._next = Made(*made) if made is not None else None

    def __len__(self) -> int:
        return 0 if self._next is None else self._next.number

    def take(self, most: int) -> Made | None:
        """The next request's content; None if all were taken. `most` does not matter."""
        made = self._next
        if made is not None:
            self._advance()
        return made

    def drop_all(self) -> int:
        """Forget what waits. Nothing is lost by that: the next values include it."""
        self._waiting, self._next = iter(()), None
        return 0

    def close(self) -> None:
        """Nothing to do."""


def resource_of(runtime: Any, given: dict[str, str]) -> dict[str, Any]:
    """The attributes of the program that OpenTelemetry names, completed by those that the user has given."""
    return {
        "service.instance.id": session_name(runtime),
        "telemetry.sdk.name": "miniray",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": __version__,
        "process.pid": os.getpid(),
        "process.runtime.name": platform.python_implementation().lower(),
        "process.runtime.version": platform.python_version(),
        "ray.version": __ray_version__,
        "ray.session_name": session_name(runtime),
        "ray.worker_id": DRIVER_ID,
        **given,
    }
