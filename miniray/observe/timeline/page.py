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
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from pkgutil import get_data
from typing import Union

from ..amounts import count
from ..explain.bottleneck import Bottleneck, bottlenecks
from ..metrics.registry import Curve
from .columns import COLOURS, Columns, metric_title
from .critical_path import Step, critical_path, path_in_words
from .gaps import Gap, gap_place, gaps
from .recording import CANCELLED, FAILED, OUTCOMES, RETRIED, RUNNING, WAITING, Recording, Row, lane_title
from .still import Still
from .text import duration, marked, readable
from .utilisation import CAUSES, Utilisation, utilisation

MOST_ROWS = 110_000  # a page shows the newest attempts
SCRIPTS = (
    "drawing.js",
    "page.js",
    "filters.js",
    "flame.js",
    "curves.js",
    "tables.js",
    "link.js",
)  # one script on the page; the first one draws


def page(recording: Recording) -> Iterator[str]:
    """Yield the page in pieces, all ASCII."""
    template, style = map(own_file, ("page.html", "page.css"))
    script = "".join(map(own_file, SCRIPTS))
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
            recording.stores,
            recording.reasons,
            recording.marks,
            recording.curves,
            recording.logs,
            recording.metrics,
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
        "DIGEST": lambda: [digest_of(script)],
        "FACTS": lambda: [_facts(shown, notes)],
        "EMPTY": lambda: [f'<p class="empty">{escape(recording.why_empty())}</p>'] if recording.empty else [],
        "ANSWERS": lambda: [] if recording.empty else _answers(used, steps, longest),
        "STILL": lambda: [] if recording.empty else Still(shown, used, steps, columns).svg(),
        "FIRST": lambda: [] if recording.empty else _first(bottlenecks(shown, steps, used)),
        "MARKS": lambda: [_legend()],
        "TABLES": lambda: [] if recording.empty else _tables(shown, steps, longest, columns),
        "DATA": lambda: columns.json(),
        "BODY": lambda: ["empty-page" if recording.empty else ""],
    }
    yield from filled(template, parts)


def filled(template: str, parts: dict[str, Callable[[], Iterable[str]]]) -> Iterator[str]:
    """Yield a page in pieces, all ASCII. Each `{{NAME}}` of the template is replaced by the part of this name."""
    for number, piece in enumerate(re.split(r"\{\{([A-Z]+)\}\}", template)):
        if number % 2:
            for text in parts[piece]():  # ASCII shows the same in whatever encoding a reader assumes
                yield text.encode("ascii", "xmlcharrefreplace").decode()
        else:
            yield piece


def digest_of(script: str) -> str:
    """The hash by which the page's policy permits its own script, and no other."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def own_file(name: str) -> str:
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
        counts.append(count(len(recording.rows), "attempt"))
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


def _first(causes: list[Bottleneck]) -> Iterator[str]:
    """The first card: the bottleneck."""
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
    yield "</section>"


def _answers(used: Utilisation, steps: list[Step], longest: list[Gap]) -> Iterator[str]:
    """The other cards."""
    cpus = max(used.capacity, default=0.0)
    mean = f"{sum(used.busy) / len(used.busy):.3g}"
    average = f"{mean} CPU{'s' * (mean != '1')}"
    yield (
        '<section class="card"><h2>How busy were the CPUs?</h2>'
        f'<p class="big">{used.share(used.busy):.0%}</p>'
        f"<p>of the time of {cpus:g} CPU{'s' * (cpus != 1)} was spent in tasks: {average} in use on average, "
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


def _swatch(kind: str, over: str = "") -> str:
    """A small square in the colour of this CSS class, and over it a texture."""
    texture = f'<rect width="14" height="14" class="{over}"/>' if over else ""
    return f'<svg class="swatch" viewBox="0 0 14 14"><rect width="14" height="14" class="{kind}"/>{texture}</svg>'


def _colour(number: int) -> str:
    """The square of a function's colour and texture."""
    return _swatch(f"f{number % COLOURS}", f"t{number // COLOURS}" if number >= COLOURS else "")


