"""How busy the CPUs were over time, and what the idle CPUs waited for."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from ...core.records import ACTOR_TASK, NORMAL_TASK, UNIT
from .recording import Recording, Row

CAUSES = (
    "tasks were ready, but not placed: their resources were in use, or the tasks were on their way to a worker",
    "calls waited for their actor, which was busy",
    "tasks waited for their arguments",
    "there was nothing else to run: the driver waited for results",
    "there was nothing else to run: the driver was doing something else",
)
"""Why a CPU was idle, in the order in which `utilisation` charges the causes. Each waiting task accounts for at most
one idle CPU."""


class Utilisation(NamedTuple):
    """CPUs over time, in equal bins from `start` to `end`.

    busy, capacity: average number of CPUs in each bin. running: the number of CPUs that would be busy if each call of
    an actor without CPUs had one of its own; busy is the same, but never more than there are CPUs. idle: for each
    cause, the number of CPUs that it kept idle; the causes and busy add up to capacity.
    """

    start: float
    end: float
    busy: list[float]
    capacity: list[float]
    idle: list[list[float]]
    running: list[float]

    @property
    def bin_s(self) -> float:
        """The length of a bin in seconds."""
        return (self.end - self.start) / len(self.busy)

    def share(self, values: list[float]) -> float:
        """These values as a share of all CPU time; 1.0 is the whole capacity."""
        total = sum(self.capacity)
        return sum(values) / total if total else 0.0


class _BinnedSum:
    """The number of intervals that are open at a time, each with a weight, averaged over equal bins.

    Up to the time t, an interval contributes min(t, end) - min(t, begin). So there is no loop over intervals and bins:
    the sorted begins, the sorted ends and their running sums give the total at every edge of a bin.
    """

    def __init__(self, start: float, end: float, bins: int):
        self.start, self.bin_s = start, (end - start) / bins
        self.edges = [self.bin_s * number for number in range(bins + 1)]
        self.values = [0.0] * bins

    def add(self, begins: list[float], ends: list[float], weight: float = 1.0) -> None:
        """Add intervals: their begins and their ends, each list in any order."""
        if begins:
            rates = [(end - begin) * weight / self.bin_s for begin, end in zip(self._until(begins), self._until(ends))]
            self.values = [value + later - sooner for value, sooner, later in zip(self.values, rates, rates[1:])]

    def _until(self, times: list[float]) -> list[float]:
        """The sum of min(edge, time) over all times, for each edge."""
        start = self.start
        ordered = sorted([at - start for at in times])
        sums = [0.0, *accumulate(ordered)]
        places = [bisect_right(ordered, edge) for edge in self.edges]
        return [sums[place] + (len(ordered) - place) * edge for place, edge in zip(places, self.edges)]


def utilisation(recording: Recording, bins: int = 300) -> Utilisation:
    """Compute how many CPUs were busy, and what the idle CPUs waited for."""
    start, now = recording.start, recording.now
    end = max(recording.end, start + 1e-6)
    busy, waiting, placed, lined_up, driver, capacity = (_BinnedSum(start, end, bins) for _ in range(6))
    kinds: dict[tuple[str, float], list[Row]] = {}  # not by spec: each call of `.options()` has a spec of its own
    for spec, rows in recording.by_spec.items():
        cpus = recording.cpus_of(rows[0]) if spec.kind == NORMAL_TASK else 0.0
        kinds.setdefault((spec.kind, cpus), []).extend(rows)
    for (kind, cpus), rows in kinds.items():
        leased = [row for row in rows if row.leased]
        if kind == NORMAL_TASK:
            busy.add([row.leased for row in leased], [row.finished or now for row in leased], cpus)
        delayed = [row for row in rows if row.ready != row.created]
        waiting.add([row.created for row in delayed], [row.ready or row.finished or now for row in delayed])
        queued = [row for row in rows if row.ready and row.ready != row.leased]
        (lined_up if kind == ACTOR_TASK else placed).add(
            [row.ready for row in queued], [row.leased or row.finished or now for row in queued]
        )
    for worker, rows in recording.by_worker.items():
        if worker.actor is not None and rows:  # an actor's calls keep one thread busy between them, coroutines too
            times = union([(row.leased, row.finished or now) for row in rows])
            busy.add([begin for begin, _ in times], [until for _, until in times], recording.cpus_of(rows[0]))
    driver.add(*_columns([(begin, until) for worker, _, begin, until in recording.waits if worker is None]))
    busy.add(
        *_columns(
            [
                (begin, until)
                for worker, _, begin, until in recording.waits  # a task that waits has lent its CPU
                if worker is not None and worker.actor is None
            ]
        ),
        -1.0,
    )
    for node in recording.nodes:
        capacity.add([node.t_started], [node.t_died or end], node.total.get("CPU", 0) / UNIT)
    running = [max(0.0, value) for value in busy.values]
    used = [min(value, cpus) for value, cpus in zip(running, capacity.values)]
    idle: list[list[float]] = [[] for _ in CAUSES]
    waiting_counts = zip(placed.values, lined_up.values, waiting.values)
    for busy_cpus, cpus, counts, driver_waits in zip(used, capacity.values, waiting_counts, driver.values):
        left = max(0.0, cpus - busy_cpus)
        for cause, number in enumerate(counts):
            charged = max(0.0, min(left, number))
            idle[cause].append(charged)
            left -= charged
        idle[3].append(left * min(1.0, max(0.0, driver_waits)))
        idle[4].append(left * (1 - min(1.0, max(0.0, driver_waits))))
    return Utilisation(start, end, used, capacity.values, idle, running)


def _columns(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [begin for begin, _ in pairs], [end for _, end in pairs]


def union(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merge the intervals that overlap or touch; the result is sorted."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged
