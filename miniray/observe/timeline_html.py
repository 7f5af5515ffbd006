"""`timeline(html=...)`: one self-contained page. Works from a file, without a network; without a script it is a still picture.

What is on the page is made here twice: as text, tables and a still SVG for those who have no script or print, and as columns of
numbers, from which the script (`timeline_page.js`) draws what is looked at. Each column has one entry per attempt:

    when        six columns, counted in `unit` seconds: `created` as the difference to the attempt before, then what was added
                until ready, leased, started, ended, finished; -1 where it has not come to that
    others      a list, or {"runs": [value, how many times, value, ...]} where that is shorter

A page is bounded: MOST_ROWS attempts, and budgets for names, errors and arrows; what was left out is said on it.
"""
from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from html import escape
from importlib.resources import files
from itertools import groupby, islice
from operator import attrgetter, ne, sub
from typing import Any

from ..core.records import ACTOR_CREATION_TASK, ACTOR_TASK, UNIT
from . import timeline_answers as answers
from .timeline_rows import CANCELLED, FAILED, OUTCOMES, RETRIED, RUNNING, WAITING, Recording, Row, lane_title

MOST_ROWS = 110_000             # the newest ones are shown
MOST_NAME_CHARACTERS = 500_000  # for names that are told apart; then tasks go by their function's name
MOST_ERROR_CHARACTERS = 400_000
MOST_ARROWS = 200_000
MOST_SPANS = 5_000              # each of user code's spans, and of waits
STILL_LANES = 60                # lanes of the still picture
STILL_WIDTH = 1000              # its width in its own units, without the column of names

_UNREADABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]")


def readable(text: str, limit: int = 300) -> str:
    """A text of the user's with everything spelled out that would not show or would change what stands around it: control
    characters, terminal escapes, marks that turn the direction of writing, lone surrogates. Longer ones are cut, and say so."""
    cut = text[:limit]
    clean = _UNREADABLE.sub(lambda found: _spelled(found[0]), cut)
    return clean if len(text) <= limit else f"{clean}… ({len(text):,} characters)"


def _spelled(character: str) -> str:
    number = ord(character)
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character) or (f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}")


def lines(text: str, limit: int) -> str:
    """The same for a text of several lines, which stay lines."""
    whole = "\n".join(readable(line, limit) for line in text[:limit].expandtabs().split("\n"))
    return whole if len(text) <= limit else f"{whole}… ({len(text):,} characters)"


def marked(text: str) -> str:
    """A name of the user's within a sentence of ours: whatever direction it is written in, the sentence keeps its own."""
    return f"<bdi>{escape(text)}</bdi>"


def page(recording: Recording) -> Iterator[str]:
    """The page in pieces, all ASCII."""
    own = files(__package__)
    template = (own / "timeline_page.html").read_text("utf-8")
    style = (own / "timeline_page.css").read_text("utf-8")
    script = (own / "timeline_page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shown = Recording(recording.epoch, recording.now, recording.rows[-MOST_ROWS:], recording.nodes, recording.spans,
                      recording.waits, recording.dropped, recording.record_limit)
    notes = recording.dropped_sentences()
    if len(recording.rows) > MOST_ROWS:
        notes.append(f"This page shows the newest {MOST_ROWS:,} of {len(recording.rows):,} attempts; timeline(\"t.json\") has them all.")
    used = answers.utilisation(shown)
    steps = answers.critical_path(shown)
    longest = answers.gaps(shown)
    columns = _Columns(shown, steps)
    notes += columns.notes
    parts: dict[str, Callable[[], Iterable[str]]] = {
        "STYLE": lambda: [style],
        "SCRIPT": lambda: [script],
        "DIGEST": lambda: [digest],
        "FACTS": lambda: [_facts(shown, notes)],
        "EMPTY": lambda: [f'<p class="empty">{escape(recording.why_empty())}</p>'] if recording.empty else [],
        "ANSWERS": lambda: [] if recording.empty else _answers(shown, used, steps, longest),
        "STILL": lambda: [] if recording.empty else _Still(shown, used, steps, columns).svg(),
        "TABLES": lambda: [] if recording.empty else _tables(shown, steps, longest, columns),
        "DATA": lambda: columns.json(),
        "BODY": lambda: ["empty-page" if recording.empty else ""],
    }
    for number, piece in enumerate(re.split(r"\{\{([A-Z]+)\}\}", template)):
        if number % 2:
            for text in parts[piece]():         # ASCII: whatever encoding a reader takes it for, it shows the same
                yield text.encode("ascii", "xmlcharrefreplace").decode()
        else:
            yield piece