LEGEND = (
    ("<path d='M1 7H27' class='chain'/>", "critical path"),
    ("<rect width='28' height='14' class='busy'/>", "CPUs in use"),
    ("<rect width='28' height='14' class='sample o1'/>", "failed"),
    ("<rect width='28' height='14' class='sample o2'/>", "failed, then retried"),
    ("<rect width='28' height='14' class='sample o3'/>", "cancelled"),
    ("<rect width='28' height='14' class='sample o4'/>", "still running"),
    (
        "<rect width='28' height='14' class='f0'/><rect y='9' width='28' height='5' class='phase'/>",
        "fetching or storing",
    ),
    ("<rect width='28' height='14' class='f0'/><rect width='28' height='7' class='waited'/>", "in get or wait"),
    ("<rect width='28' height='14' class='stood'/>", "the driver in get or wait"),
    ("<rect width='28' height='14' class='span'/>", "span of user code"),
    ("<rect x='1' y='1' width='26' height='12' class='gap'/>", "a long gap of a worker"),
    ("<path d='M1 7H27' class='arrow'/>", "takes the result of"),
    ("<path d='M1 7H27' class='arrow submit'/>", "was submitted by"),
    ("<path d='M14 0V14' class='mark-line node'/>", "a node joined or died"),
    ("<path d='M14 0V14' class='mark-line restart'/>", "an actor was restarted"),
    ("<path d='M10 3h8l-4 8z' class='glyph spill'/>", "values went to files"),
    ("<path d='M10 11h8l-4 -8z' class='glyph restore'/>", "values were read back or lost"),
    ("<text x='10' y='12' class='lane'>\u2020</text>", "the worker has died"),
)
"""What every shape of the page means."""


def _legend() -> str:
    return "".join(
        f'<li><svg class="swatch wide" viewBox="0 0 28 14" aria-hidden="true">{shape}</svg> {escape(text)}</li>'
        for shape, text in LEGEND
    )


Cell = Union[str, tuple[str, float]]  # HTML; or HTML and the number to sort by


