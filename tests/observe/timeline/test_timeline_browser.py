"""The page in a real browser: no error, no request, and every feature works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from miniray.observe.timeline.files import write_whole
from miniray.observe.timeline.page import page
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
