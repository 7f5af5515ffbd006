"""Lost values, and how they are rebuilt."""

from __future__ import annotations

import pytest

from miniray.core.actions import DropValues, StartWorker
from miniray.core.records import DROPPED, FAILED, LOST, PENDING, READY, RELEASED, Waiter
from miniray.core.transitions import ActorStatus, PlacementGroupStatus, TaskStatus
from tests.core.builders import (
    LARGE,
    NOW,
    SMALL,
    a_call,
    a_group,
    a_value,
    crash,
    drop,
    finish,
    living_actor,
    node,
    one_node,
    put,
    running_task,
    several_nodes,
    started,
    submitted,
)


def wait(c, obj) -> Waiter:
    """Wait for the object, as `get` does."""
    waiter = Waiter(1, "driver", fail_fast=True)
    c.wait_for(NOW, waiter, (obj,))
    return waiter


def test_a_lost_value_is_rebuilt_when_somebody_needs_it():
    """Its task runs again, and the waiter is woken when the new value is stored."""
    c = one_node()
    value = a_value(c, LARGE, retries=1)
    old = value.value
    assert c.lose_object(NOW, value) == [DropValues([old])] and value.status is LOST and value.value is DROPPED
    waiter = wait(c, value)
    started(c, value.task)
    finish(c, value.task, LARGE)
    assert value.status is READY and value.value != old and waiter.fired and c.task_manager.num_reconstructions == 1


def test_a_lost_value_that_nobody_needs_is_not_rebuilt():
    """Its task does not run again until somebody asks for the value."""
    c = one_node()
    value = a_value(c, LARGE, retries=1)
    c.lose_object(NOW, value)
    assert value.status is LOST and value.task.status is TaskStatus.FINISHED


def test_the_arguments_of_a_lost_value_are_rebuilt_first():
    """The argument was freed. Its lineage brings it back for the rebuilding, and then it is freed again."""
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


def test_a_small_argument_is_kept_while_it_may_be_needed_again():
    """It could not be rebuilt, since its own task keeps no lineage. Ray keeps it inside the task's description."""
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


def test_a_lost_chain_of_any_length_is_rebuilt_without_recursion():
    """1,200 tasks, each with the result of the one before; only the last result is held."""
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
    "make, error_type",
    [
        (lambda c: put(c, LARGE), "OBJECT_LOST"),
        (lambda c: a_value(c, LARGE, retries=0), "OBJECT_UNRECONSTRUCTABLE_RETRIES_DISABLED"),
    ],
)
def test_a_value_that_cannot_be_rebuilt_is_an_error_with_the_reason(make, error_type):
    """It was put, or its task may not be retried."""
    c = one_node()
    value = make(c)
    c.lose_object(NOW, value)
    waiter = wait(c, value)
    assert value.status is FAILED and value.value.error_type == error_type and waiter.fired


def test_each_rebuilding_costs_a_retry():
    """After the last retry, the value cannot be rebuilt any more."""
    c = one_node()
    value = a_value(c, LARGE, retries=1)
    c.lose_object(NOW, value)
    wait(c, value)
    started(c, value.task)
    finish(c, value.task, LARGE)
    c.lose_object(NOW, value)
    wait(c, value)
    assert value.value.error_type == "OBJECT_UNRECONSTRUCTABLE_MAX_ATTEMPTS_EXCEEDED"


def test_a_rebuilt_value_can_be_lost_again():
    """Its task keeps its arguments, whatever the other values of the task are."""
    c = one_node()
    task, _ = running_task(c, retries=2, returns=2)
    finish(c, task, LARGE, SMALL)
    for _ in range(2):
        c.lose_object(NOW, task.returns[0])
        wait(c, task.returns[0])
        started(c, task)
        finish(c, task, LARGE, SMALL)
    assert task.returns[0].status is READY and task.attempt == 2


def test_only_the_lost_value_is_replaced():
    """The other return of its task keeps its value."""
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


def test_a_rebuilding_that_fails_does_not_affect_other_returns():
    """Only the lost value becomes an error."""
    c = one_node()
    task, _ = running_task(c, returns=2, retries=1)
    finish(c, task, LARGE, LARGE)
    lost, sibling = task.returns
    c.lose_object(NOW, lost)
    wait(c, lost)
    crash(c, started(c, task))
    assert lost.status is FAILED and sibling.status is READY and node(c).store.used == LARGE


