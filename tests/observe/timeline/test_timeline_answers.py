"""What a timeline answers: how busy, where the gaps are, what set the time."""

from __future__ import annotations

import pytest
from miniray.observe.timeline.answers import CAUSES, critical_path, gaps, path_in_words, union, utilisation

from tests.observe.timeline.timeline_sessions import Session, pipeline, raised


def busy(session: Session, bins: int = 10) -> list[float]:
    """CPUs in use over time."""
    return [round(value, 6) for value in utilisation(session.read(), bins).busy]


def idle(session: Session, bins: int = 10) -> list[list[float]]:
    """Idle CPUs over time, by cause."""
    return [[round(value, 6) for value in layer] for layer in utilisation(session.read(), bins).idle]


def test_cpus_in_use_are_averaged_over_bins():
    """Two tasks of one CPU; the second covers half of a bin."""
    session = Session()
    session.task("f", 0, 0, 0.001, 1, 9, 10)
    session.task("f", 0, 0, 4.5, 4.6, 5.8, 6, worker=session.worker())
    assert busy(session) == [0.999, 1, 1, 1, 1.5, 2, 1, 1, 1, 1]


@pytest.mark.parametrize("seed", range(5))
def test_busy_and_idle_add_up_to_all_cpus(seed):
    """In every bin, whatever runs; no part is negative."""
    used = utilisation(pipeline(300, seed=seed).read(), 97)
    for place, (cpus, capacity) in enumerate(zip(used.busy, used.capacity)):
        parts = [layer[place] for layer in used.idle]
        assert min([cpus, *parts]) >= 0
        assert cpus + sum(parts) == pytest.approx(max(cpus, capacity))
    total = sum(row.finished - row.leased for row in pipeline(300, seed=seed).read().rows)
    assert sum(used.busy) * used.bin_s == pytest.approx(total)


def test_a_task_that_waits_has_lent_its_cpu():
    """In get: the CPU is not in use, or counted for the task that got it."""
    session = Session()
    task = session.task("outer", 0, 0, 0.001, 0.002, 9.99, 10)
    session.wait(task, 2.0, 7.0)
    assert busy(session)[2:8] == [0, 0, 0, 0, 0, 1]


def test_coroutines_of_one_actor_keep_one_thread_busy():
    """However many are in flight."""
    session = Session()
    actor = session.actor("A", is_async=True)
    for begin in (0, 1, 2):
        session.task("go", begin, begin, begin + 0.0001, begin + 0.1, begin + 4.9, begin + 5, actor=actor)
    session.task("go", 9, 9, 9.0001, 9.1, 9.9, 10, actor=actor)
    assert [round(value) for value in busy(session)] == [1, 1, 1, 1, 1, 1, 1, 0, 0, 1]
    assert union([(3, 4), (0, 2), (1, 2.5)]) == [(0, 2.5), (3, 4)]


def test_an_idle_cpu_is_charged_to_what_could_have_used_it():
    """Two CPUs: one works; the other waits for arguments, for the driver, for nothing, in turn."""
    session = Session()
    load = session.task("load", 0, 0, 0.0001, 0.1, 3.9, 4)
    session.task("clean", 0, 4, 4.0001, 4.1, 5.9, 6, after=(load,))
    session.task("last", 9, 9, 9.0001, 9.1, 9.9, 10)
    session.wait(None, 4.0, 6.0)
    layers = idle(session)
    arguments, waited, other = layers[2], layers[3], layers[4]
    assert arguments[:4] == [1, 1, 1, 1] and not any(arguments[4:])
    assert waited[4:6] == [1, 1]
    assert other[6:9] == [2, 2, 2]
    assert "arguments" in CAUSES[2] and "waited for results" in CAUSES[3] and "something else" in CAUSES[4]


def test_a_ready_task_that_finds_no_place_is_told_from_a_call_that_waits_for_its_actor():
    """Both leave a CPU idle."""
    session = Session(cpus=1)
    session.task("needs_a_gpu", 0, 0)
    actor = session.actor("A")
    session.task("go", 5, 5, 10, 10, 10, 10, actor=actor)
    layers = idle(session)
    assert layers[0] == [1] * 10
    session.cluster.tasks.pop(1)
    [_, lined_up, *_] = idle(session, 5)
    assert lined_up[:4] == [1, 1, 1, 1]


def test_the_longest_gaps_come_first_and_say_what_was_waited_for():
    """Told from the task that ended the gap: not submitted, no arguments, or in line; or no task came."""
    session = Session(cpus=2)
    one, two = session.worker(), session.worker()
    load = session.task("load", 0, 0, 0, 0.1, 3.9, 4, worker=one)
    session.task("clean", 0, 4, 4, 4.1, 4.9, 5, worker=two, after=(load,))
    session.task("late", 8, 8, 8, 8.1, 9.9, 10, worker=one)
    found = [(gap.worker, round(gap.end - gap.start, 6), gap.why) for gap in gaps(session.read())]
    assert found == [
        (two, 5, "no other task came for it"),
        (one, 4, "late had not been submitted yet by the driver"),
        (two, 4, "clean waited for the result of load"),
    ]


