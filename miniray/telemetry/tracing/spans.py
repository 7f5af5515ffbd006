"""The spans of a session: readings of its records, for everything that ran, for as long as the records last.

Each call is a PRODUCER span. Each attempt that has entered its code is a CONSUMER span, a child of the call. What an
attempt calls is a child of the attempt. Names, kinds, attributes and statuses are Ray's (ray.util.tracing), with
exceptions that the portability page lists. Spans that the program has opened itself are INTERNAL.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...core.records import NORMAL_TASK, Failure, TaskRecord, WorkerRecord
from ...ids import JOB_HEX, worker_hex
from ...observe.state.task_columns import process_of
from ...observe.timeline.recording import Row, earlier_row_of, row_of
from ...process.trace_context import parent_of, span_id_of, span_of_call, trace_of
from ...runtime.runtime import DRIVER
from ...values.errors import TaskError

UNSET, ERROR = "UNSET", "ERROR"
PRODUCER, CONSUMER, INTERNAL = "PRODUCER", "CONSUMER", "INTERNAL"
DRIVER_ID = worker_hex(0)
WANTED = ("INTENDED_USER_EXIT", "INTENDED_SYSTEM_EXIT")  # ends of a worker that are no errors, as in Ray


class Status(NamedTuple):
    """How a span ended. code: UNSET or ERROR; never OK, as in Ray. description: of the error, otherwise ""."""

    code: str = UNSET
    description: str = ""


class Event(NamedTuple):
    """Something that happened during a span, such as an exception. time_ns: since the Unix epoch."""

    name: str
    time_ns: int
    attributes: dict[str, str]


NO_ERROR = Status()


@dataclass(slots=True)
class Span:
    """One span. Times are nanoseconds since the Unix epoch.

    parent_id: None for the first span of a trace. kind: PRODUCER, CONSUMER or INTERNAL. end_ns: None while it runs.
    task_id: of the call or the attempt; of a span of user code the task that has opened it, None for the driver.
    attempt: of a CONSUMER, and of a span that an attempt has opened; otherwise None. state: the header `tracestate`.
    links are part of the format, and always empty, as in Ray.
    """

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    kind: str
    start_ns: int
    end_ns: int | None
    attributes: dict[str, str]
    status: Status = NO_ERROR
    events: tuple[Event, ...] = ()
    links: tuple[Any, ...] = ()
    task_id: str | None = None
    attempt: int | None = None
    state: str = ""

    @property
    def traceparent(self) -> str:
        """The span as a W3C header."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-01"


@dataclass(slots=True)
class Look:
    """What all readings of one session share. epoch_ns: added to a time on the runtime's clock."""

    runtime: Any
    seed: int = field(init=False)
    epoch_ns: int = field(init=False)
    shared: dict[str, str] = field(init=False)
    driver: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        runtime = self.runtime
        self.seed, self.epoch_ns = runtime.trace_seed, round(runtime.epoch * 1e9)
        self.shared = {"ray.pid": str(os.getpid()), "ray.job_id": JOB_HEX}
        head = next(iter(runtime.cluster.nodes.values()), None)
        self.driver = {"ray.node_id": head.hex if head is not None else "", "ray.worker_id": DRIVER_ID}

    def ns(self, at: float) -> int:
        """A time on the runtime's clock as nanoseconds since the Unix epoch."""
        return self.epoch_ns + round(at * 1e9)

    def place(self, worker: WorkerRecord | None) -> dict[str, str]:
        """The attributes that say where a span was made. worker: None for the driver."""
        if worker is None:
            return self.driver
        return {"ray.node_id": worker.node.hex, "ray.worker_id": process_of(worker).hex}


def spans(runtime: Any) -> Iterator[Span]:
    """The spans of a session: those of its calls and attempts in order of submission, then the program's own.

    Holds the lock only while it copies the table of tasks. A span that has not ended has no `end_ns`.
    """
    with runtime.locked() as cluster:
        tasks = list(cluster.tasks.values())
    look = Look(runtime)
    for task in tasks:
        yield from spans_of(look, task)
    if runtime.tracing is not None:
        own = runtime.tracing.own_spans
        opened = own.opened()  # first: one that ends meanwhile is then among those that are kept
        kept = own.kept()
        ended = {span.span_id for span in kept}
        yield from kept
        yield from (span for span in opened if span.span_id not in ended)


