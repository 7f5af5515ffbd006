"""What is remembered: finished records up to a bound, with exact counts of what was let go of."""

from __future__ import annotations

import pytest

from miniray.core.task_events import EventLog
from miniray.core.transitions import ACTOR_MOVES, PLACEMENT_GROUP_MOVES, TASK_MOVES, WORKER_MOVES, IllegalMove, move
from tests.core.builders import (
    NOW,
    a_value,
    add_node,
    crash,
    drop,
    finished_task,
    living_actor,
    one_node,
    running_task,
    submitted,
)

TABLES = {"task": TASK_MOVES, "actor": ACTOR_MOVES, "placement group": PLACEMENT_GROUP_MOVES, "worker": WORKER_MOVES}


# ---------------------------------------------------------------- bounds


def test_finished_tasks_are_remembered_up_to_a_limit():
    """The oldest go first, and each is counted."""
    c = one_node(record_limit=3)
    for _ in range(10):
        drop(c, *finished_task(c).returns)
    assert list(c.tasks) == [8, 9, 10] and c.dropped["tasks"] == 7


def test_unfinished_tasks_do_not_count():
    """However many there are, none is forgotten."""
    c = one_node(cpus=1, record_limit=2)
    running_task(c)
    waiting = [submitted(c) for _ in range(10)]
    assert all(task.number in c.tasks for task in waiting) and c.dropped["tasks"] == 0


def test_a_task_stays_as_long_as_its_value():
    """Whoever asks for the object's maker is told; it goes with the last of its values."""
    c = one_node(record_limit=1)
    value = a_value(c)
    drop(c, *finished_task(c).returns)
    drop(c, *finished_task(c).returns)
    assert value.task.number in c.tasks and c.dropped["tasks"] == 1
    drop(c, value)
    assert value.task.number not in c.tasks and c.dropped["tasks"] == 2


def test_dead_actors_are_remembered_up_to_a_limit():
    """And counted."""
    c = one_node()
    c.actor_manager.dead_kept = 2
    for _ in range(5):
        drop(c, living_actor(c).handle)
    assert len(c.actors) == 2 and c.dropped["actors"] == 3


def test_dead_workers_are_remembered_up_to_a_limit():
    """And counted."""
    c = one_node()
    c.worker_pool.dead_kept = 2
    for _ in range(5):
        crash(c, running_task(c)[1])
    assert len(c.workers) == 2 and c.dropped["workers"] == 3


def test_the_event_log_is_bounded():
    """It says how many lines it has lost."""
    counts = {"events": 0}
    log = EventLog(counts, limit=2)
    for number in range(5):
        log.add(float(number), "kind", f"line {number}")
    assert [event.text for event in log] == ["line 3", "line 4"] and counts["events"] == 3


def test_what_has_no_record_of_its_own_is_a_line_in_the_log():
    """Nodes that come and go, workers that crash, actors that die, groups that are removed."""
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


# ---------------------------------------------------------------- moves


class Thing:
    """A record with nothing but a status."""

    def __init__(self, status):
        self.status = status

    def story(self):
        """What an error about it tells."""
        return ["it was made for a test"]


def every_move():
    """Every pair of states of every table."""
    for name, table in TABLES.items():
        for status in table:
            for to in table:
                yield pytest.param(table, status, to, id=f"{name}: {status.name} to {to.name}")


@pytest.mark.parametrize("table, status, to", list(every_move()))
def test_a_move_is_made_when_its_table_has_it_and_refused_otherwise(table, status, to):
    """A refused one changes nothing, and names the record and both states."""
    thing = Thing(status)
    if to in table[status]:
        move(thing, to)
        assert thing.status is to
        return
    with pytest.raises(IllegalMove) as refused:
        move(thing, to)
    assert thing.status is status and all(
        text in str(refused.value) for text in (status.name, to.name, "it was made for a test")
    )


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_state_says_what_it_means_and_can_be_reached(table):
    """Its value is a sentence; but for the first, some move leads to it."""
    reached = {to for moves in table.values() for to in moves}
    assert set(table) == set(type(next(iter(table)))) and len(set(table) - reached) <= 1
    assert all(len(status.value.split()) > 2 and str(status) == status.name for status in table)
