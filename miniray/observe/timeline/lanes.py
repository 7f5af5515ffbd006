"""Where each span of a trace file is drawn: on which row of its worker's lane, and from when to when, in whole counts.

A viewer draws the spans of one thread as a tree, and drops a span that begins inside another one and ends outside it.
So the layout is made in integers, and every row of a lane holds spans that are nested or apart:

- A worker runs one task after the other, so its tasks lie on one row. Calls of an async actor overlap; they get as many
  rows as there are calls at once.
- Spans of user code and waits lie on the row of their task. The driver's threads overlap, so these get rows as needed.

Perfetto also needs the outer one of two spans that begin together first. The writer writes spans of user code and waits
before the attempts, so one that begins together with a phase of its task is moved by one count.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from ...core.records import WorkerRecord
from .recording import Recording, Row

SHORTEST = 4
"""The counts of a task: at least one each for fetching, running and storing, and together a microsecond.
chrome://tracing compares the ends of spans in whole microseconds: it would put a shorter task into the one before it,
and then not find the task at the end of an arrow."""


class Clock(NamedTuple):
    """Converts times to whole counts: `scale` counts in a second, `base` at the time `origin`."""

    origin: float
    scale: float
    base: int

    def count(self, at: float) -> int:
        """The nearest count."""
        return self.base + int((at - self.origin) * self.scale + 0.5)


class Times(NamedTuple):
    """When an attempt was on its worker: its beginning, its function's beginning and end, and its end, in counts."""

    begin: int
    started: int
    ended: int
    end: int


