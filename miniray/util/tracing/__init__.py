"""Tracing: spans of your own, and the context of a call, which travels with it beside the arguments.

    from miniray.util import tracing

    with tracing.start_span("import", source="a.csv"):
        ray.get(load.remote("a.csv"))               # the span is the parent of the call

    headers = tracing.inject({})                    # in a task: {"traceparent": "00-..."}
    with tracing.extract(request.headers):          # in a server: what it calls belongs to the client's trace
        handle.remote(request)

Nothing has to be switched on. The context reaches tasks, actors, async methods, nested tasks, retries and streams, and
threads that are started with a copy of the contextvars. If the program uses OpenTelemetry, its current span counts.
Ray has no such functions: there, a program uses OpenTelemetry itself.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from miniray.process.context import running
from miniray.telemetry.tracing import headers as _headers
from miniray.telemetry.tracing import own_spans as _own
from miniray.telemetry.tracing import spans as _spans

__all__ = ["current_traceparent", "dropped", "extract", "inject", "spans", "start_span"]


def current_traceparent() -> str | None:
    """The current span as a W3C header: `00-<trace id>-<span id>-<flags>`. None if the driver is in no span."""
    found = _own.current_context()
    return found.traceparent if found is not None and found.span_id else None


def start_span(name: str, /, **attributes: Any) -> _own.OwnSpan:
    """A span of the program, as a context manager. It is the parent of the calls, and of the spans, in its block.

    attributes: kept as texts, as Ray's. The span has `set_attribute(name, value)` and `traceparent`. An exception that
    leaves the block is noted in the span. The session keeps the last 100,000 spans, and counts those that it drops.
    Raises TypeError if the name is not a str.
    """
    return _own.OwnSpan(name, attributes)


def inject(headers: MutableMapping[str, str]) -> MutableMapping[str, str]:
    """Add the current context to the headers of a request: `traceparent`, and `tracestate` and `baggage` if there are
    any. Returns the headers. Adds nothing if the driver is in no span."""
    _own.inject(headers)
    return headers


def extract(headers: _headers.Headers) -> _own.Here:
    """The context of a request that this program has received, as a context manager: it is the parent of the calls and
    spans in its block.

    headers: a mapping, or pairs. Headers that describe no valid context change nothing. The result has `traceparent`.
    """
    return _own.extract(headers)


def spans() -> list[_spans.Span]:
    """The spans of the session so far: of everything that ran, for as long as its records last, and the program's own.
    One that has not ended has no `end_ns`. Raises RuntimeError without a session."""
    return list(_spans.spans(running()))


def dropped() -> dict[str, int]:
    """What is missing in `spans()`, because the session keeps only so much: how many "tasks", each with all its spans,
    and how many "spans" of the program's own. Raises RuntimeError without a session."""
    runtime = running()
    with runtime.locked() as cluster:
        tasks = cluster.dropped["tasks"]
    return {"tasks": tasks, "spans": 0 if runtime.tracing is None else runtime.tracing.own_spans.dropped}
