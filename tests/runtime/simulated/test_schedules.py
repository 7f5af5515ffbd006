"""Schedules choose who goes on, without a thread: a program is a list of steps for each thread."""

from __future__ import annotations

import itertools
import math

import pytest

from miniray.runtime.simulated.schedules import PCT, POLLS_IN_VAIN, DepthFirst, Pruned, RandomWalk, Replay, Schedule
from miniray.runtime.simulated.steps import GOES_ON, Step, independent


class Thread:
    """A thread that takes its steps one after the other."""

    def __init__(self, number: int, steps: list[Step]):
        self.number, self.left, self.memory = number, list(steps), None

    @property
    def step(self) -> Step:
        """What it does next."""
        return self.left[0]


def play(schedule: Schedule, *programs: list[Step]) -> list[tuple[int, str]]:
    """Run the threads to their ends. Returns who took which step, in order."""
    threads = [Thread(number, steps) for number, steps in enumerate(programs)]
    running, taken = None, []
    while candidates := [thread for thread in threads if thread.left]:
        if running in candidates:
            candidates.remove(running)
            candidates.insert(0, running)
        running = candidates[schedule.choose(candidates, running in candidates)]
        taken.append((running.number, running.left.pop(0).what))
    return taken


def steps(*touched: str) -> list[Step]:
    """One step for each name, which it touches."""
    return [Step(name, [name]) for name in touched]


def all_runs(*programs: list[Step], limit: int = 10_000) -> tuple[list[list[tuple[int, str]]], DepthFirst]:
    """Every run of a depth-first search that was not pruned, and the search."""
    search, runs = DepthFirst(), []
    for _ in range(limit):
        try:
            runs.append(play(search.next_run(), *programs))
        except Pruned:
            assert not search.done
        search.finished()
        if search.done:
            return runs, search
    raise AssertionError("the search does not end")


def order_of_dependent_steps(run: list[tuple[int, str]]) -> frozenset:
    """What makes a difference about a run: the order of each two steps that touch the same."""
    named = [
        (thread, what, sum(1 for t, w in run[:at] if (t, w) == (thread, what))) for at, (thread, what) in enumerate(run)
    ]
    return frozenset((one, two) for one, two in itertools.combinations(named, 2) if one[1] == two[1])


def test_steps_are_independent_if_they_touch_nothing_in_common():
    """A step that may concern everything depends on all others."""
    assert independent(Step("a", ["x"]), Step("b", ["y"]))
    assert not independent(Step("a", ["x", "y"]), Step("b", ["y"]))
    assert not independent(Step("a", None), GOES_ON)
    assert independent(GOES_ON, Step("a", ["x"]))


def test_the_calm_schedule_interrupts_nobody():
    """Each thread runs to its end."""
    assert [thread for thread, _ in play(Schedule(), steps("a", "b"), steps("c", "d"))] == [0, 0, 1, 1]


def test_a_replay_repeats_a_random_walk():
    """The recorded choices are enough; zeros at the end may be left out."""
    programs = [steps("a", "b", "c")] * 3
    for seed in range(20):
        walk = RandomWalk(seed)
        run = play(walk, *programs)
        assert play(Replay(walk.taken), *programs) == run
        trimmed = list(itertools.dropwhile(lambda choice: not choice, reversed(walk.taken)))[::-1]
        assert play(Replay(trimmed), *programs) == run


def test_a_random_walk_takes_every_path():
    """Two threads of two steps have six interleavings."""
    runs = {tuple(play(RandomWalk(seed), steps("a", "b"), steps("c", "d"))) for seed in range(200)}
    assert len(runs) == 6


@pytest.mark.parametrize("length", [2, 3, 4])
def test_depth_first_sees_every_interleaving_of_dependent_steps(length):
    """If all steps touch the same, none can be pruned: there are (2n)! / n!² of them."""
    runs, _ = all_runs(steps(*"x" * length), steps(*"x" * length))
    assert len(runs) == len(set(map(tuple, runs))) == math.comb(2 * length, length)


