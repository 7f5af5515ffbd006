"""Exploration: a program runs under many schedules, and a failure tells how to repeat it."""

from __future__ import annotations

import asyncio
import functools
import os
import pathlib
import random
import shlex
import signal
import subprocess
import sys
import time

import pytest

import miniray as ray
from miniray.process import context
from miniray.testing import ExplorationFailure, FaultPlan, explore, reachable, simulate, sometimes
from miniray.testing.exploring.exploration import DidNotRepeat
from miniray.testing.exploring.replay_command import python
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


@pytest.mark.parametrize("strategy", ["random", "exhaustive"])
@pytest.mark.parametrize("error", [SystemExit(0), SystemExit(3), GeneratorExit(), asyncio.CancelledError()], ids=repr)
def test_whatever_the_function_raises_is_a_failure(strategy, error):
    """A SystemExit used to escape without the seed, and to end the program."""

    def program() -> None:
        raise error

    with pytest.raises(ExplorationFailure, match="with seed 0") as caught:
        explore(program, strategy=strategy)
    assert caught.value.__cause__ is error


def test_an_interrupt_ends_the_exploration():
    """Ctrl-C, and what the handler of a signal raises. It says how far the exploration was."""

    def handler(*ignored) -> None:
        raise LookupError("the handler")

    def program() -> None:
        if ray.get(ray.put(random.random())) > 0.5:
            os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(LookupError) as caught:
            explore(program)
    finally:
        signal.signal(signal.SIGALRM, before)
    if sys.version_info >= (3, 11):
        assert "of explore, with seed" in caught.value.__notes__[0]

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(interrupted)


@pytest.mark.parametrize("cleans_up", [False, True])
def test_sigterm_ends_the_exploration(cleans_up):
    """While a session runs, it raises SystemExit. This used to be a failure of the program, with a seed."""

    def program() -> None:
        ray.get(ray.put(1))
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        finally:
            if cleans_up:
                raise LookupError("while it cleans up")

    with pytest.raises(LookupError if cleans_up else SystemExit):
        explore(program)


def test_a_coroutine_is_run_and_a_generator_is_refused():
    """Nothing of them has run when the function returns. A reference is a value like any other."""

    async def hour(result: int) -> int:
        await asyncio.sleep(3600)
        assert time.time() == 1767225600.0 + 3600
        return result

    async def fails_late() -> None:
        await hour(1)
        raise ZeroDivisionError

    class Callable:
        async def __call__(self) -> int:
            return await hour(3)

    class Awaitable:
        def __await__(self):
            return hour(4).__await__()

    for number, fn in enumerate((lambda: hour(1), functools.partial(hour, 2), Callable(), Awaitable), start=1):
        assert simulate(fn) == number
        assert explore(fn, 3).runs == 3
    with pytest.raises(ExplorationFailure, match="ZeroDivisionError"):
        explore(lambda: fails_late())

    def generator():
        yield 1

    async def async_generator():
        yield 1

    for fn in generator, async_generator, lambda: (x for x in ()):
        for run in simulate, explore:
            with pytest.raises(TypeError, match="generator"):
                run(fn)
    assert isinstance(simulate(lambda: ray.put(1)), ray.ObjectRef)


def test_exhaustive_with_faults_by_chance_is_never_complete():
    """It tries every schedule with the faults of each seed. It used to take the faults of one seed for all."""

    @ray.remote(max_retries=3)
    def pay(account) -> None:
        ray.get(account.pay_in.remote(50))

    def payment() -> None:
        account = Account.remote(100)
        ray.get(pay.remote(account))
        assert ray.get(account.balance.remote()) == 150

    assert explore(payment, strategy="exhaustive").covered
    with pytest.raises(ExplorationFailure) as caught:
        explore(payment, strategy="exhaustive", faults=FaultPlan(crash=0.2))
    assert caught.value.seed > 0
    found = explore(payment, [0], strategy="exhaustive", faults=FaultPlan(crash=0.2))  # nothing strikes
    assert found.runs and not found.covered


