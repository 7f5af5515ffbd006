"""The page in a real browser: no error, no request, and every feature works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from miniray.observe.metrics.registry import Curve
from miniray.observe.timeline.files import write_whole
from miniray.observe.timeline.page import page
from miniray.observe.timeline.recording import Mark
from miniray.observe.timeline.utilisation import utilisation

from tests.observe.timeline.chromium import Browser, find_chromium
from tests.observe.timeline.test_timeline_events import HOSTILE
from tests.observe.timeline.timeline_sessions import CANCELLED, Session, pipeline, raised

PROGRAM = find_chromium()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests; each test opens its own page."""
    assert PROGRAM is not None
    with Browser(PROGRAM) as started:
        yield started


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A page of 500 tasks, with a span and a wait."""
    session = pipeline(500)
    session.span("reading", 0.1, 0.6)
    session.wait(None, 0.3, session.clock)
    return written(session, tmp_path_factory.mktemp("small"))


def written(session: Session, folder: Path) -> Path:
    """The page of a session, as a file."""
    path = folder / "t.html"
    write_whole(path, page(session.read()))
    return path


def opened(browser: Browser, path: Path, **options) -> Browser:
    """The page, loaded and drawn."""
    browser.open(path, **options)
    if options.get("script", True):  # without one nothing is drawn later
        browser.frame()
    return browser


def view(browser: Browser) -> tuple[float, float]:
    """The left edge and the width of the window in the strip of the whole run."""
    return tuple(browser.run("['x', 'width'].map(key => +document.querySelector('#strip .window').getAttribute(key))"))


def place_of(browser: Browser, selector: str) -> tuple[float, float]:
    """The middle of an element on the screen."""
    return tuple(
        browser.run(
            f"(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
    )


def facts(browser: Browser) -> str:
    """The text in the panel of the selected attempt."""
    return browser.run("document.querySelector('#facts').hidden ? '' : document.querySelector('#facts').innerText")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("tasks", [5, 500])
def test_a_page_opens_without_a_complaint_or_a_request(browser, tmp_path, tasks, scheme):
    """In light and in dark mode, the script replaces the still picture."""
    opened(browser, written(pipeline(tasks), tmp_path), scheme=scheme)
    assert browser.complaints() == [] and browser.requests() == []
    assert browser.run("getComputedStyle(document.querySelector('#still')).display") == "none"
    assert browser.run("document.querySelectorAll('#lanes path').length") > 3
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}[scheme]


@pytest.mark.slow
def test_a_page_of_100000_tasks_is_usable_within_two_seconds(browser, tmp_path):
    """It takes less than 6 MB, and draws few shapes. Slow because of the many records."""
    path = written(pipeline(100_000), tmp_path)
    assert path.stat().st_size < 6_000_000
    opened(browser, path)
    assert browser.busy_s() < 2
    assert browser.complaints() == []
    assert browser.run("document.querySelectorAll('*').length") < 5_000
    browser.key("+")
    assert browser.complaints() == []


def test_zoom_and_pan_by_keys(browser, small):
    """Plus and minus zoom around the middle, arrows pan, 0 shows the whole run; the view stays within the run."""
    opened(browser, small)
    whole = view(browser)
    browser.key("+")
    left, width = view(browser)
    assert width == pytest.approx(whole[1] / 1.5, rel=0.01) and left > whole[0]
    browser.key("ArrowRight")
    assert view(browser)[0] == pytest.approx(left + 0.15 * width, rel=0.01)
    for _ in range(10):
        browser.key("ArrowLeft")
    assert view(browser)[0] == pytest.approx(whole[0])
    browser.key("0")
    assert view(browser) == pytest.approx(whole)


def test_zoom_by_the_wheel_and_pan_by_dragging(browser, small):
    """Ctrl and the wheel zoom around the pointer; without Ctrl the page scrolls."""
    opened(browser, small)
    whole = view(browser)
    x, y = place_of(browser, "#lanes")
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-240, modifiers=2)
    zoomed = view(browser)
    assert zoomed[1] < whole[1] * 0.6
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseMoved", x - 100, y, button="left", buttons=1)
    browser.mouse("mouseReleased", x - 100, y, button="left", clickCount=1)
    assert view(browser)[0] > zoomed[0] and view(browser)[1] == pytest.approx(zoomed[1])


def test_a_part_is_chosen_in_the_strip(browser, small):
    """Dragging over the strip chooses it."""
    opened(browser, small)
    x, y = place_of(browser, "#strip")
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseMoved", x + 200, y, button="left", buttons=1)
    browser.mouse("mouseReleased", x + 200, y, button="left", clickCount=1)
    assert view(browser)[1] == pytest.approx(200, rel=0.05)


def test_search_finds_and_steps_through_the_matches(browser, small):
    """It searches names, outcomes, errors, ids and workers; the other attempts are dimmed."""
    opened(browser, small)
    for text, found in (
        ("merge", r"^27 of"),
        ("failed", r"^5 of"),
        ("has no key", r"^5 of"),
        ("connectionerror", r"^10 of"),
        ("worker 3", r"^\d+ of"),
        ("nothing at all", "^0 of"),
    ):
        browser.run(
            f"(() => {{ const s = document.querySelector('#search'); s.value = {text!r};"
            "s.dispatchEvent(new Event('input')); return new Promise(done => setTimeout(done, 50)); })()"
        )
        browser.frame()
        assert browser.run(f"/{found}/.test(document.querySelector('#found').textContent)"), text
    assert browser.run("document.querySelectorAll('#lanes .dim').length") > 0
    browser.run("document.querySelector('#search').value = 'merge'")
    browser.run("document.querySelector('#search').dispatchEvent(new Event('input'))")
    browser.run("new Promise(done => setTimeout(done, 50))")
    browser.key("n")
    assert facts(browser).startswith("merge")
    assert browser.run("document.querySelector('#found').textContent").startswith("1 of 27")
    browser.key("p")
    assert browser.run("document.querySelector('#found').textContent").startswith("27 of 27")
    assert browser.complaints() == []


def test_the_slash_key_leads_to_the_search_and_escape_out_of_it(browser, small):
    """Letters typed into the search are not commands."""
    opened(browser, small)
    browser.key("/")
    for letter in ("c", "l", "e", "a", "n"):
        browser.key(letter)
    browser.run("new Promise(done => setTimeout(done, 50))")
    assert browser.run("document.querySelector('#search').value") == "clean"
    assert browser.run("document.querySelector('#chain').checked") is True
    browser.key("Escape")
    assert browser.run("document.querySelector('#found').textContent") == ""


def test_a_click_keeps_the_facts_of_an_attempt(browser, small):
    """They include its phases, worker, id and producers; keys select its neighbours on the worker."""
    opened(browser, small)
    for _ in range(6):
        browser.key("+")
    for _ in range(8):
        browser.key("]")
    assert browser.run("document.querySelectorAll('#lanes .selected').length") == 1
    x, y = place_of(browser, "#lanes .selected")
    browser.key("Escape")
    assert facts(browser) == ""
    browser.click(x, y)
    panel = facts(browser)
    for word in ("outcome", "submitted", "running", "storing", "task id", "critical path", "worker"):
        assert word in panel
    assert browser.run("document.querySelectorAll('#lanes .arrow').length") > 0
    before = panel
    browser.key(".")
    assert facts(browser) != before
    browser.key(",")
    assert facts(browser) == before
    assert browser.complaints() == []


def test_a_tooltip_shows_the_facts_of_the_attempt_under_the_pointer(browser, small):
    """It disappears when the pointer leaves."""
    opened(browser, small)
    for _ in range(5):
        browser.key("+")
    browser.key("]")
    x, y = place_of(browser, "#lanes .selected")
    browser.mouse("mouseMoved", x, y)
    assert "task id" in browser.run("document.querySelector('#tip').innerText")
    assert browser.run("document.querySelector('#tip').hidden") is False
    browser.mouse("mouseMoved", 700, 60)
    assert browser.run("document.querySelector('#tip').hidden") is True


def test_the_critical_path_is_drawn_and_can_be_hidden(browser, small):
    """It has a lane of its own, and runs through the lanes of the workers."""
    opened(browser, small)
    browser.key("+")
    browser.key("+")
    assert browser.run("document.querySelector('#lanes .chain').getAttribute('d').length") > 50
    assert browser.run("document.querySelectorAll('#lanes .onchain').length") == 1
    assert browser.run("[...document.querySelectorAll('#head text')].some(one => one.textContent === 'critical path')")
    browser.key("c")
    assert browser.run("document.querySelectorAll('#lanes .chain, #lanes .onchain').length") == 0


def test_the_longest_gaps_are_drawn_and_can_be_shown_from_the_table(browser, small):
    """The view is then around the gap."""
    opened(browser, small)
    assert browser.run("document.querySelectorAll('#lanes .gap').length") > 5
    browser.run("document.querySelector('.gaps tbody button').click()")
    browser.frame()
    left, right = browser.run(
        "(() => { const g = [...document.querySelectorAll('#lanes .gap')].map(one => one.getBoundingClientRect())"
        ".sort((a, b) => b.width - a.width)[0]; return [g.left, g.right]; })()"
    )
    assert right - left > 500
    assert browser.complaints() == []


def test_the_script_and_the_page_agree_on_busy_cpus(browser, tmp_path):
    """The share in the head equals the share in the card."""
    session = pipeline(500)
    actor = session.actor("Fetcher", is_async=True)
    for number in range(20):
        at = 0.1 + number * 0.03
        session.task("get", at, at, at + 0.001, at + 0.002, at + 0.1, at + 0.11, actor=actor)
    used = utilisation(session.read())
    opened(browser, written(session, tmp_path))
    shares = browser.run("[...document.querySelectorAll('#head text.lane')].map(one => one.textContent)")
    share = float(next(text for text in shares if "%" in text).split(" %")[0])
    assert share == pytest.approx(100 * used.share(used.busy), abs=1.1)  # the script shows a little more time


@pytest.mark.parametrize("script", [True, False])
def test_hostile_names_do_nothing(browser, tmp_path, script):
    """They open no dialog, add no element, cause no error, and can be read."""
    session = Session(cpus=3)
    before: tuple = ()
    for number, text in enumerate([*HOSTILE, "<img src=x onerror=alert(1)>", "]]>", "<!--"]):
        at = 1 + number * 0.01
        actor = session.actor(text, name=text)
        task = session.task(
            text,
            at,
            at,
            at + 0.001,
            at + 0.002,
            at + 0.008,
            at + 0.01,
            name=text,
            actor=actor,
            after=before,
            failure=raised(ValueError(text)) if number % 2 else None,
        )
        before = (task,)
        session.span(text, at, at + 0.005, None, 0, **{text: text})
    opened(browser, written(session, tmp_path), script=script)
    if script:
        for _ in HOSTILE:
            browser.key(".")
        assert "</script>" in browser.run("document.querySelector('#legend').innerText")
    assert browser.complaints() == [] and browser.requests() == []
    assert not [event for event in browser.events if event.get("method") == "Page.javascriptDialogOpening"]
    if script:
        assert browser.run("document.querySelectorAll('img, script').length") == 2


def test_every_outcome_has_a_mark_beside_its_colour(browser, tmp_path):
    """It is a pattern, with a sign where there is room."""
    session = Session()
    workers = [session.worker() for _ in range(4)]
    session.task("bad", 0, 0, 0, 1, 8, 9, worker=workers[0], failure=raised(ValueError("x")))
    session.task("stopped", 0, 0, 0, 1, 8, 9, worker=workers[1], failure=CANCELLED)
    session.task("runs", 0, 0, 0, 1, worker=workers[2])
    task = session.task("again", 0, 0, 0, 1, 3, 4, worker=workers[3])
    session.again(task, raised(OSError("x")), 4, 4, 4, 5, 8, 9)
    opened(browser, written(session, tmp_path))
    for outcome in (1, 2, 3, 4):
        assert browser.run(f"document.querySelectorAll('#lanes path.o{outcome}').length") == 1
    labels = browser.run(
        "[...document.querySelectorAll('#lanes text.marked')].map(one => one.textContent[0]).sort().join('')"
    )
    assert labels == "\u2026\u21bb\u2298\u2715"


def test_without_a_script_the_still_picture_stands(browser, small):
    """So do the tables; the tools that need a script are hidden."""
    opened(browser, small, script=False)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("getComputedStyle(document.querySelector('#still')).display") != "none"
    assert browser.run("getComputedStyle(document.querySelector('.live')).display") == "none"
    assert browser.run("document.querySelectorAll('.still .chain').length") == 1
    assert browser.complaints() == []


def test_an_empty_page_says_why(browser, tmp_path):
    """It shows no tools."""
    opened(browser, written(Session(), tmp_path))
    assert "has run no task yet" in browser.run("document.body.innerText")
    assert browser.run("getComputedStyle(document.querySelector('.live')).display") == "none"
    assert browser.complaints() == []


def test_in_print_the_whole_run_is_drawn_on_white(browser, small):
    """Whatever the screen shows, and in whatever colours."""
    opened(browser, small, scheme="dark")
    browser.call(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert browser.run("getComputedStyle(document.querySelector('#still')).display") != "none"
    assert browser.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    browser.call("Emulation.setEmulatedMedia", media="")


def chosen(browser: Browser, box: str, value: str) -> None:
    """Choose an entry of a filter by its text."""
    browser.run(
        f"(() => {{ const s = document.querySelector({box!r}); s.value = [...s.options].find(o => o.text === {value!r})"
        ".value; s.dispatchEvent(new Event('change')); })()"
    )
    browser.frame()


def test_filters_by_state_node_worker_and_function(browser, small):
    """A filter dims other attempts, and a node or a worker hides other lanes. `clear` shows everything again."""
    opened(browser, small)
    lanes = "[...document.querySelectorAll('#lanes text.lane')].filter(t => t.textContent.startsWith('worker')).length"
    assert browser.run(lanes) == 9
    chosen(browser, "#by-state", "failed")
    assert browser.run("document.querySelector('#found').textContent").startswith("5 of")
    assert browser.run("document.querySelectorAll('#lanes .dim').length") > 0
    chosen(browser, "#by-function", "work.merge")
    assert browser.run("document.querySelector('#found').textContent").startswith("0 of")
    chosen(browser, "#by-state", "all")
    assert browser.run("document.querySelector('#found').textContent").startswith("27 of")
    chosen(browser, "#by-node", "127.0.0.2")
    assert browser.run(lanes) == 4
    chosen(browser, "#by-worker", "worker 6")
    assert browser.run(lanes) == 1
    browser.run("document.querySelector('#clear').click()")
    browser.frame()
    assert browser.run(lanes) == 9 and browser.run("document.querySelector('#found').textContent") == ""
    assert browser.complaints() == []


def test_the_address_leads_back_to_what_the_reader_sees(browser, small):
    """The part after # has the view, the attempt, the search and the filters."""
    opened(browser, small)
    for key in ("+", "+", "]", "]"):
        browser.key(key)
    chosen(browser, "#by-function", "work.clean")
    browser.run("new Promise(done => setTimeout(done, 400))")
    link, before, text = browser.run("location.hash"), view(browser), facts(browser)
    assert "task=" in link and "function=" in link and "t=" in link
    opened(browser, small)
    assert facts(browser) == "" and view(browser) != before
    browser.run(f"location.hash = {link!r}")
    browser.run("new Promise(done => setTimeout(done, 50))")
    browser.frame()
    assert facts(browser) == text and view(browser) == pytest.approx(before, rel=0.01)
    assert browser.run("document.querySelector('#by-function').selectedOptions[0].text") == "work.clean"


