"""Metrics, spans and log lines as OTLP's messages in JSON.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: the JSON form of Protocol Buffers, except that ids of
traces and spans are hexadecimal and enums are numbers. Whole numbers of 64 bits are strings. No field that the messages
do not have is written, since a strict receiver refuses it.

Times are nanoseconds since the Unix epoch. All text is made valid UTF-8: a lone surrogate becomes an escape.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..._version import __version__
from ...observe.metrics.prometheus import Family
from ..tracing.spans import ERROR, Span

CUMULATIVE = 2  # AGGREGATION_TEMPORALITY_CUMULATIVE
KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
STATUS_ERROR = 2
SAMPLED = 1
SCOPE = {"name": "miniray", "version": __version__}
SEVERITIES = {"DEBUG": 5, "INFO": 9, "WARNING": 13, "ERROR": 17, "CRITICAL": 21}
MOST_POINTS = 10_000  # of one request: collectors refuse very long ones

Encoded = dict[str, Any]


def text_of(text: str) -> str:
    """The text, with an escape in place of each character that UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def attributes(values: Mapping[str, Any]) -> list[Encoded]:
    """Attributes. A value is text, a bool, a whole number, or a float."""
    return [{"key": text_of(key), "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> Encoded:
    if isinstance(value, str):
        return {"stringValue": text_of(value)}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return {"intValue": str(value)}
    if isinstance(value, (int, float)):
        return {"doubleValue": _double(value)}
    return {"stringValue": text_of(str(value))}


def _double(value: float) -> float | str:
    value = float(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def body(signal: str, resource: Mapping[str, Any], items: list[Encoded]) -> bytes:
    """A whole request. signal: "traces", "metrics" or "logs". items: what the function of its name returned."""
    outer, scoped, inner = {
        "traces": ("resourceSpans", "scopeSpans", "spans"),
        "metrics": ("resourceMetrics", "scopeMetrics", "metrics"),
        "logs": ("resourceLogs", "scopeLogs", "logRecords"),
    }[signal]
    request = {outer: [{"resource": {"attributes": attributes(resource)}, scoped: [{"scope": SCOPE, inner: items}]}]}
    return json.dumps(request, separators=(",", ":"), allow_nan=False).encode()


# ------------------------------------------------------------ metrics


def metrics(families: Iterable[Family], start_ns: int, now_ns: int) -> Iterator[tuple[list[Encoded], int]]:
    """The metrics of one or several requests, each with its number of points."""
    made: list[Encoded] = []
    count = 0
    for family in families:
        samples = list(family.samples)
        for begin in range(0, len(samples), MOST_POINTS):
            part = samples[begin : begin + MOST_POINTS]
            if count + len(part) > MOST_POINTS and made:
                yield made, count
                made, count = [], 0
            made.append(metric(family._replace(samples=part), start_ns, now_ns))
            count += len(part)
    if made:
        yield made, count


def metric(family: Family, start_ns: int, now_ns: int) -> Encoded:
    """One metric with its points."""
    times = {"startTimeUnixNano": str(start_ns), "timeUnixNano": str(now_ns)}
    points: list[Encoded] = []
    for labels, value in family.samples:
        point: Encoded = {"attributes": attributes(labels), **times}
        if family.kind == "histogram":
            bounds = [bound for bound in value["buckets"] if bound != math.inf]
            counts, below = [], 0
            for seen in value["buckets"].values():
                counts.append(str(seen - below))
                below = seen
            point |= {
                "count": str(value["count"]),
                "sum": _double(value["sum"]),
                "bucketCounts": counts,
                "explicitBounds": bounds,
            }
        else:
            point["asDouble"] = _double(value)
        points.append(point)
    data: Encoded = {"dataPoints": points}
    if family.kind != "gauge":
        data["aggregationTemporality"] = CUMULATIVE
    if family.kind == "counter":
        data["isMonotonic"] = True
    kind = {"counter": "sum"}.get(family.kind, family.kind)
    return {"name": text_of(family.name), "description": text_of(family.help), kind: data}


# ------------------------------------------------------------ traces


def span(one: Span) -> Encoded:
    """A span that has ended."""
    made: Encoded = {
        "traceId": f"{one.trace_id:032x}",
        "spanId": f"{one.span_id:016x}",
        "flags": SAMPLED,
        "name": text_of(one.name),
        "kind": KINDS[one.kind],
        "startTimeUnixNano": str(one.start_ns),
        "endTimeUnixNano": str(one.end_ns),
        "attributes": attributes(one.attributes),
    }
    if one.parent_id is not None:
        made["parentSpanId"] = f"{one.parent_id:016x}"
    if one.state:
        made["traceState"] = text_of(one.state)
    if one.events:
        made["events"] = [
            {
                "timeUnixNano": str(event.time_ns),
                "name": text_of(event.name),
                "attributes": attributes(event.attributes),
            }
            for event in one.events
        ]
    if one.status.code == ERROR:
        made["status"] = {"code": STATUS_ERROR, "message": text_of(one.status.description)}
    return made


# ------------------------------------------------------------ logs


def log_record(
    time_ns: int,
    observed_ns: int,
    level: str,
    text: str,
    values: Mapping[str, Any],
    trace: tuple[int, int] | None = None,
) -> Encoded:
    """A line. level: as in `logging`; "" if it has none. trace: the ids of the trace and of the span around it."""
    made: Encoded = {
        "timeUnixNano": str(time_ns),
        "observedTimeUnixNano": str(observed_ns),
        "body": {"stringValue": text_of(text)},
        "attributes": attributes(values),
    }
    if level:
        made |= {"severityNumber": SEVERITIES.get(level, 0), "severityText": text_of(level)}
    if trace is not None:
        made |= {"traceId": f"{trace[0]:032x}", "spanId": f"{trace[1]:016x}", "flags": SAMPLED}
    return made