def duration(seconds: float) -> str:
    """A length of time for people: three digits and a unit."""
    if seconds <= 0:
        return "0"
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6)):
        if seconds >= size * (100 if unit in ("h", "min") else 0.9995) or unit == "\u00b5s":
            break
    number = seconds / size
    return f"{number:,.0f} {unit}" if number >= 999.5 else f"{number:.3g} {unit}"


def _facts(recording: Recording, notes: list[str]) -> str:
    """The line under the title, and what is missing."""
    outcomes = Counter(row.outcome for row in recording.rows)
    tasks = len(recording.latest)
    said = [f"{tasks:,} task{'s' * (tasks != 1)}"]
    if len(recording.rows) != tasks:
        said.append(f"{len(recording.rows):,} attempts")
    said += [f"{outcomes[outcome]:,} {OUTCOMES[outcome]}" for outcome in (FAILED, RETRIED, CANCELLED, RUNNING, WAITING)
             if outcomes[outcome]]
    said.append(f"{duration(recording.end - recording.start)}")
    said.append(f"{len(recording.nodes)} node{'s' * (len(recording.nodes) != 1)}")
    said.append(f"{len(recording.lanes)} worker{'s' * (len(recording.lanes) != 1)}")
    begun = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(recording.epoch + recording.start))
    together = escape(" \u00b7 ".join(said))
    text = f'<p class="facts">{together}<br>began {begun}</p>'
    if notes:
        text += '<ul class="notes">' + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>"
    return text


def _answers(recording: Recording, used: answers.Utilisation, steps: list[answers.Step],
             longest: list[answers.Gap]) -> Iterator[str]:
    """The three cards on top."""
    cpus = max(used.capacity, default=0.0)
    mean = sum(used.busy) / len(used.busy)
    yield (f'<section class="card"><h2>How busy were the CPUs?</h2><p class="big">{used.share(used.busy):.0%}</p>'
           f"<p>of the time of {cpus:g} CPU{'s' * (cpus != 1)} was used: {mean:.3g} at a time on average, {max(used.busy):.3g} at most.")
    if max(used.busy, default=0.0) > cpus + 0.01:
        yield " More ran at times than there are CPUs: actors that hold none count as one while a call runs."
    yield "</p></section>"
    yield '<section class="card"><h2>Where are the gaps?</h2>'
    causes = sorted(((used.share(idle), cause) for cause, idle in enumerate(used.idle)), reverse=True)
    causes = [(share, cause) for share, cause in causes if share >= 0.005]
    if causes:
        yield '<p>CPU time stood idle because</p><ul class="causes">'
        for share, cause in causes:
            yield f'<li><svg class="swatch" viewBox="0 0 14 14"><rect width="14" height="14" class="idle{cause}"/></svg> '
            yield f"<b>{share:.0%}</b> {escape(answers.CAUSES[cause])}</li>"
        yield "</ul>"
    else:
        yield "<p>There are none worth naming: every CPU was busy.</p>"
    if longest:
        gap = longest[0]
        yield (f"<p>The longest gap of a worker: <b>{escape(duration(gap.end - gap.start))}</b>, "
               f"{marked(readable(answers.gap_place(gap), 80))}: {marked(readable(gap.why, 200))}.</p>")
    yield '</section><section class="card"><h2>Which tasks set the total time?</h2>'
    yield f"<p>{marked(readable(answers.path_in_words(steps), 600))}</p></section>"


# ---------------------------------------------------------------------------------------------------- tables


def _table(caption: str, heads: list[str], rows: Iterable[list[str]], kind: str) -> str:
    """A table; cells are HTML already. Numbers stand in the columns whose head begins with "#"."""
    numeric = [head.startswith("#") for head in heads]
    head = "".join(f'<th scope="col"{" class=n" if n else ""}>{text.lstrip("#")}</th>' for text, n in zip(heads, numeric))
    body = "".join("<tr>" + "".join(f"<td{' class=n' if n else ''}>{cell}</td>" for cell, n in zip(row, numeric)) + "</tr>"
                   for row in rows)
    return f'<details open class="{kind}"><summary>{caption}</summary><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>'


