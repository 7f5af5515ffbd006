"""A profile as one self-contained page, which needs no network: bars that can be searched and zoomed, and tables.

It has the style, the drawing and the sortable tables of the timeline's page (`observe.timeline`). Without a script the
tables show the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from pkgutil import get_data
from typing import Any

from ...observe.amounts import count
from ...observe.timeline.page import Cell, digest_of, filled, html_table, own_file
from ...observe.timeline.text import duration, marked, readable
from .samples import Place, Samples, Stack

MOST_STACKS = 20_000  # a page shows the heaviest
MOST_ROWS = 100  # of a table
LONGEST_NAME = 200
LINES = 3  # the hottest lines of a function that are told


def page(profile: Samples) -> Iterator[str]:
    """Yield the page in pieces, all ASCII."""
    script = own_file("drawing.js") + _file("profile.js") + own_file("tables.js")
    stacks = profile.stacks[:MOST_STACKS]
    notes = list(profile.notes)
    if len(profile.stacks) > len(stacks):
        notes.append(f"This page shows the heaviest {len(stacks):,} of {len(profile.stacks):,} stacks.")
    parts: dict[str, Callable[[], Iterable[str]]] = {
        "STYLE": lambda: [own_file("page.css"), _file("profile.css")],
        "SCRIPT": lambda: [script],
        "DIGEST": lambda: [digest_of(script)],
        "FACTS": lambda: [_facts(profile, notes)],
        "EMPTY": lambda: [] if stacks else ['<p class="empty">The profile has seen no code of the program.</p>'],
        "TABLES": lambda: _tables(profile) if stacks else [],
        "DATA": lambda: [_data(stacks)],
    }
    yield from filled(_file("profile.html"), parts)


def _file(name: str) -> str:
    data = get_data(__package__, name)
    assert data is not None, f"{name} was not installed"
    return data.decode()


def _facts(profile: Samples, notes: list[str]) -> str:
    running = sum(stack.running_s for stack in profile.stacks)
    waiting = sum(stack.waiting_s for stack in profile.stacks)
    share = f"{profile.spent_s / profile.seconds:.1%}" if profile.seconds else "0%"
    words = [
        f"{count(profile.samples, 'sample')} at {profile.hz:g} Hz over {duration(profile.seconds)}",
        f"threads ran for {duration(running)} and waited for {duration(waiting)} in all",
        f"the sampler took {share} of a CPU",
    ]
    began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(profile.began))
    line = escape(" \u00b7 ".join(words))
    text = f'<p class="facts">{line}<br>began {began}</p>'
    if notes:
        text += '<ul class="notes">' + "".join(f"<li>{escape(note)}</li>" for note in notes) + "</ul>"
    return text


def _data(stacks: list[Stack]) -> str:
    """What the script draws. Times are whole microseconds."""
    names: dict[str, int] = {}
    places: dict[Place, int] = {}
    rows = []
    for stack in stacks:
        name = names.setdefault(stack.name, len(names))
        path = [places.setdefault(place, len(places)) for place in stack.places]
        lines = sorted(stack.lines.items(), key=lambda item: -item[1])[:LINES]
        rows.append(
            [
                name,
                path,
                round(stack.running_s * 1e6),
                round(stack.waiting_s * 1e6),
                [[line, round(seconds * 1e6)] for line, seconds in lines],
            ]
        )
    data = {
        "names": [readable(name, LONGEST_NAME) for name in names],
        "places": [[readable(name, LONGEST_NAME), readable(file, LONGEST_NAME), line] for name, file, line in places],
        "stacks": rows,
    }
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


class _Sum:
    """The seconds of a name or a function: running and waiting in it and below it, and in itself."""

    def __init__(self) -> None:
        self.ran = self.waited = self.own_ran = self.own_waited = 0.0


def _tables(profile: Samples) -> Iterator[str]:
    names: dict[Any, _Sum] = {}
    functions: dict[Any, _Sum] = {}
    for stack in profile.stacks:
        for sums, keys in ((names, {stack.name}), (functions, set(stack.places))):
            for key in keys:
                one = sums.setdefault(key, _Sum())
                one.ran += stack.running_s
                one.waited += stack.waiting_s
        if stack.places:
            own = functions[stack.places[-1]]
            own.own_ran += stack.running_s
            own.own_waited += stack.waiting_s

    def cell(seconds: float) -> Cell:
        return duration(seconds) if seconds else "", seconds

    def of_name(item: tuple[str, _Sum]) -> Sequence[Cell]:
        return [marked(readable(item[0], LONGEST_NAME)), cell(item[1].ran), cell(item[1].waited)]

    def of_function(item: tuple[Place, _Sum]) -> Sequence[Cell]:
        (name, file, line), one = item
        return [
            marked(readable(name, LONGEST_NAME)),
            marked(readable(f"{file}:{line}", LONGEST_NAME)),
            *map(cell, (one.own_ran, one.own_waited, one.ran, one.waited)),
        ]

    by_time = sorted(names.items(), key=lambda item: -(item[1].ran + item[1].waited))
    heads = ["Task, method or thread", "#Running", "#Waiting"]
    yield html_table(_caption("Time by name", by_time), heads, map(of_name, by_time[:MOST_ROWS]), "sortable")
    by_own = sorted(functions.items(), key=lambda item: (-item[1].own_ran, -item[1].own_waited, item[0]))
    heads = ["Function", "Place", "#Running in itself", "#Waiting in itself", "#Running in all", "#Waiting in all"]
    yield html_table(_caption("Functions", by_own), heads, map(of_function, by_own[:MOST_ROWS]), "sortable")


def _caption(text: str, rows: Sequence[Any]) -> str:
    return f"{text} (the first {MOST_ROWS} of {len(rows):,})" if len(rows) > MOST_ROWS else text
