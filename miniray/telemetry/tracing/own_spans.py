"""Spans that the program opens itself, and the current context: what is the parent of a call, a span or a request.

All of it works without a session, too; the spans that end then are not kept.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from ...core.records import TaskRecord
from ...process import context, trace_context
from ...process.context import Execution
from ...process.worker_process import caller
from ...process.trace_context import (
    OF_THREADS,
    SAMPLED,
    USERS_OWN,
    Caller,
    Context,
    caller_of,
    opened,
    span_id_of,
    trace_id_of,
    trace_of,
)
from . import headers
from .spans import ERROR, INTERNAL, NO_ERROR, Event, Span, Status

KEPT = 100_000  # spans of user code that a session keeps, as many as of `miniray.profile`


class OwnSpans:
    """The last spans of a session that the program has opened itself, and those that are open.

    dropped: how many older ones are gone. A span stays open if its thread has been left behind.
    """

    def __init__(self) -> None:
        self._spans: deque[Span] = deque(maxlen=KEPT)
        self._open: dict[int, Span] = {}
        self._added = 0
        self._lock = threading.RLock()  # re-entrant: a finaliser that runs while it is held may close a span itself
        self._numbers = itertools.count(1)

    @property
    def dropped(self) -> int:
        """How many spans were dropped because there were too many."""
        with self._lock:
            return self._added - len(self._spans)

    def new_id(self, seed: int) -> int:
        """The id of a new span."""
        return span_id_of(seed, next(self._numbers), USERS_OWN)

    def begin(self, span: Span) -> None:
        """A span has been opened."""
        if len(self._open) < KEPT:
            self._open[span.span_id] = span

    def forget(self, span: Span) -> None:
        """A span is not open any longer."""
        self._open.pop(span.span_id, None)

    def opened(self) -> list[Span]:
        """The spans that are open, as they are now: without an end."""
        return [replace(span, attributes=dict(span.attributes)) for span in self._open.copy().values()]

    def add(self, span: Span) -> None:
        """Keep a span that has ended."""
        with self._lock:
            self._spans.append(span)
            self._added += 1

    def kept(self, since: int = 0) -> list[Span]:
        """The spans, oldest first, without the first `since` spans that the session ever kept."""
        return self.kept_since(since)[1]

    def kept_since(self, since: int) -> tuple[int, list[Span]]:
        """As `kept`, and how many spans the session kept before the first of these."""
        with self._lock:
            dropped = self._added - len(self._spans)
            return max(dropped, since), list(itertools.islice(self._spans, max(0, since - dropped), None))

    @property
    def added(self) -> int:
        """How many spans were ever kept."""
        return self._added


class Tracing:
    """`runtime.tracing`: it is there from the moment at which the program first opens a span, extracts a context, or
    uses OpenTelemetry. own_spans: those of the session. bridge: to OpenTelemetry, a `bridge.Bridge`; None without it.
    """

    def __init__(self, runtime: Any):
        self.runtime = runtime
        self.own_spans = OwnSpans()
        self.bridge: Any = None
        self._prepare: Callable[..., TaskRecord] = runtime.prepare
        runtime.prepare = self.prepare

    def prepare(self, *call: Any) -> TaskRecord:
        """`Runtime.prepare`, and the context of the call."""
        task = self._prepare(*call)
        task.trace = self.of_call(caller())
        return task

    def of_call(self, execution: Execution | None) -> Context | Caller | None:
        """The context of a call that is being made here. execution: the attempt that makes it; None for the driver."""
        if self.bridge is not None:
            known: Context | None = self.bridge.of_call()
            if known is not None:
                return known
        found = opened_by(execution)
        return found if found is not None or execution is None else caller_of(execution)

    def around(self, execution: Execution, function: Any) -> Any:
        """The function of an attempt, or something that calls it in the right context of OpenTelemetry."""
        return function if self.bridge is None else self.bridge.around(execution, function)


_making = threading.RLock()
_outside = OwnSpans()  # gives the spans that are opened without a session their numbers
_seed_outside = int.from_bytes(os.urandom(16), "big")


def tracing_of(runtime: Any) -> Tracing:
    """The tracing of a session, which is traced from now on."""
    with _making:
        if runtime.tracing is None:
            runtime.tracing = Tracing(runtime)
        made: Tracing = runtime.tracing
        return made


def used() -> Any:
    """Note that the program uses tracing. Returns the session's runtime, None without a session."""
    trace_context.in_use = True
    runtime = context.session
    if runtime is not None and runtime.tracing is None:
        tracing_of(runtime)
    return runtime


