"""Metrics, spans and log lines as OTLP's messages in JSON.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: the JSON form of Protocol Buffers, except that ids of
traces and spans are hexadecimal and enums are numbers. Whole numbers of 64 bits are strings. No field that the messages
do not have is written, since a strict receiver refuses it.

Times are nanoseconds since the Unix epoch. All text is made valid UTF-8: a lone surrogate becomes an escape.

The thread that encodes takes its time from the program. So spans and lines are written as text piece by piece, and the
pieces that many of them share are kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
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


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return _json(text_of(text))


@lru_cache(maxsize=4096)
def _shared(key: str, value: str) -> str:
    return f'{{"key":{_quoted(key)},"value":{{"stringValue":{_quoted(value)}}}}}'


def _texts(values: Mapping[str, str]) -> str:
    """Attributes that are all text, as JSON."""
    return ",".join(
        [
            # An id of a task occurs once or twice: to keep it would only drive out what is shared.
            f'{{"key":"{key}","value":{{"stringValue":"{value}"}}}}'
            if key == "ray.task_id" and value.isascii() and value.isalnum()
            else _shared(key, value)
            for key, value in values.items()
        ]
    )


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


def body(signal: str, resource: Mapping[str, Any], items: list[str]) -> bytes:
    """A whole request. signal: "traces", "metrics" or "logs". items: each as JSON."""
    outer, scoped, inner = {
        "traces": ("resourceSpans", "scopeSpans", "spans"),
        "metrics": ("resourceMetrics", "scopeMetrics", "metrics"),
        "logs": ("resourceLogs", "scopeLogs", "logRecords"),
    }[signal]
    head = f'{{"{outer}":[{{"resource":{_json({"attributes": attributes(resource)})}'
    return f'{head},"{scoped}":[{{"scope":{_json(SCOPE)},"{inner}":[{",".join(items)}]}}]}}]}}'.encode()


# ------------------------------------------------------------ metrics


def metrics(families: Iterable[Family], start_ns: int, now_ns: int) -> Iterator[tuple[list[str], int]]:
    """The metrics of one or several requests, each with its number of points."""
    made: list[str] = []
    count = 0
    for family in families:
        samples = list(family.samples)
        for begin in range(0, len(samples), MOST_POINTS):
            part = samples[begin : begin + MOST_POINTS]
            if count + len(part) > MOST_POINTS and made:
                yield made, count
                made, count = [], 0
            made.append(_json(metric(family._replace(samples=part), start_ns, now_ns)))
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


def span(one: Span) -> str:
    """A span that has ended, as JSON."""
    more = ""
    if one.parent_id is not None:
        more = f',"parentSpanId":"{one.parent_id:016x}"'
    if one.state:
        more += f',"traceState":{_json(text_of(one.state))}'
    if one.events:
        events = [
            {
                "timeUnixNano": str(event.time_ns),
                "name": text_of(event.name),
                "attributes": attributes(event.attributes),
            }
            for event in one.events
        ]
        more += f',"events":{_json(events)}'
    if one.status.code == ERROR:
        more += f',"status":{_json({"code": STATUS_ERROR, "message": text_of(one.status.description)})}'
    return (
        f'{{"traceId":"{one.trace_id:032x}","spanId":"{one.span_id:016x}","flags":{SAMPLED},"name":{_quoted(one.name)},'
        f'"kind":{KINDS[one.kind]},"startTimeUnixNano":"{one.start_ns}","endTimeUnixNano":"{one.end_ns}",'
        f'"attributes":[{_texts(one.attributes)}]{more}}}'
    )


# ------------------------------------------------------------ logs


def log_record(
    time_ns: int,
    observed_ns: int,
    level: str,
    text: str,
    values: Mapping[str, str],
    trace: tuple[int, int] | None = None,
) -> str:
    """A line, as JSON. level: as in `logging`; "" if it has none. trace: the ids of the trace and of the span around
    it."""
    more = ""
    if level:
        more = f',"severityNumber":{SEVERITIES.get(level, 0)},"severityText":{_quoted(level)}'
    if trace is not None:
        more += f',"traceId":"{trace[0]:032x}","spanId":"{trace[1]:016x}","flags":{SAMPLED}'
    return (
        f'{{"timeUnixNano":"{time_ns}","observedTimeUnixNano":"{observed_ns}",'
        f'"body":{{"stringValue":{_json(text_of(text))}}},"attributes":[{_texts(values)}]{more}}}'
    )
