"""Reading the records: one row per attempt, with times in order."""

from __future__ import annotations

from miniray.core.records import TaskRecord
from miniray.observe.timeline.recording import (
    CANCELLED,
    FAILED,
    FINISHED,
    OUTCOMES,
    RETRIED,
    RUNNING,
    WAITING,
    Row,
    lane_title,
)

from tests.observe.timeline.timeline_sessions import BEGIN, Session, raised
from tests.observe.timeline.timeline_sessions import CANCELLED as CANCEL


def times(row: Row) -> list[float | None]:
    """The six times of an attempt, since the beginning; None for a moment that it has not reached."""
    moments = (row.created, row.ready, row.leased, row.started, row.ended, row.finished)
    return [at - BEGIN if at else None for at in moments]


def test_each_attempt_has_one_of_six_outcomes():
    """An attempt that has reached a worker counts as running, even before its function is entered."""
    session = Session()
    session.task("ok", 1, 1, 2, 3, 4, 5)
    session.task("bad", 1, 1, 2, 3, 4, 5, failure=raised(ValueError("x")))
    session.task("stopped", 1, 1, None, None, None, 5, failure=CANCEL)
    session.task("running", 1, 1, 2, 3)
    session.task("fetching", 1, 1, 2)
    session.task("queued", 1, 1)
    task = session.task("again", 1, 1, 2, 3, 4, 5)
    session.again(task, raised(OSError("x")), 5, 5, 6, 7, 8, 9)
    rows = session.read().rows
    found = [(row.spec.name, row.attempt, row.outcome) for row in rows]
    assert sorted(found) == sorted(
        [
            ("ok", 0, FINISHED),
            ("bad", 0, FAILED),
            ("stopped", 0, CANCELLED),
            ("running", 0, RUNNING),
            ("fetching", 0, RUNNING),
            ("queued", 0, WAITING),
            ("again", 0, RETRIED),
            ("again", 1, FINISHED),
        ]
    )
    assert {row.outcome for row in rows} == set(range(len(OUTCOMES)))


def test_a_finished_task_that_rebuilds_a_lost_value_has_two_finished_attempts():
    """Its first attempt did not fail."""
    session = Session()
    task = session.task("f", 1, 1, 2, 3, 4, 5)
    session.again(task, None, 6, 6, 7, 8, 9, 10)
    assert [row.outcome for row in session.read().rows] == [FINISHED, FINISHED]


def test_rows_are_in_order_of_creation_even_after_a_retry():
    """A later attempt comes after the tasks that were submitted before it."""
    session = Session()
    first = session.task("first", 1, 1, 2, 3, 4, 5)
    session.task("second", 2, 2, 3, 4, 5, 6)
    session.again(first, raised(OSError("x")), 5, 5, 6, 7, 8, 9)
    assert [(row.spec.name, row.attempt) for row in session.read().rows] == [("first", 0), ("second", 0), ("first", 1)]


def test_a_worker_that_was_declared_dead_may_stamp_its_task_late():
    """Times after the end of the attempt are cut off there."""
    session = Session()
    session.task("lost", 1, 1, 2, 3, 99, 5, failure=raised(OSError("gone")))
    [row] = session.read().rows
    assert times(row) == [1, 1, 2, 3, 5, 5]


def test_an_attempt_that_died_while_running_ended_when_it_died():
    """Its function never returned."""
    session = Session()
    session.task("died", 1, 1, 2, 3, None, 5, failure=raised(OSError("gone")))
    [row] = session.read().rows
    assert times(row) == [1, 1, 2, 3, 5, 5]


def test_an_attempt_without_a_worker_has_no_times_on_a_worker():
    """It failed because of an argument."""
    session = Session()
    session.task("f", 1, None, None, None, None, 5, failure=raised(OSError("gone")))
    [row] = session.read().rows
    assert times(row) == [1, None, None, None, None, 5]


def test_every_worker_that_ran_something_has_a_lane():
    """Lanes are ordered by node. Workers without a task have none."""
    session = Session()
    other = session.node(1)
    here, there, _idle = session.worker(), session.worker(other), session.worker()
    late = session.worker()
    for worker in (late, there, here):
        session.task("f", 1, 1, 2, 3, 4, 5, worker=worker)
    assert session.read().lanes == [here, late, there]
    assert [lane_title(worker) for worker in session.read().lanes] == ["worker 1", "worker 4", "worker 2"]


def test_the_recording_extends_from_the_first_submission_to_the_last_end():
    """While a task runs, it extends to the present."""
    session = Session()
    session.task("f", 1, 1, 2, 3, 4, 5)
    session.clock = 9
    recording = session.read()
    assert (recording.start - BEGIN, recording.end - BEGIN) == (1, 5)
    session.task("g", 2, 2, 3, 4)
    session.clock = 9
    assert session.read().end - BEGIN == 9


def test_dropped_spans_and_waits_are_counted():
    """The number of dropped spans is known; for waits, only that some are missing."""
    session = Session()
    for number in range(1005):
        session.span(f"s{number}", 0, 1)
        session.wait(None, 0.0, 1.0)
    recording = session.read()
    assert recording.dropped["spans"] == 5
    assert recording.dropped_sentences() == [
        "5 older spans of user code are missing: the session keeps the last 1,000.",
        "Only the last 1,000 waits in get and wait are known.",
    ]


def test_a_task_that_changes_while_it_is_read_yields_a_row_of_one_attempt():
    """The attempt ends, and the next one begins, between two reads of the record."""
    session = Session()
    task = session.task("f", 1, 1, 2, 3)

    class Changing(TaskRecord):
        """Takes the place of another thread: the first read of `t_finished` begins the next attempt."""

        __slots__ = ()

        def __getattribute__(self, name):
            if name == "t_finished":
                task.__class__ = TaskRecord
                session.again(task, raised(OSError("x")), 10, 10, 11, 12)
            return object.__getattribute__(self, name)

    task.__class__ = Changing
    row = session.read().rows[-1]
    assert (row.attempt, times(row)) == (1, [10, 10, 11, 12, None, None])


def test_a_constructor_has_finished_although_its_actor_died_later():
    """The failure that restarted the actor belongs to the call that it ran. State and timeline agree."""
    session = Session()
    actor = session.actor("Dies")
    created = session.task("__init__", 1, 1, 2, 3, 4, 9, actor=actor, constructs=True)
    session.again(created, raised(OSError("gone")), 9, 9, 10, 11, 12, 13)
    first, second = session.read().rows
    assert (first.outcome, first.failure, times(first)[-1]) == (FINISHED, None, 4)
    assert (second.outcome, second.attempt) == (FINISHED, 1)
    assert [mark.kind for mark in session.read().marks] == ["restart"]