def current_context() -> Context | None:
    """The innermost span here: one that the program has opened or extracted, or that of the running attempt. None if
    the driver is in no span."""
    execution, runtime = caller(), context.session
    tracing = None if runtime is None else runtime.tracing
    if tracing is not None and tracing.bridge is not None:
        known: Context | None = tracing.bridge.current_context()
        if known is not None:
            return known
    found = opened_by(execution)
    return found if found is not None or execution is None else context_of_attempt(execution)


def opened_by(execution: Execution | None) -> Context | None:
    """The innermost span that this attempt, or the driver, has opened or extracted here; None if there is none."""
    found = opened.get()
    return found[0] if found is not None and found[1] is execution else None


def context_of_attempt(execution: Execution) -> Context | None:
    """The span of a running attempt as a context; None in a thread that a task has started without its context."""
    if execution.task.number >= OF_THREADS:
        return None
    task, seed = execution.task, execution.runtime.trace_seed
    first = task.trace.context if type(task.trace) is Caller else task.trace
    return Context(
        trace_of(seed, task.trace, task.number),
        span_id_of(seed, task.number, task.attempt + 1),
        first.flags if first is not None and first.trace_id else SAMPLED,
        first.state if first is not None else "",
        first.baggage if first is not None else "",
    )


class Here:
    """A context manager: its context is the current one in the `with` block, for this thread or coroutine, and for
    threads that are started with a copy of its contextvars."""

    __slots__ = ("_context", "_before", "_mine", "_mirrored", "_theirs")

    def __init__(self, found: Context | None):
        self._context = found
        self._before: Any = None
        self._mine: Any = None
        self._mirrored: Any = None
        self._theirs: Any = None  # a span of OpenTelemetry that is the same one

    def __enter__(self) -> Any:
        runtime = used()
        if self._context is not None:
            self._before, self._mine = opened.get(), (self._context, caller())
            opened.set(self._mine)
            if runtime is not None and runtime.tracing.bridge is not None:
                self._mirrored = runtime.tracing.bridge.attach(self._context, self._theirs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._mirrored is not None:
            self._mirrored()
            self._mirrored = None
        # A generator may be closed in another context than it was opened in: that one has a span of its own, or none.
        if self._mine is not None and opened.get() is self._mine:
            opened.set(self._before)
        self._before = self._mine = None

    @property
    def traceparent(self) -> str | None:
        """The context as a W3C header; None if there is none."""
        found = self._context
        return found.traceparent if found is not None and found.span_id else None


class OwnSpan(Here):
    """A span of the program: open in its `with` block. An exception that leaves the block is noted in the span."""

    __slots__ = ("name", "attributes", "_span", "_spans")

    def __init__(self, name: str, attributes: dict[str, Any]):
        if not isinstance(name, str):
            raise TypeError(f"the name of a span is a str, not {type(name).__name__}")
        super().__init__(None)
        self.name, self.attributes = name, {key: str(value) for key, value in attributes.items()}
        self._span: Span | None = None
        self._spans = _outside

    def set_attribute(self, name: str, value: object) -> None:
        """Add an attribute, or replace it. As Ray's, all values are texts."""
        self.attributes[str(name)] = str(value)
        if self._theirs is not None:
            self._theirs.set_attribute(str(name), str(value))

    def __enter__(self) -> OwnSpan:
        runtime, parent = used(), current_context()
        self._spans = _outside if runtime is None else runtime.tracing.own_spans
        seed = _seed_outside if runtime is None else runtime.trace_seed
        span_id = self._spans.new_id(seed)
        execution, start_ns = caller(), now_ns(runtime)
        if execution is not None and execution.task.number >= OF_THREADS:
            execution = None  # as if the driver had opened it: there is no such task
        if parent is None:
            made = Context(trace_id_of(seed, span_id), span_id)
        else:
            trace_id = parent.trace_id or trace_id_of(seed, span_id)
            made = Context(trace_id, span_id, parent.flags, parent.state, parent.baggage)
        calls = None if runtime is None else runtime.call_spans
        if calls is not None:
            self._theirs = calls.start(calls.own_tracer, self.name, span_id, attributes=self.attributes)
            theirs = self._theirs.get_span_context()
            if theirs.is_valid:  # the ids of a trace's first span are OpenTelemetry's
                made.trace_id, made.span_id, made.flags = theirs.trace_id, theirs.span_id, int(theirs.trace_flags)
        self._context = made
        # Nothing in it refers to the attempt: a span that is never closed must not keep an actor.
        self._span = Span(
            made.trace_id,
            made.span_id,
            parent.span_id or None if parent is not None else None,
            self.name,
            INTERNAL,
            start_ns,
            None,
            self.attributes,
            task_id=execution.hex if execution is not None else None,
            attempt=execution.task.attempt if execution is not None else None,
            state=made.state,
        )
        self._spans.begin(self._span)
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runtime = context.session
        super().__exit__(kind, error, trace)
        theirs, self._theirs = self._theirs, None
        if theirs is not None and runtime is not None and runtime.call_spans is not None:
            runtime.call_spans.end(theirs, error)
        span, self._span = self._span, None
        if span is None:
            return
        if runtime is not None:
            end_ns, status = max(span.start_ns, now_ns(runtime)), NO_ERROR
            events: tuple[Event, ...] = ()
            if isinstance(error, Exception):
                status, event = _noted(error, end_ns)
                events = (event,)
            ended = replace(span, end_ns=end_ns, attributes=dict(self.attributes), status=status, events=events)
            tracing_of(runtime).own_spans.add(ended)
        self._spans.forget(span)  # last: if an interrupt of the attempt ends this method, the span is open still


def now_ns(runtime: Any) -> int:
    """Nanoseconds since the Unix epoch, on the clock of the session if there is one."""
    return time.time_ns() if runtime is None else round(runtime.epoch * 1e9) + round(runtime.now() * 1e9)


def _noted(error: Exception, at_ns: int) -> tuple[Status, Event]:
    """The status and the event of a span that an exception has left."""
    try:
        message = str(error)
    except Exception as problem:  # the user's __str__ may raise; its error must not replace the original exception
        message = f"<its __str__ raised {type(problem).__name__}>"
    cls = type(error)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    try:
        text = "".join(traceback.format_exception(cls, error, error.__traceback__))
    except Exception:  # for the same reason
        text = f"{name}: {message}\n"
    attributes = {
        "exception.type": name,
        "exception.message": message,
        "exception.stacktrace": text,
        "exception.escaped": "False",
    }
    return Status(ERROR, f"{cls.__name__}: {message}"), Event("exception", at_ns, attributes)


# ------------------------------------------------------------ requests between processes


def inject(carrier: MutableMapping[str, str]) -> None:
    """Add the current context to the headers of a request."""
    runtime = context.session
    bridge = None if runtime is None or runtime.tracing is None else runtime.tracing.bridge
    if bridge is not None and bridge.inject(carrier):
        return
    found = current_context()
    if found is not None:
        headers.write(found, carrier)


def extract(carrier: headers.Headers) -> Here:
    """The context that the headers of a request describe."""
    return Here(headers.read(carrier))