def test_exhaustive_searches_for_each_seed_that_it_is_given():
    """One search for each, since other random numbers may lead elsewhere; a part of the seeds is not all."""

    def program() -> None:
        sometimes(random.random() < 0.5, "less")
        sometimes(random.random() >= 0.5, "more")

    found = explore(program, range(20), strategy="exhaustive")
    assert found.runs == 20 and found.covered and not found.never
    assert not explore(program, range(20), strategy="exhaustive", max_schedules=5).covered
    assert explore(program, strategy="exhaustive").runs == 1


def test_a_seed_of_pct_has_the_same_schedule_alone():
    """It used to depend on the length of the run before. So a failure's seed could pass alone."""

    def schedules(seeds: object) -> list[int]:
        found: list[int] = []

        def program() -> None:
            fixed()
            found.append(context.simulation.baton.digest)

        explore(program, seeds, "pct")
        return found[1:]  # without the run that finds out how long a run is

    assert schedules([4, 3])[1:] == schedules([3])


def test_pct_with_a_depth_beyond_the_length_of_a_run():
    """It used to draw that many points, without end."""
    assert explore(fixed, 5, "pct", depth=10**9).runs == 5


class Unprintable(Exception):
    """An error whose every method fails."""

    __hash__ = None  # type: ignore[assignment]

    def _fails(self, *arguments: object) -> None:
        raise RuntimeError("a method of the error failed")

    __str__ = __repr__ = __eq__ = __reduce_ex__ = __setattr__ = __getattr__ = _fails  # type: ignore[assignment]
    cause = property(_fails)


@pytest.mark.parametrize("in_task", [False, True])
def test_an_error_whose_methods_fail(in_task):
    """It used to end the exploration as the error of its method, without a seed."""

    def fails() -> None:
        raise Unprintable

    def program() -> None:
        if in_task:
            ray.get(ray.remote(fails).remote())
        fails()

    with pytest.raises(ExplorationFailure, match="replay: ") as caught:
        explore(program, 3)
    assert caught.value.seed == 0
    assert isinstance(caught.value.__cause__, ray.exceptions.RayTaskError if in_task else Unprintable)
    assert in_task or str(caught.value).startswith("Unprintable (its text cannot be shown")


@pytest.mark.parametrize("name", ["__class__", "__traceback__", "__context__", "__cause__"])
@pytest.mark.parametrize("strategy", ["random", "exhaustive"])
def test_an_error_with_a_property_that_fails(name, strategy):
    """The same happened if a property had the name of an attribute that every error has."""

    def fails(error: object) -> None:
        raise ValueError

    kind: type[Exception] = type("Odd", (Exception,), {name: property(fails)})

    def program() -> None:
        raise kind("odd")

    with pytest.raises(ExplorationFailure, match="Odd: odd"):
        explore(program, [0], strategy)


class Curious(Exception):
    """An error whose text is that of a task."""

    def __str__(self) -> str:
        return f"{ray.get(ray.remote(lambda: 7).remote())}"


def test_an_error_whose_text_comes_from_a_task():
    """The report used to start a session outside of the run, so that later explorations were refused."""

    def program() -> None:
        raise Curious

    with pytest.raises(ExplorationFailure, match="Curious: 7"):
        explore(program, 3)
    assert not ray.is_initialized()


def test_an_error_whose_class_the_program_defines_is_shrunk():
    """The class is another one in each run. The schedule used to stay as long as it was found."""

    def program() -> None:
        class Lost(Exception):
            pass

        try:
            buggy()
        except AssertionError:
            raise Lost from None

    with pytest.raises(ExplorationFailure) as caught:
        explore(program)
    with pytest.raises(ExplorationFailure) as shortest:
        explore(buggy)
    assert caught.value.schedule == shortest.value.schedule


# ---------------------------------------------------------------- replays


