"""The longest times in which a worker ran nothing, and what it waited for."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from operator import itemgetter
from typing import NamedTuple

from ...core.records import WorkerRecord
from .recording import Recording, Row, lane_title


class Gap(NamedTuple):
    """A time in which a worker ran nothing.

    after, before: the attempts on either side of the gap; None if there is no such attempt. why: a sentence for people.
    """

    worker: WorkerRecord
    start: float
    end: float
    after: Row | None
    before: Row | None
    why: str


def gaps(recording: Recording, most: int = 12) -> list[Gap]:
    """Find the longest gaps of the workers that take any task, the longest first.

    The task that ended a gap explains it; no task ends the gap after a worker's last one. The workers of actors count
    only if there are no other workers.
    """
    lanes = recording.by_worker
    plain = [worker for worker in lanes if worker.actor is None]
    by_number = recording.latest
    longest: list[tuple[float, int, WorkerRecord, float, Row | None, Row | None]] = []  # a heap, the shortest first
    shortest, order = 0.0, count()
    for worker in plain or list(lanes):
        at, after = max(worker.t_created, recording.start), None
        for row in (*lanes[worker], None):
            begin = row.leased if row is not None else min(recording.end, worker.t_died or recording.end)
            if begin - at > shortest:
                heappush(longest, (begin - at, next(order), worker, at, after, row))
                if len(longest) > most:
                    heappop(longest)
                    shortest = longest[0][0]
            until = row.finished or recording.now if row is not None else at
            if until >= at:
                at, after = until, row
    return [
        Gap(worker, start, start + length, after, before, _why_idle(start, start + length, before, by_number))
        for length, _, worker, start, after, before in sorted(longest, key=itemgetter(0), reverse=True)
    ]


def gap_place(gap: Gap) -> str:
    """Name the worker and the node of a gap, for people."""
    return f"{lane_title(gap.worker)} on {gap.worker.node.name}"


def _why_idle(start: float, end: float, row: Row | None, by_number: dict[int, Row]) -> str:
    """Explain why the worker got this row only at `end`: the reason is whatever took the largest part of the time."""
    if row is None:
        return "no other task came for it"
    parent = by_number.get(int(row.parent[:16], 16)) if row.parent[:16] != "f" * 16 else None
    name = row.spec.name
    submitter = f"task {parent.spec.name}" if parent is not None else "driver"
    producer = _last_producer(row, by_number)
    parts = [
        (min(end, row.created) - start, f"the {submitter} had not submitted {name} yet"),
        (
            min(end, row.ready) - max(start, row.created),
            f"{name} waited for the result of {producer.spec.name}"
            if producer is not None
            else f"{name} waited for its arguments",
        ),
        (end - max(start, row.ready), f"{name} was ready but not placed here: it was queued, or on its way"),
    ]
    return max(parts)[1]


def _last_producer(row: Row, by_number: dict[int, Row]) -> Row | None:
    """Of the tasks whose results the row takes, return the one that ended last."""
    producers = [by_number[number] for number in row.producers if number in by_number]
    return max(producers, key=lambda producer: producer.finished, default=None)