def html_table(caption: str, heads: list[str], rows: Iterable[Sequence[Cell]], kind: str) -> str:
    """A table whose cells are already HTML. A head that begins with "#" makes a column of numbers."""
    numeric = [head.startswith("#") for head in heads]
    head = "".join(
        f'<th scope="col"{" class=n" if n else ""}>{text.lstrip("#")}</th>' for text, n in zip(heads, numeric)
    )

    def cell_of(cell: Cell, n: bool) -> str:
        text, value = cell if isinstance(cell, tuple) else (cell, None)
        by = f' data-by="{value:.9g}"' if value is not None else ""
        return f"<td{' class=n' if n else ''}{by}>{text}</td>"

    body = "".join("<tr>" + "".join(map(cell_of, row, numeric)) + "</tr>" for row in rows)
    return (
        f'<details open class="{kind}"><summary>{caption}</summary>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{caption}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _tables(recording: Recording, steps: list[Step], longest: list[Gap], columns: Columns) -> Iterator[str]:
    """The tables of tasks that still wait, functions, gaps, and the critical path."""
    waiting = [row for row in recording.rows if row.outcome == WAITING]
    if waiting:
        yield _table_of_waiting(waiting, recording)
    yield _table_of_functions(columns)
    if longest:
        yield _table_of_gaps(longest, recording.start)
    yield _table_of_steps([step for step in steps if step.end > step.start])
    if recording.metrics:
        yield _table_of_metrics(recording.metrics)


def _table_of_functions(columns: Columns) -> str:
    def time(seconds: float) -> Cell:
        return duration(seconds), seconds

    def row(function: int) -> Sequence[Cell]:
        sums = columns.totals[function]
        number = sums.attempts
        counts = [sums.outcomes[outcome] for outcome in (FAILED, RETRIED, CANCELLED)]
        return [
            f"{_colour(columns.colour[function])} {marked(columns.functions[function])}",
            (f"{number:,}", number),
            *[(f"{some:,}" if some else "", float(some)) for some in counts],
            time(sums.total),
            time(sums.total / number),
            *[time(sums.quantile(share)) for share in (0.5, 0.95, 0.99)],
            time(sums.longest),
            time(sums.queued / number),
            time(sums.waited / number),
        ]

    order = columns.order
    more = f" (the first 100 of {len(order):,})" if len(order) > 100 else ""
    heads = [
        "Function",
        "#Attempts",
        "#Failed",
        "#Retried",
        "#Cancelled",
        "#Total time",
        "#Mean",
        "#Median",
        "#p95",
        "#p99",
        "#Longest",
        "#Mean time queued",
        "#Mean wait for arguments",
    ]
    return html_table(f"Functions{more}", heads, map(row, order[:100]), "functions sortable")


def _table_of_gaps(longest: list[Gap], start: float) -> str:
    def row(gap: Gap) -> Sequence[Cell]:
        return [
            marked(readable(gap_place(gap), 80)),
            duration(gap.start - start),
            duration(gap.end - gap.start),
            marked(readable(gap.why, 200)),
        ]

    heads = ["Worker", "#From", "#Length", "Why"]
    return html_table("Longest gaps of workers", heads, map(row, longest), "gaps")


def _table_of_metrics(curves: list[Curve]) -> str:
    """The metrics that the program recorded, over all workers."""

    def number(value: float) -> Cell:
        return f"{value:,.6g}", value

    def row(curve: Curve) -> Sequence[Cell]:
        values = [value for _, value in curve.samples]
        return [
            marked(readable(metric_title(curve), 200)),
            curve.kind,
            (f"{curve.number:,}", curve.number) if curve.kind == "histogram" else "",
            *map(number, (min(values), max(values), values[-1])),
            marked(readable(curve.description, 200)),
        ]

    more = f" (the first 100 of {len(curves):,})" if len(curves) > 100 else ""
    heads = ["Metric", "Type", "#Observations", "#Least", "#Most", "#Last", "Description"]
    return html_table(f"Metrics{more}", heads, map(row, curves[:100]), "metrics sortable")


PHASES = {
    "task": "running",
    "queued": "ready, not placed",
    "arguments": "waiting for arguments",
    "driver": "the driver",
}
"""What the table of the critical path calls each kind of step."""


def _table_of_steps(steps: list[Step]) -> str:
    """The critical path: the steps of one task name, phase and place are one row."""
    sums: dict[tuple[str, str, str], list[float]] = {}
    for step in steps:
        task = step.row
        where = lane_title(task.worker) if task is not None and task.worker is not None else ""
        key = task.spec.name if task is not None else "", PHASES[step.kind], where
        sums.setdefault(key, []).append(step.end - step.start)
    order = sorted(sums, key=lambda key: -sum(sums[key]))

    def row(key: tuple[str, str, str]) -> Sequence[Cell]:
        name, phase, where = key
        lengths = sums[key]
        total, longest = sum(lengths), max(lengths)
        return [
            marked(readable(name, 100)),
            phase,
            marked(readable(where, 80)),
            (f"{len(lengths):,}", len(lengths)),
            (duration(total), total),
            (duration(longest), longest),
        ]

    more = f" (the first 40 of {len(order):,} rows)" if len(order) > 40 else ""
    heads = ["Task", "Phase", "Where", "#Parts", "#Total", "#Longest"]
    return html_table(f"Critical path{more}", heads, map(row, order[:40]), "path sortable")


def _table_of_waiting(waiting: list[Row], recording: Recording) -> str:
    now = recording.now

    def row(task: Row) -> Sequence[Cell]:
        return [
            marked(readable(task.spec.name, 100)),
            task.hex,
            duration(now - task.created),
            marked(readable(recording.reasons.get(task.number, "a worker" if task.ready else "its arguments"), 600)),
        ]

    more = f" (the first 100 of {len(waiting):,})" if len(waiting) > 100 else ""
    heads = ["Task", "Task id", "#For", "Why"]
    return html_table(f"Not on a worker yet{more}", heads, map(row, waiting[:100]), "waiting")
