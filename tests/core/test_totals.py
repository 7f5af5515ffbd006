"""Totals: what stays counted after a record was dropped, so that the metrics never shrink."""

from __future__ import annotations

from miniray.core.task_events import OTHER_NAMES, Tally, attempts
from tests.core.builders import (
    LARGE,
    NOW,
    a_call,
    a_task,
    crash,
    drop,
    finish,
    living_actor,
    one_node,
    raise_in,
    running_task,
    started,
    submitted,
)


def running(c, name, **options):
    """A task of this name whose code is running, and its worker."""
    task = a_task(c, **options)
    task.spec.name = name
    c.submit_task(NOW, task)
    return task, started(c, task)


def dropped_tasks(c):
    c.totals.flush()
    return {key: number for key, number in c.totals.dropped_tasks.items() if number}


def test_a_dropped_task_stays_counted_by_name_and_outcome():
    """Of a task that was retried, each attempt counts: the first failed, the second is a retry that finished."""
    c = one_node()
    c.history.limit = 0
    for name in ("a", "a", "b", "a"):
        task, _ = running(c, name)
        finish(c, task)
        drop(c, *task.returns)
    assert dropped_tasks(c) == {("a", False, True): 3, ("b", False, True): 1}
    task, worker = running(c, "r", retries=1)
    raise_in(c, task, retry=True)
    started(c, task)
    finish(c, task)
    drop(c, *task.returns)
    failing, worker = running(c, "f")
    raise_in(c, failing, retry=False)
    drop(c, *failing.returns)
    assert dropped_tasks(c) == {
        ("a", False, True): 3,
        ("b", False, True): 1,
        ("r", False, False): 1,
        ("r", True, True): 1,
        ("f", False, False): 1,
    }
    assert c.dropped["tasks"] == 6


def test_an_actor_that_is_revived_does_not_count_as_dropped():
    c = one_node()
    c.actor_manager.dead_kept = 0
    actor = living_actor(c, max_restarts=1, max_task_retries=1)
    call = a_call(c, actor)
    started(c, call)
    finish(c, call, LARGE)
    drop(c, actor.handle)
    assert c.totals.dropped_actors == {actor.class_name: 1} and sum(c.totals.placements.counts) == 1
    c.lose_object(NOW, call.returns[0])
    submitted(c, deps=call.returns)
    assert c.totals.dropped_actors == {actor.class_name: 0}


def test_a_crashed_worker_is_counted_by_what_it_ran():
    c = one_node()
    _, worker = running(c, "t")
    crash(c, worker)
    actor = living_actor(c)
    crash(c, actor.worker)
    assert c.totals.worker_failures == {(False, "t"): 1, (True, f"{actor.class_name}.__init__"): 1}


def test_a_dropped_worker_stays_counted_with_the_time_that_its_start_took():
    c = one_node()
    c.worker_pool.dead_kept = 0
    _, worker = running_task(c)
    crash(c, worker)
    assert c.dropped["workers"] == 1 and sum(c.totals.registrations.counts) == 1


def test_a_tally_counts_a_bound_in_its_own_bucket():
    tally = Tally((1.0, 10.0))
    for value in (0.5, 1.0, 1.5, 11.0):
        tally.add(value)
    copy = tally.copy()
    tally.add(2.0)
    assert (copy.counts, copy.sum) == ([2, 1, 1], 14.0)


def test_a_worker_that_never_started_does_not_count_as_registered():
    """It ended while its thread was starting: there is no time that it took."""
    c = one_node()
    c.worker_pool.dead_kept = 0
    crash(c, submitted(c).worker)
    assert c.dropped["workers"] == 1 and sum(c.totals.registrations.counts) == 0


def test_the_attempts_of_a_task_that_still_runs_are_those_that_have_ended():
    """Its last attempt counts when it has ended."""
    c = one_node()
    task, _ = running(c, "r", retries=1)
    assert list(attempts(task)) == []
    raise_in(c, task, retry=True)
    started(c, task)
    assert list(attempts(task)) == [("r", False, False)]
    finish(c, task)
    assert list(attempts(task)) == [("r", False, False), ("r", True, True)]


def test_of_the_dead_workers_the_oldest_are_dropped():
    """The table keeps the last ones."""
    c = one_node()
    c.worker_pool.dead_kept = 2
    dead = []
    for _ in range(4):
        _, worker = running_task(c)
        crash(c, worker)
        dead.append(worker.number)
    assert [number for number in dead if number in c.workers] == dead[2:]


def test_further_names_are_counted_together():
    """A program that names every task, or every actor, does not make the tables grow without end. It used to."""
    c = one_node()
    c.history.limit, c.totals.most_names = 0, 2
    for number in range(5):
        task, _ = running(c, f"t{number}")
        finish(c, task)
        drop(c, *task.returns)
    assert dropped_tasks(c) == {("t0", False, True): 1, ("t1", False, True): 1, (OTHER_NAMES, False, True): 3}
    for number in range(4):
        _, worker = running(c, f"t{number}")
        crash(c, worker)
    assert c.totals.worker_failures == {(False, "t0"): 1, (False, "t1"): 1, (False, OTHER_NAMES): 2}


def test_a_task_that_comes_back_is_taken_from_where_it_was_counted():
    """Under its own name or under the other names."""
    c = one_node()
    for name in ("a", "b"):
        task, _ = running(c, name)
        finish(c, task)
        c.totals.most_names = 1
        c.totals.task_dropped(task)
        c.totals.flush()
    c.totals.task_dropped(task, -1)
    assert dropped_tasks(c) == {("a", False, True): 1}
