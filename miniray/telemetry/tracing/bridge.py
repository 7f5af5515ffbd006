"""OpenTelemetry, if the program uses it. miniray never imports it first.

Its current span is the parent of what is called in it, and its context (with the baggage) is the current one inside of
tasks. With Ray's startup hook (see `startup`), each call and each attempt is a span of OpenTelemetry as well: those
that Ray makes, with the same names, kinds, attributes, parents and statuses. The attempts have the ids that
`spans` computes.

Where Ray's tracing fails or loses something, this one does not follow it. Methods that yield, and static and class
methods, cannot be called in Ray while it traces; here they have spans like all others. And what a generator calls
between its items belongs to the span of its task.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...core.records import NORMAL_TASK
from ...process.context import Execution
from ...process.exits import SessionEnded, WorkerExit
from ...process.our_code import enters_user_code
from ...process.trace_context import Caller, Context, Sent, span_id_of
from ...process.worker_process import caller
from . import spans
from .own_spans import context_of_attempt, tracing_of

TRACER = "ray.util.tracing.tracing_helper"  # the name of Ray's tracer
OF_EVERY_ACTOR = "miniray.calls.actor_classes"  # the module of the methods that every actor has
OWN_TRACER = "miniray.util.tracing"  # of the spans that the program opens with `miniray.util.tracing`


def connect(runtime: Any, hooked: bool = False) -> None:
    """From now on the session looks at OpenTelemetry's context. hooked: and makes Ray's spans."""
    tracing = tracing_of(runtime)
    if tracing.bridge is None:
        try:
            tracing.bridge = Bridge(runtime)
        except Exception as problem:  # such as a propagator in $OTEL_PROPAGATORS that is not installed
            if hooked:
                raise
            runtime.say(
                "WARNING", f"The context of OpenTelemetry does not reach tasks: importing it raised {problem!r}"
            )
            tracing.bridge = NoBridge()
    if hooked:
        tracing.bridge.call_spans = CallSpans(runtime, tracing.bridge)
        runtime.call_spans = tracing.bridge.call_spans
        runtime.asks_caller = True  # so that every call of a function takes the long way, which looks at `call_spans`


class Bridge:
    """OpenTelemetry's context in one session. call_spans: makes Ray's spans, None without the startup hook."""

    def __init__(self, runtime: Any):
        from opentelemetry import baggage, context, propagate, trace  # type: ignore[import-not-found,unused-ignore]

        self.baggage, self.context, self.propagate, self.trace = baggage, context, propagate, trace
        self.runtime = runtime
        self.call_spans: CallSpans | None = None

    # ------------------------------------------------------------ the current context

    def of_call(self) -> Context | None:
        """The context of a call that is being made here; None if OpenTelemetry has no current span and no baggage."""
        span = self.trace.get_current_span()
        found = span.get_span_context()
        if not found.is_valid and not self.baggage.get_all():
            return None
        headers: dict[str, str] = {}
        self.propagate.inject(headers)
        bags = headers.get("baggage", "")
        if not found.is_valid:
            return Context(baggage=bags, headers=headers)
        flags, state = int(found.trace_flags), found.trace_state.to_header()
        if self.call_spans is None or being_made.get() is not span:
            return Context(found.trace_id, found.span_id, flags, state, bags, headers)
        parent = getattr(span, "parent", None)
        parent_id = parent.span_id if parent is not None else None
        return Sent(parent_id, found.trace_id, found.span_id, flags, state, bags, headers)

    def current_context(self) -> Context | None:
        """OpenTelemetry's current span; None if there is none."""
        return self.of_call() if self.trace.get_current_span().get_span_context().is_valid else None

    def inject(self, carrier: Any) -> bool:
        """Add the current context to a request's headers. Returns False if there is no current span."""
        if not self.trace.get_current_span().get_span_context().is_valid:
            return False
        self.propagate.inject(carrier)
        return True

    def attach(self, found: Context, span: Any = None) -> Callable[[], None]:
        """Make a context OpenTelemetry's current one. span: its own form of it. Returns the function that undoes it."""
        onto = self.context.get_current()
        made = self._made(found, onto) if span is None else self.trace.set_span_in_context(span, onto)
        token = self.context.attach(made)

        def undo() -> None:
            self.context.detach(token)

        return undo

    def _made(self, found: Context, onto: Any) -> Any:
        """OpenTelemetry's form of a context, on top of another one."""
        if found.headers is not None:
            onto = self.propagate.extract(found.headers, onto)
        elif found.baggage:
            from opentelemetry.baggage.propagation import (  # type: ignore[import-not-found,unused-ignore]
                W3CBaggagePropagator,
            )

            onto = W3CBaggagePropagator().extract({"baggage": found.baggage}, onto)
        if not found.span_id:
            return onto
        return self.trace.set_span_in_context(
            self.trace.NonRecordingSpan(
                self.trace.SpanContext(
                    found.trace_id,
                    found.span_id,
                    is_remote=True,
                    trace_flags=self.trace.TraceFlags(found.flags),
                    trace_state=self.trace.TraceState.from_header([found.state]),
                )
            ),
            onto,
        )

    # ------------------------------------------------------------ attempts

    def around(self, execution: Execution, function: Any) -> Any:
        """The function of an attempt in the context of its call. It stays the current one until the attempt's Python
        context ends, or the next call of the actor begins: a generator is only begun by its function."""
        trace = execution.task.trace
        if type(trace) is Sent and self.call_spans is not None:
            return self.call_spans.around(execution, function, self._made(trace, self.context.Context()))
        first = trace.context if type(trace) is Caller else trace
        empty = self.context.Context()
        if first is None or first.headers is None:  # no span of OpenTelemetry is among those above
            self.context.attach(empty if first is None else self._made(Context(baggage=first.baggage), empty))
            return function
        found = context_of_attempt(execution)
        assert found is not None  # it is no thread of a task
        found.headers = first.headers
        self.context.attach(self._made(found, empty))
        return function