def _tables(recording: Recording, steps: list[answers.Step], longest: list[answers.Gap], columns: _Columns) -> Iterator[str]:
    """Functions, gaps, the critical path, and what still waits."""
    totals, order = columns.totals, columns.order

    def functions() -> Iterator[list[str]]:
        for function in order[:100]:
            sums = totals[function]
            number = sums.attempts
            yield [f'<svg class="swatch" viewBox="0 0 14 14"><rect width="14" height="14" class="f{columns.colour[function]}"/></svg>'
                   f" {marked(columns.functions[function])}", f"{number:,}", f"{sums.bad:,}" if sums.bad else "",
                   duration(sums.total), duration(sums.total / number), duration(sums.longest), duration(sums.queued / number),
                   duration(sums.waited / number)]

    more = f" (the first 100 of {len(order):,})" if len(order) > 100 else ""
    yield _table(f"Functions{more}", ["Function", "#Attempts", "#Not finished well", "#Total time", "#Mean", "#Longest", "#Mean queued",
                                      "#Mean wait for arguments"], functions(), "functions")
    yield _table("Longest gaps of workers", ["Worker", "#From", "#Length", "What it waited for"], (
        [marked(readable(answers.gap_place(gap), 80)), duration(gap.start - recording.start), duration(gap.end - gap.start),
         marked(readable(gap.why, 200))] for gap in longest), "gaps")
    kinds = {"task": "ran", "queued": "was ready, not placed", "arguments": "waited for arguments", "driver": "the driver"}
    parts = [step for step in steps if step.end - step.start > 0]
    kept = sorted(nlargest(40, parts, key=lambda step: step.end - step.start), key=lambda step: step.start)
    more = f" (the 40 longest of {len(parts):,} parts)" if len(kept) < len(parts) else ""
    yield _table(f"Critical path{more}", ["Task", "What happened", "Where", "#From", "#Length"], (
        [marked(readable(step.row.spec.name, 100)) if step.row is not None else "", kinds[step.kind],
         marked(readable(lane_title(step.row.worker), 80)) if step.row is not None and step.row.worker is not None else "",
         duration(step.start - recording.start), duration(step.end - step.start)] for step in kept), "path")
    unplaced = [row for row in recording.rows if row.outcome == WAITING]
    if unplaced:
        more = f" (the first 100 of {len(unplaced):,})" if len(unplaced) > 100 else ""
        yield _table(f"Not on a worker yet{more}", ["Task", "Task id", "#For", "What it waits for"], (
            [marked(readable(row.spec.name, 100)), row.hex, duration(recording.now - row.created),
             "a place on a worker" if row.ready else "its arguments"] for row in unplaced[:100]), "waiting")


# ---------------------------------------------------------------------------------------------------- the data


class _Totals:
    """Sums over the attempts of a function; times in seconds."""

    __slots__ = ("attempts", "bad", "total", "longest", "queued", "waited")

    def __init__(self) -> None:
        self.attempts = self.bad = 0
        self.total = self.longest = self.queued = self.waited = 0.0

    def add(self, rows: list[Row], now: float) -> None:
        """Count some attempts."""
        self.attempts += len(rows)
        self.bad += sum(row.outcome in (FAILED, RETRIED, CANCELLED) for row in rows)
        placed = [row for row in rows if row.leased]
        lengths = [(row.finished or now) - row.leased for row in placed]
        self.total += sum(lengths)
        self.longest = max(self.longest, max(lengths, default=0.0))
        self.queued += sum([row.leased - row.ready for row in placed])
        self.waited += sum([row.ready - row.created for row in placed])


