"""The sampling profiler: what it says of known programs, the forms in which it is written, and what it costs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
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
from miniray.runtime.core_lock import HAS_GIL
from miniray.telemetry.profiler import sampler as sampling
from miniray.telemetry.profiler.collapsed import collapsed
from miniray.telemetry.profiler.forms import form_of
from miniray.telemetry.profiler.sampler import DRIVER, Sampler

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
    assert sums(profile, "Worker.gets")[1] > 0.9  # all but the moments before it waits
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.RayError):
        ray.get(call)


def test_without_the_clock_of_a_thread_the_same_place_means_waiting(worker, monkeypatch):
    """As on systems other than Linux."""
    monkeypatch.setattr(sampling, "ON_LINUX", False)
    worker.waits.remote()
    worker.computes.remote()
    profile = sampled(of="Worker.waits", at_least=50)
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
    """The columns are those of `stack_samples` in the schema, in their order. A profile that ends while the session
    runs is in the table, and a second one comes after it."""
    from miniray.telemetry.schema import TABLES

    (table,) = [table for table in TABLES if table.name == "stack_samples"]
    for _ in range(2):
        with telemetry.profile(hz=500) as profile:
            until(lambda profile=profile: profile._sampler.samples > 5)
        assert list(profile.rows()[0]) == [column.name for column in table.columns]
    found = ray.sql("SELECT id, name, stack FROM stack_samples ORDER BY id").rows
    assert [row["id"] for row in found] == list(range(1, len(found) + 1)) and len(found) >= 2
    assert {row["name"] for row in found} == {DRIVER}
    assert all(row["stack"] for row in found)


def test_an_async_actor_s_calls_are_told_apart(session, tmp_path):
    """While a call's code runs, it counts for the call. A call that is suspended waits where it awaits."""

    @ray.remote
    class Actor:
        asleep = 0

        async def computes(self, path):
            while not Path(path).exists():
                sum(n for n in range(1000))

        async def sleeps(self):
            self.asleep += 1
            await asyncio.sleep(1000)

        async def all_asleep(self):
            while self.asleep < 300:
                await asyncio.sleep(0)

    actor = Actor.remote()
    naps = [actor.sleeps.remote() for _ in range(300)]
    ray.get(actor.all_asleep.remote())
    call = actor.computes.remote(str(tmp_path / "end"))
    profile = sampled(of="Actor.computes", at_least=60)
    (tmp_path / "end").touch()
    ray.get(call)
    assert {stack.ids[0] for stack in profile.by_name()["Actor.computes"]} == {call.task_id().hex()}
    asleep = profile.by_name()["Actor.sleeps"][0]
    assert [place[0].rpartition(".")[2] for place in asleep.places] == ["sleeps", "sleep"]
    assert asleep.running_s == 0 and asleep.waiting_s == pytest.approx(300 * profile.seconds, rel=0.4)
    assert asleep.ids == [None, actor._actor_id.hex(), asleep.ids[2]] and naps


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
    of_outer, of_inner = (sum(stack.seconds for stack in names.get(name, ())) for name in ("outer", "inner"))
    assert of_inner > 5 * of_outer
    # Without the GIL, a stack is often cut while it is read; then only the name is known.
    functions = {stack.places[0][0].rpartition(".")[2] for stack in names["inner"] if stack.places}
    assert functions == {"inner"} or not HAS_GIL and not functions


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
    assert re.match(r"(1 sample|\d+ samples) had calls that did not fit into the memory of the profile", note)


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


def profiled(*words):
    """Run `python -m miniray profile` with these words, in this folder."""
    command = [sys.executable, "-m", "miniray", "profile", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=50)


@pytest.mark.parametrize("ending", ["html", "json", "txt"])
def test_a_program_is_profiled(tmp_path, monkeypatch, ending):
    """Its output stays as it is; the summary goes to stderr. The exit code is the program's."""
    (tmp_path / "program.py").write_text(PROGRAM_TEXT + "sys.exit(7)\n")
    monkeypatch.chdir(tmp_path)
    done = profiled("-o", f"p.{ending}", "--hz", "200", "--", "program.py", "-x")
    assert (done.returncode, done.stdout) == (7, "done ['-x']\n"), done.stderr
    assert f"the profile is in p.{ending}" in done.stderr and "running" in done.stderr and "  work\n" in done.stderr
    text = (tmp_path / f"p.{ending}").read_text()
    assert "work" in text and {"html": "<svg", "json": '"shared"', "txt": "work;work "}[ending] in text


def test_a_program_that_fails_is_profiled_all_the_same(tmp_path, capsys, monkeypatch):
    """The file is written; a folder that is missing is found before the program runs."""
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(
        "import time\nend = time.monotonic() + 0.3\nwhile time.monotonic() < end: pass\n1/0\n"
    )
    done = profiled("-o", "p.txt", "--", "program.py")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    assert not re.search(r"\b1 samples", profiled("-o", "q.txt", "--hz", "2", "--", "program.py").stderr)
    assert "<module>" in Path("p.txt").read_text()
    assert main(["profile", "-o", "none/p.txt", "--", "program.py"]) == 2
    assert "there is no folder 'none' to write to" in capsys.readouterr().err
