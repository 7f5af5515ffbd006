"""`timeline(html=...)`: one self-contained page, which needs no network.

The page holds the run twice. Text, tables and a still SVG (`still`) serve readers without a script, and print. Columns
of numbers (`columns`) serve the script (`page.js`), which draws the part of the run that the reader looks at.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from html import escape
from pkgutil import get_data

from ..explain.bottleneck import Bottleneck, bottlenecks
from .columns import Columns
from .critical_path import Step, critical_path, path_in_words
from .gaps import Gap, gap_place, gaps
from .recording import CANCELLED, FAILED, OUTCOMES, RETRIED, RUNNING, WAITING, Recording, Row, lane_title
from .still import Still
from .text import duration, marked, readable
from .utilisation import CAUSES, Utilisation, utilisation

MOST_ROWS = 110_000  # a page shows the newest attempts


def page(recording: Recording) -> Iterator[str]:
    """Yield the page in pieces, all ASCII."""
    template, style, script = map(_own_file, ("page.html", "page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shown = recording
    if len(recording.rows) > MOST_ROWS:
        shown = Recording(
            recording.epoch,
            recording.now,
            recording.rows[-MOST_ROWS:],
            recording.nodes,
            recording.spans,
            recording.waits,
            recording.dropped,
            recording.record_limit,
        )
    notes = recording.dropped_sentences()
    if len(recording.rows) > MOST_ROWS:
        notes.append(
            f"This page shows the newest {MOST_ROWS:,} of {len(recording.rows):,} attempts; "
            'timeline("t.json") has them all.'
        )
    used = utilisation(shown)
    steps = critical_path(shown)
    longest = gaps(shown)
    columns = Columns(shown, steps, longest)
    notes += columns.notes
    parts: dict[str, Callable[[], Iterable[str]]] = {
        "STYLE": lambda: [style],
        "SCRIPT": lambda: [script],
        "DIGEST": lambda: [digest],
        "FACTS": lambda: [_facts(shown, notes)],
        "EMPTY": lambda: [f'<p class="empty">{escape(recording.why_empty())}</p>'] if recording.empty else [],
        "ANSWERS": lambda: [] if recording.empty else _answers(used, steps, longest, bottlenecks(shown, steps, used)),
        "STILL": lambda: [] if recording.empty else Still(shown, used, steps, columns).svg(),
        "TABLES": lambda: [] if recording.empty else _tables(shown, steps, longest, columns),
        "DATA": lambda: columns.json(),
        "BODY": lambda: ["empty-page" if recording.empty else ""],
    }
    for number, piece in enumerate(re.split(r"\{\{([A-Z]+)\}\}", template)):
        if number % 2:
            for text in parts[piece]():  # ASCII shows the same in whatever encoding a reader assumes
                yield text.encode("ascii", "xmlcharrefreplace").decode()
        else:
            yield piece


def _own_file(name: str) -> str:
    """Read a file from this module's folder, which may be inside an archive."""
    data = get_data(__package__, name)
    assert data is not None, f"{name} was not installed"
    return data.decode()


def _facts(recording: Recording, notes: list[str]) -> str:
    """The line under the title, and the notes on what is missing."""
    outcomes = Counter([row.outcome for row in recording.rows])
    tasks = len(recording.latest)
    counts = [f"{tasks:,} task{'s' * (tasks != 1)}"] if tasks else []
    if len(recording.rows) != tasks:
        counts.append(f"{len(recording.rows):,} attempts")
    counts += [
        f"{outcomes[outcome]:,} {OUTCOMES[outcome]}"
        for outcome in (FAILED, RETRIED, CANCELLED, RUNNING, WAITING)
        if outcomes[outcome]
    ]
    if not recording.empty:
        counts.append(duration(recording.end - recording.start))
    counts.append(f"{len(recording.nodes)} node{'s' * (len(recording.nodes) != 1)}")
    counts.append(f"{len(recording.lanes)} worker{'s' * (len(recording.lanes) != 1)}")
    began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(recording.epoch + recording.start))
    line = escape(" \u00b7 ".join(counts))
    text = f'<p class="facts">{line}<br>began {began}</p>'
    if notes:
        text += '<ul class="notes">' + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>"
    return text


def _answers(used: Utilisation, steps: list[Step], longest: list[Gap], causes: list[Bottleneck]) -> Iterator[str]:
    """The cards at the top."""
    yield '<section class="card first"><h2>What determined the time of the run?</h2>'
    if causes:
        yield f"<p><b>{marked(readable(causes[0].sentence, 500))}</b> {marked(readable(causes[0].advice, 400))}</p>"
    if len(causes) > 1:
        yield '<ul class="causes">'
        for other in causes[1:4]:
            yield f"<li>{marked(readable(other.sentence, 400))}</li>"
        yield "</ul>"
    if not causes:
        yield "<p>Nothing has run yet.</p>"
    cpus = max(used.capacity, default=0.0)
    mean = sum(used.busy) / len(used.busy)
    yield (
        '</section><section class="card"><h2>How busy were the CPUs?</h2>'
        f'<p class="big">{used.share(used.busy):.0%}</p>'
        f"<p>of the time of {cpus:g} CPU{'s' * (cpus != 1)} was spent in tasks: {mean:.3g} CPUs in use on average, "
        f"{max(used.busy):.3g} at most."
    )
    if max(used.running, default=0.0) > cpus + 0.01:
        yield f" Calls of actors that hold no CPU ran beside the tasks: up to {max(used.running):.3g} ran at once."
    yield "</p></section>"
    yield '<section class="card"><h2>Where are the gaps?</h2>'
    shares = sorted(((used.share(idle), cause) for cause, idle in enumerate(used.idle)), reverse=True)
    shares = [(share, cause) for share, cause in shares if share >= 0.005]
    if shares:
        yield '<p>CPUs were idle because</p><ul class="causes">'
        for share, cause in shares:
            yield f"<li>{_swatch(f'idle{cause}')} <b>{share:.0%}</b> {escape(CAUSES[cause])}</li>"
        yield "</ul>"
    else:
        yield "<p>There are hardly any: the CPUs were busy.</p>"
    if longest:
        gap = longest[0]
        yield (
            f"<p>The longest gap of a worker: <b>{escape(duration(gap.end - gap.start))}</b>, "
            f"{marked(readable(gap_place(gap), 80))}: {marked(readable(gap.why, 200))}.</p>"
        )
    yield '</section><section class="card"><h2>Which tasks determined the total time?</h2>'
    yield f"<p>{marked(readable(path_in_words(steps), 600))}</p></section>"