def test_the_death_of_a_node_loses_the_values_that_only_it_had():
    """A value with a copy on another node is not lost."""
    c = several_nodes(2, 2)
    there = ("NODE_AFFINITY", node(c, 2).hex, True)
    only_there, copied = (a_value(c, LARGE, retries=1, strategy=there) for _ in range(2))
    reader, _ = running_task(c, deps=(copied,), strategy=("NODE_AFFINITY", node(c, 1).hex, False))
    assert list(copied.locations) == [2, 1]
    c.remove_node(NOW, node(c, 2))
    assert only_there.status is LOST and copied.status is READY and list(copied.locations) == [1]
    finish(c, reader)
    wait(c, only_there)
    assert only_there.status is PENDING and only_there.task.node is node(c, 1)


def test_a_lost_argument_of_a_waiting_task_is_rebuilt():
    """The argument had a value when the task was submitted, and was lost while the task waited for another."""
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


def test_a_worker_returns_a_task_whose_argument_is_lost():
    """The argument was lost between the lease and the start. The task waits again in the same attempt, and others use
    the CPU."""
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


def test_a_placement_group_gets_the_cpu_of_a_task_that_was_returned():
    """The task fails, since its argument cannot be rebuilt. The group used to wait for the next event."""
    c = one_node(cpus=1)
    value = put(c, LARGE)
    task = submitted(c, deps=(value,))
    group = a_group(c, {"CPU": 1})
    c.worker_started(NOW, task.worker)
    c.lose_object(NOW, value)
    c.arguments_lost(NOW, task.worker, task)
    assert task.status is TaskStatus.FAILED and group.status is PlacementGroupStatus.CREATED


def test_a_rebuilt_value_is_not_dropped_with_the_lost_one():
    """The action contains the lost value, not the object: when it is carried out, the object may have a new value."""
    c = one_node()
    value = a_value(c, LARGE, retries=1)
    old = value.value
    actions = c.lose_object(NOW, value)
    wait(c, value)
    started(c, value.task)
    finish(c, value.task, LARGE)
    assert actions[0].values == [old] and value.value == "value 0 of attempt 1"


def test_a_task_that_runs_again_returns_to_the_table():
    """The history had dropped its record. The list of tasks shows it again while it runs."""
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


def test_a_call_whose_two_values_go_together_is_counted_once():
    """When no value of an actor's calls can be needed again, the arguments of its constructor go with the actor.

    A call with two values, which one task had taken, used to count twice: the actor kept its arguments forever.
    """
    c = one_node()
    argument = a_value(c, LARGE)
    actor = living_actor(c, deps=(argument,), max_restarts=1, max_task_retries=1)
    call = a_call(c, actor, returns=2)
    started(c, call)
    finish(c, call, LARGE, LARGE)
    value = a_value(c, LARGE, retries=1, deps=call.returns)
    drop(c, *call.returns)
    assert actor.lineage == 1
    drop(c, value)
    assert actor.lineage == 0
    drop(c, actor.handle, argument)
    assert actor.status is ActorStatus.DEAD and actor.creation.args is None and argument.status is RELEASED


def test_a_value_is_an_error_if_its_actor_cannot_be_constructed_again():
    """The actor has ended, and an argument of its constructor has become an error since.

    The actor used to die again before the call was put into its queue, where the call then waited forever.
    """
    c = one_node()
    argument = a_value(c, LARGE)
    actor = living_actor(c, deps=(argument,), max_restarts=1, max_task_retries=1)
    call = a_call(c, actor)
    started(c, call)
    finish(c, call, LARGE)
    drop(c, actor.handle)
    c.lose_object(NOW, argument)
    wait(c, argument)
    assert actor.status is ActorStatus.DEAD and argument.status is FAILED
    value = call.returns[0]
    c.lose_object(NOW, value)
    waiter = wait(c, value)
    assert actor.status is ActorStatus.DEAD and not actor.calls and actor.restarts == 1
    assert call.status is TaskStatus.FAILED and value.status is FAILED and waiter.fired
    assert value.value is actor.failure and actor.failure.message == "an argument of its constructor failed"


def test_a_rebuilding_task_is_given_to_a_worker_like_any_other():
    """Its node has no idle worker, so one is started."""
    c = several_nodes(1, 1)
    value = a_value(c, LARGE, retries=1, strategy=("NODE_AFFINITY", node(c, 2).hex, True))
    c.remove_node(NOW, node(c, 2))
    actions = c.wait_for(NOW, Waiter(1, "driver"), (value,))
    assert actions == [StartWorker(value.task.worker)] and value.task.node is node(c, 1)