@pytest.mark.parametrize("choices", ["99,99", ",".join(["0"] * 500 + ["1"])])
def test_a_replay_that_does_not_repeat_is_no_success(monkeypatch, choices):
    """A choice that does not exist, or that the run never came to."""
    monkeypatch.setenv("MINIRAY_REPLAY", f"fixed:1:{choices}")
    with pytest.raises(DidNotRepeat, match="not the run that failed"):
        explore(fixed)
    monkeypatch.setenv("MINIRAY_REPLAY", "fixed:1:")
    assert explore(fixed).runs == 1


def test_a_replay_without_its_fault_is_no_success(monkeypatch):
    """The name of the fault does not fit the program any longer."""
    monkeypatch.setenv("MINIRAY_REPLAY", "fixed:1:")
    monkeypatch.setenv("MINIRAY_REPLAY_FAULTS", "crash: renamed (driver.1 attempt 0)")
    with pytest.raises(DidNotRepeat, match="renamed"):
        explore(fixed, faults=FaultPlan(crash=0.1))


@pytest.mark.parametrize("value", ["fixed", "fixed:1", "fixed:x:0", "fixed:1:a", "fixed:1:0,-1", ":"])
def test_a_replay_that_makes_no_sense_is_refused(monkeypatch, value):
    """With the form that it must have."""
    monkeypatch.setenv("MINIRAY_REPLAY", value)
    with pytest.raises(ValueError, match="NAME:SEED:CHOICES"):
        explore(fixed)


def test_a_replay_is_meant_for_one_lambda(monkeypatch):
    """Functions without a name are told apart by their lines."""
    with pytest.raises(ExplorationFailure) as caught:
        explore(lambda: buggy())
    value = next(word for word in shlex.split(caught.value.replay) if word.startswith("MINIRAY_REPLAY="))
    monkeypatch.setenv(*value.split("=", 1))
    assert explore(lambda: fixed(), 3).runs == 3


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
    replayed = run(*shlex.split(command.split(" explore ")[1]), "--timeline", str(page))
    assert replayed.returncode == 1
    assert "AssertionError" in replayed.stderr
    lost = run("--seed", "1", "--schedule", "99,99", "--", str(script))
    assert lost.returncode == (1 if "AssertionError" in lost.stderr else 2)


ORDER = """
import ray

@ray.remote
class Names:
    def __init__(self): self.names = []
    def add(self, name): self.names.append(name)
    def all(self): return self.names

@ray.remote
def add(names, name):
    ray.get(names.add.remote(name))

names = Names.remote()
ray.get([add.remote(names, name) for name in {"alpha", "beta", "gamma", "delta"}])
assert ray.get(names.all.remote())[0] != "alpha", ray.get(names.all.remote())
"""


@pytest.mark.parametrize("hash_seed", [None, "3"])
def test_the_replay_command_has_the_order_of_sets(tmp_path, hash_seed):
    """It used to drop PYTHONHASHSEED. Without this variable, the command fixes it. Starts programs."""
    (tmp_path / "order.py").write_text(ORDER)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    environment["PYTHONPATH"] = str(ROOT)
    command = f"{sys.executable} -m miniray explore --seeds 200 -- order.py"

    def run(command: str, **more: str) -> subprocess.CompletedProcess[str]:
        words = command.replace(f"{python()} -m", f"{sys.executable} -m") if command.startswith("PYTHON") else command
        return subprocess.run(
            words, shell=True, capture_output=True, text=True, env={**environment, **more}, cwd=tmp_path
        )

    done = run(command, **({} if hash_seed is None else {"PYTHONHASHSEED": hash_seed}))
    assert done.returncode == 1, done.stderr
    error = done.stdout.splitlines()[0]
    replay = next(line for line in done.stdout.splitlines() if line.startswith("replay: ")).removeprefix("replay: ")
    assert replay.startswith(f"PYTHONHASHSEED={hash_seed or 0} ")
    replayed = run(replay)
    assert replayed.returncode == 1
    assert error in replayed.stderr
