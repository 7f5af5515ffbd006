"""Values that are lost, and what makes them again."""

from __future__ import annotations

import pytest

from miniray.core.actions import DropValues, StartWorker
from miniray.core.records import DROPPED, FAILED, LOST, PENDING, READY, RELEASED, Waiter
from miniray.core.transitions import PlacementGroupStatus, TaskStatus
from tests.core.builders import (
    LARGE,
    NOW,
    SMALL,
    a_group,
    a_value,
    crash,
    drop,
    finish,
    node,
    one_node,
    put,
    running_task,
    several_nodes,
    started,
    submitted,
)


def wait(c, obj) -> Waiter:
    """Somebody waits for the object, as `get` does."""
    waiter = Waiter(1, "driver", fail_fast=True)
    c.wait_for(NOW, waiter, (obj,))
    return waiter


def test_a_lost_value_is_made_again_when_somebody_needs_it():
    """Its task runs once more; who waits is woken with the new value."""
    c = one_node()
    value = a_value(c, LARGE, retries=1)
    old = value.value
    assert c.lose_object(NOW, value) == [DropValues([old])] and value.status is LOST and value.value is DROPPED
    waiter = wait(c, value)
    started(c, value.task)
    finish(c, value.task, LARGE)
    assert value.status is READY and value.value != old and waiter.fired and c.task_manager.num_reconstructions == 1


def test_a_lost_value_that_nobody_needs_is_left():
    """Rebuilding is work; it waits until it is wanted."""
    c = one_node()
    value = a_value(c, LARGE, retries=1)
    c.lose_object(NOW, value)
    assert value.status is LOST and value.task.status is TaskStatus.FINISHED


def test_what_was_needed_for_it_is_made_again_first():
    """Its argument had been let go of: the lineage brings it back, and lets it go again."""
    c = one_node(cpus=1)
    argument = a_value(c, LARGE, retries=1)
    value = a_value(c, LARGE, retries=1, deps=(argument,))
    drop(c, argument)
    assert argument.number not in c.objects and argument.lineage == 1
    c.lose_object(NOW, value)
    wait(c, value)
    assert value.task.status is TaskStatus.PENDING_ARGS_AVAIL and argument.number in c.objects
    started(c, argument.task)
    finish(c, argument.task, LARGE)
    started(c, value.task)
    finish(c, value.task, LARGE)
    assert value.status is READY and argument.number not in c.objects


def test_a_small_argument_stays_while_it_may_be_needed_again():
    """It could not be made again: its own task keeps no lineage. Ray has it inside the task's description."""
    c = one_node(cpus=1)
    small = a_value(c, SMALL, retries=1)
    value = a_value(c, LARGE, retries=1, deps=(small,))
    drop(c, small)
    assert small.number in c.objects
    c.lose_object(NOW, value)
    wait(c, value)
    started(c, value.task)
    finish(c, value.task, LARGE)
    assert value.status is READY
    drop(c, value)
    assert value.status is RELEASED and not c.objects


def test_a_lost_chain_of_any_length_is_made_again_without_a_stack():
    """1,200 links, of which only the last is held."""
    c = one_node(cpus=1, checked=False)
    value = a_value(c, LARGE, retries=1)
    for _ in range(1_200):
        before, value = value, a_value(c, LARGE, retries=1, deps=(value,))
        drop(c, before)
    c.lose_object(NOW, value)
    wait(c, value)
    running = [task for task in c.tasks.values() if task.status is TaskStatus.SUBMITTED_TO_WORKER]
    while running:
        (task,) = running
        worker = started(c, task)
        finish(c, task, LARGE)
        running = [worker.task] if worker.task is not None else []
    assert value.status is READY and c.task_manager.num_reconstructions == 1_201


@pytest.mark.parametrize(
    "lose, error_type",
    [
        (lambda c: put(c, LARGE), "OBJECT_LOST"),
        (lambda c: a_value(c, LARGE, retries=0), "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED"),
    ],
)
def test_what_cannot_be_made_again_says_why(lose, error_type):
    """It was put, or its task may not run again."""
    c = one_node()
    value = lose(c)
    c.lose_object(NOW, value)
    waiter = wait(c, value)
    assert value.status is FAILED and value.value.error_type == error_type and waiter.fired


def test_each_rebuilding_takes_a_retry():
    """With the last one gone the value stays lost."""
    c = one_node()
    value = a_value(c, LARGE, retries=1)
    c.lose_object(NOW, value)
    wait(c, value)
    started(c, value.task)
    finish(c, value.task, LARGE)
    c.lose_object(NOW, value)
    wait(c, value)
    assert value.value.error_type == "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED"


def test_only_what_was_lost_is_replaced():
    """Its sibling is still there, and keeps its value."""
    c = one_node()
    task, _ = running_task(c, returns=2, retries=1)
    finish(c, task, LARGE, LARGE)
    lost, sibling = task.returns
    c.lose_object(NOW, lost)
    wait(c, lost)
    started(c, task)
    finish(c, task, LARGE, LARGE)
    assert sibling.value == "value 1 of attempt 0" and lost.value == "value 0 of attempt 1"
    assert node(c).store.used == 2 * LARGE