def spans_of(look: Look, task: TaskRecord) -> Iterator[Span]:
    """The spans of one task: its call, and each attempt that has entered its code, in order."""
    hex_id, trace_id = task.hex, trace_of(look.seed, task.trace, task.number)
    call_id = span_of_call(look.seed, task.trace, task.number)
    rows = [earlier_row_of(task, attempt) for attempt in list(task.history or ())]
    rows.append(row_of(task))
    state = getattr(getattr(task.trace, "context", task.trace), "state", "")
    submitted = look.ns(rows[0].created)
    yield Span(
        trace_id,
        call_id,
        parent_of(look.seed, task.trace),
        f"{call_name(task)} ray.remote",
        PRODUCER,
        submitted,
        submitted,  # as in Ray it ends when `.remote()` returns, and no record holds that time
        call_attributes(look, task),
        task_id=hex_id,
        state=state,
    )
    for row in rows:
        if not row.started:
            continue
        ended = row.ended or row.finished
        status, events = _ending(look, task, row, ended)
        yield Span(
            trace_id,
            span_id_of(look.seed, task.number, row.attempt + 1),
            call_id,
            f"{attempt_name(task)} ray.remote_worker",
            CONSUMER,
            look.ns(row.started),
            look.ns(ended) if ended else None,
            attempt_attributes(look, task, row.worker),
            status,
            events,
            task_id=hex_id,
            attempt=row.attempt,
            state=state,
        )


# ------------------------------------------------------------ names and attributes


def call_name(task: TaskRecord) -> str:
    """What a call's span is called: module and function, or class and method. As in Ray, a class is named here by its
    qualified name, and in the span of the attempt by its plain name."""
    spec = task.spec
    if spec.kind == NORMAL_TASK:
        return f"{spec.module}.{spec.func_name}"
    return f"{task.actor.class_name}.{spec.func_name.rpartition('.')[2]}"


def attempt_name(task: TaskRecord) -> str:
    """What the span of an attempt is called."""
    spec = task.spec
    return f"{spec.module}.{spec.func_name}" if spec.kind == NORMAL_TASK else spec.func_name


def call_attributes(look: Look, task: TaskRecord) -> dict[str, str]:
    """The attributes of a call's span. As in Ray, the task in it is the caller, not the one that is called."""
    name = call_name(task)
    if task.spec.kind == NORMAL_TASK:
        return function_attributes(look, name, task.owner, task.parent if task.parent != DRIVER else None)
    cls, _, method = name.rpartition(".")
    return method_attributes(look, cls, method, task.owner, task.actor.hex)


def attempt_attributes(look: Look, task: TaskRecord, worker: WorkerRecord | None) -> dict[str, str]:
    """The attributes of the span of an attempt. worker: that runs it."""
    name = attempt_name(task)
    if task.spec.kind == NORMAL_TASK:
        return function_attributes(look, name, worker, task.hex)
    cls, _, method = name.rpartition(".")
    return method_attributes(look, cls, method, worker, task.actor.hex)


def function_attributes(look: Look, name: str, worker: WorkerRecord | None, task_id: str | None) -> dict[str, str]:
    """The attributes of the span of a function. worker: where the span is made. task_id: which task makes it."""
    made = {"ray.remote": "function", "ray.function": name, **look.shared, **look.place(worker)}
    if task_id is not None:
        made["ray.task_id"] = task_id
    return made


def method_attributes(
    look: Look, cls: str, method: str, worker: WorkerRecord | None, actor_id: str | None
) -> dict[str, str]:
    """The attributes of the span of a method. worker: where the span is made."""
    own = {"ray.actor_class": cls, "ray.actor_method": method, "ray.function": f"{cls}.{method}"}
    made = {"ray.remote": "actor", **own, **look.shared, **look.place(worker)}
    if actor_id is not None:
        made["ray.actor_id"] = actor_id
    return made


# ------------------------------------------------------------ how an attempt ended


def _ending(look: Look, task: TaskRecord, row: Row, ended: float) -> tuple[Status, tuple[Event, ...]]:
    """The status of an attempt, and the event of its exception. As in Ray, a cancelled attempt has no error. An attempt
    that was lost with its worker has one; in Ray it has no span."""
    failure = row.failure
    if failure is None:
        return NO_ERROR, ()
    raised = _raised(failure, task)
    if raised is None:
        wanted = failure.error_type == "TASK_CANCELLED" or row.worker is not None and row.worker.exit_type in WANTED
        return (NO_ERROR if wanted else Status(ERROR, _text_of(failure))), ()
    if raised.error_type == "TASK_CANCELLED":
        return NO_ERROR, ()
    error = raised.error
    name = error.type_text[8:-2] if error.type_text.startswith("<class '") else error.class_name
    attributes = {
        "exception.type": name,
        "exception.message": error.repr_text,
        "exception.stacktrace": error.text,
        "exception.escaped": "False",
    }
    return Status(ERROR, raised.message), (Event("exception", look.ns(ended), attributes),)


def _raised(failure: Failure | None, task: TaskRecord) -> Failure | None:
    """The failure of a chain that holds the exception which the task's own code has raised, if there is one."""
    while failure is not None:
        if isinstance(failure.error, TaskError) and failure.about is task:
            return failure
        failure = failure.cause
    return None


def _text_of(failure: Failure) -> str:
    return f"{failure.error_type}: {failure.message}" if failure.message else failure.error_type
