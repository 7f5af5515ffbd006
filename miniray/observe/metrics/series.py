"""What one metric recorded under one set of tag values, and what can be computed from it.

A series takes numbers in by `pending.append`, which any thread may do at any time without a lock, and adds them up by
`fold`: whoever makes the list long does it, and whoever reads. It knows no names, workers or sessions.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from typing import Any

BATCH = 128  # numbers that a series may collect before they are added up: 4 KB at most, a few nanoseconds for each


class CounterSeries:
    """The sum of one metric's increments under one set of tag values."""

    __slots__ = ("tags", "pending", "_state", "_lock", "_folding")

    def __init__(self, tags: dict[str, str], boundaries: tuple[float, ...]) -> None:
        self.tags = tags
        self.pending: list[float] = []  # anybody appends, only `fold` removes
        self._state: Any = 0.0  # what was taken from `pending` so far comes to; replaced, never changed
        # Guards `_state` and removal from `pending`. Re-entrant, with a flag: a signal handler or finaliser that
        # records or reads in the middle of this thread's own fold must neither wait for it nor take the same again.
        self._lock = threading.RLock()
        self._folding = False

    def fold(self) -> None:
        """Add up what is pending. Other threads may append meanwhile; that is left for the next time."""
        with self._lock:
            if self._folding:
                return
            self._folding = True
            try:
                # Copying and deleting are one operation on a list each, so an append falls before or after them.
                # CPython guarantees that with the GIL, and by the list's own lock without it.
                batch = self.pending[:]
                taken, state = len(batch), self._plus(batch)
                # Together and without a call between them: an exception sent to this thread (an interrupt, a cancelled
                # task) arrives at calls, and finds the numbers either still pending or added.
                del self.pending[:taken]
                self._state = state
            finally:
                self._folding = False

    def _plus(self, batch: list[float]) -> Any:
        return self._state + sum(batch)

    def read(self) -> Any:
        """What was recorded up to now: a float."""
        self.fold()
        return self._state


class HistogramSeries(CounterSeries):
    """How many of one metric's observations under one set of tag values fell into each bucket, and their sum."""

    __slots__ = ("_boundaries",)

    def __init__(self, tags: dict[str, str], boundaries: tuple[float, ...]) -> None:
        super().__init__(tags, boundaries)
        self._boundaries = boundaries
        self._state = ([0] * (len(boundaries) + 1), 0.0)  # the last bucket is above every boundary

    def _plus(self, batch: list[float]) -> Any:
        counts, total = self._state
        counts = counts[:]
        for value in batch:
            counts[bisect_left(self._boundaries, value)] += 1
        # Ray's sum is an estimate, in which each observation counts as the middle of its bucket. Ours is the sum.
        return counts, total + sum(batch)

    def read(self) -> dict[str, Any]:
        """A new dict: count, sum, and buckets from upper boundary to the number of observations at or below it."""
        self.fold()
        counts, total = self._state
        buckets, seen = {}, 0
        for boundary, count in zip((*self._boundaries, math.inf), counts, strict=True):
            seen += count
            buckets[boundary] = seen
        return {"count": seen, "sum": total, "buckets": buckets}


class GaugeSeries:
    """The last value set under one set of tag values; None before the first."""

    __slots__ = ("tags", "last")

    def __init__(self, tags: dict[str, str], boundaries: tuple[float, ...]) -> None:
        self.tags = tags
        self.last: float | None = None

    def read(self) -> float | None:
        """The last value that was set."""
        return self.last


def added(histograms: list[dict[str, Any]]) -> dict[str, Any]:
    """One histogram value that counts what all of them do. Where boundaries differ, only the common ones remain."""
    first, *others = histograms
    common = [bound for bound in first["buckets"] if all(bound in other["buckets"] for other in others)]
    return {
        "count": sum(h["count"] for h in histograms),
        "sum": sum(h["sum"] for h in histograms),
        "buckets": {bound: sum(h["buckets"][bound] for h in histograms) for bound in common},
    }


def interpolated(histogram: dict[str, Any], q: float) -> float:
    """The q-quantile of what `HistogramSeries.read` returned; `Histogram.quantile` tells the edges."""
    rank = q * histogram["count"]
    lower: float = 0.0
    below: int = 0
    for upper, seen in histogram["buckets"].items():
        if upper == math.inf:
            break
        if seen > below and seen >= rank:
            return float(lower + (upper - lower) * (rank - below) / (seen - below))
        lower, below = upper, seen
    # It is above every boundary, of which `lower` is now the last.
    return lower if histogram["count"] and lower else math.nan
