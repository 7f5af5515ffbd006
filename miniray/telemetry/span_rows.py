"""The rows of the table `spans`. The spans of calls and attempts are readings of records, so a recording has no rows of
them: they are made when somebody asks. What it keeps is the context of each caller (`_callers.trace_json`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .numbers import Row, cut, to_json
from .tracing.spans import ERROR, Look, Span, spans_of


def signed(number: int) -> int:
    """An id of 64 bits as the number that SQLite stores."""
    return number - (1 << 64) if number >> 63 else number


def row(span: Span) -> Row:
    """The row of a span."""
    attributes = cut(to_json(span.attributes))
    return (
        signed(span.span_id),
        span.start_ns // 1000,
        f"{span.trace_id:032x}",
        f"{span.span_id:016x}",
        f"{span.parent_id:016x}" if span.parent_id is not None else None,
        signed(span.parent_id) if span.parent_id is not None else None,
        cut(span.name),
        span.kind,
        span.start_ns,
        span.end_ns,
        (span.end_ns - span.start_ns) // 1000 if span.end_ns is not None else None,
        span.status.code,
        cut(span.status.description) or None,
        attributes,
        attributes,
        cut(to_json([[event.name, event.time_ns, event.attributes] for event in span.events])) if span.events else None,
        None,
        span.task_id,
        span.attempt,
        span.attributes.get("ray.actor_class", "").rpartition(".")[0] or "miniray",
        "ERROR" if span.status.code == ERROR else "INFO",
        span.attributes.get("ray.worker_id"),
        None,
        None,
    )


class Spans:
    """The rows of a session's spans, told once for each span that has ended."""

    def __init__(self, runtime: Any):
        self.runtime = runtime
        self._told: set[int] = set()  # tasks that have finished
        self._own = 0

    def rows(self) -> list[Row]:
        """The spans that are new or may have changed since the last call."""
        with self.runtime.locked() as cluster:
            tasks = list(cluster.tasks.values())
        look, told, found = Look(self.runtime), self._told, []
        for task in tasks:
            if task.number in told:
                continue
            found += [row(span) for span in spans_of(look, task)]
            if task.t_finished:
                told.add(task.number)
        return found + self.own()

    def own(self) -> list[Row]:
        """The spans that the program has opened itself, and that have ended since the last call."""
        tracing = self.runtime.tracing
        if tracing is None:
            return []
        own = tracing.own_spans.kept(self._own)
        self._own = tracing.own_spans.added
        return [row(span) for span in own]


def inserted(rows: Iterable[Row]) -> list[Row]:
    """Rows for a table, each id once: the last one counts."""
    return list({one[0]: one for one in rows}.values())
