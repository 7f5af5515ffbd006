"""How busy the CPUs were, and the causes of idle CPUs."""

from __future__ import annotations

import pytest

from miniray.observe.timeline import utilisation as module
from miniray.observe.timeline.utilisation import CAUSES, union, utilisation
from tests.observe.timeline.timeline_sessions import Session, pipeline


def busy(session: Session, bins: int = 10) -> list[float]:
    """The CPUs in use over time."""
    return [round(value, 6) for value in utilisation(session.read(), bins).busy]


def idle(session: Session, bins: int = 10) -> list[list[float]]:
    """The idle CPUs over time, by cause."""
    return [[round(value, 6) for value in layer] for layer in utilisation(session.read(), bins).idle]


def test_cpus_in_use_are_averaged_over_bins():
    """Each of the two tasks holds one CPU; the second begins in the middle of a bin."""
    session = Session()
    session.task("f", 0, 0, 0.001, 1, 9, 10)
    session.task("f", 0, 0, 4.5, 4.6, 5.8, 6, worker=session.worker())
    assert busy(session) == [0.999, 1, 1, 1, 1.5, 2, 1, 1, 1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_busy_and_idle_add_up_to_all_cpus(seed):
    """In every bin, whatever runs, and no part is negative."""
    used = utilisation(pipeline(300, seed=seed).read(), 97)
    for place, (cpus, capacity) in enumerate(zip(used.busy, used.capacity)):
        parts = [layer[place] for layer in used.idle]
        assert min([cpus, *parts]) >= 0
        assert cpus + sum(parts) == pytest.approx(max(cpus, capacity))
    total = sum(row.finished - row.leased for row in pipeline(300, seed=seed).read().rows)
    assert sum(used.busy) * used.bin_s == pytest.approx(total)


def test_a_task_that_waits_has_lent_its_cpu():
    """While a task waits in get, its CPU is idle, or counts for the task that borrowed it."""
    session = Session()
    task = session.task("outer", 0, 0, 0.001, 0.002, 9.99, 10)
    session.wait(task, 2.0, 7.0)
    assert busy(session)[2:8] == [0, 0, 0, 0, 0, 1]


def test_coroutines_of_one_actor_keep_one_thread_busy():
    """The number of calls in flight does not matter."""
    session = Session()
    actor = session.actor("A", is_async=True)
    for begin in (0, 1, 2):
        session.task("go", begin, begin, begin + 0.0001, begin + 0.1, begin + 4.9, begin + 5, actor=actor)
    session.task("go", 9, 9, 9.0001, 9.1, 9.9, 10, actor=actor)
    assert [round(value) for value in busy(session)] == [1, 1, 1, 1, 1, 1, 1, 0, 0, 1]


def test_a_union_merges_overlapping_intervals_and_sorts_them():
    """Intervals that touch are merged too."""
    assert union([(3, 4), (0, 2), (1, 2.5)]) == [(0, 2.5), (3, 4)]
    assert union([(2, 3), (1, 2)]) == [(1, 3)]


def test_an_idle_cpu_is_charged_to_the_work_that_could_have_used_it():
    """One of two CPUs works; the other waits for arguments, then for the driver, then for nothing."""
    session = Session()
    load = session.task("load", 0, 0, 0.0001, 0.1, 3.9, 4)
    session.task("clean", 0, 4, 4.0001, 4.1, 5.9, 6, after=(load,))
    session.task("last", 9, 9, 9.0001, 9.1, 9.9, 10)
    session.wait(None, 4.0, 6.0)
    layers = idle(session)
    arguments, driver_waits, other = layers[2], layers[3], layers[4]
    assert arguments[:4] == [1, 1, 1, 1] and not any(arguments[4:])
    assert driver_waits[4:6] == [1, 1]
    assert other[6:9] == [2, 2, 2]
    assert "arguments" in CAUSES[2] and "waited for results" in CAUSES[3] and "something else" in CAUSES[4]


def test_a_task_without_a_place_and_a_call_that_waits_for_its_actor_are_different_causes():
    """Both are ready, and both leave a CPU idle."""
    session = Session(cpus=1)
    session.task("needs_a_gpu", 0, 0)
    actor = session.actor("A")
    session.task("go", 5, 5, 10, 10, 10, 10, actor=actor)
    layers = idle(session)
    assert layers[0] == [1] * 10
    session.cluster.tasks.pop(1)
    [_, lined_up, *_] = idle(session, 5)
    assert lined_up[:4] == [1, 1, 1, 1]


def test_cpus_in_use_never_exceed_the_cpus():
    """A thousand calls of actors without CPUs once made a page say that 9676 % of the CPUs were in use."""
    session = Session(cpus=4)
    for _ in range(50):
        session.task("go", 0, 0, 0.0001, 0.1, 9, 10, actor=session.actor("A"))
    used = utilisation(session.read(), 10)
    assert used.share(used.busy) <= 1 and max(used.busy) <= 4
    assert round(max(used.running)) == 50


def test_a_spec_for_each_call_costs_no_more(monkeypatch):
    """`.options()` for each call once made the page 27 times slower: sums are made by kind, and not by spec."""
    made = []
    monkeypatch.setattr(module._BinnedSum, "add", lambda self, *intervals: made.append(intervals))
    monkeypatch.setattr(module._BinnedSum, "values", [0.0] * 10, raising=False)
    session = Session()
    for number in range(300):
        session.task("f", 0, 0, number, number, number + 1, number + 1, name=f"call {number}")
    utilisation(session.read(), 10)
    assert len(made) < 20
