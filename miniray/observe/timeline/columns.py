"""The data of the timeline's page: columns of numbers, from which the script draws, and tables of texts.

Each column has one entry per attempt, in order of creation:

    when        six columns, counted in `unit` seconds: `created` as the difference to the attempt before, then the time
                from each moment to the next: ready, leased, started, ended, finished; -1 for a moment not reached
    others      a list, or {"runs": [value, how many times, value, ...]} where that is shorter

The size of a page is bounded. There are budgets for names, errors, arrows and spans; `notes` says what was left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import groupby, islice
from operator import attrgetter, ne, sub
from typing import Any

from ..amounts import count
from ...core.records import ACTOR_CREATION_TASK, ACTOR_TASK, NORMAL_TASK, UNIT, TaskSpec, WorkerRecord
from ...values.errors import TaskError
from ..metrics.registry import Curve
from .critical_path import Step
from .gaps import Gap
from .recording import OUTCOMES, Recording, Row, lane_title
from .text import lines, readable
from .utilisation import CAUSES

KINDS = (NORMAL_TASK, ACTOR_TASK, ACTOR_CREATION_TASK)
MOST_FUNCTIONS = 2_000
MOST_NAME_CHARACTERS = 500_000  # in distinct names; beyond that, a task is shown under its function's name
MOST_ERROR_CHARACTERS = 400_000
MOST_LOG_CHARACTERS = 200_000
MOST_ARROWS = 200_000
MOST_SPANS = 5_000  # of user code; and as many waits
MOST_CURVES = 12  # of metrics; the table below the timeline has the others


COLOURS, TEXTURES = 8, 4
"""A function has one of eight colours that can be told apart under every kind of colour blindness; after eight
functions, the colours come again with a texture."""


class _Totals:
    """Sums over the attempts of a function. outcomes: how many had which outcome. lengths: the times on a worker.
    Times are in seconds."""

    __slots__ = ("attempts", "outcomes", "lengths", "total", "longest", "queued", "waited")

    def __init__(self) -> None:
        self.attempts = 0
        self.outcomes = [0] * len(OUTCOMES)
        self.lengths: list[float] = []
        self.total = self.longest = self.queued = self.waited = 0.0

    def add(self, rows: list[Row], now: float) -> None:
        """Add these attempts to the sums."""
        self.attempts += len(rows)
        for row in rows:
            self.outcomes[row.outcome] += 1
        placed = [row for row in rows if row.leased]
        lengths = [(row.finished or now) - row.leased for row in placed]
        self.total += sum(lengths)
        self.lengths += lengths
        self.longest = max(self.longest, max(lengths, default=0.0))
        self.queued += sum([row.leased - row.ready for row in placed])
        self.waited += sum([row.ready - row.created for row in placed])

    def quantile(self, share: float) -> float:
        """The time on a worker that this share of the attempts did not exceed; 0.0 if none reached a worker."""
        self.lengths.sort()
        return self.lengths[math.ceil(share * len(self.lengths)) - 1] if self.lengths else 0.0


class Columns:
    """The recording as columns of numbers, and the tables of texts that the numbers refer to.

    functions, names: the texts by number. totals: sums by function. order: functions by total time, the longest first.
    colour: the colour of each function. unit: the length in seconds of one count of time. notes: what was left out.
    """

    def __init__(self, recording: Recording, steps: list[Step], gaps: list[Gap]):
        self.recording, self.gaps = recording, gaps
        self.notes: list[str] = []
        self.lane_of: dict[WorkerRecord | None, int] = {None: -1}
        self.lane_of.update((worker, number) for number, worker in enumerate(recording.lanes))
        self.functions: list[str] = []
        self.names: list[tuple[str, int, int, float]] = []  # text, function, kind, CPUs of a task
        self.name_of: dict[TaskSpec, int] = {}
        self._name_all()
        self.totals = [_Totals() for _ in self.functions]
        for spec, rows in recording.by_spec.items():
            self.totals[self.names[self.name_of[spec]][1]].add(rows, recording.now)
        self.order = sorted(range(len(self.functions)), key=lambda function: -self.totals[function].total)
        self.colour = {function: place % (COLOURS * TEXTURES) for place, function in enumerate(self.order)}
        self.steps = steps
        # Nine digits are finer than any screen can show, and keep the page of a long run small.
        self.unit = max(1e-7, 10.0 ** math.ceil(math.log10(max(recording.end - recording.start, 1e-7) / 1e9)))
        self.per_second = round(1 / self.unit)
        self.takes, self.errors, self.spans = self._takes(), self._errors(), self._spans()  # each may add a note
        self.marks = self._marks()

    def count(self, at: float) -> int:
        """Convert a time to units since the beginning."""
        return int((at - self.recording.start) * self.per_second + 0.5)

    def _name_all(self) -> None:
        """Number the functions and the names of tasks; when there are too many names, use the function's name."""
        functions: dict[str, int] = {}
        names: dict[tuple[str, int, int, float], int] = {}
        budget, left_out = MOST_NAME_CHARACTERS, 0
        for spec, rows in self.recording.by_spec.items():
            kind = KINDS.index(spec.kind)
            text = readable(spec.func_name if kind or not spec.module else f"{spec.module}.{spec.func_name}")
            if text not in functions and len(functions) >= MOST_FUNCTIONS:
                text = "(other functions)"
            function = functions.setdefault(text, len(functions))
            cpus = 0.0 if kind else self.recording.cpus_of(rows[0])
            key = readable(spec.name), function, kind, cpus
            if key not in names:
                budget -= len(key[0])
                if budget < 0:
                    left_out += 1
                    key = text, function, kind, cpus
            self.name_of[spec] = names.setdefault(key, len(names))
        self.functions, self.names = list(functions), list(names)
        if left_out:
            self.notes.append(
                f"{count(left_out, 'name')} did not fit on this page: "
                f"{'its' if left_out == 1 else 'these'} tasks are shown under their function's name."
            )

    def function_of(self, row: Row) -> int:
        """The number of an attempt's function."""
        return self.names[self.name_of[row.spec]][1]

    def json(self) -> Iterator[str]:
        """Yield the data as ASCII JSON that is safe inside a script element."""
        for piece in self._pieces():
            yield piece.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

    def _pieces(self) -> Iterator[str]:
        recording, rows, count = self.recording, self.recording.rows, self.count
        tables: dict[str, Any] = {
            "unit": self.unit,
            "epoch_ms": (recording.epoch + recording.start) * 1e3,
            "end": count(recording.end),
            "now": count(recording.now),
            "rows": len(rows),
            "functions": self.functions,
            "colours": [self.colour[n] for n in range(len(self.functions))],
            "names": [name for name, _, _, _ in self.names],
            "function": [function for _, function, _, _ in self.names],
            "kind": [kind for _, _, kind, _ in self.names],
            "cpus": [cpus for _, _, _, cpus in self.names],
            "outcomes": OUTCOMES,
            "causes": CAUSES,
            "nodes": [
                {
                    "name": node.name,
                    "id": node.hex,
                    "head": node.is_head,
                    "alive": node.alive,
                    "number": node.number,
                    "cpus": node.total.get("CPU", 0) / UNIT,
                    "from": count(node.t_started),
                    "to": count(node.t_died) if node.t_died else None,
                }
                for node in recording.nodes
            ],
            "lanes": [
                {
                    "title": readable(lane_title(worker), 120),
                    "id": worker.hex,
                    "node": worker.node.number,
                    "actor": worker.actor.number if worker.actor is not None else 0,
                    "cpus": recording.cpus_of(done[0]) if worker.actor is not None and done else 0,
                    "died": count(worker.t_died) if worker.t_died else None,
                }
                for worker, done in recording.by_worker.items()
            ],
            "spans": self.spans,
            "waits": self._waits(),
            "errors": self.errors,
            "marks": self.marks,
            "stores": self._stores(),
            "metrics": self._metrics(),
            "logs": self._logs(),
            "reasons": self._reasons(),
            "gaps": [[self.lane_of[gap.worker], count(gap.start), count(gap.end)] for gap in self.gaps],
        }
        name_of, lane_of, parent_of = self.name_of, self.lane_of, self._parents()
        columns: dict[str, list[Any]] = {
            "name": [name_of[row.spec] for row in rows],
            "lane": [lane_of[row.worker] for row in rows],
            "outcome": [row.outcome for row in rows],
            "attempt": [row.attempt for row in rows],
            "actor": [row.actor for row in rows],
            "number": _differences([row.number for row in rows]),
            "parent": [parent_of[row.parent] for row in rows],
        }
        yield "{"
        for key, value in tables.items():
            yield f'"{key}":{json.dumps(value, separators=(",", ":"))},'
        yield f'"when":[{",".join(self._when(recording.start, self.per_second))}],'
        for key, column in columns.items():
            yield f'"{key}":{_column(column)},'
        yield f'"takes":{json.dumps(self.takes, separators=(",", ":"))},'
        yield f'"path":{json.dumps(self._path(), separators=(",", ":"))}}}'

    def _when(self, start: float, per_second: int) -> Iterator[str]:
        """Yield the six columns of times."""
        rows = self.recording.rows
        last = [int((row.created - start) * per_second + 0.5) for row in rows]
        yield _column(_differences(last))
        for moment in ("ready", "leased", "started", "ended", "finished"):
            times = list(map(attrgetter(moment), rows))
            if all(times):  # true of most runs that have ended
                upto = [int((at - start) * per_second + 0.5) for at in times]
                column = list(map(sub, upto, last))
            else:
                upto = [int((at - start) * per_second + 0.5) if at else known for at, known in zip(times, last)]
                column = [number - known if at else -1 for at, number, known in zip(times, upto, last)]
            last = upto
            yield _column(column)

    def _parents(self) -> dict[str, int]:
        """Map the hex id of each task that submitted others to its number; the driver's is 0."""
        parents = {row.parent for row in self.recording.rows}
        return {text: int(text[:16], 16) if text and text[:16] != "f" * 16 else 0 for text in parents}

    def _takes(self) -> list[int]:
        """For each row that takes results: its distance from the last such row, how many it takes, and its distances
        from the rows that produced them.
        """
        flat: list[int] = []
        arrows = missing = before = 0
        latest = self.recording.latest
        for place, row in enumerate(self.recording.rows):
            if row.producers:
                back = [place - latest[number].place for number in row.producers if number in latest]
                if len(back) > 8 and arrows + len(back) > MOST_ARROWS // 2 or arrows + len(back) > MOST_ARROWS:
                    missing += max(0, len(back) - 1)  # keep the producer that ended last: the row waited for it
                    back = sorted(back, key=lambda distance: self.recording.rows[place - distance].finished)[-1:]
                arrows += len(back)
                flat += place - before, len(back), *back
                before = place
        if missing:
            self.notes.append(f"{count(missing, 'arrow')} from producers to consumers did not fit on this page.")
        return flat

    def _errors(self) -> dict[str, Any]:
        """The texts of errors, each once; and for each row that failed, its place and the number of its text."""
        texts: dict[tuple[str, str, str], int] = {}
        at: list[int] = []
        budget = MOST_ERROR_CHARACTERS
        for place, failure in enumerate(map(attrgetter("failure"), self.recording.rows)):
            if failure is None:
                continue
            while failure.error is None and failure.cause is not None:
                failure = failure.cause
            trace = failure.error.text if isinstance(failure.error, TaskError) else ""
            key = readable(failure.error_type, 60), lines(failure.message, 2_000), lines(trace, 4_000)
            if key not in texts:
                budget -= len(key[1]) + len(key[2])
                if budget < 0:
                    key = key[0], "(the text is left out: this page has too many)", ""
            at += place, texts.setdefault(key, len(texts))
        return {"texts": [key[:2] for key in texts], "traces": [key[2] for key in texts], "at": at}

    def _marks(self) -> list[list[Any]]:
        marks = self.recording.marks
        if len(marks) > MOST_SPANS:
            self.notes.append(f"This page shows the newest {MOST_SPANS:,} of {len(marks):,} marks.")
        return [
            [self.count(mark.at), mark.kind, readable(mark.text), self.lane_of.get(mark.worker, -1)]
            for mark in marks[-MOST_SPANS:]
        ]

    def _stores(self) -> list[dict[str, Any]]:
        """How full each store was over time, if it ever held a value."""
        return [
            {
                "node": node.name,
                "capacity": store["capacity_bytes"],
                "at": [self.count(at) for at, _, _ in curve],
                "used": [used for _, used, _ in curve],
                "files": [spilled for _, _, spilled in curve],
            }
            for node, store, curve in zip(self.recording.nodes, self.recording.stores, self.recording.curves)
            if len(curve) > 1
        ]

    def _metrics(self) -> list[dict[str, Any]]:
        """The curves of the program's metrics. Values that JSON has no number for are left out."""
        drawn = []
        for curve in self.recording.metrics[:MOST_CURVES]:
            end = self.recording.end  # the last value is that of the moment of reading, after the end of the run
            samples = [(self.count(min(at, end)), value) for at, value in curve.samples if math.isfinite(value)]
            if samples:
                drawn.append(
                    {
                        "title": readable(metric_title(curve), 120),
                        "kind": curve.kind,
                        "at": [at for at, _ in samples],
                        "values": [float(f"{value:.6g}") for _, value in samples],
                    }
                )
        return drawn

    def _logs(self) -> dict[str, Any]:
        """The last lines of attempts that printed something, by number and attempt; and the sentence for the others."""
        texts, otherwise = self.recording.logs
        budget = MOST_LOG_CHARACTERS
        kept: dict[str, str] = {}
        for (number, attempt), text in texts.items():
            clean = lines(text, 2_000)
            budget -= len(clean)
            if budget < 0:
                otherwise = f"This page shows no lines of it: it has those of {count(len(kept), 'attempt')} only."
                break
            kept[f"{number}.{attempt}"] = clean
        return {"of": kept, "otherwise": otherwise}

    def _reasons(self) -> dict[str, list[int]]:
        """Why tasks wait: each sentence once, with the numbers of its tasks."""
        said: dict[str, list[int]] = {}
        for number, text in islice(self.recording.reasons.items(), 5_000):
            said.setdefault(readable(text, 600), []).append(number)
        return said

    def _spans(self) -> list[list[Any]]:
        spans, count = self.recording.spans, self.count
        if len(spans) > MOST_SPANS:
            self.notes.append(f"This page shows the newest {MOST_SPANS:,} of {len(spans):,} spans of user code.")
        return [
            [
                readable(span.extra.get("name", span.name), 200),
                self.lane_of.get(span.worker, -1),
                count(span.t_start),
                count(span.t_end),
                span.task,
                readable(", ".join(f"{key}={value}" for key, value in span.extra.items()), 300),
            ]
            for span in spans[-MOST_SPANS:]
        ]

    def _waits(self) -> list[list[int]]:
        count = self.count
        longest = sorted(self.recording.waits, key=lambda wait: wait[2] - wait[3])[:MOST_SPANS]
        return [
            [self.lane_of.get(worker, -2) if worker is not None else -1, count(begin), count(end)]
            for worker, _, begin, end in sorted(longest, key=lambda wait: wait[2])
        ]

    def _path(self) -> list[int]:
        """The beginning of the critical path; then for each step its kind, the distance of its row from the last one's,
        and its length, or -1 for a task that the path follows to its end.
        """
        if not self.steps:
            return []
        kinds = {"task": 0, "arguments": 1, "queued": 2, "driver": 3}
        flat = [self.count(self.steps[0].start)]
        before = 0
        now = self.recording.now
        count = self.count
        for kind, row, start, end in self.steps:
            place = row.place if row is not None else before
            whole = kind == "task" and row is not None and (row.finished or now) == end
            flat += kinds[kind], place - before, -1 if whole else count(end) - count(start)
            before = place
        return flat


def metric_title(curve: Curve) -> str:
    """Name a metric with its tags for people."""
    tags = ", ".join(f"{key}={value}" for key, value in curve.tags.items())
    return f"{curve.name} ({tags})" if tags else curve.name


def _differences(numbers: list[int]) -> list[int]:
    return [*numbers[:1], *map(sub, numbers[1:], numbers)]


def _column(values: list[Any]) -> str:
    """Write a column as JSON: a list, or runs of equal values where that is shorter."""
    changes = sum(map(ne, values, islice(values, 1, None)))
    if changes * 3 < len(values):
        return '{"runs":[' + ",".join(f"{value},{len(list(same))}" for value, same in groupby(values)) + "]}"
    return repr(values).replace(" ", "")  # JSON for numbers, and twice as fast as joining their texts