class _Columns:
    """The recording as columns of numbers, and tables of the texts that they point to."""

    def __init__(self, recording: Recording, steps: list[answers.Step]):
        self.recording = recording
        self.notes: list[str] = []
        self.lane_of = {worker: number for number, worker in enumerate(recording.lanes)}
        self.lane_of[None] = -1                                             # type: ignore[index]
        self.functions: list[str] = []
        self.names: list[str] = []
        self.function_of_name: list[int] = []
        self.kind_of_name: list[int] = []
        self.name_of: dict[Any, int] = {}
        self._name_all()
        self.totals = [_Totals() for _ in self.functions]
        for spec, rows in recording.by_spec.items():
            self.totals[self.function_of_name[self.name_of[spec]]].add(rows, recording.now)
        self.order = sorted(range(len(self.functions)), key=lambda function: -self.totals[function].total)
        self.colour = {function: place % 12 for place, function in enumerate(self.order)}
        self.row_number = {row: place for place, row in enumerate(recording.rows)}
        self.steps = steps
        # Nine digits tell the times of a run apart as well as any screen can, and keep a page of a long run small.
        self.unit = max(1e-7, 10.0 ** math.ceil(math.log10(max(recording.end - recording.start, 1e-7) / 1e9)))
        self.per_second = round(1 / self.unit)
        self.takes, self.errors, self.spans = self._takes(), self._errors(), self._spans()      # each may leave a note

    def count(self, at: float) -> int:
        """A time in units from the beginning."""
        return int((at - self.recording.start) * self.per_second + 0.5)

    def _name_all(self) -> None:
        """Number the functions and the names of tasks; when names are too many, tasks go by their function's."""
        functions: dict[str, int] = {}
        names: dict[tuple[str, int, int], int] = {}
        budget, left_out = MOST_NAME_CHARACTERS, 0
        for spec in self.recording.by_spec:
            text = readable(f"{spec.module}.{spec.func_name}" if spec.module and spec.kind not in (ACTOR_TASK, ACTOR_CREATION_TASK)
                            else spec.func_name)
            if text not in functions and len(functions) >= 2_000:
                text = "(other functions)"
            function = functions.setdefault(text, len(functions))
            name = readable(spec.name)
            kind = (ACTOR_TASK, ACTOR_CREATION_TASK).index(spec.kind) + 1 if spec.kind in (ACTOR_TASK, ACTOR_CREATION_TASK) else 0
            if (name, function, kind) not in names:
                budget -= len(name)
                if budget < 0:
                    left_out += 1
                    name = text
            self.name_of[spec] = names.setdefault((name, function, kind), len(names))
        self.functions = list(functions)
        self.names = [name for name, _, _ in names]
        self.function_of_name = [function for _, function, _ in names]
        self.kind_of_name = [kind for _, _, kind in names]
        if left_out:
            self.notes.append(f"{left_out:,} more names of tasks were too many for this page: these tasks go by their function's name.")

    def json(self) -> Iterator[str]:
        """The data as ASCII JSON that is safe inside a script element."""
        for piece in self._pieces():
            yield piece.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

    def _pieces(self) -> Iterator[str]:
        recording, rows, count = self.recording, self.recording.rows, self.count
        yield "{"
        for key, value in {
            "unit": self.unit, "epoch_ms": (recording.epoch + recording.start) * 1e3, "end": count(recording.end), "now": count(recording.now),
            "rows": len(rows), "functions": self.functions, "colours": [self.colour[n] for n in range(len(self.functions))],
            "names": self.names, "function": self.function_of_name, "kind": self.kind_of_name, "outcomes": OUTCOMES,
            "causes": answers.CAUSES,
            "nodes": [{"name": node.name, "id": node.hex, "head": node.is_head, "alive": node.alive,
                       "cpus": node.total.get("CPU", 0) / UNIT, "from": count(node.t_started),
                       "to": count(node.t_died) if node.t_died else None, "number": node.number} for node in recording.nodes],
            "lanes": [{"title": readable(lane_title(worker), 120), "id": worker.hex, "node": worker.node.number,
                       "actor": worker.actor.number if worker.actor is not None else 0,
                       "shared": worker.actor is not None and not worker.actor.in_order,
                       "died": count(worker.t_died) if worker.t_died else None} for worker in recording.lanes],
            "spans": self.spans, "waits": self._waits(), "errors": self.errors,
        }.items():
            yield f'"{key}":{json.dumps(value, separators=(",", ":"))},'
        yield f'"when":[{",".join(self._when(recording.start, self.per_second))}],'
        name_of, lane_of = self.name_of, self.lane_of
        cpus_of = recording.cpus_of
        for key, column in {
            "name": [name_of[row.spec] for row in rows], "lane": [lane_of.get(row.worker, -1) for row in rows],
            "outcome": [row.outcome for row in rows], "attempt": [row.attempt for row in rows],
            "actor": [row.actor for row in rows], "number": _differences([row.number for row in rows]),
            "parent": self._parents(), "cpus": [cpus_of(row) for row in rows],
        }.items():
            yield f'"{key}":{_column(column)},'
        yield f'"takes":{json.dumps(self.takes, separators=(",", ":"))},'
        yield f'"path":{json.dumps(self._path(), separators=(",", ":"))}}}'

    def _when(self, start: float, per_second: int) -> Iterator[str]:
        """The six columns of times."""
        rows = self.recording.rows
        last = [int((row.created - start) * per_second + 0.5) for row in rows]
        yield _column(_differences(last))
        for moment in ("ready", "leased", "started", "ended", "finished"):
            times = list(map(attrgetter(moment), rows))
            if all(times):                              # as in most runs that are over
                upto = [int((at - start) * per_second + 0.5) for at in times]
                column = list(map(sub, upto, last))
            else:
                upto = [int((at - start) * per_second + 0.5) if at else known for at, known in zip(times, last)]
                column = [number - known if at else -1 for at, number, known in zip(times, upto, last)]
            last = upto
            yield _column(column)

    def _parents(self) -> list[int]:
        """Of each row the number of the task that submitted it, 0 for the driver."""
        numbers: dict[str, int] = {}
        found = []
        for row in self.recording.rows:
            parent = row.parent
            number = numbers.get(parent)
            if number is None:
                digits = parent[:16]
                number = numbers[parent] = int(digits, 16) if digits and digits != "f" * 16 else 0
            found.append(number)
        return found

    def _takes(self) -> list[int]:
        """For each row that takes results: the difference to the one before, how many, and the differences to their rows."""
        flat: list[int] = []
        arrows = missing = before = 0
        latest, where = self.recording.latest, self.row_number
        for place, row in enumerate(self.recording.rows):
            if row.producers:
                made = [place - where[latest[number]] for number in row.producers if number in latest]
                if len(made) > 8 and arrows + len(made) > MOST_ARROWS // 2 or arrows + len(made) > MOST_ARROWS:
                    missing += max(0, len(made) - 1)        # the last to end is what it waited for: that one is kept
                    made = sorted(made, key=lambda back: self.recording.rows[place - back].finished)[-1:]
                arrows += len(made)
                flat += place - before, len(made), *made
                before = place
        if missing:
            self.notes.append(f"{missing:,} arrows from producers to consumers were too many for this page.")
        return flat

    def _errors(self) -> dict[str, Any]:
        """Texts of errors, each once; and for the rows that failed which it is."""
        texts: dict[tuple[str, str], int] = {}
        at: list[int] = []
        budget = MOST_ERROR_CHARACTERS
        for place, failure in enumerate(map(attrgetter("failure"), self.recording.rows)):
            if failure is None:
                continue
            while failure.error is None and failure.cause is not None:
                failure = failure.cause
            key = readable(failure.error_type, 60), lines(failure.message, 2_000)
            if key not in texts:
                budget -= len(key[1])
                if budget < 0:
                    key = key[0], "(its text is left out of this page, which has too many)"
            at += place, texts.setdefault(key, len(texts))
        return {"texts": list(texts), "at": at}

    def _spans(self) -> list[list[Any]]:
        spans, count = self.recording.spans, self.count
        if len(spans) > MOST_SPANS:
            self.notes.append(f"This page shows the newest {MOST_SPANS:,} of {len(spans):,} spans of user code.")
        return [[readable(span.extra.get("name", span.name), 200), self.lane_of.get(span.worker, -1), count(span.t_start),
                 count(span.t_end), span.task, readable(", ".join(f"{key}={value}" for key, value in span.extra.items()), 300)]
                for span in spans[-MOST_SPANS:]]

    def _waits(self) -> list[list[int]]:
        count = self.count
        longest = sorted(self.recording.waits, key=lambda wait: wait[2] - wait[3])[:MOST_SPANS]
        return [[self.lane_of.get(worker, -2) if worker is not None else -1, count(begin), count(end)]
                for worker, _, begin, end in sorted(longest, key=lambda wait: wait[2])]

    def _path(self) -> list[int]:
        """Where the critical path begins; then of each step its kind, its row as the difference to the one before, and its
        length: -1 for a task that it goes through to the end. Steps follow each other without a gap."""
        if not self.steps:
            return []
        kinds = {"task": 0, "arguments": 1, "queued": 2, "driver": 3}
        flat = [self.count(self.steps[0].start)]
        before = 0
        now = self.recording.now
        row_number, count = self.row_number, self.count
        for kind, row, start, end in self.steps:
            place = row_number[row] if row is not None else before
            whole = kind == "task" and row is not None and (row.finished or now) == end
            flat += kinds[kind], place - before, -1 if whole else count(end) - count(start)
            before = place
        return flat


