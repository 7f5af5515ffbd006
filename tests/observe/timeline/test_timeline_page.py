"""The page: self-contained, bounded, complete without its script, and safe from hostile names."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import xml.etree.ElementTree as ET
from html import unescape
from typing import Any

import pytest

from miniray.observe.timeline import columns as timeline_columns, page as timeline_html
from miniray.observe.timeline.critical_path import critical_path
from miniray.observe.timeline.page import page
from miniray.observe.timeline.still import ticks
from miniray.observe.timeline.text import duration, readable
from miniray.observe.timeline.utilisation import utilisation
from tests.observe.timeline.test_timeline_events import HOSTILE
from tests.observe.timeline.timeline_sessions import CANCELLED, Session, pipeline, raised


def page_of(session: Session) -> str:
    """The whole page of a session."""
    return "".join(page(session.read()))


def data_of(text: str) -> dict[str, Any]:
    """The data that the script reads."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def unpacked(column: Any) -> list[float]:
    """A column as a list."""
    if isinstance(column, list):
        return column
    runs = column["runs"]
    return [value for value, times in zip(runs[::2], runs[1::2]) for _ in range(times)]


def shown_text(text: str) -> str:
    """Roughly what a reader without a script sees: the text without tags, style and data."""
    return unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<(style|script).*?</\1>", "", text, flags=re.S)))


