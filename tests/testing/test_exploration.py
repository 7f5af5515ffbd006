"""Exploration: a program runs under many schedules, and a failure tells how to repeat it."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys

import pytest

import miniray as ray
from miniray.testing import ExplorationFailure, explore, reachable, sometimes
from tests.testing.account import Account

pytest_plugins = "pytester"
ROOT = pathlib.Path(__file__).resolve().parents[2]


@ray.remote
def pay_in_two_calls(account, amount):
    """A lost update, if two run at the same time."""
    ray.get(account.set_balance.remote(ray.get(account.balance.remote()) + amount))


@ray.remote
def pay_in_one_call(account, amount):
    """The fixed version."""
    ray.get(account.pay_in.remote(amount))


def transfers(pay_in):
    """Two payments at the same time."""
    account = Account.remote(100)
    ray.get([pay_in.remote(account, amount) for amount in (1, 2)])
    balance = ray.get(account.balance.remote())
    sometimes(balance == 103, "both arrived")
    assert balance == 103, balance


def buggy():
    """Loses one of two updates in some schedules."""
    transfers(pay_in_two_calls)


def fixed():
    """Never loses an update."""
    transfers(pay_in_one_call)


# ---------------------------------------------------------------- many runs


@pytest.mark.parametrize("strategy", ["random", "pct", "exhaustive"])
def test_explore_finds_a_lost_update(strategy):
    """And tells how to repeat it."""
    with pytest.raises(ExplorationFailure) as caught:
        explore(buggy, seeds=range(200), strategy=strategy)
    failure = caught.value
    assert isinstance(failure.__cause__, AssertionError)
    assert failure.strategy == strategy
    assert "Account.set_balance" in failure.story
    assert "MINIRAY_REPLAY=buggy:" in failure.replay


def test_a_failure_replays_from_its_command(monkeypatch):
    """The variable in the command makes `explore` run the one schedule, and raise the program's own error."""
    with pytest.raises(ExplorationFailure) as caught:
        explore(buggy)
    name, value = next(word for word in caught.value.replay.split() if "REPLAY" in word).split("=")
    monkeypatch.setenv(name, value)
    with pytest.raises(AssertionError) as again:
        explore(buggy)
    assert type(again.value) is AssertionError
    assert explore(fixed, seeds=range(3)).runs == 3  # it is not meant


def test_explore_passes_a_program_without_the_bug():
    """It counts the runs, the different schedules, and the conditions that were met."""
    found = explore(fixed, seeds=range(30))
    assert found.runs == 30
    assert found.distinct > 10
    assert found.sometimes == {"both arrived": 30}
    assert not found.covered


def test_exhaustive_covers_a_small_program():
    """It says so, and needs far fewer runs than there are schedules."""
    found = explore(fixed, strategy="exhaustive")
    assert found.covered
    assert found.runs > 1


def test_exhaustive_says_if_it_did_not_finish():
    """`max_schedules` ends it."""
    found = explore(fixed, strategy="exhaustive", max_schedules=2)
    assert not found.covered
    assert found.runs + found.pruned == 2


def test_conditions_that_no_run_met():
    """`sometimes` and `reachable` are counted by name."""

    def program() -> None:
        reachable("the start")
        sometimes(False, "never")

    found = explore(program, seeds=range(3))
    assert found.sometimes == {"the start": 3, "never": 0}
    assert found.never == ["never"]


def test_an_unknown_strategy_is_refused():
    """With the names of the known ones."""
    with pytest.raises(ValueError, match="random"):
        explore(fixed, strategy="guess")


# ---------------------------------------------------------------- tools


def test_the_marker_runs_a_test_many_times(pytester, monkeypatch):
    """And `--simulate-seed` runs one seed. Starts pytest twice."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(
        """
        import pytest, time
        import miniray as ray

        runs = []

        @pytest.fixture
        def amount():
            return 5

        @pytest.mark.simulate(seeds=7)
        def test_passes(amount):
            time.sleep(100)
            runs.append(ray.get(ray.put(amount)))

        def test_has_run():
            assert runs == [5] * len(runs)
            print("runs", len(runs))

        @pytest.mark.simulate(seeds=50)
        def test_fails():
            @ray.remote
            def name(n):
                return n
            ready, rest = ray.wait([name.remote(1), name.remote(2)])
            assert ray.get(ready[0]) == 1
        """
    )
    result = pytester.runpytest_subprocess("-p", "miniray.testing.plugin", "-s")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*runs 7*", "*ExplorationFailure*"])
    replayed = pytester.runpytest_subprocess("-p", "miniray.testing.plugin", "-s", "--simulate-seed", "3")
    replayed.stdout.fnmatch_lines(["*runs 1*"])


SCRIPT = """
import ray, time

@ray.remote
class Cell:
    def __init__(self): self.value = 0
    def read(self): return self.value
    def write(self, value): self.value = value

@ray.remote
def increment(cell):
    value = ray.get(cell.read.remote())
    time.sleep(1)
    ray.get(cell.write.remote(value + 1))

if __name__ == "__main__":
    cell = Cell.remote()
    refs = [increment.remote(cell) for _ in range(2)]
    if FIXED:
        pass
    ray.get(refs)
    assert FIXED or ray.get(cell.read.remote()) == 2
"""


@pytest.mark.parametrize("is_fixed", [False, True])
def test_the_command_explores_a_script(tmp_path, is_fixed):
    """It exits with 1 after a failure, and the printed command repeats it. Starts programs."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("FIXED", str(is_fixed)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(*words):
        command = [sys.executable, "-m", "miniray", "explore", *words]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    page = tmp_path / "page.html"
    done = run("--seeds", "20", "--timeline", str(page), "--", str(script))
    assert done.returncode == int(not is_fixed), done.stderr
    if is_fixed:
        assert "20 runs passed" in done.stdout
        return
    assert "increment" in page.read_text()
    command = next(line for line in done.stdout.splitlines() if line.startswith("replay: "))
    replayed = run(*shlex.split(command.split(" explore ")[1]))
    assert replayed.returncode == 1
    assert "AssertionError" in replayed.stderr
