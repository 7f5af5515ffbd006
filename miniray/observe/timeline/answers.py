"""What people open a timeline for: how busy the CPUs were, what idle workers waited for, which chain of tasks set the
time."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from heapq import heappop, heappush, nlargest
from itertools import accumulate, count
from operator import attrgetter, itemgetter
from typing import NamedTuple

from ...core.records import ACTOR_TASK, NORMAL_TASK, UNIT, WorkerRecord
from .recording import RETRIED, Recording, Row, lane_title

CAUSES = (
    "tasks were ready, but not placed: what they ask for was not free, or they were on their way",
    "calls waited for their actor, which was busy",
    "tasks waited for their arguments",
    "nothing else to run: the driver waited for results",
    "nothing else to run: the driver was doing something else",
)
"""Why a CPU stood idle, in the order in which they are charged. An idle CPU is charged to a cause at most once per
task that could have used it."""


class Utilisation(NamedTuple):
    """CPUs over time, in equal bins from `start` to `end`.

    busy, capacity: average number of CPUs in each bin; busy may exceed capacity where code runs that asked for none.
    idle: for each cause the number of CPUs that stood idle for it; with busy they add up to capacity.
    """

    start: float
    end: float
    busy: list[float]
    capacity: list[float]
    idle: list[list[float]]

    @property
    def bin_s(self) -> float:
        """Seconds that a bin stands for."""
        return (self.end - self.start) / len(self.busy)

    def share(self, values: list[float]) -> float:
        """What part of all CPU time these values are, from 0 to 1."""
        total = sum(self.capacity)
        return sum(values) / total if total else 0.0


class _Sum:
    """How many of some intervals there are at a time, each with a weight, averaged over equal bins.

    What an interval adds up to the time t is min(t, end) - min(t, begin). So all of them together need no loop over
    each: their begins and their ends, sorted, and running sums of these tell the total at every edge of a bin."""

    def __init__(self, start: float, end: float, bins: int):
        self.start, self.bin_s = start, (end - start) / bins
        self.edges = [self.bin_s * number for number in range(bins + 1)]
        self.values = [0.0] * bins

    def add(self, begins: list[float], ends: list[float], weight: float = 1.0) -> None:
        """Count intervals: when each begins, and when each ends, in any order."""
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
    """How many CPUs were busy, and what the idle ones waited for."""
    start, now = recording.start, recording.now
    end = max(recording.end, start + 1e-6)
    busy, waiting, placed, lined_up, driver, capacity = (_Sum(start, end, bins) for _ in range(6))
    for spec, rows in recording.by_spec.items():
        if spec.kind == NORMAL_TASK:
            leased = [row for row in rows if row.leased]
            if leased:
                busy.add(
                    [row.leased for row in leased],
                    [row.finished or now for row in leased],
                    recording.cpus_of(leased[0]),
                )
        delayed = [row for row in rows if row.ready != row.created]
        waiting.add([row.created for row in delayed], [row.ready or row.finished or now for row in delayed])
        queued = [row for row in rows if row.ready and row.ready != row.leased]
        (lined_up if spec.kind == ACTOR_TASK else placed).add(
            [row.ready for row in queued], [row.leased or row.finished or now for row in queued]
        )
    for worker, rows in recording.by_worker.items():
        if worker.actor is not None and rows:  # its calls together keep one thread busy, coroutines too
            times = union([(row.leased, row.finished or now) for row in rows])
            busy.add([begin for begin, _ in times], [until for _, until in times], recording.cpus_of(rows[0]))
    driver.add(*_columns([(begin, until) for worker, _, begin, until in recording.waits if worker is None]))
    busy.add(
        *_columns(
            [
                (begin, until)
                for worker, _, begin, until in recording.waits  # its CPU was lent while it waited
                if worker is not None and worker.actor is None
            ]
        ),
        -1.0,
    )
    for node in recording.nodes:
        capacity.add([node.t_started], [node.t_died or end], node.total.get("CPU", 0) / UNIT)
    used = [max(0.0, value) for value in busy.values]
    idle: list[list[float]] = [[] for _ in CAUSES]
    counts = zip(placed.values, lined_up.values, waiting.values)
    for busy_cpus, cpus, wanted, stands in zip(used, capacity.values, counts, driver.values):
        left = max(0.0, cpus - busy_cpus)
        for cause, number in enumerate(wanted):
            charged = max(0.0, min(left, number))
            idle[cause].append(charged)
            left -= charged
        idle[3].append(left * min(1.0, max(0.0, stands)))
        idle[4].append(left * (1 - min(1.0, max(0.0, stands))))
    return Utilisation(start, end, used, capacity.values, idle)


def _columns(pairs: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [begin for begin, _ in pairs], [end for _, end in pairs]


def union(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Intervals that overlap, made into ones that do not; sorted."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


class Gap(NamedTuple):
    """A time in which a worker ran nothing. after, before: the attempts around it, None at either end. why: for
    people."""

    worker: WorkerRecord
    start: float
    end: float
    after: Row | None
    before: Row | None
    why: str


def gaps(recording: Recording, most: int = 12) -> list[Gap]:
    """The longest times in which a worker that takes any task ran nothing, the longest first.

    Between two tasks and before the first it is told from the task that ended it; after the last one nothing came.
    Workers in which an actor lives are looked at only when there are no others."""
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


def _why_idle(start: float, end: float, row: Row | None, by_number: dict[int, Row]) -> str:
    """What the worker waited for until it got this row: whatever took the largest part of the time."""
    if row is None:
        return "no other task came for it"
    parent = by_number.get(int(row.parent[:16], 16)) if row.parent[:16] != "f" * 16 else None
    name = row.spec.name
    submitter = f"task {parent.spec.name}" if parent is not None else "driver"
    producer = _last_producer(row, by_number)
    parts = [
        (min(end, row.created) - start, f"{name} had not been submitted yet by the {submitter}"),
        (
            min(end, row.ready) - max(start, row.created),
            f"{name} waited for the result of {producer.spec.name}"
            if producer is not None
            else f"{name} waited for its arguments",
        ),
        (end - max(start, row.ready), f"{name} was ready but not placed here: it stood in line, or was on its way"),
    ]
    return max(parts)[1]


def _last_producer(row: Row, by_number: dict[int, Row]) -> Row | None:
    """Of the tasks whose results it took, the one that ended last."""
    made = [by_number[number] for number in row.producers if number in by_number]
    return max(made, key=lambda one: one.finished, default=None)


class Step(NamedTuple):
    """A part of the critical path. kind: "task" (on its worker), "arguments", "queued" or "driver". row: whose; None
    for the driver. The steps of a path follow each other without a gap, from first to last."""

    kind: str
    row: Row | None
    start: float
    end: float


def critical_path(recording: Recording) -> list[Step]:
    """The chain that set the total time, first step first; empty when nothing has run.

    It is followed from what ended last back to the beginning. Before an attempt comes what it had to wait for: the
    attempt that held its worker until then, or the last of its arguments, or its own earlier attempt, or whoever
    submitted it. Where an attempt or the driver stood in `get`, the path goes through what ended that wait."""
    path = _Path(recording)
    return path.steps[::-1]


class _Path:
    """Builds the path from its end."""

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
        self.waits: dict[int, list[tuple[float, float]]] = {}  # of a task, 0 for the driver: (end, begin), sorted
        for _, task, begin, end in recording.waits:
            self.waits.setdefault(task, []).append((end, begin))
        for waits in self.waits.values():
            waits.sort()
        self._follow(last, last.until(now))

    def _follow(self, row: Row | None, until: float) -> None:
        """Add the steps that end with `row` at `until`; each round goes back in time. (Where a coarse clock gives
        many things the same time that need not be so: hence the bound.)"""
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
        """What an attempt that came to its worker at `begin` had waited for, and until when that took."""
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
            made = [
                one
                for one in map(self.latest.get, row.producers)
                if one is not None and one.leased and 0 < one.finished <= ready
            ]
            if made:
                producer = max(made, key=lambda one: one.finished)
                self._add("arguments", row, producer.finished, ready)
                return producer, producer.finished
            self._add("arguments", row, row.created, ready)
        return self._submitter(row)

    def _submitter(self, row: Row) -> tuple[Row | None, float]:
        """Who submitted the attempt; and if that one had just waited, what it had waited for."""
        created = row.created
        parent = (
            self.latest.get(int(row.parent[:16], 16)) if row.owner is not None and row.parent[:16] != "f" * 16 else None
        )
        if parent is not None and not (parent.leased and parent.leased <= created <= parent.until(self.recording.now)):
            parent = None  # an earlier attempt of it, or a thread that it left behind
        if parent is not None:
            return parent, created
        awaited = self._awaited(0, row.parent, self.recording.start, created)
        since = awaited.finished if awaited is not None else self.recording.start
        self._add("driver", None, since, created)
        return awaited, since

    def _awaited(self, waiter: int, waiter_hex: str, since: float, until: float) -> Row | None:
        """What ended the last wait of a task, or of the driver (0), in this time. Which values were awaited is not
        recorded: it is the last attempt that ended in that wait, if there is one of a task that the waiter submitted
        itself."""
        waits = self.waits.get(waiter, ())
        place = bisect_right(waits, (until, float("inf"))) - 1
        if place < 0 or waits[place][1] < since:
            return None
        end, begin = waits[place]
        times, rows = self.over
        last = bisect_right(times, end) - 1
        others = None
        for number in range(last, max(-1, last - 50), -1):
            if times[number] <= begin:
                break
            row = rows[number]
            if row.number != waiter and row.leased < end:
                if row.parent == waiter_hex:
                    return row
                others = others or row
        return others

    def _freed_elsewhere(self, row: Row, after: float, until: float) -> Row | None:
        """The last task that gave resources of the same node back in this time, on another worker."""
        times, rows = self.over
        last = bisect_right(times, until) - 1
        for number in range(last, max(-1, last - 50), -1):
            if times[number] <= after:
                break
            if rows[number].node is row.node and not rows[number].actor:
                return rows[number]
        return None

    @cached_property
    def over(self) -> tuple[list[float], list[Row]]:
        """When attempts ended, sorted, and which."""
        rows = sorted((row for row in self.recording.rows if row.leased and row.finished), key=attrgetter("finished"))
        return [row.finished for row in rows], rows

    def _ended_on(self, worker: WorkerRecord | None) -> tuple[list[float], list[Row]]:
        """The same of one worker."""
        mine = self.recording.by_worker[worker] if worker is not None else []
        rows = sorted([row for row in mine if row.finished], key=attrgetter("finished"))
        self.of_worker[worker] = found = [row.finished for row in rows], rows
        return found

    def _add(self, kind: str, row: Row | None, start: float, end: float) -> None:
        if end > start:
            self.steps.append(Step(kind, row, start, end))


def path_in_words(steps: list[Step]) -> str:
    """For people: what the critical path is made of, and so what would make the run shorter."""
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
        f"{spent[kind] / total:.0%} {said}"
        for kind, said in (
            ("queued", "between being ready and getting a worker"),
            ("arguments", "waiting for arguments"),
            ("driver", "in the driver"),
        )
        if spent[kind] / total >= 0.005
    ]
    if spent["driver"] > total / 2:
        advice = "The driver's own code set the time."
    elif _held_by_workers(steps) > tasks / 2 and tasks > 1:
        advice = "Most of its tasks stood in line for a worker: more CPUs, or less work, would make the run shorter."
    elif tasks > 1:
        advice = "Its tasks depend on each other: the run gets shorter with these tasks, or with a shorter chain."
    else:
        advice = "One task set the time."
    return f"{tasks:,} task{'s' if tasks != 1 else ''} in a chain: " + ", ".join(parts) + ". " + advice


def _held_by_workers(steps: list[Step]) -> int:
    """How many tasks of the path began when their worker had ended another, which they do not depend on."""
    found = 0
    before: Row | None = None
    for kind, row, _, _ in steps:
        if kind == "task" and row is not None:
            if (
                before is not None
                and before.worker is row.worker
                and row.ready < before.finished
                and before.number not in row.producers
            ):
                found += 1
            before = row
    return found


def short(name: str, limit: int = 60) -> str:
    """A name that fits into a sentence."""
    return name if len(name) <= limit else name[: limit - 1] + "…"


def gap_place(gap: Gap) -> str:
    """For people: the worker of a gap."""
    return f"{lane_title(gap.worker)} on {gap.worker.node.name}"
