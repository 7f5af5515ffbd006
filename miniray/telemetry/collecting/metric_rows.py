"""The rows of the table `metric_points`: the metrics of the program, whenever their values have changed."""

from __future__ import annotations

from typing import Any

from ...observe.metrics import registry
from ...observe.metrics.prometheus import OVERFLOW
from ...process import context
from .numbers import Row, cut, to_json


class NewPoints:
    """Reads the metrics of one session. A series has a row for its first value, and then for each look that finds
    another value."""

    def __init__(self, runtime: Any):
        self.runtime = runtime
        self._series: dict[Any, tuple[int, Any]] = {}  # when each series was first seen, and its last value
        self._last = 0

    def rows(self, now_us: int) -> list[Row]:
        """The points since the last call."""
        if context.session is not self.runtime and context.session is not None:
            return []  # at the end of the session there is none, and the registry is still its own
        with registry.lock:
            tables = list(registry.current.tables.values())
            series = [(table, one) for table in tables for one in list(table.series.values())]
        rows: list[Row] = []
        for table, one in series:
            value = one.read()
            tags = {**one.tags, **OVERFLOW} if one.overflows else one.tags
            key = table.owner, table.name, table.kind, tuple(sorted(tags.items()))
            start_us, before = self._series.get(key, (now_us, None))
            if value is None or value == before:
                continue
            self._series[key] = start_us, value
            self._last += 1
            shared = (
                self._last,
                now_us,
                start_us,
                cut(table.name),
                table.kind,
                "",
                cut(table.description),
                table.owner,
                to_json({cut(name): cut(text) for name, text in tags.items()}),
            )
            if table.kind == "histogram":
                rows.append((*shared, None, *_histogram(value, before)))
            else:
                delta = value - (before or 0.0) if table.kind == "counter" else None
                rows.append((*shared, value, None, None, None, None, delta, None, None))
        return rows


def _histogram(value: dict[str, Any], before: dict[str, Any] | None) -> Row:
    """count, sum, bounds, counts of the buckets, and what they have grown by. The registry's buckets are cumulative."""
    counts, was = _buckets(value), _buckets(before) if before is not None else []
    if len(was) != len(counts):
        was = [0] * len(counts)
    total, number = (before["sum"], before["count"]) if before is not None else (0.0, 0)
    return (
        value["count"],
        value["sum"],
        to_json(list(value["buckets"])[:-1]),
        to_json(counts),
        value["sum"] - total,
        value["count"] - number,
        to_json([now - then for now, then in zip(counts, was)]),
    )


def _buckets(value: dict[str, Any]) -> list[int]:
    seen = [0, *value["buckets"].values()]
    return [upper - lower for lower, upper in zip(seen, seen[1:])]
