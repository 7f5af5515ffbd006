"""Simulation: a seed decides who goes on, the clock is virtual, and the same seed gives the same run."""

from __future__ import annotations

import asyncio
import datetime
import os
import pathlib
import queue
import random
import subprocess
import sys
import threading
import time
import uuid

import pytest

import miniray as ray
from miniray.testing import ExplorationFailure, explore, reachable, simulate, sometimes
from miniray.testing.simulation import Run

ROOT = pathlib.Path(__file__).resolve().parents[2]


@ray.remote
class Account:
    """A balance, read and written in two calls."""

    def __init__(self, balance: int) -> None:
        self.value = balance

    def balance(self) -> int:
        """The balance."""
        return self.value

    def set_balance(self, balance: int) -> None:
        """Set it."""
        self.value = balance

    def pay_in(self, amount: int) -> int:
        """Read and write in one call."""
        self.value += amount
        return self.value


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


# ---------------------------------------------------------------- one run


def test_a_session_is_simulated_on_request():
    """`init(runtime="simulated", seed=...)` needs nothing else. Its hour takes no time."""
    started = time.perf_counter()
    ray.init(runtime="simulated", seed=3)
    try:
        before = time.time()
        account = Account.remote(1)
        assert ray.get(account.pay_in.remote(1)) == 2
        time.sleep(3600)
        assert time.time() == before + 3600
    finally:
        ray.shutdown()
    assert time.perf_counter() - started < 60
    assert "Sim" not in type(threading.Lock()).__name__


def test_simulate_returns_what_the_function_returns():
    """The function's session starts by itself and ends with the run."""
    assert simulate(lambda: ray.get(ray.put(7)), seed=1) == 7
    assert not ray.is_initialized()


def test_simulate_raises_what_the_function_raises():
    """And what it raises passes through."""
    with pytest.raises(ZeroDivisionError):
        simulate(lambda: 1 // 0)
    assert not ray.is_initialized()


def test_simulate_refuses_a_running_session():
    """The session's threads would not take part."""
    ray.init(num_cpus=1)
    try:
        with pytest.raises(RuntimeError, match="shutdown"):
            simulate(lambda: None)
    finally:
        ray.shutdown()


def everything() -> list[object]:
    """Uses everything that a simulation controls."""
    seen: list[object] = []

    @ray.remote(max_retries=5, retry_exceptions=True)
    def flaky(x: int) -> tuple[int, str]:
        time.sleep(3600)
        if random.random() < 0.5:
            raise OSError("try again")
        return x, uuid.uuid4().hex

    @ray.remote
    class Meeting:
        def __init__(self) -> None:
            self.begun = asyncio.Event()

        async def attend(self) -> float:
            await self.begun.wait()
            return time.time()

        async def begin(self, refs: list[object]) -> object:
            await asyncio.sleep(1800)
            self.begun.set()
            return await refs[0]

    meeting = Meeting.remote()
    refs = [flaky.remote(x) for x in range(5)]
    attending = meeting.attend.remote()
    seen.append(ray.get(meeting.begin.remote(refs[:1])))
    seen.append(ray.get([attending, *refs]))
    work: queue.Queue[object] = queue.Queue()

    def serve() -> None:
        while (item := work.get()) is not None:
            time.sleep(random.random())
            seen.append(item)

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    for item in [*range(6), None, None, None]:
        work.put(item)
    for thread in threads:
        thread.join()
    seen.append([threading.Event().wait(5), datetime.datetime.now(), os.urandom(4), time.strftime("%c")])

    async def main() -> object:
        await asyncio.sleep(100)
        return await asyncio.wait_for(flaky.remote(9), 100_000)

    seen.append(asyncio.run(main()))
    return seen


def log_of(seed: int) -> str:
    """The event log and the results of `everything`."""
    run = Run(everything, seed, keep_log=True).go()
    assert run.error is None, run.error
    return f"{run.log}{run.result}\n"


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_gives_the_same_log_in_two_processes(seed):
    """Byte for byte, under two hash seeds. Starts two programs."""
    code = f"import sys, tests.testing.test_simulation as t; sys.stdout.write(t.log_of({seed}))"
    logs = []
    for hash_seed in "1", "2":
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, cwd=ROOT)
        assert done.returncode == 0, done.stderr.decode()
        logs.append(done.stdout)
    assert logs[0] == logs[1]
    assert len(logs[0]) > 10_000


def test_other_seeds_give_other_runs():
    """The schedule and the random numbers both differ."""
    assert log_of(1) == log_of(1) != log_of(2)


def test_a_module_that_imported_a_clock_by_name_has_the_virtual_one():
    """The globals of the function are searched for the originals."""
    names: dict[str, object] = {}
    exec("from time import time, sleep\ndef late():\n    sleep(86000)\n    return time()", names)
    assert simulate(names["late"]) == 1767225600.0 + 86000
    assert names["time"] is time.time


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
    name, value = caught.value.replay.split()[0].split("=")
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