class NoBridge:
    """In place of a Bridge if OpenTelemetry cannot be used."""

    def of_call(self) -> None:
        """See Bridge."""

    current_context = of_call

    def inject(self, carrier: Any) -> bool:
        """See Bridge."""
        return False

    def attach(self, found: Context, span: Any = None) -> Callable[[], None]:
        """See Bridge."""
        return lambda: None

    def around(self, execution: Execution, function: Any) -> Any:
        """See Bridge."""
        return function


class CallSpans:
    """Ray's spans, made with OpenTelemetry. own_tracer: the name of the tracer of the program's own."""

    own_tracer = OWN_TRACER

    def __init__(self, runtime: Any, bridge: Bridge):
        self.runtime, self.bridge, self.trace = runtime, bridge, bridge.trace

    def start(self, tracer_name: str, name: str, span_id: int, **how: Any) -> Any:
        """Start a span with this id. As in Ray, the tracer is asked for each time: the program may set another
        provider. A tracer that is not the SDK's chooses the id itself."""
        tracer = self.trace.get_tracer(tracer_name)
        generator = getattr(tracer, "id_generator", None)
        if generator is not None and not isinstance(generator, Ids):
            tracer.id_generator = Ids(generator)
        wanted_id.set(span_id)
        try:
            return tracer.start_span(name, **how)
        finally:
            wanted_id.set(0)

    # ------------------------------------------------------------ calls

    def of_function(self, function: Any) -> Any:
        """A context manager for the call of a remote function."""
        look, execution = spans.Look(self.runtime), caller()
        name = f"{function.__module__}.{function.__name__}"
        worker, task_id = (None, None) if execution is None else (execution.worker, execution.hex)
        return self._call(name, spans.function_attributes(look, name, worker, task_id))

    def of_method(self, cls: str, method: str, actor_id: str | None = None) -> Any:
        """A context manager for the call of a method, and for the creation of an actor. Its value is the span."""
        look, execution = spans.Look(self.runtime), caller()
        worker = None if execution is None else execution.worker
        if actor_id is None and worker is not None and worker.actor is not None:
            actor_id = worker.actor.hex  # as in Ray: that of the actor which calls, until the new one is known
        return self._call(f"{cls}.{method}", spans.method_attributes(look, cls, method, worker, actor_id))

    @contextmanager
    def of_creation(self, cls: str, twice: bool) -> Iterator[list[Any]]:
        """A context manager for the creation of an actor. Its value are the spans. twice: as Ray does for an actor that
        is to be created only if it does not exist, and does not: the call that creates it is inside of another one."""
        with self.of_method(cls, "__init__") as outer:
            if not twice:
                yield [outer]
            else:
                with self.of_method(cls, "__init__") as inner:
                    yield [outer, inner]

    def of_method_once(self, called: Any, cls: str, method: str, actor_id: str) -> Any:
        """As `of_method`, for a `remote` that calls itself in the context manager; None if it has done so. called: the
        method that is called."""
        if entered.get() is called:
            entered.set(None)
            return None
        return self._entering(called, self.of_method(cls, method, actor_id))

    @contextmanager
    def _entering(self, called: Any, call: Any) -> Iterator[None]:
        with call:
            entered.set(called)
            try:
                yield
            finally:
                entered.set(None)

    @contextmanager
    def _call(self, name: str, attributes: dict[str, str]) -> Iterator[Any]:
        tracer = self.trace.get_tracer(TRACER)
        kind = self.trace.SpanKind.PRODUCER
        with tracer.start_as_current_span(f"{name} ray.remote", kind=kind, attributes=attributes) as span:
            before = being_made.get()
            being_made.set(span)
            try:
                yield span
            finally:
                being_made.set(before)

    # ------------------------------------------------------------ attempts

    def around(self, execution: Execution, function: Any, above: Any) -> Any:
        """A function that calls this one inside the span of an attempt. above: OpenTelemetry's context of the call."""

        def begin() -> Any:
            task = execution.task
            look = spans.Look(self.runtime)
            if task.spec.kind == NORMAL_TASK:
                name = f"{function.__module__}.{function.__name__}"
                attributes = spans.function_attributes(look, name, execution.worker, task.hex)
            else:
                cls, method = type(execution.instance).__name__, function.__name__
                if function.__module__ == OF_EVERY_ACTOR:  # a method that every actor has
                    method = task.spec.func_name.rpartition(".")[2]
                name = f"{cls}.{method}"
                attributes = spans.method_attributes(look, cls, method, execution.worker, task.actor.hex)
            span = self.start(
                TRACER,
                f"{name} ray.remote_worker",
                span_id_of(look.seed, task.number, task.attempt + 1),
                context=above,
                kind=self.trace.SpanKind.CONSUMER,
                attributes=attributes,
            )
            self.bridge.context.attach(self.trace.set_span_in_context(span, above))
            return span

        @enters_user_code
        def traced(*args: Any, **kwargs: Any) -> Any:
            span = begin()
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                self.end(span, error)
                raise
            self.end(span)
            return result

        @enters_user_code
        async def traced_coroutine(*args: Any, **kwargs: Any) -> Any:
            span = begin()
            try:
                result = await function(*args, **kwargs)
            except BaseException as error:
                self.end(span, error)
                raise
            self.end(span)
            return result

        return traced_coroutine if inspect.iscoroutinefunction(function) else traced

    def end(self, span: Any, error: BaseException | None = None) -> None:
        """End a span. As in Ray, only an Exception is an error, and the span of an attempt that has ended its process
        is lost."""
        if isinstance(error, (WorkerExit, SessionEnded)):
            return
        if isinstance(error, Exception) and span.is_recording():
            span.record_exception(error)
            text = f"{type(error).__name__}: {error}"
            span.set_status(self.trace.Status(self.trace.StatusCode.ERROR, text))
        span.end()


# The span of the call that is being submitted in this Python context.
being_made: ContextVar[Any] = ContextVar("miniray_call_span", default=None)
# The method whose `remote` calls itself in the context manager of `of_method_once`.
entered: ContextVar[Any] = ContextVar("miniray_entered_call", default=None)
# The id that the next span in this Python context must have; 0 for any.
wanted_id: ContextVar[int] = ContextVar("miniray_wanted_span_id", default=0)


class Ids:
    """The id generator of our own tracer: it gives a span the id that its task asks for. Others are the program's."""

    def __init__(self, generator: Any):
        self.generator = generator

    def generate_span_id(self) -> int:
        """The id of a new span."""
        return wanted_id.get() or int(self.generator.generate_span_id())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.generator, name)