def _differences(numbers: list[int]) -> list[int]:
    return [*numbers[:1], *map(sub, numbers[1:], numbers)]


def _column(values: list[Any]) -> str:
    """A column as JSON: a list, or runs of equal values where that is shorter."""
    changes = sum(map(ne, values, islice(values, 1, None)))
    if changes * 3 < len(values):
        return '{"runs":[' + ",".join(f"{value},{len(list(same))}" for value, same in groupby(values)) + "]}"
    return f"[{','.join(map(str, values))}]"


# ---------------------------------------------------------------------------------------------------- the still picture


def ticks(length: float, most: int = 10) -> list[float]:
    """Round numbers from 0 to `length`, at most so many."""
    step = 10.0 ** math.floor(math.log10(max(length, 1e-9) / most))
    for factor in (1, 2, 5, 10):
        if length / (step * factor) <= most:
            return [step * factor * number for number in range(int(length / (step * factor) + 1e-9) + 1)]
    return [0.0]


class _Still:
    """The whole run as one SVG that needs no script: CPUs, critical path, lanes. What is narrower than a unit is one unit wide."""

    LEFT, ROW, CPUS = 150, 16, 70

    def __init__(self, recording: Recording, used: answers.Utilisation, steps: list[answers.Step], columns: _Columns):
        self.recording, self.used, self.steps, self.columns = recording, used, steps, columns
        self.length = max(recording.end - recording.start, 1e-6)
        self.scale = STILL_WIDTH / self.length
        self.lanes = recording.lanes[:STILL_LANES]
        self.top = self.CPUS + 50

    def x(self, at: float) -> int:
        """Where a time stands, without the column of names."""
        return int((at - self.recording.start) * self.scale)

    def svg(self) -> Iterator[str]:
        """The SVG element."""
        height = self.top + 22
        y_of: dict[Any, int] = {}
        node, heads = None, []
        for worker in self.lanes:
            if worker.node is not node:
                node = worker.node
                heads.append((node, height))
                height += 18
            y_of[worker] = height
            height += self.ROW
        hidden = len(self.recording.lanes) - len(self.lanes)
        yield (f'<svg class="still" viewBox="0 0 {self.LEFT + STILL_WIDTH + 10} {height + 26}" role="img" '
               'aria-label="Timeline of all workers: CPUs in use over time, the critical path, and a lane for each worker">')
        for at in ticks(self.length):
            x = self.LEFT + self.x(self.recording.start + at)
            yield f'<path class="grid" d="M{x} 14V{height}"/><text class="axis" x="{x + 3}" y="11">{escape(duration(at) if at else "0")}</text>'
        yield from self._cpus()
        yield f'<text class="lane" x="4" y="{self.top + 12}">critical path</text>'
        yield from self._path(y_of)
        for node, y in heads:
            yield f'<text class="node" x="4" y="{y + 13}">node {escape(node.name)}{" (head)" if node.is_head else ""}</text>'
        for worker, y in y_of.items():
            yield f'<text class="lane" x="12" y="{y + 12}">{escape(readable(lane_title(worker), 24))}</text>'
            yield f'<path class="base" d="M{self.LEFT} {y + self.ROW - 1}h{STILL_WIDTH}"/>'
        yield from self._attempts(y_of)
        yield from self._chain(y_of)
        if hidden:
            yield f'<text class="lane" x="12" y="{height + 14}">and {hidden:,} more workers</text>'
        yield "</svg>"

    def _cpus(self) -> Iterator[str]:
        """The area of busy CPUs, what the idle ones waited for above it, and the line of all CPUs."""
        used, base = self.used, 20 + self.CPUS
        most = max([*used.capacity, *used.busy, 1e-9])
        width = STILL_WIDTH / len(used.busy)
        yield f'<text class="lane" x="4" y="32">CPUs in use</text><text class="lane" x="4" y="46">of {max(used.capacity, default=0):g}</text>'
        below = [0.0] * len(used.busy)
        for name, layer in (("busy", used.busy), *((f"idle{cause}", idle) for cause, idle in enumerate(used.idle))):
            above = [low + part for low, part in zip(below, layer)]
            if sum(layer) > 0:
                upper = "".join(f"L{self.LEFT + n * width:.0f} {base - value / most * self.CPUS:.1f}h{width:.1f}" for n, value in enumerate(above))
                lower = "".join(f"L{self.LEFT + (n + 1) * width:.0f} {base - below[n] / most * self.CPUS:.1f}h-{width:.1f}"
                                for n in reversed(range(len(below))))
                yield f'<path class="{name}" d="M{upper[1:]}{lower}z"/>'
            below = above
        line = "".join(f"L{self.LEFT + n * width:.0f} {base - value / most * self.CPUS:.1f}h{width:.1f}" for n, value in enumerate(used.capacity))
        yield f'<path class="capacity" d="M{line[1:]}"/>'

    def _path(self, y_of: dict[Any, int]) -> Iterator[str]:
        """The critical path as one lane: it has no gap."""
        shapes: dict[str, list[str]] = {}
        drawn = 0
        begin, scale = self.recording.start, self.scale
        for step in self.steps:
            right = int((step.end - begin) * scale)
            if right > drawn or not drawn:
                kind = f"f{self._colour(step.row)}" if step.kind == "task" and step.row is not None else f"step-{step.kind}"
                left = max(self.x(step.start), drawn)
                right = max(right, left + 1)
                shapes.setdefault(kind, []).append(f"M{self.LEFT + left} {self.top}h{right - left}v14h-{right - left}z")
                drawn = right
        for kind, drawn_shapes in shapes.items():
            yield f'<path class="{kind}" d="{"".join(drawn_shapes)}"/>'

    def _colour(self, row: Row) -> int:
        columns = self.columns
        return columns.colour[columns.function_of_name[columns.name_of[row.spec]]]

    def _attempts(self, y_of: dict[Any, int]) -> Iterator[str]:
        """A bar for each attempt; where several share a unit of width the first is drawn, and every one that did not go well
        is marked."""
        shapes: dict[str, list[str]] = {}
        now, height = self.recording.now, self.ROW - 3
        colours: dict[Any, str] = {}
        start, scale = self.recording.start, self.scale
        for worker, y in y_of.items():
            drawn = 0
            for row in self.recording.by_worker[worker]:
                right = int(((row.finished or now) - start) * scale)
                if right < drawn and not row.outcome:
                    continue
                left = int((row.leased - start) * scale)
                right = max(right, left + 1)
                if right > drawn:
                    left, drawn = max(left, drawn), right
                    colour = colours.get(row.spec)
                    if colour is None:
                        colour = colours[row.spec] = f"f{self._colour(row)}"
                    shapes.setdefault(colour, []).append(f"M{self.LEFT + left} {y + 1}h{right - left}v{height}h-{right - left}z")
                if row.outcome:
                    wide = max(right - left, 2)
                    shapes.setdefault(f"mark o{row.outcome}", []).append(f"M{self.LEFT + left} {y + 1}h{wide}v{height}h-{wide}z")
        for kind, listed in sorted(shapes.items()):
            unique = dict.fromkeys(listed)
            yield f'<path class="{kind}" d="{"".join(unique)}"/>'

    def _chain(self, y_of: dict[Any, int]) -> Iterator[str]:
        """The critical path as a line through the lanes."""
        points: list[tuple[int, int]] = []
        begin, scale = self.recording.start, self.scale
        last = None
        for kind, row, start, end in self.steps:
            y = y_of.get(row.worker) if kind == "task" and row is not None else None
            if y is not None:
                for point in (int((start - begin) * scale), y), (int((end - begin) * scale), y):
                    if point != last:
                        points.append(point)
                        last = point
        middle = self.ROW // 2
        if points and len(points) <= STILL_WIDTH:
            line = "L".join(f"{self.LEFT + x} {y + middle}" for x, y in points)
            yield f'<path class="chain" d="M{line}"/>'
        elif points:                                # too many turns to be told apart: underline what they cover
            covered = dict.fromkeys(points)
            yield f'<path class="underline" d="{"".join(f"M{self.LEFT + x} {y + self.ROW - 3}h1v2h-1z" for x, y in covered)}"/>'