def test_a_gap_before_a_task_in_line():
    """It was ready for most of the gap."""
    session = Session()
    session.task("big", 0, 0.5, 5, 6, 7, 8)
    assert gaps(session.read())[0].why == "big was ready but not placed here: it stood in line, or was on its way"


def names(session: Session) -> list[str]:
    """The critical path: names of tasks, or what was between."""
    return [step.row.spec.name if step.kind == "task" else step.kind for step in critical_path(session.read())]


def test_the_path_of_a_chain_goes_through_the_argument_that_came_last():
    """Not through the one that was there before."""
    session = Session(cpus=3)
    slow = session.task("slow", 0, 0, 0, 1, 5, 6, worker=session.worker())
    fast = session.task("fast", 0, 0, 0, 1, 2, 3, worker=session.worker())
    session.task("join", 0, 6, 6, 7, 8, 9, worker=session.worker(), after=(fast, slow))
    assert names(session) == ["slow", "join"]
    assert "depend on each other" in path_in_words(critical_path(session.read()))


def test_the_path_of_tasks_in_line_goes_through_what_held_the_worker():
    """They do not depend on each other: the CPU was what was missing."""
    session = Session(cpus=1)
    for number in range(4):
        session.task(f"t{number}", 0, 0, number * 2, number * 2, number * 2 + 1.9, number * 2 + 1.9)
    assert names(session) == ["t0", "queued", "t1", "queued", "t2", "queued", "t3"]
    assert "stood in line" in path_in_words(critical_path(session.read()))


def test_the_path_of_a_loop_with_get_goes_through_the_driver():
    """Each round is submitted when the last has been got."""
    session = Session()
    for number in range(3):
        at = number * 2.0
        session.task(f"round{number}", at, at, at, at + 0.1, at + 1.4, at + 1.5)
        session.wait(None, at + 0.1, at + 1.5)
    assert names(session) == ["round0", "driver", "round1", "driver", "round2"]


def test_the_path_goes_into_the_tasks_that_a_task_waited_for():
    """A task that stands in get is not what takes the time."""
    session = Session()
    parent = session.task("parent", 0, 0, 0, 0.5, 9, 9.5, worker=session.worker())
    session.task("child", 1, 1, 1, 2, 7, 8, worker=session.worker(), inside=parent)
    session.task("unrelated", 1, 1, 1, 2, 7, 7.999, worker=session.worker())
    session.wait(parent, 1.5, 8.0)
    assert names(session) == ["parent", "child", "parent"]


def test_the_path_goes_through_the_attempt_that_failed():
    """The second could not begin before."""
    session = Session()
    task = session.task("flaky", 0, 0, 0, 1, 2, 3)
    session.again(task, raised(OSError("x")), 3, 3, 4, 5, 6, 7)
    assert [step.row.attempt for step in critical_path(session.read()) if step.kind == "task"] == [0, 1]


def test_a_call_waits_for_its_actor_and_not_for_others():
    """What ended on another worker meanwhile has nothing to do with it."""
    session = Session(cpus=2)
    actor = session.actor("A")
    session.task("first", 0, 0, 0, 1, 3, 4, actor=actor)
    session.task("other", 0, 0, 0, 1, 3, 4.5, worker=session.worker())
    session.task("second", 0, 0, 5, 6, 7, 8, actor=actor)
    assert names(session) == ["A.first", "queued", "A.second"]


@pytest.mark.parametrize("seed", range(8))
def test_steps_follow_each_other_without_a_gap_from_the_first_to_the_last(seed):
    """Whatever the run: the lengths of the steps add up to its time."""
    session = pipeline(200, seed=seed)
    recording = session.read()
    steps = critical_path(recording)
    assert all(before.end == after.start for before, after in zip(steps, steps[1:]))
    assert all(step.end >= step.start for step in steps)
    assert steps[-1].end == recording.end


def test_a_clock_that_stands_still_does_not_stop_the_search():
    """Everything happened at the same time."""
    session = Session()
    made = [session.task("f", 1, 1, 1, 1, 1, 1)]
    for _ in range(20):
        made.append(session.task("f", 1, 1, 1, 1, 1, 1, after=tuple(made)))
    assert critical_path(session.read())


def test_nothing_has_run():
    """No path, no gaps; the words say so."""
    session = Session()
    session.task("f", 1)
    assert critical_path(session.read()) == [] == gaps(session.read())
    assert path_in_words([]) == "Nothing has run yet."