def test_the_page_is_one_ascii_file_that_asks_for_nothing():
    """It refers to no address, import or style sheet, and its policy forbids them. Only its own script is allowed."""
    text = page_of(pipeline(60))
    assert text.isascii()
    outside = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?([^"\')\s>]+)', text)
    assert {where for where in outside if not where.startswith("#")} == {"data:,"}
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg"}
    script = re.search(r"<script>(.*?)</script>", text, re.S)[1]
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'" in text


def test_the_columns_hold_every_time_of_every_attempt():
    """They are exact to a billionth of the run, and mark the moments that an attempt has not reached."""
    session = pipeline(150)
    session.task("running", 0.5, 0.5, 0.6)
    session.task("never", 0.5, None, None, None, None, 0.7, failure=CANCELLED)
    recording = session.read()
    data = data_of(page_of(session))
    known = [0] * data["rows"]
    for place, moment in enumerate(("created", "ready", "leased", "started", "ended", "finished")):
        column = unpacked(data["when"][place])
        for number, row in enumerate(recording.rows):
            at = getattr(row, moment)
            if place == 0:
                known[number] = column[number] + (known[number - 1] if number else 0)
            elif column[number] < 0:
                assert at == 0
                continue
            else:
                known[number] += column[number]
            assert known[number] * data["unit"] == pytest.approx(at - recording.start, abs=data["unit"])


def test_the_columns_hold_all_other_facts_of_the_rows():
    """Names, lanes, outcomes, numbers and arrows are those of the rows."""
    session = pipeline(150)
    recording = session.read()
    data = data_of(page_of(session))
    name, lane, outcome = (unpacked(data[key]) for key in ("name", "lane", "outcome"))
    assert [data["names"][number] for number in name] == [row.spec.name for row in recording.rows]
    assert [data["lanes"][number]["id"] for number in lane] == [row.worker.hex for row in recording.rows]
    assert [data["outcomes"][number] for number in outcome] == [
        ("finished", "failed", "retried", "cancelled", "running", "waiting")[row.outcome] for row in recording.rows
    ]
    numbers = unpacked(data["number"])
    for place in range(1, len(numbers)):
        numbers[place] += numbers[place - 1]
    assert numbers == [row.number for row in recording.rows]
    takes, place, at = {}, 0, 0
    while at < len(data["takes"]):
        place += data["takes"][at]
        many = data["takes"][at + 1]
        takes[place] = [numbers[place - back] for back in data["takes"][at + 2 : at + 2 + many]]
        at += 2 + many
    assert takes == {place: list(row.producers) for place, row in enumerate(recording.rows) if row.producers}


def test_the_critical_path_is_in_the_data_step_by_step():
    """Each step has its kind, row and length."""
    session = pipeline(150)
    recording = session.read()
    steps = critical_path(recording)
    data = data_of(page_of(session))
    first, flat = data["path"][0], data["path"][1:]
    assert len(flat) == 3 * len(steps)
    assert [("task", "arguments", "queued", "driver")[kind] for kind in flat[::3]] == [step.kind for step in steps]
    assert first == round((steps[0].start - recording.start) / data["unit"])


def test_the_three_answers_are_on_the_page_without_a_script():
    """They are there in words, and in the still picture."""
    session = pipeline(150)
    text = page_of(session)
    words = shown_text(text)
    used = utilisation(session.read())
    assert f"{used.share(used.busy):.0%}" in words
    assert "The longest gap of a worker" in words
    assert "tasks in a chain" in words
    still = re.search(r'<svg class="still".*?</svg>', text, re.S)[0]
    drawn = ET.fromstring(still)
    classes = {path.get("class") for path in drawn.iter("path")}
    assert {"busy", "capacity", "chain", "f0", "f1", "f2", "mark o1", "mark o2"} <= classes
    lanes = [element.text for element in drawn.iter("text") if element.get("class") == "lane"]
    assert {"critical path", "worker 1", "worker 9 tally:Counter"} <= set(lanes)


def test_many_workers_are_not_all_in_the_still_picture():
    """It says how many more there are."""
    session = Session()
    for _ in range(100):
        session.task("f", 1, 1, 2, 3, 4, 5, worker=session.worker())
    still = re.search(r'<svg class="still".*?</svg>', page_of(session), re.S)[0]
    assert "and 40 more workers" in still


def test_tasks_that_wait_for_a_worker_have_a_table():
    """They are in no lane."""
    session = Session()
    session.task("f", 1, 1, 2, 3, 4, 5)
    session.task("needs_gpu", 1, 1)
    session.task("no_arguments", 1)
    words = re.sub(r"\s+", " ", shown_text(page_of(session)))
    assert "Not on a worker yet" in words
    assert re.search(r"needs_gpu 0000\w+ 4 s a worker", words)
    assert re.search(r"no_arguments 0000\w+ 4 s its arguments", words)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_hostile_names_end_no_element_and_remain_readable(text):
    """The text is the name of a task, an actor and a span, and an error."""
    session = Session()
    actor = session.actor(text, name=text)
    session.task(text, 1, 1, 2, 3, 4, 5, failure=raised(ValueError(text)), name=text, actor=actor)
    session.task(text, 1)
    session.span(text, 1, 2, None, 0, **{text: text})
    whole = page_of(session)
    assert whole.isascii()
    assert whole.count("<script") == whole.count("</script>") == 2
    assert whole.count("<svg") == whole.count("</svg>")
    ET.fromstring(re.search(r'<svg class="still".*?</svg>', whole, re.S)[0])
    clean = readable(text)
    assert clean in data_of(whole)["names"]
    assert clean[:60] in shown_text(whole)


def test_invisible_characters_are_spelled_out():
    """So are escapes, marks of writing direction and lone surrogates; letters of any script stay."""
    assert readable("a\x00b\x1b[31m\x9b\n\t") == "a\\x00b\\x1b[31m\\x9b\\n\\t"
    assert readable("\u202egnp.exe\u2066\u200f\ufeff") == "\\u202egnp.exe\\u2066\\u200f\\ufeff"
    assert readable("lone \ud800") == "lone \\ud800"
    assert (
        readable("\u05e9\u05dc\u05d5\u05dd \u65e5\u672c \U0001f600 <b>")
        == "\u05e9\u05dc\u05d5\u05dd \u65e5\u672c \U0001f600 <b>"
    )
    assert readable("x" * 10_000, 10) == "xxxxxxxxxx\u2026 (10,000 characters)"


def test_an_empty_page_says_why_it_is_empty():
    """It has no pictures, tables or data."""
    text = page_of(Session())
    assert "has run no task yet" in shown_text(text)
    assert '<svg class="still"' not in text and "<table" not in text
    assert data_of(text)["rows"] == 0


def test_the_page_says_what_is_missing(monkeypatch):
    """The session dropped some records, and the page leaves others out."""
    monkeypatch.setattr(timeline_html, "MOST_ROWS", 50)
    monkeypatch.setattr(timeline_columns, "MOST_SPANS", 3)
    session = pipeline(80)
    session.cluster.dropped["tasks"] = 4321
    for number in range(5):
        session.span(f"s{number}", 0.1, 0.2)
    text = page_of(session)
    words = shown_text(text)
    assert "4,321 older tasks are missing" in words
    assert re.search(r"shows the newest 50 of \d+ attempts", words)
    assert "shows the newest 3 of 5 spans" in words
    assert data_of(text)["rows"] == 50


def test_names_errors_and_arrows_have_budgets(monkeypatch):
    """A page stays small whatever a program does, and says what it leaves out."""
    monkeypatch.setattr(timeline_columns, "MOST_NAME_CHARACTERS", 200)
    monkeypatch.setattr(timeline_columns, "MOST_ERROR_CHARACTERS", 300)
    monkeypatch.setattr(timeline_columns, "MOST_ARROWS", 40)
    session = Session()
    made: list = []
    for number in range(50):
        at = 1 + number
        task = session.task(
            "f",
            at,
            at,
            at + 0.1,
            at + 0.2,
            at + 0.3,
            at + 0.4,
            name=f"name number {number}",
            failure=raised(ValueError(f"error number {number} " + "y" * 20)),
            after=tuple(made[-30:]),
        )
        made.append(task)
    text = page_of(session)
    data, words = data_of(text), shown_text(text)
    assert sum(map(len, data["names"])) < 250 and "shown under their function's name" in words
    assert sum(len(message) for _, message in data["errors"]["texts"]) < 500
    assert "arrows from producers to consumers did not fit" in words
    kept, at = [], 0
    while at < len(data["takes"]):
        kept.append(data["takes"][at + 2 : at + 2 + data["takes"][at + 1]])
        at += 2 + data["takes"][at + 1]
    assert len(kept) == 49 and kept[-1] == [1]  # each keeps the one that ended last


def test_a_page_of_many_tasks_stays_small():
    """An attempt takes at most 60 bytes, so that 100,000 of them stay under 6 MB."""
    session = Session(cpus=4)
    workers = [session.worker() for _ in range(4)]
    before = None
    for number in range(4000):
        at = 1000 + number * 0.0123456789
        before = session.task(
            "identity",
            at / 2,
            at,
            at + 2.3456789,
            at + 2.34571,
            at + 2.355,
            at + 2.3551,
            worker=workers[number % 4],
            after=(before,) if before else (),
        )
    empty = len(page_of(Session()))
    assert (len(page_of(session)) - empty) / 4000 < 60


def test_lengths_of_time_for_people():
    """They have three digits and a unit."""
    assert [duration(seconds) for seconds in (0, 3e-7, 0.00099996, 0.0123, 1, 59.94, 6000, 400_000)] == [
        "0",
        "0.3 \u00b5s",
        "1 ms",
        "12.3 ms",
        "1 s",
        "59.9 s",
        "100 min",
        "111 h",
    ]


def test_ticks_are_round_numbers():
    """There are about ten of them at the most."""
    assert ticks(1.44) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4])
    assert ticks(10) == pytest.approx(list(range(11)))
    assert all(1 <= len(ticks(length)) <= 11 for length in (1e-6, 0.003, 0.999, 7, 86400.0))