def _swatch(kind: str) -> str:
    """A small square in the colour of this CSS class."""
    return f'<svg class="swatch" viewBox="0 0 14 14"><rect width="14" height="14" class="{kind}"/></svg>'


def _table(caption: str, heads: list[str], rows: Iterable[list[str]], kind: str) -> str:
    """A table whose cells are already HTML. A head that begins with "#" makes a column of numbers."""
    numeric = [head.startswith("#") for head in heads]
    head = "".join(
        f'<th scope="col"{" class=n" if n else ""}>{text.lstrip("#")}</th>' for text, n in zip(heads, numeric)
    )
    body = "".join(
        "<tr>" + "".join(f"<td{' class=n' if n else ''}>{cell}</td>" for cell, n in zip(row, numeric)) + "</tr>"
        for row in rows
    )
    return (
        f'<details open class="{kind}"><summary>{caption}</summary><div class="scroll"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _tables(recording: Recording, steps: list[Step], longest: list[Gap], columns: Columns) -> Iterator[str]:
    """The tables of functions, gaps, the critical path, and tasks that still wait."""
    yield _table_of_functions(columns)
    yield _table_of_gaps(longest, recording.start)
    yield _table_of_steps([step for step in steps if step.end > step.start], recording.start)
    waiting = [row for row in recording.rows if row.outcome == WAITING]
    if waiting:
        yield _table_of_waiting(waiting, recording.now)


def _table_of_functions(columns: Columns) -> str:
    def row(function: int) -> list[str]:
        sums = columns.totals[function]
        number = sums.attempts
        return [
            f"{_swatch(f'f{columns.colour[function]}')} {marked(columns.functions[function])}",
            f"{number:,}",
            f"{sums.bad:,}" if sums.bad else "",
            duration(sums.total),
            duration(sums.total / number),
            duration(sums.longest),
            duration(sums.queued / number),
            duration(sums.waited / number),
        ]

    order = columns.order
    more = f" (the first 100 of {len(order):,})" if len(order) > 100 else ""
    heads = [
        "Function",
        "#Attempts",
        "#Failed or cancelled",
        "#Total time",
        "#Mean",
        "#Longest",
        "#Mean time queued",
        "#Mean wait for arguments",
    ]
    return _table(f"Functions{more}", heads, map(row, order[:100]), "functions")


def _table_of_gaps(longest: list[Gap], start: float) -> str:
    def row(gap: Gap) -> list[str]:
        return [
            marked(readable(gap_place(gap), 80)),
            duration(gap.start - start),
            duration(gap.end - gap.start),
            marked(readable(gap.why, 200)),
        ]

    heads = ["Worker", "#From", "#Length", "Why"]
    return _table("Longest gaps of workers", heads, map(row, longest), "gaps")


PHASES = {
    "task": "running",
    "queued": "ready, not placed",
    "arguments": "waiting for arguments",
    "driver": "the driver",
}
"""What the table of the critical path calls each kind of step."""


def _table_of_steps(steps: list[Step], start: float) -> str:
    """The critical path."""

    def row(step: Step) -> list[str]:
        task = step.row
        return [
            marked(readable(task.spec.name, 100)) if task is not None else "",
            PHASES[step.kind],
            marked(readable(lane_title(task.worker), 80)) if task is not None and task.worker is not None else "",
            duration(step.start - start),
            duration(step.end - step.start),
        ]

    kept = sorted(nlargest(40, steps, key=lambda step: step.end - step.start), key=lambda step: step.start)
    more = f" (the 40 longest of {len(steps):,} parts)" if len(kept) < len(steps) else ""
    heads = ["Task", "Phase", "Where", "#From", "#Length"]
    return _table(f"Critical path{more}", heads, map(row, kept), "path")


def _table_of_waiting(waiting: list[Row], now: float) -> str:
    def row(task: Row) -> list[str]:
        return [
            marked(readable(task.spec.name, 100)),
            task.hex,
            duration(now - task.created),
            "a worker" if task.ready else "its arguments",
        ]

    more = f" (the first 100 of {len(waiting):,})" if len(waiting) > 100 else ""
    heads = ["Task", "Task id", "#For", "Waits for"]
    return _table(f"Not on a worker yet{more}", heads, map(row, waiting[:100]), "waiting")
