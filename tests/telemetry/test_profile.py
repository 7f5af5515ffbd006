"""The sampling profiler: what it says of known programs, the forms in which it is written, and what it costs."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import html.parser
import json
import re
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

import miniray as ray
from miniray import telemetry
from miniray._common.test_utils import wait_for_condition
from miniray.cli import main
from miniray.telemetry.profiler import sampler as sampling
from miniray.telemetry.profiler.collapsed import collapsed
from miniray.telemetry.profiler.forms import form_of
from miniray.telemetry.profiler.page import page
from miniray.telemetry.profiler.samples import Samples, Stack
from miniray.telemetry.profiler.sampler import DRIVER, Sampler
from miniray.telemetry.profiler.speedscope import speedscope
from tests.observe.timeline.chromium import Browser, find_chromium

until = partial(wait_for_condition, retry_interval_ms=1)
ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\x1b[2J;\ud800"


@pytest.fixture
def session():
    """A session with four CPUs."""
    ray.init(num_cpus=4, log_to_driver=False)
    yield
    ray.shutdown()


def sampled(*, of: str, at_least: int = 20, hz: float = 500.0):
    """Profile what runs, until a name has been seen so often."""
    profile = telemetry.profile(hz=hz)
    with profile:
        seen = profile._sampler
        until(lambda: sum(node.samples for node in nodes(seen.roots.get(of))) >= at_least, timeout=30)
    return profile


def nodes(root):
    """All nodes of a tree."""
    found = [root] if root is not None else []
    for node in found:
        found += list(node.children.values())
    return found


def sums(profile, name: str) -> tuple[float, float]:
    """For how long a name ran, and waited, as parts of the time for which it was seen."""
    stacks = profile.by_name()[name]
    running, waiting = sum(stack.running_s for stack in stacks), sum(stack.waiting_s for stack in stacks)
    return running / (running + waiting), waiting / (running + waiting)


@ray.remote
class Worker:
    """An actor whose methods compute or wait until they are told to end."""

    def __init__(self):
        self.ended = threading.Event()

    def computes(self):
        """Compute in Python."""
        while not self.ended.is_set():
            self.step()

    def step(self):
        """A function that is called."""
        return sum(n * n for n in range(50))

    def hashes(self):
        """Compute in C, without the GIL."""
        data = b"x" * 10_000_000
        while not self.ended.is_set():
            hashlib.sha256(data).digest()

    def waits(self):
        """Wait in C."""
        self.ended.wait()

    def gets(self, refs):
        """Wait for an object."""
        ray.get(refs)

    def in_thread(self):
        """Compute in a thread of its own."""
        thread = threading.Thread(target=self.computes, name="helper")
        thread.start()
        thread.join()

    def end(self):
        """Tell the others to end."""
        self.ended.set()


@pytest.fixture
def worker(session):
    """An actor with three threads."""
    made = Worker.options(max_concurrency=3).remote()
    yield made
    ray.get(made.end.remote())


# ---------------------------------------------------------------- what it sees


def test_a_method_that_computes_runs(worker):
    """By name, with its functions and lines. The driver waits meanwhile, in a wait of its own."""
    call = worker.computes.remote()
    profile = sampled(of="Worker.computes")
    stacks = profile.by_name()["Worker.computes"]
    assert {stack.places[0][0].rpartition(".")[2] for stack in stacks if stack.places} == {"computes"}
    assert any([place[0].rpartition(".")[2] for place in stack.places][:2] == ["computes", "step"] for stack in stacks)
    assert {stack.ids[0] for stack in stacks} == {call.task_id().hex()}
    assert {stack.ids[1] for stack in stacks} == {worker._actor_id.hex()}
    assert all(stack.places[0][1] == __file__ for stack in stacks if stack.places)
    assert DRIVER in profile.by_name()


@pytest.mark.skipif(not sampling.ON_LINUX, reason="only Linux tells the time of a CPU that a thread has used")
def test_running_and_waiting_are_told_apart(worker):
    """A wait in C waits, and so does a wait for an object. Code in C that computes without the GIL runs."""
    worker.waits.remote()
    worker.hashes.remote()
    profile = sampled(of="Worker.hashes", at_least=100)
    assert sums(profile, "Worker.waits")[1] > 0.95
    assert sums(profile, "Worker.hashes")[0] > 4 * sums(profile, "Worker.waits")[0] + 0.05


def test_a_wait_for_an_object_waits(worker):
    """Whatever the system tells."""

    @ray.remote(num_gpus=1)
    def impossible():
        return 1

    ref = impossible.remote()
    call = worker.gets.remote([ref])
    profile = sampled(of="Worker.gets")
    assert sums(profile, "Worker.gets") == (0.0, 1.0)
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.RayError):
        ray.get(call)


def test_without_the_clock_of_a_thread_the_same_place_means_waiting(worker, monkeypatch):
    """As on systems other than Linux."""
    monkeypatch.setattr(sampling, "ON_LINUX", False)
    worker.waits.remote()
    worker.computes.remote()
    profile = sampled(of="Worker.computes", at_least=50)
    assert sums(profile, "Worker.waits")[1] > 0.8
    assert sums(profile, "Worker.computes")[0] > 0.5


def test_a_thread_that_a_task_has_started_counts_for_the_task(worker):
    """Its stack begins with the thread's own function."""
    worker.in_thread.remote()
    profile = sampled(of="Worker.in_thread", at_least=50)
    functions = {
        stack.places[0][0].rpartition(".")[2] for stack in profile.by_name()["Worker.in_thread"] if stack.places
    }
    assert functions == {"in_thread", "computes"}