def test_a_rebuilding_that_fails_leaves_the_sibling_alone():
    """The error is that of the lost value only."""
    c = one_node()
    task, _ = running_task(c, returns=2, retries=1)
    finish(c, task, LARGE, LARGE)
    lost, sibling = task.returns
    c.lose_object(NOW, lost)
    wait(c, lost)
    crash(c, started(c, task))
    assert lost.status is FAILED and sibling.status is READY and node(c).store.used == LARGE


def test_the_death_of_a_node_loses_what_only_it_had():
    """A copy elsewhere is enough."""
    c = several_nodes(2, 2)
    there = ("NODE_AFFINITY", node(c, 2).hex, True)
    alone, copied = (a_value(c, LARGE, retries=1, strategy=there) for _ in range(2))
    reader, _ = running_task(c, deps=(copied,), strategy=("NODE_AFFINITY", node(c, 1).hex, False))
    assert list(copied.locations) == [2, 1]
    c.remove_node(NOW, node(c, 2))
    assert alone.status is LOST and copied.status is READY and list(copied.locations) == [1]
    finish(c, reader)
    wait(c, alone)
    assert alone.status is PENDING and alone.task.node is node(c, 1)


def test_a_waiting_task_gets_its_lost_argument_again():
    """Also one that was there when the task was submitted, and went while another argument was awaited."""
    c = one_node(cpus=1)
    value = a_value(c, LARGE, retries=1)
    other, _ = running_task(c)
    task = submitted(c, deps=(value, other.returns[0]))
    c.lose_object(NOW, value)
    finish(c, other)
    assert task.status is TaskStatus.PENDING_ARGS_AVAIL and value.task.status is TaskStatus.SUBMITTED_TO_WORKER
    started(c, value.task)
    finish(c, value.task, LARGE)
    assert task.status is TaskStatus.SUBMITTED_TO_WORKER


def test_a_worker_gives_back_a_task_whose_argument_is_gone():
    """It went between the lease and the start: the task waits again, that was no attempt, and others have the CPU meanwhile."""
    c = one_node(cpus=1)
    value = a_value(c, LARGE, retries=1)
    task = submitted(c, deps=(value,))
    worker = task.worker
    c.lose_object(NOW, value)
    assert c.arguments_lost(NOW, worker, task) == []
    assert task.status is TaskStatus.PENDING_ARGS_AVAIL and task.attempt == 0 and worker.task is value.task
    started(c, value.task)
    finish(c, value.task, LARGE)
    assert worker.task is task


def test_a_group_gets_the_cpu_of_a_task_that_was_given_back():
    """Its argument cannot be made again, so it fails. The group used to wait for the next event."""
    c = one_node(cpus=1)
    value = put(c, LARGE)
    task = submitted(c, deps=(value,))
    group = a_group(c, {"CPU": 1})
    c.worker_started(NOW, task.worker)
    c.lose_object(NOW, value)
    c.arguments_lost(NOW, task.worker, task)
    assert task.status is TaskStatus.FAILED and group.status is PlacementGroupStatus.CREATED


def test_a_value_made_anew_is_not_thrown_away_with_the_lost_one():
    """The action carries the value that was lost, not the object: by the time it is carried out there may be a new one."""
    c = one_node()
    value = a_value(c, LARGE, retries=1)
    old = value.value
    actions = c.lose_object(NOW, value)
    wait(c, value)
    started(c, value.task)
    finish(c, value.task, LARGE)
    assert actions[0].values == [old] and value.value == "value 0 of attempt 1"


def test_a_task_that_runs_again_is_in_the_table_again():
    """Its record had been let go of; whoever lists the tasks sees that it runs."""
    c = one_node(record_limit=1)
    source = a_value(c, LARGE, retries=1)
    value = a_value(c, LARGE, retries=1, deps=(source,))
    drop(c, source)
    a_value(c)
    assert source.task.number not in c.tasks and c.dropped["tasks"] == 1
    c.lose_object(NOW, value)
    assert (
        wait(c, value)
        and c.tasks[source.task.number].status is TaskStatus.SUBMITTED_TO_WORKER
        and c.dropped["tasks"] == 0
    )


def test_the_rebuilding_goes_on_a_worker_as_any_task_does():
    """A worker that waits is told to run it; here one has to be started."""
    c = several_nodes(1, 1)
    value = a_value(c, LARGE, retries=1, strategy=("NODE_AFFINITY", node(c, 2).hex, True))
    c.remove_node(NOW, node(c, 2))
    actions = c.wait_for(NOW, Waiter(1, "driver"), (value,))
    assert actions == [StartWorker(value.task.worker)] and value.task.node is node(c, 1)
