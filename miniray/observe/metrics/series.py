"""The numbers that one metric recorded under one set of tag values, and the values computed from them.

Any thread may add a number at any time by `pending.append`, without a lock. `fold` adds the numbers up: the record that
makes the list long calls it, and so does every reader. A series knows no names, workers or sessions.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from typing import Any

BATCH = 128  # numbers that a series collects before they are added up: at most 4 KB, at a few nanoseconds per number
MOST_SAMPLES = 256  # of a series' curve


class Sampled:
    """The curve of a series: its value at some moments, at most MOST_SAMPLES of them, over the whole session.

    When the list is full, every second sample is dropped, and from then on the pause between two samples is at least
    the average distance of those that are left. So a series that records often costs a comparison per record.
    """

    __slots__ = ("samples", "due", "_pause", "overflows")

    def __init__(self) -> None:
        self.overflows = False  # whether it stands for all series that are too much for their metric
        self.samples: list[tuple[float, float]] = []  # time on the runtime's clock, value; any thread appends
        self.due = 0.0  # no sample before this time
        self._pause = 0.0

    def sample(self, now: float, value: float) -> None:
        """Note the value. Two threads may do this at once: then there are two samples."""
        self.samples.append((now, value))
        if len(self.samples) >= MOST_SAMPLES:
            self._pause = (now - self.samples[0][0]) * 2 / MOST_SAMPLES
            del self.samples[1::2]
        self.due = now + self._pause


class CounterSeries(Sampled):
    """The sum of one metric's increments under one set of tag values."""

    __slots__ = ("tags", "pending", "_state", "_lock", "_folding")

    def __init__(self, tags: dict[str, str], boundaries: tuple[float, ...]) -> None:
        super().__init__()
        self.tags = tags
        self.pending: list[float] = []  # any thread appends, only `fold` removes
        self._state: Any = 0.0  # the sum of the numbers taken from `pending` so far; replaced, never mutated
        # Guards `_state` and removal from `pending`. Re-entrant, with a flag: a signal handler or finaliser may record
        # or read in the middle of this thread's own fold, and must neither wait for the fold nor count a number twice.
        self._lock = threading.RLock()
        self._folding = False

    def fold(self) -> None:
        """Add up the pending numbers. Numbers that other threads append meanwhile are left for the next fold."""
        with self._lock:
            if self._folding:
                return
            self._folding = True
            try:
                # Copying a list and deleting from it are atomic, so an append falls before or after each of them.
                # CPython guarantees this by the GIL, or without the GIL, by the list's own lock.
                batch = self.pending[:]
                taken, state = len(batch), self._plus(batch)
                # No call may come between the next two lines. An exception sent to this thread (an interrupt, a
                # cancelled task) arrives at calls only, so it finds the numbers either still pending or added.
                del self.pending[:taken]
                self._state = state
            finally:
                self._folding = False

    def _plus(self, batch: list[float]) -> Any:
        return self._state + sum(batch)

    def read(self) -> Any:
        """Return the sum of everything recorded so far."""
        self.fold()
        return self._state


class HistogramSeries(CounterSeries):
    """The counts of one metric's observations under one set of tag values by bucket, and their sum."""

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
        # Ray only estimates the sum, taking each observation as the middle of its bucket. This sum is exact.
        return counts, total + sum(batch)

    def read(self) -> dict[str, Any]:
        """Return a new dict: count, sum, and buckets, from upper boundary to number of observations at or below it."""
        self.fold()
        counts, total = self._state
        buckets, seen = {}, 0
        for boundary, count in zip((*self._boundaries, math.inf), counts, strict=True):
            seen += count
            buckets[boundary] = seen
        return {"count": seen, "sum": total, "buckets": buckets}


class GaugeSeries(Sampled):
    """The last value set under one set of tag values; None before the first."""

    __slots__ = ("tags", "last")

    def __init__(self, tags: dict[str, str], boundaries: tuple[float, ...]) -> None:
        super().__init__()
        self.tags = tags
        self.last: float | None = None

    def read(self) -> float | None:
        """Return the last value that was set."""
        return self.last


class ReadSeries:
    """A series that was read from a recording. value: as its `read` returned it when the session ended."""

    __slots__ = ("tags", "overflows", "_value")

    def __init__(self, tags: dict[str, str], overflows: bool, value: Any) -> None:
        self.tags, self.overflows, self._value = tags, overflows, value

    def read(self) -> Any:
        """Return the value."""
        return self._value


def added(histograms: list[dict[str, Any]]) -> dict[str, Any]:
    """Add up histogram values. If their boundaries differ, only the common ones remain."""
    first, *others = histograms
    common = [bound for bound in first["buckets"] if all(bound in other["buckets"] for other in others)]
    return {
        "count": sum(h["count"] for h in histograms),
        "sum": sum(h["sum"] for h in histograms),
        "buckets": {bound: sum(h["buckets"][bound] for h in histograms) for bound in common},
    }


def interpolated(histogram: dict[str, Any], q: float) -> float:
    """The q-quantile of a value of `HistogramSeries.read`; `Histogram.quantile` documents the edge cases."""
    rank = q * histogram["count"]
    lower: float = 0.0
    below: int = 0
    for upper, seen in histogram["buckets"].items():
        if upper == math.inf:
            break
        if seen > below and seen >= rank:
            return float(lower + (upper - lower) * (rank - below) / (seen - below))
        lower, below = upper, seen
    # The quantile is above every boundary; `lower` is now the last of them.
    return lower if histogram["count"] and lower else math.nan
