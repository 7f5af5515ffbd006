"""In which span a call was made, and the ids of spans. W3C Trace Context (https://www.w3.org/TR/trace-context/).

A call's context is kept beside the task, in `TaskRecord.trace`, and never among its arguments. It has one of four
forms:

- None: the driver made the call, outside of any span. The call begins a trace.
- `Caller`: an attempt of another task made the call, and opened no span of its own. The span of the attempt is the
  parent. All calls of one attempt share one Caller, so that a nested call costs no more than a reference to it.
- `Context`: the call was made inside a span of the program, or of another process (`util.tracing.extract`).
- `Sent`: OpenTelemetry has made the span of the call itself. The context is that span, as a carrier of headers.

A session that nobody traces therefore stores nothing but Callers. The spans of calls and attempts are made when they
are read (`telemetry.tracing.spans`).

Ids. A span's id has 64 bits: the lowest 16 bits of the task's number, the other 28 bits of that number, and 20 bits
that are 0 for the call and n + 1 for attempt n, all of them XOR the lower half of the session's `trace_seed`. So
anybody who has a task's id can compute the ids of its spans, in SQL as well. The bits that change most are the highest:
samplers compare an id with a bound. A trace's id has 128 bits: the upper half is that of the session's seed, and the
lower half the id of the trace's first span.
"""

from __future__ import annotations

from contextvars import ContextVar

from .context import Execution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MASK = (1 << 64) - 1
ATTEMPT_BITS = 20
CALL, USERS_OWN = 0, (1 << ATTEMPT_BITS) - 1  # in place of an attempt: the call itself; the n-th span of user code
SAMPLED = 1
OF_THREADS = 1 << 62  # from here on, numbers of tasks are those that threads of tasks seem to run (`worker_process`)


def span_id_of(seed: int, number: int, part: int) -> int:
    """The id of a span. number: of the task, or of the user's span in its session. part: CALL, an attempt's number
    plus one, or USERS_OWN. No two spans of one session have the same id."""
    spread = (number & 0xFFFF) << 48 | number >> 16 << ATTEMPT_BITS | part
    return spread ^ seed & MASK or 1  # zero means "no span"


def trace_id_of(seed: int, first_span: int) -> int:
    """The id of the trace that begins with this span."""
    return seed >> 64 << 64 | first_span


class Context:
    """A span that the core does not know, as the parent of calls.

    trace_id: 0 if there is no span, but only baggage. flags, state, baggage: the last field of `traceparent`, and the
    headers `tracestate` and `baggage` as they came. headers: all headers, as OpenTelemetry's propagator has made them;
    None without OpenTelemetry.
    """

    __slots__ = ("trace_id", "span_id", "flags", "state", "baggage", "headers")

    def __init__(
        self,
        trace_id: int = 0,
        span_id: int = 0,
        flags: int = SAMPLED,
        state: str = "",
        baggage: str = "",
        headers: dict[str, str] | None = None,
    ):
        self.trace_id, self.span_id, self.flags = trace_id, span_id, flags
        self.state, self.baggage, self.headers = state, baggage, headers

    @property
    def traceparent(self) -> str:
        """The header `traceparent`."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"


class Sent(Context):
    """The span of a call that OpenTelemetry has made. parent_id: the id of the span in which it was made, or None."""

    __slots__ = ("parent_id",)

    def __init__(self, parent_id: int | None, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.parent_id = parent_id


class Caller:
    """An attempt of a task, as the parent of its calls.

    context: of the first call of the trace that has a Context; None if there is none. root: the number of the trace's
    first task, which gives the trace its id if `context` does not. number, attempt: of the task that calls.
    """

    __slots__ = ("context", "root", "number", "attempt")

    def __init__(self, context: Context | None, root: int, number: int, attempt: int):
        self.context, self.root, self.number, self.attempt = context, root, number, attempt


def caller_of(execution: Execution) -> Caller | None:
    """The Caller of an attempt that runs. It is made once, at the attempt's first call. None for a thread that a task
    has started, without a copy of its context: as in Ray, what the thread calls begins a trace."""
    made: Caller | None = execution.trace
    if made is None:
        task = execution.task
        if task.number >= OF_THREADS:
            return None
        trace = task.trace
        if type(trace) is Caller:
            made = Caller(trace.context, trace.root, task.number, task.attempt)
        else:
            made = Caller(trace, task.number, task.number, task.attempt)
        execution.trace = made
    return made


def trace_of(seed: int, trace: Any, number: int) -> int:
    """The id of the trace that a call belongs to. trace: the call's context. number: of the task."""
    context = trace
    if type(trace) is Caller:
        context, number = trace.context, trace.root
    if context is not None and context.trace_id:
        return int(context.trace_id)
    return trace_id_of(seed, span_id_of(seed, number, CALL))


def parent_of(seed: int, trace: Any) -> int | None:
    """The id of the span in which a call was made; None if it begins a trace. trace: the call's context."""
    if trace is None:
        return None
    if type(trace) is Caller:
        return span_id_of(seed, trace.number, trace.attempt + 1)
    if type(trace) is Sent:
        return trace.parent_id
    return trace.span_id or None


def span_of_call(seed: int, trace: Any, number: int) -> int:
    """The id of the span of a call itself."""
    return int(trace.span_id) if type(trace) is Sent else span_id_of(seed, number, CALL)


in_use = False  # whether the program has opened or extracted a context: the sessions that follow must look for one
# The innermost span that the program has opened or extracted in this Python context, and the attempt that has done so,
# None for the driver. A span that an earlier call has left open in an actor's thread is recognised by the attempt.
opened: ContextVar[tuple[Context, Execution | None] | None] = ContextVar("miniray_opened_span", default=None)
