"""The longest times in which a worker ran nothing, and why."""

from __future__ import annotations

from miniray.observe.timeline.gaps import gaps
from tests.observe.timeline.timeline_sessions import Session


def test_the_longest_gaps_come_first_and_say_why():
    """The task that ended a gap explains it: it was not submitted yet, or waited for an argument; or no task came."""
    session = Session(cpus=2)
    one, two = session.worker(), session.worker()
    load = session.task("load", 0, 0, 0, 0.1, 3.9, 4, worker=one)
    session.task("clean", 0, 4, 4, 4.1, 4.9, 5, worker=two, after=(load,))
    session.task("late", 8, 8, 8, 8.1, 9.9, 10, worker=one)
    longest = [(gap.worker, round(gap.end - gap.start, 6), gap.why) for gap in gaps(session.read())]
    assert longest == [
        (two, 5, "no other task came for it"),
        (one, 4, "the driver had not submitted late yet"),
        (two, 4, "clean waited for the result of load"),
    ]


def test_a_gap_before_a_queued_task():
    """The task was ready for most of the gap."""
    session = Session()
    session.task("big", 0, 0.5, 5, 6, 7, 8)
    assert gaps(session.read())[0].why == "big was ready but not placed here: it was queued, or on its way"


def test_a_worker_that_ran_nothing_has_no_gap():
    """It is in no lane."""
    session = Session()
    session.task("f", 1)
    assert gaps(session.read()) == []
