"""The critical path: the chain of tasks and waits that determined the total time of the run."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from heapq import nlargest
from operator import attrgetter
from typing import NamedTuple

from ...core.records import WorkerRecord
from .recording import RETRIED, Recording, Row


class Step(NamedTuple):
    """A part of the critical path; each step begins where the one before it ends.

    kind: "task" (on its worker), "arguments", "queued" or "driver". row: the attempt; None for the driver.
    """

    kind: str
    row: Row | None
    start: float
    end: float


def critical_path(recording: Recording) -> list[Step]:
    """Find the chain that determined the total time, first step first; empty if nothing has run.

    The search goes backwards from the attempt that ended last. An attempt is preceded by whatever it waited for: the
    attempt that held its worker, the last of its arguments, its own earlier attempt, or its submitter. If an attempt
    or the driver waited in `get`, the path goes through the task that ended that wait.
    """
    path = _Path(recording)
    return path.steps[::-1]


class _Path:
    """Builds the path, from its last step to its first."""

    def __init__(self, recording: Recording):
        self.recording = recording
        self.steps: list[Step] = []
        now = recording.now
        last = max(
            [max(rows, key=lambda row: row.finished or now) for rows in recording.by_worker.values() if rows],
            key=lambda row: (row.finished or now, row.leased),
            default=None,
        )
        if last is None:
            return
        self.latest = recording.latest
        self.earlier = {(row.number, row.attempt): row for row in recording.rows if row.outcome == RETRIED}
        self.of_worker: dict[WorkerRecord | None, tuple[list[float], list[Row]]] = {}
        self.waits: dict[int, list[tuple[float, float]]] = {}  # by task, 0 for the driver: (end, begin)
        for _, task, begin, end in recording.waits:
            self.waits.setdefault(task, []).append((end, begin))
        for waits in self.waits.values():
            waits.sort()
        self._follow(last, last.until(now))

    def _follow(self, row: Row | None, until: float) -> None:
        """Add the steps that lead to `row` at `until`, the last one first.

        Each round goes back in time, unless a coarse clock gives many events the same time; hence the bound.
        """
        most = 4 * len(self.recording.rows) + 4
        steps, before = self.steps, self._before
        while row is not None and len(steps) < most:
            begin = row.leased if row.leased < until else until
            if row.number in self.waits:
                awaited = self._awaited(row.number, row.hex, begin, until)
                if awaited is not None:
                    steps.append(Step("task", row, awaited.finished, until))
                    row, until = awaited, awaited.finished
                    continue
            steps.append(Step("task", row, begin, until))
            row, until = before(row, begin)

    def _before(self, row: Row, begin: float) -> tuple[Row | None, float]:
        """Find what an attempt that reached its worker at `begin` had waited for, and when that wait ended."""
        ready = row.ready if row.ready < begin else begin
        if begin > ready:
            times, rows = self.of_worker.get(row.worker) or self._ended_on(row.worker)
            place = bisect_right(times, begin) - 1
            held = rows[place] if place >= 0 and times[place] > ready else None
            if row.actor:
                held = held if row.worker is None or row.worker.actor is None or row.worker.actor.in_order else None
            elif held is None:
                held = self._freed_elsewhere(row, ready, begin)
            if held is not None and held is not row and held.leased < begin:
                until = held.finished
                if begin > until:
                    self.steps.append(Step("queued", row, until, begin))
                return held, until
            self._add("queued", row, ready, begin)
        earlier = self.earlier.get((row.number, row.attempt - 1)) if row.attempt else None
        if earlier is not None and earlier.leased and earlier.finished <= ready:
            self._add("arguments", row, earlier.finished, ready)
            return earlier, earlier.finished
        if ready > row.created:
            producers = [
                made
                for made in map(self.latest.get, row.producers)
                if made is not None and made.leased and 0 < made.finished <= ready
            ]
            if producers:
                producer = max(producers, key=attrgetter("finished"))
                self._add("arguments", row, producer.finished, ready)
                return producer, producer.finished
            self._add("arguments", row, row.created, ready)
        return self._submitter(row)

    def _submitter(self, row: Row) -> tuple[Row | None, float]:
        """Find the task that submitted the attempt; for the driver, the task that the driver had waited for before."""
        created = row.created
        parent = (
            self.latest.get(int(row.parent[:16], 16)) if row.owner is not None and row.parent[:16] != "f" * 16 else None
        )
        if parent is not None and not (parent.leased and parent.leased <= created <= parent.until(self.recording.now)):
            parent = None  # its earlier attempt submitted the row, or a thread that it left behind
        if parent is not None:
            return parent, created
        awaited = self._awaited(0, row.parent, self.recording.start, created)
        since = awaited.finished if awaited is not None else self.recording.start
        self._add("driver", None, since, created)
        return awaited, since

    def _awaited(self, waiter: int, waiter_hex: str, since: float, until: float) -> Row | None:
        """Find the attempt that ended the last wait of a task, or of the driver (0), in this time.

        The recording does not tell which values a wait was for. So take the last attempt that ended during the wait,
        and prefer a task that the waiter itself submitted.
        """
        waits = self.waits.get(waiter, ())
        place = bisect_right(waits, (until, float("inf"))) - 1
        if place < 0 or waits[place][1] < since:
            return None
        end, begin = waits[place]
        times, rows = self.ended
        last = bisect_right(times, end) - 1
        any_other = None
        for number in range(last, max(-1, last - 50), -1):
            if times[number] <= begin:
                break
            row = rows[number]
            if row.number != waiter and row.leased < end:
                if row.parent == waiter_hex:
                    return row
                any_other = any_other or row
        return any_other

    def _freed_elsewhere(self, row: Row, after: float, until: float) -> Row | None:
        """Find the last task that released resources of the same node in this time, on another worker."""
        times, rows = self.ended
        last = bisect_right(times, until) - 1
        for number in range(last, max(-1, last - 50), -1):
            if times[number] <= after:
                break
            if rows[number].node is row.node and not rows[number].actor:
                return rows[number]
        return None

    @cached_property
    def ended(self) -> tuple[list[float], list[Row]]:
        """The times at which attempts ended, in order, and the attempts."""
        rows = sorted((row for row in self.recording.rows if row.leased and row.finished), key=attrgetter("finished"))
        return [row.finished for row in rows], rows

    def _ended_on(self, worker: WorkerRecord | None) -> tuple[list[float], list[Row]]:
        """The same for the attempts of one worker."""
        attempts = self.recording.by_worker[worker] if worker is not None else []
        rows = sorted([row for row in attempts if row.finished], key=attrgetter("finished"))
        self.of_worker[worker] = times_and_rows = [row.finished for row in rows], rows
        return times_and_rows

    def _add(self, kind: str, row: Row | None, start: float, end: float) -> None:
        if end > start:
            self.steps.append(Step(kind, row, start, end))


def path_in_words(steps: list[Step]) -> str:
    """Describe the critical path for people: its parts. `explain.bottleneck` tells what would make the run shorter."""
    if not steps:
        return "Nothing has run yet."
    total = max(steps[-1].end - steps[0].start, 1e-12)
    running: dict[str, float] = {}
    spent = {"task": 0.0, "arguments": 0.0, "queued": 0.0, "driver": 0.0}
    tasks = 0
    for kind, row, start, end in steps:
        spent[kind] += end - start
        if kind == "task" and row is not None:
            tasks += 1
            name = row.spec.name
            running[name] = running.get(name, 0.0) + end - start
    largest = nlargest(3, running, key=running.__getitem__)
    parts = [
        f"{spent['task'] / total:.0%} in tasks"
        + (f" (most in {', '.join(short(name) for name in largest)})" if largest else "")
    ]
    parts += [
        f"{spent[kind] / total:.0%} {phase}"
        for kind, phase in (
            ("queued", "between being ready and getting a worker"),
            ("arguments", "waiting for arguments"),
            ("driver", "in the driver"),
        )
        if spent[kind] / total >= 0.005
    ]
    return f"{tasks:,} task{'s' if tasks != 1 else ''} in a chain: " + ", ".join(parts) + "."


def short(name: str, limit: int = 60) -> str:
    """Cut a name so that it fits into a sentence."""
    return name if len(name) <= limit else name[: limit - 1] + "…"