class Layout:
    """The rows of all lanes.

    clock: converts times to counts. one_row: as in Ray, everything lies on row 0, and may overlap. level_of: the row
    of each attempt that is not on row 0. rows: how many rows each lane has; None is the driver's. spans, waits: for
    each one of the recording, its row, beginning and end.
    """

    def __init__(self, recording: Recording, clock: Clock, one_row: bool = False):
        self.recording, self.clock, self.count = recording, clock, clock.count
        self.level_of: dict[Row, int] = {}
        self.rows: dict[WorkerRecord | None, int] = {}
        self._moved: dict[Row, tuple[int, int]] = {}
        self._known: list[Times | None] = [None] * len(recording.rows)
        self.spans: list[tuple[int, int, int]] = [(0, 0, 0)] * len(recording.spans)
        self.waits: list[tuple[int, int, int]] = [(0, 0, 0)] * len(recording.waits)
        others: dict[WorkerRecord | None, list[_Other]] = {}
        for place, span in enumerate(recording.spans):
            others.setdefault(span.worker, []).append(
                _Other(span.worker, span.task, span.t_start, span.t_end, self.spans, place)
            )
        for place, (worker, task, since, until) in enumerate(recording.waits):
            others.setdefault(worker, []).append(_Other(worker, task, since, until, self.waits, place))
        if one_row:
            for other in [other for lane in others.values() for other in lane]:
                begin, end, _ = self._within_its_task(other)
                other.into[other.place] = 0, begin, end
            return
        for lane in (None, *recording.lanes):
            levels = self._place_rows(recording.by_worker[lane]) if lane is not None else []
            self.rows[lane] = max(1, len(levels))
            if lane in others:
                self._place_others(lane, levels, others[lane])

    def times(self, row: Row) -> Times:
        """The times of an attempt on its worker. Each of its phases has a length, if it has that phase."""
        known = self._known[row.place]
        if known is None:
            known = self._known[row.place] = self._times(row)
        return known

    def _times(self, row: Row) -> Times:
        origin, scale, base = self.clock  # `count` written out, because calls would cost too much
        if row in self._moved:
            begin, end = self._moved[row]
        else:
            begin = base + int((row.leased - origin) * scale + 0.5)
            end = base + int(((row.finished or self.recording.now) - origin) * scale + 0.5)
        if not row.started:
            return Times(begin, end, end, end)
        started = base + int((row.started - origin) * scale + 0.5)
        ended = base + int((row.ended - origin) * scale + 0.5) if row.ended else end
        if end - begin < SHORTEST:
            return Times(begin, started, ended, end)
        if not begin < started < ended < end:  # give every phase a length
            started = min(max(started, begin + 1), end - 2)
            ended = min(max(ended, started + 1), end - 1)
        return Times(begin, started, ended, end)

    def _place_rows(self, rows: list[Row]) -> list[list[Row]]:
        """Spread the attempts of a worker, in the order in which they reached it, over rows on which none overlap."""
        (origin, scale, base), now = self.clock, self.recording.now
        levels: list[list[Row]] = [[]]
        free_at = [0]
        for row in rows:
            begin = first = base + int((row.leased - origin) * scale + 0.5)
            end = last = base + int(((row.finished or now) - origin) * scale + 0.5)
            level = 0
            if begin < free_at[0]:
                level = next((n for n, free in enumerate(free_at) if free <= begin), len(free_at))
                if row.worker is not None and (row.worker.actor is None or not row.worker.actor.is_async):
                    # One call at a time: what overlaps is rounding, the least length, or a worker that was declared
                    # dead. Begin where the attempt before ends.
                    level, begin = 0, free_at[0]
                if level == len(free_at):
                    free_at.append(0)
                    levels.append([])
                if level:
                    self.level_of[row] = level
            if end - begin < SHORTEST:
                end = begin + SHORTEST
            free_at[level] = end
            if begin != first or end != last:
                self._moved[row] = begin, end
            levels[level].append(row)
        return levels

    def _place_others(self, lane: WorkerRecord | None, levels: list[list[Row]], others: list[_Other]) -> None:
        """Find a row for each span of user code and each wait, on which it crosses nothing."""
        phases: list[list[tuple[int, int]]] = []  # of the attempts on each row, in order of their beginnings
        for rows in levels:
            phases.append([])
            for begin, started, ended, end in map(self.times, rows):
                phases[-1] += (begin, end), (begin, started), (started, ended), (ended, end)
        past = [0] * len(phases)  # how many of the phases were over before the span
        open_spans: list[list[tuple[int, int]]] = [[] for _ in phases]
        for begin, end, own, other in sorted(
            [(*self._within_its_task(other), other) for other in others], key=lambda one: (one[0], -one[1])
        ):
            for level in (own, *(level for level in range(len(phases)) if level != own)):
                if level == len(phases):  # the lane has no row yet
                    break
                known, at = phases[level], past[level]
                while at < len(known) and known[at][1] <= begin:
                    at += 1
                past[level] = at
                open_spans[level] = [one for one in open_spans[level] if one[1] > begin]
                if not _crosses(begin, end, islice(known, at, None), True) and not _crosses(
                    begin, end, open_spans[level]
                ):
                    break
            else:
                level = len(phases)
            if level == len(phases):
                phases.append([])
                past.append(0)
                open_spans.append([])
            open_spans[level].append((begin, end))
            other.into[other.place] = level, begin, end
        self.rows[lane] = max(1, len(phases))

    def _within_its_task(self, other: _Other) -> tuple[int, int, int]:
        """The beginning and the end of a span or wait, and the row of its task.

        Rounding must not let a span stick out of its task's function.
        """
        begin = self.count(other.since)
        end = max(begin + 1, self.count(other.until))
        row = self.recording.latest.get(other.task)
        if row is None or row.worker is not other.worker or not row.started:
            return begin, end, 0
        if row.started <= other.since and other.until <= (row.ended or self.recording.now):
            _, started, ended, _ = self.times(row)
            begin = min(max(begin, started + 1), max(started, ended - 1))
            end = max(min(max(end, begin + 1), ended), begin)
        return begin, end, self.level_of.get(row, 0)


class _Other(NamedTuple):
    """A span of user code or a wait: its worker, the number of its task, its times, and where to note its place."""

    worker: WorkerRecord | None
    task: int
    since: float
    until: float
    into: list[tuple[int, int, int]]
    place: int


def _crosses(begin: int, end: int, spans: Iterable[tuple[int, int]], together: bool = False) -> bool:
    """Whether a span begins inside one of the spans and ends outside it, or the other way round.

    together: whether it counts, too, that it begins together with a longer one.
    """
    for first, last in spans:
        if first >= end:
            return False
        if first < begin < last < end or begin < first < end < last or (together and first == begin and end < last):
            return True
    return False
