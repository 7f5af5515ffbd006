"""What `simulate`, `explore`, `FaultPlan`, `init` and the command refuse: nothing runs, and the error says why."""

from __future__ import annotations

import math
import threading
import time

import pytest

import miniray as ray
from miniray.cli import main
from miniray.testing import FaultPlan, explore, faults, reachable, simulate, sometimes


def never():
    """Must not run."""
    raise AssertionError("it has run")


def with_argument(x):
    """Needs an argument."""
    return x


WRONG = [
    *[("seed", seed, TypeError) for seed in ("a", 1.5, True, None, [1])],
    *[("seeds", seeds, ValueError) for seeds in (0, -4, [], range(0), iter([]), set())],
    *[("seeds", seeds, TypeError) for seeds in ("x", "12", b"12", 2.5, True, None, ["a"], [1.0], {1: 2}, iter(["a"]))],
    *[("strategy", strategy, ValueError) for strategy in ("guess", None, ["random"])],
    *[("faults", plan, TypeError) for plan in ("crash", {}, [FaultPlan()], FaultPlan)],
    *[(name, 0, ValueError) for name in ("max_steps", "depth", "max_schedules")],
    *[(name, -1, ValueError) for name in ("max_steps", "max_virtual_s", "depth", "max_schedules", "watchdog_s")],
    *[(name, math.nan, TypeError) for name in ("max_steps", "depth", "max_schedules")],
    *[(name, math.nan, ValueError) for name in ("max_virtual_s", "watchdog_s")],
    *[(name, "x", TypeError) for name in ("max_steps", "max_virtual_s", "depth", "shrink", "quiet", "replay")],
    *[("fn", fn, TypeError) for fn in (3, None, with_argument)],
]


@pytest.mark.parametrize("name, value, error", WRONG, ids=lambda value: repr(value)[:30])
def test_a_wrong_argument_is_refused(name, value, error):
    """Before the first run. An exploration without a run would pass, whatever the program does."""
    given = {"fn": never, name: value}
    with pytest.raises(error, match=name if name != "seeds" else "seeds"):
        (simulate if name == "seed" else explore)(**given)
    if name in ("fn", "faults"):
        with pytest.raises(error, match=name):
            simulate(**given)


def test_seeds_may_be_anything_that_gives_whole_numbers():
    """A number N stands for range(N)."""
    for seeds in (2, range(2), [5, 6], (7, 7), {8, 9}, iter([1, 2]), (seed for seed in (3, 4))):
        assert explore(lambda: None, seeds).runs == 2


@pytest.mark.parametrize("name", ["crash", "lose_node", "lose_object", "delay", "slow", "full_store", "clock_jump"])
@pytest.mark.parametrize("value", [2, -0.1, math.nan, math.inf, "a", True, None])
def test_a_probability_is_a_number_from_0_to_1(name, value):
    """A plan with another one used to strike always, or never."""
    with pytest.raises((TypeError, ValueError), match=f"{name} must be a number"):
        FaultPlan(**{name: value})


@pytest.mark.parametrize("name", ["node_back_s", "delay_s", "slow_s", "clock_jump_s"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "a", False])
def test_a_time_span_of_a_plan_is_a_number_of_seconds(name, value):
    """Neither negative nor infinite: a clock never goes back."""
    with pytest.raises((TypeError, ValueError), match=name):
        FaultPlan(**{name: value})


@pytest.mark.parametrize(
    "given",
    [{"fatal": 1}, {"at": 3}, {"at": (3,)}, {"at": "crash"}, {"only": "crash: f"}, {"only": 3}, {"only": {1}}],
    ids=str,
)
def test_other_arguments_of_a_plan_are_checked(given):
    """The message names the argument."""
    with pytest.raises(TypeError, match=next(iter(given))):
        FaultPlan(**given)


def test_a_list_of_exact_points_is_as_good_as_a_tuple():
    """A plan can be hashed, whatever it is given."""
    plan = FaultPlan(at=[never], only=["crash: f"])
    assert hash(plan) == hash(FaultPlan(at=(never,), only=frozenset({"crash: f"})))


def test_an_exact_point_must_make_a_fault():
    """The function is called when the session starts."""
    with pytest.raises(TypeError, match="must make a fault"):
        simulate(lambda: ray.put(1), faults=FaultPlan(at=(lambda: 3,)))
    ray.init(num_cpus=1)
    with pytest.raises(TypeError, match="functions that make a fault"):
        FaultPlan(at=(faults.crash_worker("f"),))
    ray.shutdown()


