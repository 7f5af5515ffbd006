"""Finished records are kept up to a limit, with exact counts of the dropped ones; and every legal and illegal move."""

from __future__ import annotations

import pytest

from miniray.core.actions import RunTask, StartWorker, StopWorker
from miniray.core.task_events import EventLog
from miniray.core.transitions import (
    ACTOR_MOVES,
    OBJECT_MOVES,
    PLACEMENT_GROUP_MOVES,
    TASK_MOVES,
    WORKER_MOVES,
    IllegalMove,
    move,
)
from tests.core.builders import (
    EVENTS,
    NOW,
    a_value,
    add_node,
    crash,
    drop,
    finished_task,
    living_actor,
    node,
    one_node,
    running_task,
    submitted,
)

TABLES = {
    "task": TASK_MOVES,
    "object": OBJECT_MOVES,
    "actor": ACTOR_MOVES,
    "placement group": PLACEMENT_GROUP_MOVES,
    "worker": WORKER_MOVES,
}


# ---------------------------------------------------------------- limits


def test_finished_tasks_are_kept_up_to_a_limit():
    """The oldest are dropped first, and each one is counted."""
    c = one_node(record_limit=3)
    for _ in range(10):
        drop(c, *finished_task(c).returns)
    assert list(c.tasks) == [8, 9, 10] and c.dropped["tasks"] == 7


def test_unfinished_tasks_do_not_count_towards_the_limit():
    """None of them is dropped, however many there are."""
    c = one_node(cpus=1, record_limit=2)
    running_task(c)
    waiting = [submitted(c) for _ in range(10)]
    assert all(task.number in c.tasks for task in waiting) and c.dropped["tasks"] == 0


def test_a_task_is_kept_as_long_as_its_value():
    """A row of the object can still name the task. The task is dropped with the last of its values."""
    c = one_node(record_limit=1)
    value = a_value(c)
    drop(c, *finished_task(c).returns)
    drop(c, *finished_task(c).returns)
    assert value.task.number in c.tasks and c.dropped["tasks"] == 1
    drop(c, value)
    assert value.task.number not in c.tasks and c.dropped["tasks"] == 2


def test_dead_actors_are_kept_up_to_a_limit():
    """The dropped ones are counted."""
    c = one_node()
    c.actor_manager.dead_kept = 2
    for _ in range(5):
        drop(c, living_actor(c).handle)
    assert len(c.actors) == 2 and c.dropped["actors"] == 3


def test_dead_workers_are_kept_up_to_a_limit():
    """The dropped ones are counted."""
    c = one_node()
    c.worker_pool.dead_kept = 2
    for _ in range(5):
        crash(c, running_task(c)[1])
    assert len(c.workers) == 2 and c.dropped["workers"] == 3


def test_the_event_log_is_limited():
    """It counts the events that it has dropped."""
    counts = {"events": 0}
    log = EventLog(counts, limit=2)
    for number in range(5):
        log.add(float(number), "kind", f"line {number}")
    assert [event.text for event in log] == ["line 3", "line 4"] and counts["events"] == 3


def test_events_without_a_record_of_their_own_are_in_the_log():
    """Nodes that join and die, workers that crash, actors that die."""
    c = one_node()
    second = add_node(c)
    crash(c, running_task(c)[1])
    c.kill_actor(NOW, living_actor(c))
    c.remove_node(NOW, second)
    assert [event.kind for event in c.events] == [
        "node_joined",
        "node_joined",
        "worker_died",
        "actor_died",
        "node_died",
    ]


def test_the_history_of_a_record_has_only_the_times_that_are_set():
    """In the order of time. A task that waits for its argument has been submitted, and nothing else."""
    c = one_node()
    producer, _ = running_task(c)
    waiting = submitted(c, now=2.0, deps=producer.returns)
    assert [line for line in waiting.story() if line.startswith("at ")] == ["at 2.000000: submitted"]


# ---------------------------------------------------------------- moves


class Record:
    """A record with nothing but a status."""

    def __init__(self, status):
        self.status = status

    def story(self):
        """The history that an error about the record prints."""
        return ["it was made for a test"]


def every_move():
    """Every pair of states of every table."""
    for name, table in TABLES.items():
        for status in table:
            for to in table:
                yield pytest.param(table, status, to, id=f"{name}: {status.name} to {to.name}")


@pytest.mark.parametrize("table, status, to", list(every_move()))
def test_a_move_is_made_if_its_table_has_it_and_refused_otherwise(table, status, to):
    """A refused move changes nothing, and its error gives both states and the history of the record."""
    record = Record(status)
    if to in table[status]:
        move(record, to)
        assert record.status is to
        return
    with pytest.raises(IllegalMove) as refused:
        move(record, to)
    assert record.status is status and all(
        text in str(refused.value) for text in (status.name, to.name, "it was made for a test")
    )


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_state_says_what_it_means_and_can_be_reached(table):
    """Its value is a sentence, and some move leads to it, unless it is the first state."""
    reached = {to for moves in table.values() for to in moves}
    assert set(table) == set(type(next(iter(table)))) and len(set(table) - reached) <= 1
    assert all(len(status.value.split()) > 2 and str(status) == status.name for status in table)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_move_names_the_events_that_make_it(table):
    """Each is a method of Cluster: the reader of a table finds it there."""
    named = {event for moves in table.values() for events in moves.values() for event in events}
    assert named <= set(EVENTS) and all(events for moves in table.values() for events in moves.values())


# ---------------------------------------------------------------- how they begin


def test_every_count_begins_at_zero():
    """What rows and summaries show counts from the start of the session."""
    c = one_node()
    stats = node(c).store.stats()
    assert stats.pop("capacity_bytes") > 0 and not any(stats.values())
    assert c.dropped == {"tasks": 0, "actors": 0, "workers": 0, "events": 0}
    assert c.task_manager.num_reconstructions == 0


def test_actions_are_equal_when_all_of_their_fields_are():
    """One field that is the same is not enough, nor is another kind of action."""
    c = one_node(cpus=2)
    (first, worker), (second, other) = running_task(c), running_task(c)
    assert RunTask(worker, first) == RunTask(worker, first)
    assert RunTask(worker, first) != RunTask(worker, second) and RunTask(worker, first) != RunTask(other, first)
    assert StartWorker(worker) != StopWorker(worker)
