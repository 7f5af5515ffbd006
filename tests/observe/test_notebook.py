"""What a notebook shows: tables, in which a name of the user's is text and never markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html import unescape

import pytest

import miniray as ray
from miniray import state
from miniray.observe.notebook import MOST_ROWS, Rows, table
from miniray.util import state as ray_state
from miniray.util.metrics import Counter, Histogram

NAME = "</table><script>alert(1)</script>\x1b[2J"


@pytest.fixture
def session():
    """A session that ran one task with a hostile name."""
    context = ray.init(num_cpus=2)

    @ray.remote
    def work():
        return 1

    ray.get(work.options(name=NAME).remote())
    yield context
    ray.shutdown()


def parsed(shown: str) -> ET.Element:
    """The markup, which must be well-formed and have no script."""
    root = ET.fromstring(f"<div>{shown}</div>")
    assert not list(root.iter("script"))
    return root


def text_of(root: ET.Element) -> str:
    """All its text."""
    return " ".join(root.itertext())


def test_the_context_shows_its_versions_and_its_resources(session):
    """After its end it says so."""
    assert "2 CPU" in text_of(parsed(session._repr_html_()))
    ray.shutdown()
    assert "has ended" in text_of(parsed(session._repr_html_()))


def test_state_rows_show_as_a_table(session):
    """The list is a list as before; names are spelled out."""
    rows = state.list_tasks()
    assert isinstance(rows, list) and rows == list(rows)
    shown = parsed(rows._repr_html_())
    assert [cell.text for cell in shown.iter("td")].count("FINISHED") == 1
    assert "</table><script>alert(1)</script>\\x1b[2J" in text_of(shown)
    assert "FINISHED" in text_of(parsed(ray_state.list_tasks()[0]._repr_html_()))
    assert "has finished" in text_of(parsed(state.explain(rows[0]["task_id"])._repr_html_()))


def test_a_metric_shows_its_series(session):
    """One row for each combination of tags."""
    counter = Counter("things", "how many things", tag_keys=("kind",))
    counter.inc(2, {"kind": "<b>"})
    counter.inc(1, {"kind": "c"})
    shown = parsed(counter._repr_html_())
    assert len(list(shown.iter("tr"))) == 3 and "<b>" in text_of(shown)
    histogram = Histogram("times", boundaries=[1, 2])
    assert "(none)" in text_of(parsed(histogram._repr_html_()))


def test_the_timeline_shows_its_page_in_a_frame(session):
    """The frame keeps the page's style and script apart from the notebook's."""
    page = ray.timeline(html=True)
    assert str(page).startswith("<!doctype html>")
    shown = page._repr_html_()
    [frame] = parsed(shown).iter("iframe")
    assert frame.get("sandbox") == "allow-scripts"
    assert unescape(shown.partition('srcdoc="')[2].rpartition('"')[0]) == str(page)


def test_a_long_table_says_what_it_leaves_out():
    """A notebook keeps its output."""
    shown = Rows({"n": number, "empty": None} for number in range(MOST_ROWS + 7))._repr_html_()
    assert "and 7 more rows" in shown and "empty" not in shown
    assert table([]) == "<p>(none)</p>"
