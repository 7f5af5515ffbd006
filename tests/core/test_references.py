"""Who holds an object, and what goes when nobody does."""

from __future__ import annotations

import pytest

from miniray.core.records import DROPPED, PENDING, READY
from miniray.core.transitions import ActorStatus
from tests.core.builders import (
    LARGE,
    NOW,
    SMALL,
    a_call,
    a_value,
    crash,
    drop,
    finish,
    finished_task,
    living_actor,
    node,
    one_node,
    put,
    running_task,
    started,
    submitted,
)


def test_an_object_goes_with_its_last_reference():
    """And its value is handed to the runtime, which lets go of it outside its lock."""
    c = one_node()
    obj = put(c)
    obj.refs += 1
    drop(c, obj)
    assert obj.number in c.objects and c.references.take_freed() == []
    drop(c, obj)
    assert not c.objects and c.references.take_freed() == ["a value that was put"] and obj.value is DROPPED


def test_a_waiting_task_keeps_its_arguments():
    """The caller need not hold them, nor what is inside them."""
    c = one_node(cpus=1)
    blocker, _ = running_task(c)
    argument, inside = put(c), put(c)
    task = submitted(c, deps=(argument,), contained=(inside,))
    drop(c, argument, inside)
    assert argument.number in c.objects and inside.number in c.objects
    finish(c, blocker)
    started(c, task)
    finish(c, task)
    assert argument.number not in c.objects and inside.number not in c.objects


def test_a_stored_value_keeps_what_is_inside_it():
    """Until it goes itself."""
    c = one_node()
    inner = put(c)
    outer = put(c, contained=(inner, inner))
    drop(c, inner)
    assert inner.held == 2 and inner.number in c.objects
    drop(c, outer)
    assert not c.objects


def test_a_returned_value_keeps_what_is_inside_it():
    """A task puts a value and returns a reference to it."""
    c = one_node()
    task, worker = running_task(c)
    inner = put(c, owner=worker)
    finish(c, task, contained=((inner,),))
    drop(c, inner)
    assert inner.number in c.objects
    drop(c, *task.returns)
    assert not c.objects


@pytest.mark.slow
def test_values_inside_values_go_without_a_stack():
    """100,000 of them, each inside the next, as a linked list is built of puts. Slow, since so many have to be made first."""
    c = one_node(checked=False)
    outer = put(c)
    for _ in range(100_000):
        inner, outer = outer, put(c, contained=(outer,))
        drop(c, inner)
    assert len(c.objects) == 100_001
    drop(c, outer)
    assert not c.objects and len(c.references.take_freed()) == 100_001


def test_a_long_chain_of_tasks_is_let_go_of_without_a_stack():
    """5,000 large results, each made from the one before: the lineage of the last goes with it."""
    c = one_node(checked=False)
    value = a_value(c, LARGE, retries=1)
    for _ in range(5_000):
        before, value = value, a_value(c, LARGE, retries=1, deps=(value,))
        drop(c, before)
    assert len(c.objects) == 1 and value.task.args is not None
    first = value.task.deps[0].task
    drop(c, value)
    assert not c.objects and value.task.args is None and first.args is None and first.deps == ()


def test_a_result_that_nobody_wants_goes_when_its_task_ends():
    """Not before: the task still has to find its object."""
    c = one_node()
    task, _ = running_task(c)
    drop(c, *task.returns)
    assert task.returns[0].status is PENDING and c.objects
    finish(c, task)
    assert not c.objects


def test_a_failed_task_whose_result_nobody_holds_lets_its_lineage_alone():
    """Its arguments were counted down twice, and below zero, when its result went while it ended."""
    c = one_node()
    argument = a_value(c, LARGE, retries=1)
    task, worker = running_task(c, deps=(argument,), retries=1)
    drop(c, *task.returns)
    crash(c, worker)
    crash(c, started(c, task))
    assert argument.uses == argument.lineage == 0


def test_a_value_that_is_made_again_lets_go_of_what_was_inside_it():
    """What was inside the lost one used to be held for ever."""
    c = one_node()
    task, _ = running_task(c, retries=1)
    first, second = put(c), put(c)
    finish(c, task, LARGE, contained=((first,),))
    drop(c, first)
    (value,) = task.returns
    c.lose_object(NOW, value)
    user = submitted(c, deps=(value,))
    started(c, task)
    finish(c, task, LARGE, contained=((second,),))
    assert first.number not in c.objects and second.held == 1
    drop(c, second, value)
    started(c, user)
    finish(c, user)
    assert set(c.objects) == {user.returns[0].number}


# ---------------------------------------------------------------- handles


def test_an_actor_ends_with_its_last_handle():
    """Its worker is stopped, and nothing of it is left among the objects."""
    c = one_node()
    actor = living_actor(c)
    drop(c, actor.handle)
    assert actor.status is ActorStatus.DEAD and not c.objects and not node(c).workers


def test_an_actor_finishes_its_calls_before_it_ends():
    """`A.remote().m.remote()`: the handle is gone before the call has run."""
    c = one_node()
    actor = living_actor(c)
    call = a_call(c, actor)
    drop(c, actor.handle)
    assert actor.status is ActorStatus.ALIVE
    started(c, call)
    finish(c, call)
    assert actor.status is ActorStatus.DEAD and call.returns[0].status is READY


def test_a_handle_inside_a_value_keeps_its_actor():
    """Until that value goes."""
    c = one_node()
    actor = living_actor(c)
    holder = put(c, contained=(actor.handle,))
    drop(c, actor.handle)
    assert actor.status is ActorStatus.ALIVE
    drop(c, holder)
    assert actor.status is ActorStatus.DEAD


def test_the_handle_of_a_dead_actor_goes_with_its_last_holder():
    """Each actor that had been killed used to leave an object behind."""
    c = one_node()
    actor = living_actor(c)
    c.kill_actor(NOW, actor)
    assert actor.handle.number in c.objects
    drop(c, actor.handle)
    assert not c.objects


def test_what_is_let_go_of_just_before_a_report_that_does_not_count_is_still_done():
    """A runtime tells the core what was dropped on the way to every event. One that changed nothing used to keep the actions."""
    from collections import deque

    c = one_node()
    actor = living_actor(c)
    workers_worker = actor.worker
    task, worker = running_task(c)
    crash(c, worker)
    c.references_dropped(NOW, deque([actor.handle]))
    actions = c.task_finished(NOW, worker, task, (SMALL,))
    assert [action.worker for action in actions] == [workers_worker]


def test_a_finished_task_forgets_its_arguments():
    """The record stays, what it held does not."""
    c = one_node()
    task = finished_task(c, deps=(put(c),), contained=(put(c),))
    assert task.args is None and task.deps == task.contained == ()