def test_a_click_on_a_head_sorts_the_table(browser, small):
    """By numbers and not by their texts; a second click turns the order round."""
    opened(browser, small)
    values = "[...document.querySelectorAll('.functions tbody tr')].map(r => +r.cells[{}].dataset.by)"
    for column in (1, 7, 9):
        browser.run(f"document.querySelectorAll('.functions th button')[{column}].click()")
        numbers = browser.run(values.format(column))
        assert numbers == sorted(numbers, reverse=True)
        browser.run(f"document.querySelectorAll('.functions th button')[{column}].click()")
        assert browser.run(values.format(column)) == sorted(numbers)
        assert (
            browser.run(f"document.querySelectorAll('.functions th')[{column}].getAttribute('aria-sort')")
            == "ascending"
        )


def test_the_facts_stand_beside_the_lanes_and_nothing_moves(browser, small):
    """They are in view whatever is selected, and the lanes keep their width."""
    opened(browser, small)
    before = browser.run("document.querySelector('#lanes').getBoundingClientRect().width")
    browser.key("]")
    left, top, bottom = browser.run(
        "(() => { const r = document.querySelector('#facts').getBoundingClientRect(); return [r.left, r.top, r.bottom] })()"
    )
    right, height = browser.run("[document.querySelector('#stage').getBoundingClientRect().right, innerHeight]")
    assert left >= right and 0 <= top < height - 100 and bottom > top
    assert browser.run("document.querySelector('#lanes').getBoundingClientRect().width") == before