def test_depth_first_sees_one_run_if_no_step_makes_a_difference():
    """Three threads that touch nothing in common."""
    runs, _ = all_runs(steps("a", "a"), steps("b", "b"), steps("c", "c"))
    assert len(runs) == 1


def test_depth_first_sees_every_difference_once():
    """Compared with all interleavings, enumerated by hand: each order of dependent steps occurs, and occurs once."""
    programs = [steps("x", "a", "y"), steps("y", "x"), steps("b", "x")]
    wanted = set()
    for order in set(itertools.permutations([0, 0, 0, 1, 1, 2, 2])):
        left = [list(program) for program in programs]
        wanted.add(order_of_dependent_steps([(thread, left[thread].pop(0).what) for thread in order]))
    runs, _ = all_runs(*programs)
    assert {order_of_dependent_steps(run) for run in runs} == wanted
    assert len(runs) == len(wanted)


def test_depth_first_does_not_ask_about_threads_that_go_on():
    """A thread that was woken reaches its next step without an alternative."""
    runs, _ = all_runs([GOES_ON, *steps("x")], [GOES_ON, *steps("y")])
    assert len(runs) == 1


def test_depth_first_is_careful_once_a_step_concerns_everything():
    """Then it makes a difference how far another thread has got."""
    runs, search = all_runs([GOES_ON, GOES_ON], [Step("cancel", None)])
    assert search.learnt == {"careful"}
    assert len(runs) == 3


def test_depth_first_forgets_who_gave_way_when_it_begins_again():
    """The new search may see every schedule."""
    search = DepthFirst()
    schedule = search.next_run()
    play(schedule, [Step("looks", ["x"], polls=True)] * (POLLS_IN_VAIN + 1), steps("y"))
    assert search.gave_way
    schedule.learn("something")
    search.finished()
    assert not search.gave_way


def test_threads_that_share_memory_depend_on_each_other():
    """Each of their steps may be noticed."""
    search, count = DepthFirst(), 0
    while not search.done:
        schedule = search.next_run()
        threads = [Thread(0, steps("a", "a")), Thread(1, steps("b"))]
        try:
            while candidates := [thread for thread in threads if thread.left]:
                for thread in candidates:
                    thread.memory = "shared"
                candidates[schedule.choose(candidates, False)].left.pop(0)
            count += 1
        except Pruned:
            pytest.fail("nothing can be pruned")
        search.finished()
    assert count == 3


def test_a_program_that_does_not_repeat_itself_is_reported():
    """Depth-first search relies on it."""
    search = DepthFirst()
    play(search.next_run(), steps("x"), steps("x"))
    search.finished()
    with pytest.raises(RuntimeError, match="did not repeat itself"):
        play(search.next_run(), steps("x"))


@pytest.mark.parametrize("depth", [1, 2])
def test_pct_keeps_its_guarantee(depth):
    """A bug of depth d is found with a probability of at least 1 / (n * k ** (d - 1)), here counted over many seeds.

    depth 1: thread 2 runs before all others. depth 2: thread 0 is interrupted between its two steps by thread 1.
    """
    programs = [steps("a", "b"), steps("c", "c"), steps("d", "d")]
    seeds, length = 4000, 5
    hits = 0
    for seed in range(seeds):
        order = [thread for thread, _ in play(PCT(seed, depth, length), *programs)]
        hits += order[0] == 2 if depth == 1 else order.index(0) < order.index(1) < len(order) - 1 - order[::-1].index(0)
    assert hits / seeds >= 1 / (3 * length ** (depth - 1))


def test_pct_lets_others_go_on_when_a_thread_polls():
    """Otherwise the thread with the highest priority would poll forever."""
    polls = [Step("looks", (), polls=True)] * 50
    for seed in range(20):
        order = [thread for thread, _ in play(PCT(seed, 1, 100), polls, steps("a", "b"))]
        assert order.index(1) <= 2
