"""The chain of tasks and waits that determined the total time."""

from __future__ import annotations

import pytest

from miniray.observe.timeline.critical_path import critical_path, path_in_words
from tests.observe.timeline.timeline_sessions import Session, pipeline, raised


def names(session: Session) -> list[str]:
    """The steps of the critical path: the name of a task, or the kind of any other step."""
    return [step.row.spec.name if step.kind == "task" else step.kind for step in critical_path(session.read())]


def test_the_path_of_a_chain_goes_through_the_last_argument():
    """An argument that was ready earlier is not on the path."""
    session = Session(cpus=3)
    slow = session.task("slow", 0, 0, 0, 1, 5, 6, worker=session.worker())
    fast = session.task("fast", 0, 0, 0, 1, 2, 3, worker=session.worker())
    session.task("join", 0, 6, 6, 7, 8, 9, worker=session.worker(), after=(fast, slow))
    assert names(session) == ["slow", "join"]
    assert "2 tasks in a chain" in path_in_words(critical_path(session.read()))


def test_the_path_of_queued_tasks_goes_through_the_task_that_held_the_worker():
    """The tasks do not depend on each other; they needed the CPU."""
    session = Session(cpus=1)
    for number in range(4):
        session.task(f"t{number}", 0, 0, number * 2, number * 2, number * 2 + 1.9, number * 2 + 1.9)
    assert names(session) == ["t0", "queued", "t1", "queued", "t2", "queued", "t3"]
    assert "between being ready and getting a worker" in path_in_words(critical_path(session.read()))


def test_the_path_of_a_loop_with_get_goes_through_the_driver():
    """The driver submits a round when it has the result of the last one."""
    session = Session()
    for number in range(3):
        at = number * 2.0
        session.task(f"round{number}", at, at, at, at + 0.1, at + 1.4, at + 1.5)
        session.wait(None, at + 0.1, at + 1.5)
    assert names(session) == ["round0", "driver", "round1", "driver", "round2"]


def test_the_path_goes_through_the_child_that_a_task_waited_for():
    """While a task waits in get, its child takes the time."""
    session = Session()
    parent = session.task("parent", 0, 0, 0, 0.5, 9, 9.5, worker=session.worker())
    session.task("child", 1, 1, 1, 2, 7, 8, worker=session.worker(), inside=parent)
    session.task("unrelated", 1, 1, 1, 2, 7, 7.999, worker=session.worker())
    session.wait(parent, 1.5, 8.0)
    assert names(session) == ["parent", "child", "parent"]


def test_the_path_goes_through_the_attempt_that_failed():
    """The second attempt could not begin before the first one failed."""
    session = Session()
    task = session.task("flaky", 0, 0, 0, 1, 2, 3)
    session.again(task, raised(OSError("x")), 3, 3, 4, 5, 6, 7)
    assert [step.row.attempt for step in critical_path(session.read()) if step.kind == "task"] == [0, 1]


def test_a_call_waits_for_its_actor_and_not_for_others():
    """A task that ended on another worker meanwhile is not on the path."""
    session = Session(cpus=2)
    actor = session.actor("A")
    session.task("first", 0, 0, 0, 1, 3, 4, actor=actor)
    session.task("other", 0, 0, 0, 1, 3, 4.5, worker=session.worker())
    session.task("second", 0, 0, 5, 6, 7, 8, actor=actor)
    assert names(session) == ["A.first", "queued", "A.second"]


@pytest.mark.parametrize("seed", range(8))
def test_the_steps_leave_no_gap(seed):
    """Each step begins where the last one ended, and the last step ends with the run."""
    session = pipeline(200, seed=seed)
    recording = session.read()
    steps = critical_path(recording)
    assert all(before.end == after.start for before, after in zip(steps, steps[1:]))
    assert all(step.end >= step.start for step in steps)
    assert steps[-1].end == recording.end


def test_a_clock_that_stands_still_does_not_stop_the_search():
    """All events have the same time."""
    session = Session()
    made = [session.task("f", 1, 1, 1, 1, 1, 1)]
    for _ in range(20):
        made.append(session.task("f", 1, 1, 1, 1, 1, 1, after=tuple(made)))
    assert critical_path(session.read())


def test_nothing_has_run():
    """There is no path, and the words say so."""
    session = Session()
    session.task("f", 1)
    assert critical_path(session.read()) == []
    assert path_in_words([]) == "Nothing has run yet."