def test_tasks_of_one_name_are_one_name(session):
    """The rows name a task only if it was the only one."""

    @ray.remote
    def work():
        return sum(n * n for n in range(20_000))

    with telemetry.profile(hz=1000) as profile:
        ray.get([work.options(name="part").remote() for _ in range(200)])
    rows = [row for row in profile.rows() if row["name"] == "part"]
    assert rows and None in {row["task_id"] for row in rows}
    assert list(rows[0]) == [
        "id", "timestamp_us", "task_id", "actor_id", "worker_id", "name", "state", "stack", "samples",
    ]  # fmt: skip
    assert [row["id"] for row in profile.rows()] == list(range(1, len(profile.rows()) + 1))
    now = time.time() * 1e6
    assert all(now - 60e6 < row["timestamp_us"] <= now and row["state"] in ("running", "waiting") for row in rows)


def test_rows_are_those_of_the_table(session):
    """The columns are those of `stack_samples` in the schema, in their order."""
    from miniray.telemetry.schema import TABLES

    (table,) = [table for table in TABLES if table.name == "stack_samples"]
    with telemetry.profile(hz=500) as profile:
        until(lambda: profile._sampler.samples > 5)
    assert list(profile.rows()[0]) == [column.name for column in table.columns]


def test_an_async_actor_s_calls_are_told_apart(session, tmp_path):
    """While a call's code runs, it counts for the call; a loop that is idle counts for nobody."""

    @ray.remote
    class Actor:
        async def computes(self, path):
            while not Path(path).exists():
                sum(n for n in range(1000))

        async def sleeps(self):
            await asyncio.sleep(1000)

    actor = Actor.remote()
    actor.sleeps.remote()
    call = actor.computes.remote(str(tmp_path / "end"))
    profile = sampled(of="Actor.computes")
    (tmp_path / "end").touch()
    ray.get(call)
    assert {stack.ids[0] for stack in profile.by_name()["Actor.computes"]} == {call.task_id().hex()}
    assert "Actor.sleeps" not in profile.by_name()


def test_local_mode_counts_for_the_innermost_task():
    """The others wait for it."""
    ray.init(local_mode=True, num_cpus=2)
    try:

        @ray.remote
        def outer(path):
            return ray.get(inner.remote(path))

        @ray.remote
        def inner(path):
            until = time.monotonic() + 0.2
            while time.monotonic() < until:
                sum(n for n in range(100))

        with telemetry.profile(hz=500) as profile:
            ray.get(outer.remote("x"))
    finally:
        ray.shutdown()
    names = profile.by_name()
    assert "inner" in names and "outer" not in names
    assert {stack.places[0][0].rpartition(".")[2] for stack in names["inner"] if stack.places} == {"inner"}


def test_a_simulated_session_runs_as_without_a_profile():
    """The sampler's clock is the real one, and the schedule does not depend on it."""

    def run(profiled):
        ray.init(runtime="simulated", seed=5, num_cpus=2, log_to_driver=False)
        try:

            @ray.remote
            def work(n):
                time.sleep(0.1)
                return sum(i * i for i in range(20_000)) + n

            baton = ray.session.context.session.baton
            if profiled:
                with telemetry.profile(hz=1000) as profile:
                    ray.get([work.remote(n) for n in range(20)])
                assert profile.samples
            else:
                ray.get([work.remote(n) for n in range(20)])
            return baton.time, baton.steps, baton.digest
        finally:
            ray.shutdown()

    assert run(True) == run(False)


def test_a_profile_needs_no_session():
    """It sees the driver, before, during and after a session, and across a second one."""
    with telemetry.profile(hz=500) as profile:
        seen = profile._sampler
        for _ in range(2):
            ray.init(num_cpus=1, log_to_driver=False)
            before = seen.samples
            until(lambda before=before: seen.samples > before + 3)
            ray.shutdown()
    assert DRIVER in profile.by_name() and profile.samples >= 6 and profile.notes == []


# ---------------------------------------------------------------- how it begins and ends