@pytest.mark.parametrize("name", [2, None, "", b"x"])
def test_a_condition_has_a_name(name):
    """Also outside of an exploration."""
    for report in (lambda: sometimes(True, name), lambda: reachable(name)):
        with pytest.raises((TypeError, ValueError), match="name of a condition"):
            report()


@pytest.mark.parametrize(
    "given, message",
    [
        ({"seed": 3}, "runtime='simulated'"),
        ({"runtime": "threaded", "seed": 3}, "runtime='simulated'"),
        ({"runtime": "simulated", "seed": "x"}, "whole number"),
        ({"runtime": "simulated", "seed": True}, "whole number"),
        ({"runtime": "simulated", "local_mode": True}, "together"),
        ({"runtime": ["simulated"]}, "runtime takes"),
    ],
    ids=str,
)
def test_init_refuses_a_seed_that_has_no_effect(given, message):
    """And everything else that it cannot do."""
    with pytest.raises((TypeError, ValueError), match=message):
        ray.init(**given)
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    "words, message",
    [
        ("--seeds 0", "--seeds: it must be at least 1"),
        ("--seeds -1", "--seeds: it must be at least 1"),
        ("--seeds x", "--seeds: "),
        ("--depth 0", "--depth: "),
        ("--max-schedules 0", "--max-schedules: "),
        ("--crash 2", "--crash: it must be a number from 0 to 1"),
        ("--delay nan", "--delay: it must be a number from 0 to 1"),
        ("--seed 1 --schedule x", "--schedule: "),
        ("--seed 1 --schedule 0,-1", "--schedule: no choice may be negative"),
        ("--schedule 0", "--schedule needs --seed"),
        ("--only-faults x", "--only-faults needs --seed"),
        ("--seed 1 --only-faults x", "--only-faults needs"),
        ("--seed 1 --seeds 2", "--seed and --seeds"),
        ("--seed 1 --strategy exhaustive", "--seed needs --schedule"),
    ],
)
def test_the_command_refuses_wrong_options(words, message, capsys):
    """With exit code 2, and the option's name."""
    with pytest.raises(SystemExit) as caught:
        main(["explore", *words.split(), "--", "script.py"])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


class Number:
    """Python takes it for a whole number."""

    def __init__(self, value: int):
        self.value = value

    def __index__(self) -> int:
        return self.value


LENGTHS = [
    math.inf,
    -math.inf,
    math.nan,
    1e20,
    10**30,
    2**63,
    1e10,
    9.3e9,
    -1,
    Number(-1),
    Number(10**20),
    "1",
    None,
    1j,
]


def raised(function, *arguments, **options):
    """The class and the text of what a call raises."""
    try:
        function(*arguments, **options)
    except Exception as error:
        return type(error), str(error)
    return None


@pytest.mark.parametrize("length", LENGTHS, ids=repr)
def test_sleep_refuses_what_it_refuses_outside_of_a_simulation(length):
    """Lengths that were too long used to go beyond the limit of the clock."""
    expected = raised(time.sleep, length)
    assert expected is not None
    assert simulate(lambda: raised(time.sleep, length)) == expected


@pytest.mark.parametrize("length", [math.inf, math.nan, 1e20, 10**30, 1e10], ids=repr)
def test_locks_and_joins_refuse_what_they_refuse_outside_of_a_simulation(length):
    def program():
        lock, event = threading.Lock(), threading.Event()
        lock.acquire()
        thread = threading.Thread(target=event.wait)
        thread.start()
        seen = [raised(lock.acquire, timeout=length), raised(lock.acquire, False, length), raised(thread.join, length)]
        event.set()
        thread.join()
        return seen

    expected = program()
    assert None not in expected
    assert simulate(program) == expected


def test_a_sleep_takes_all_that_python_takes_for_a_number():
    """A subclass of float, and an object with `__index__`, used to sleep on the real clock."""

    class Seconds(float):
        pass

    def program():
        before = time.monotonic()
        for length in Seconds(1000), Number(1000), True, 0:
            time.sleep(length)
        return time.monotonic() - before

    assert simulate(program) == 2001.0