def test_the_facts_have_the_traceback_the_log_and_the_reason(browser, tmp_path):
    """Each stands where the reader has clicked."""
    session = Session()
    bad = session.task("bad", 0, 0, 0, 1, 8, 9, failure=raised(ValueError("no key"), "bad"))
    recording = session.read()
    recording.logs[0][bad.number, bad.attempt] = "line one\nline two </script>"
    path = tmp_path / "t.html"
    write_whole(path, page(recording))
    opened(browser, path)
    browser.key(".")
    text = facts(browser)
    assert "Traceback (most recent call last):" in text and 'File "bad.py", line 1' in text
    assert "line two </script>" in text
    assert browser.complaints() == []


def test_an_attempt_that_printed_nothing_says_so(browser, small):
    """A reader who looks for the log need not wonder where it is."""
    opened(browser, small)
    browser.key("]")
    assert "It has printed nothing." in facts(browser)


def test_the_curves_of_metrics_are_drawn_below_the_lanes(browser, tmp_path):
    """A line for a counter or a gauge, a dot for each observation of a histogram, on the axis of the lanes."""
    recording = pipeline(60).read()
    times = [recording.start + (recording.end - recording.start) * part for part in (0.1, 0.5, 0.9)]
    for name, kind in (("rows", "counter"), ("queue <b>", "gauge"), ("ms", "histogram")):
        recording.metrics.append(Curve(name, kind, "", {"k": "</script>"}, [(at, at) for at in times], 3))
    path = tmp_path / "t.html"
    write_whole(path, page(recording))
    opened(browser, path)
    assert browser.run("document.querySelectorAll('#curves path.curve').length") == 2
    assert browser.run("document.querySelectorAll('#curves circle').length") == 3
    assert browser.run("document.querySelector('#curves .node').textContent").startswith("rows")
    browser.key("+")
    assert browser.complaints() == []