def test_start_and_stop_do_what_with_does(tmp_path):
    """A second stop does nothing; a second start is an error."""
    profile = telemetry.profile(tmp_path / "p.txt", hz=1000)
    assert profile.start() is profile
    until(lambda: profile._sampler.samples > 3)
    assert profile.stop() is profile.stop() and (tmp_path / "p.txt").read_text()
    with pytest.raises(RuntimeError, match="begins only once"):
        profile.start()


@pytest.mark.parametrize("hz", [0, -1, 1e9, "100", True, float("nan"), None])
def test_bad_rates_are_refused(hz):
    """Before anything begins."""
    threads = threading.active_count()
    with pytest.raises(ValueError, match="hz is a number of samples a second"):
        telemetry.profile(hz=hz)
    assert threading.active_count() == threads


def test_bad_files(tmp_path):
    """An unknown ending is an error at once. A file that cannot be written is one at the end; the profile remains."""
    with pytest.raises(ValueError, match=r"a profile is written as \.html, \.htm, \.json, \.txt, \.folded, not as"):
        telemetry.profile("x.svg")
    profile = telemetry.profile(tmp_path / "none" / "p.json", hz=1000).start()
    until(lambda: profile._sampler.samples > 3)
    with pytest.raises(FileNotFoundError):
        profile.stop()
    profile.save(tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text())["profiles"]
    assert form_of("a/B.HTML") is form_of("b.htm") and form_of("x.folded.gz") is collapsed


def test_a_sampler_that_fails_says_so(monkeypatch):
    """The program does not notice; the profile has what was seen before, and a note."""
    profile = telemetry.profile(hz=1000).start()
    sampler = profile._sampler
    until(lambda: sampler.samples > 3)

    def fail(*args):
        raise OSError("no more")

    monkeypatch.setattr(sampler, "sample", fail)
    until(lambda: sampler.problem is not None)
    profile.stop()
    assert profile.notes == ["the sampler ended early: OSError('no more')"] and profile.stacks


def test_a_tree_that_is_full_is_said(monkeypatch):
    """The memory of a profile is bounded."""
    monkeypatch.setattr(sampling, "MOST_NODES", 1)
    with telemetry.profile(hz=1000) as profile:
        until(lambda: profile._sampler.samples > 3)
    (note,) = profile.notes
    assert "samples had calls that did not fit into the memory of the profile" in note


def test_a_deep_stack_is_cut_at_its_outer_end():
    """Its innermost calls are those that tell something."""

    def deep(n, then):
        return deep(n - 1, then) if n else then()

    sampler = Sampler(100)
    frames = {}
    deep(600, lambda: frames.update(sys._current_frames()))
    sampler._note("deep", threading.get_ident(), frames[threading.get_ident()], False, 1.0, 0.01)
    (path,) = [len(nodes(sampler.roots["deep"])) - 1]
    assert path <= sampling.MOST_DEPTH


# ---------------------------------------------------------------- forms


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
    import os

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


# ---------------------------------------------------------------- the command


PROGRAM_TEXT = """
import sys, time
import miniray as ray
ray.init(num_cpus=2, log_to_driver=False)
@ray.remote
def work():
    until = time.monotonic() + 0.3
    while time.monotonic() < until: sum(range(100))
ray.get(work.remote())
print("done", sys.argv[1:])
"""


@pytest.mark.parametrize("ending", ["html", "json", "txt"])
def test_a_program_is_profiled(tmp_path, ending):
    """Its output stays as it is; the summary goes to stderr. The exit code is the program's."""
    (tmp_path / "program.py").write_text(PROGRAM_TEXT + "sys.exit(7)\n")
    done = subprocess.run(
        [sys.executable, "-m", "miniray", "profile", "-o", f"p.{ending}", "--hz", "200", "--", "program.py", "-x"],
        cwd=tmp_path,
        env={**__import__("os").environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stdout) == (7, "done ['-x']\n"), done.stderr
    assert f"the profile is in p.{ending}" in done.stderr and "running" in done.stderr and "  work\n" in done.stderr
    text = (tmp_path / f"p.{ending}").read_text()
    assert "work" in text and {"html": "<svg", "json": '"shared"', "txt": "work;work "}[ending] in text


def test_a_program_that_fails_is_profiled_all_the_same(tmp_path, capsys, monkeypatch):
    """The file is written; a folder that is missing is found before the program runs."""
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(
        "import time\nend = time.monotonic() + 0.05\nwhile time.monotonic() < end: pass\n1/0\n"
    )
    assert main(["profile", "-o", "p.txt", "--", "program.py"]) == 1
    assert "<module>" in Path("p.txt").read_text() and "ZeroDivisionError" in capsys.readouterr().err
    assert main(["profile", "-o", "none/p.txt", "--", "program.py"]) == 2
    assert "there is no folder 'none' to write to" in capsys.readouterr().err
