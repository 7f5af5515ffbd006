"""The forms of a profile: a page, speedscope's JSON, and collapsed stacks."""

from __future__ import annotations

import gzip
import html.parser
import json
import os
import re
from functools import partial
from pathlib import Path

import pytest

from miniray import telemetry
from miniray._common.test_utils import wait_for_condition
from miniray.telemetry.profiler.collapsed import collapsed
from miniray.telemetry.profiler.page import page
from miniray.telemetry.profiler.samples import Samples, Stack
from miniray.telemetry.profiler.speedscope import speedscope
from tests.observe.timeline.chromium import Browser, find_chromium

until = partial(wait_for_condition, retry_interval_ms=1)
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\x1b[2J;\ud800"


def stack(name: str, *places: str, running: float = 0.0, waiting: float = 0.0) -> Stack:
    """A stack that was seen 100 times a second."""
    made = Stack(name, tuple((place, f"/home/me/{place}.py", 10) for place in places))
    made.running_s, made.waiting_s = running, waiting
    made.samples, made.last_us = round(100 * (running + waiting)), 1_700_000_000_000_000
    made.lines = {12: running + waiting}
    return made


def prepared() -> Samples:
    """Three names; one of them is hostile."""
    samples = Samples(100.0)
    samples.samples, samples.seconds, samples.began, samples.spent_s = 700, 7.0, 1_700_000_000.0, 0.07
    samples.stacks = [
        stack("train", "train", "step", running=3.0, waiting=1.0),
        stack("driver", "<module>", waiting=2.0),
        stack(HOSTILE, HOSTILE, "a;b", running=0.5),
        stack("train", "train", running=0.5),
    ]
    return samples


def test_collapsed_stacks_count_samples():
    """Waiting is a frame of its own. A semicolon in a name would be a separator."""
    lines = "".join(collapsed(prepared())).splitlines()
    assert lines[:3] == ["train;train;step 300", "train;train;step;[waiting] 100", "driver;<module>;[waiting] 200"]
    assert len(lines) == 5 and lines[3].count(";") == 2 and all(re.fullmatch(r"[ -~]+ \d+", line) for line in lines)


def test_speedscope_s_file_follows_its_schema():
    """The rules of https://www.speedscope.app/file-format-schema.json for a sampled profile."""
    data = json.loads("".join(speedscope(prepared())))
    assert set(data) == {"$schema", "name", "exporter", "activeProfileIndex", "shared", "profiles"}
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = data["shared"]["frames"]
    for frame in frames:
        assert {"name"} <= set(frame) <= {"name", "file", "line", "col"} and type(frame["name"]) is str
        assert type(frame.get("line", 1)) is int and type(frame.get("file", "")) is str
    assert [profile["name"] for profile in data["profiles"]][:3] == ["all", "train", "driver"]
    for profile in data["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile["type"] == "sampled" and profile["unit"] == "seconds"
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] == pytest.approx(sum(profile["weights"]))
        assert all(0 <= index < len(frames) for sample in profile["samples"] for index in sample)
    assert data["profiles"][0]["endValue"] == pytest.approx(7.0)
    names = [[frames[index]["name"] for index in sample] for sample in data["profiles"][1]["samples"]]
    assert names == [["train", "step"], ["train", "step", "[waiting]"], ["train"]]


def test_speedscope_s_file_is_valid_by_the_published_schema():
    """If the package jsonschema and a copy of the schema are there: SPEEDSCOPE_SCHEMA names it."""
    jsonschema = pytest.importorskip("jsonschema")
    path = os.environ.get("SPEEDSCOPE_SCHEMA")
    if path is None:
        pytest.skip("SPEEDSCOPE_SCHEMA does not name a copy of the schema")
    jsonschema.validate(json.loads("".join(speedscope(prepared()))), json.loads(Path(path).read_text()))


def test_a_profile_goes_through_json():
    """So it comes from a program that runs."""
    samples = prepared()
    back = Samples.from_dict(json.loads(json.dumps(samples.asdict())))
    assert "".join(page(back)) == "".join(page(samples))
    assert list(collapsed(back)) == list(collapsed(samples)) and list(speedscope(back)) == list(speedscope(samples))


class Tags(html.parser.HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        """Note an element."""
        self.found.append((tag, dict(attributes)))


def test_the_page_contains_everything_and_escapes_names():
    """No address is loaded, no name becomes an element, and all of it is ASCII."""
    text = "".join(page(prepared()))
    assert text.isascii() and "</script><img" not in text
    tags = Tags(text).found
    assert not [tag for tag, _ in tags if tag in ("img", "iframe", "object", "embed")]
    assert {attributes.get("href", "data:,") for tag, attributes in tags if tag == "link"} == {"data:,"}
    assert not [
        attributes for _, attributes in tags if "src" in attributes or any(k.startswith("on") for k in attributes)
    ]
    policy = next(attributes["content"] for _, attributes in tags if attributes.get("http-equiv"))
    assert policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy
    assert "700 samples at 100 Hz over 7 s" in text and "the sampler took 1.0% of a CPU" in text
    assert "<bdi>train</bdi>" in text and text.count("<table") == 2


def test_an_empty_profile_is_a_page_too():
    """It says so."""
    assert "has seen no code of the program" in "".join(page(Samples(100.0)))
    assert "".join(collapsed(Samples(100.0))) == ""
    assert json.loads("".join(speedscope(Samples(100.0))))["profiles"][0]["samples"] == []


def test_a_page_of_very_many_stacks_shows_the_heaviest():
    """It says how many there are."""
    samples = Samples(100.0)
    samples.stacks = [stack("work", f"f{n}", running=1.0) for n in range(20_005)]
    text = "".join(page(samples))
    assert "This page shows the heaviest 20,000 of 20,005 stacks." in text and len(text) < 3_000_000


def test_a_compressed_file(tmp_path):
    """An ending .gz after the form's own."""
    with telemetry.profile(tmp_path / "p.txt.gz", hz=1000) as profile:
        until(lambda: profile._sampler.samples > 3)
    assert gzip.decompress((tmp_path / "p.txt.gz").read_bytes())


# ---------------------------------------------------------------- the page in a browser

PROGRAM = find_chromium()


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests."""
    with Browser(PROGRAM) as started:
        yield started


@pytest.fixture
def opened(browser, tmp_path):
    """The page of the prepared profile, loaded and drawn."""
    path = tmp_path / "p.html"
    path.write_text("".join(page(prepared())))
    browser.open(path)
    return browser


def labels(browser) -> list[str]:
    """The names of the bars that are drawn, without their times."""
    texts = browser.run("[...document.querySelectorAll('#flame g')].map(g => g.getAttribute('aria-label'))")
    return [text.rpartition(": ")[0] for text in texts]


def press(browser, key: str) -> None:
    """A key, in the element that has the focus."""
    browser.run(
        f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {{key: {json.dumps(key)}, bubbles: true}}))"
    )


in_browser = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")


@in_browser
def test_the_bars_stand_below_their_callers(opened):
    """The first row has the names; waiting is a bar of its own; widths are shares of the time."""
    drawn = labels(opened)
    assert drawn[:2] == ["train", "driver"] and drawn.count("waiting") == 2
    widths = opened.run("[...document.querySelectorAll('#flame g')].map(g => +g.firstChild.getAttribute('width'))")
    assert widths[0] / widths[1] == pytest.approx(4.5 / 2, rel=0.02)
    assert opened.run("document.querySelectorAll('#flame g.wait-bar').length") == 2


@in_browser
def test_running_waiting_and_a_name_can_be_chosen(opened):
    """Also by keys. The address leads back."""
    opened.run("document.querySelector('#flame g').focus()")
    press(opened, "r")
    assert "driver" not in labels(opened) and "waiting" not in labels(opened)
    press(opened, "w")
    assert labels(opened) == ["driver", "train", "<module>", "train", "waiting", "step", "waiting"]
    press(opened, "b")
    opened.run("(s => { s.value = 'train'; s.dispatchEvent(new Event('change')) })(document.querySelector('#by-name'))")
    assert labels(opened) == ["train", "train", "step", "waiting"]
    assert opened.run("location.hash") == "#name=train"


@in_browser
def test_the_keyboard_walks_and_zooms(opened):
    """Arrows go from bar to bar, Enter zooms, Escape leads back. The facts of the bar are read out."""
    opened.run("document.querySelector('#flame g').focus()")
    for key in ("ArrowDown", "ArrowDown"):
        press(opened, key)
    assert opened.run("document.activeElement.getAttribute('aria-label')").startswith("step: ran 3 s, waited 1 s")
    assert "/home/me/step.py:10" in opened.run("document.querySelector('#about').textContent")
    assert "in line 12: 4 s" in opened.run("document.querySelector('#about').textContent")
    press(opened, "Enter")
    assert labels(opened) == ["step", "waiting"]
    press(opened, "Escape")
    assert labels(opened)[:2] == ["train", "driver"]
    press(opened, "/")
    assert opened.run("document.activeElement.id") == "search"


@in_browser
def test_a_search_counts_and_dims(opened):
    """What stands below a match is a part of it."""
    opened.run("(s => { s.value = 'STEP'; s.dispatchEvent(new Event('input')) })(document.querySelector('#search'))")
    assert opened.run("document.querySelector('#found').textContent") == "57.1 % of the time, 4 s"
    assert opened.run("document.querySelectorAll('#flame g:not(.dim)').length") == 1


@in_browser
def test_a_link_shows_the_same(browser, tmp_path):
    """The state, the name, the words of the search and the bar that was zoomed to."""
    path = tmp_path / "p.html"
    path.write_text("".join(page(prepared())))
    browser.open(path)
    browser.run("location.hash = 'time=running&name=train&zoom=n0.0'; new Promise(done => setTimeout(done, 50))")
    assert labels(browser) == ["train", "step"]
    assert browser.run("document.querySelector('#by-state').value") == "running"


@in_browser
def test_the_page_runs_without_an_error_and_in_the_dark(opened):
    """No request, no error; the colours change with the scheme."""
    light = opened.run("getComputedStyle(document.body).backgroundColor")
    opened.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    try:
        assert opened.run("getComputedStyle(document.body).backgroundColor") != light
    finally:
        opened.call("Emulation.setEmulatedMedia", features=[])