def test_a_tap_on_a_phone_hits_the_lane_that_it_touches(browser, small):
    """One unit of the picture is one pixel, however narrow the screen."""
    browser.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=2, mobile=True)
    try:
        opened(browser, small)
        assert browser.run("document.documentElement.scrollWidth") <= 390
        ratio = browser.run(
            "(() => { const s = document.querySelector('#lanes'), r = s.getBoundingClientRect();"
            "return [r.width / s.viewBox.baseVal.width, r.height / s.viewBox.baseVal.height]; })()"
        )
        assert ratio == pytest.approx([1, 1], abs=0.01)
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_the_flame_view_adds_up_functions_under_their_callers(browser, tmp_path):
    """A caller is at least as wide as its callees; a click searches for the function."""
    session = Session()
    parent = session.task("parent", 0, 0, 0, 0.5, 9, 9.5, worker=session.worker())
    for number in range(3):
        session.task(
            "child", 1, 1, 1 + number, 1 + number, 2 + number, 2 + number, worker=session.worker(), inside=parent
        )
    opened(browser, written(session, tmp_path))
    browser.run("document.querySelector('#flame-box').open = true")
    browser.run("new Promise(done => setTimeout(done, 50))")
    bars = browser.run(
        "[...document.querySelectorAll('#flame g')].map(g => [g.querySelector('title').textContent.split(':')[0],"
        "+g.firstChild.getAttribute('y'), +g.firstChild.getAttribute('width')])"
    )
    assert [(name, y) for name, y, _ in bars] == [("work.parent", 0), ("work.child", 20)]
    assert bars[1][2] / bars[0][2] == pytest.approx(3 / 9.5, rel=0.02)
    browser.run("document.querySelectorAll('#flame g')[1].dispatchEvent(new Event('click'))")
    assert browser.run("document.querySelector('#found').textContent").startswith("3 of 4")


def test_marks_and_the_curve_of_the_store_are_drawn(browser, tmp_path):
    """Nodes that join or die, restarts, values that go to files; and how full the stores were."""
    session = pipeline(60)
    recording = session.read()
    at, length = recording.start, recording.end - recording.start
    for number, kind in enumerate(("node", "restart", "spill", "restore", "lost")):
        recording.marks.append(Mark(at + length * (number + 1) / 7, kind, f"a mark of {kind}", None))
    recording.curves[0][:0] = [(at, 0, 0), (at + length / 4, 50 << 20, 0), (at + length / 2, 20 << 20, 30 << 20)]
    path = tmp_path / "t.html"
    write_whole(path, page(recording))
    opened(browser, path)
    for kind in ("node", "restart", "spill", "restore", "lost"):
        assert browser.run(f"document.querySelectorAll('#head .glyph.{kind}').length") == 1, kind
    assert browser.run("document.querySelectorAll('#head .store').length") == 1
    assert browser.run("document.querySelectorAll('#head .store-files').length") == 1
    assert browser.complaints() == []
