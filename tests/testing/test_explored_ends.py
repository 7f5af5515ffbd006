"""How explored runs end: limits that the program catches, failures that do not repeat, garbage, files of timelines."""

from __future__ import annotations

import asyncio
import gc
import io
import subprocess
import sys
import time
from pathlib import Path

import pytest

import miniray as ray
from miniray.cluster_utils import Cluster
from miniray.exceptions import DeadlockError
from miniray.runtime.core_lock import HAS_GIL
from miniray.runtime.simulated.baton import LimitExceeded
from miniray.runtime.simulated.runtime import SimulatedRuntime
from miniray.session import clusters
from miniray.testing import ExplorationFailure, explore, simulate
from miniray.testing.exploring.simulation import RUNS_OF_GARBAGE
from tests.testing.account import Account

ROOT = Path(__file__).resolve().parents[2]


def test_the_watchdog_reports_a_program_that_catches_what_ends_its_run(monkeypatch):
    """It used to hang without a word, since steps were made all the time."""
    said = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", said)

    def program():
        while "the driver goes on" not in said.getvalue():
            try:
                time.sleep(1000)
            except BaseException:
                continue

    with pytest.raises(ExplorationFailure) as failure:
        explore(program, 1, max_virtual_s=50_000, watchdog_s=0.1, shrink=False)
    assert isinstance(failure.value.__cause__, LimitExceeded)
    assert "LimitExceeded: the run took more than max_virtual_s=50000" in said.getvalue()
    assert "in program" in said.getvalue()


def test_a_program_that_catches_the_limit_once_is_ended_later():
    def program():
        try:
            time.sleep(2_000_000)
        except BaseException:
            while True:
                time.sleep(1)

    with pytest.raises(ExplorationFailure) as failure:
        explore(program, 1, watchdog_s=0)
    assert isinstance(failure.value.__cause__, LimitExceeded)


def test_a_failure_that_does_not_repeat_says_so():
    calls = []

    def program():
        calls.append(1)
        assert len(calls) != 3, "the third call"

    with pytest.raises(
        ExplorationFailure, match="it did not fail again when the same schedule was repeated"
    ) as failure:
        explore(program, 10)
    assert not failure.value.repeats
    assert "shrunk schedule" not in str(failure.value)


def test_a_failure_that_repeats_says_so():
    with pytest.raises(ExplorationFailure, match="the shrunk schedule has 0 choices") as failure:
        explore(lambda: 1 / 0, 1)
    assert failure.value.repeats


@pytest.mark.skipif(not HAS_GIL, reason="the collector has no generations there")
def test_garbage_of_a_run_starts_no_session_later():
    """Its __del__ calls miniray. It used to start a session after the run, and the next run refused to begin."""

    class Garbage:
        def __init__(self):
            self.me = self

        def __del__(self):
            ray.put("gone")

    for seed in range(3):
        assert simulate(lambda: [Garbage() for _ in range(1000)] and 1, seed) == 1
        assert not ray.is_initialized()


def test_what_an_async_method_that_has_begun_waits_for_is_not_called_queued():
    def program():
        @ray.remote
        class A:
            async def wait(self):
                await asyncio.Event().wait()

        ray.get(A.remote().wait.remote())

    with pytest.raises(DeadlockError, match="which has begun at .*A .actor 1., and waits there"):
        simulate(program)


def test_a_timeline_that_cannot_be_written_raises(tmp_path):
    def program():
        ray.put(1)
        raise ValueError

    with pytest.raises(ExplorationFailure) as failure:
        explore(program, 1)
    with pytest.raises(FileNotFoundError):
        failure.value.timeline(str(tmp_path / "none" / "page.html"))
    failure.value.timeline(str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").exists()


def run_explore(folder, *words):
    command = [sys.executable, "-m", "miniray", "explore", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})


def test_the_command_refuses_a_timeline_in_a_folder_that_is_not_there(tmp_path):
    (tmp_path / "prog.py").write_text("import ray; ray.put(1); 1 / 0")
    ended = run_explore(tmp_path, "--seeds", "1", "--timeline", "none/page.html", "--", "prog.py")
    assert ended.returncode == 2 and "there is no folder 'none'" in ended.stderr


def test_the_command_runs_a_module(tmp_path):
    (tmp_path / "prog.py").write_text("import ray, sys; ray.put(1); assert sys.argv[1:] == ['a']; 1 / 0")
    ended = run_explore(tmp_path, "--seeds", "1", "--timeline", "page.html", "--", "-m", "prog", "a")
    assert ended.returncode == 1 and "ZeroDivisionError" in ended.stdout, ended.stderr
    assert "-- -m prog a\n" in ended.stdout and "timeline: page.html" in ended.stdout
    assert (tmp_path / "page.html").exists()


def test_what_runs_leave_in_cycles_is_freed_now_and_then():
    """The collector is off during a run, so that it would hardly ever start on its own. Here it never does."""

    def sessions():
        return sum(isinstance(thing, SimulatedRuntime) for thing in gc.get_objects())

    gc.collect()
    thresholds, before = gc.get_threshold(), sessions()
    gc.set_threshold(0)
    try:
        explore(lambda: ray.get(Account.remote(0).balance.remote()), 3 * RUNS_OF_GARBAGE)
        assert sessions() - before <= RUNS_OF_GARBAGE
    finally:
        gc.set_threshold(*thresholds)


def test_a_cluster_that_a_run_leaves_is_forgotten():
    """It used to be kept by its address, with the whole session of its run."""
    made = Cluster()
    before = list(clusters)
    try:
        explore(lambda: Cluster(initialize_head=True, connect=True), 3)
        assert list(clusters) == before
    finally:
        made.shutdown()
