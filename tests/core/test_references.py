"""Who needs an object, and what is dropped when nobody does."""

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


def test_an_object_is_freed_with_its_last_reference():
    """The core hands its value to the runtime, which drops it outside the lock."""
    c = one_node()
    obj = put(c)
    obj.refs += 1
    drop(c, obj)
    assert obj.number in c.objects and c.references.take_freed() == []
    drop(c, obj)
    assert not c.objects and c.references.take_freed() == ["a value that was put"] and obj.value is DROPPED


def test_a_waiting_task_keeps_its_arguments():
    """The caller need not hold them, nor the objects inside them."""
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


def test_a_stored_value_keeps_the_objects_inside_it():
    """They are freed together with the value."""
    c = one_node()
    inner = put(c)
    outer = put(c, contained=(inner, inner))
    drop(c, inner)
    assert inner.held == 2 and inner.number in c.objects
    drop(c, outer)
    assert not c.objects


def test_a_returned_value_keeps_the_objects_inside_it():
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
def test_values_inside_values_are_freed_without_recursion():
    """100,000 of them, each inside the next, like a linked list made of puts. Slow, because it has to put them all
    first."""
    c = one_node(checked=False)
    outer = put(c)
    for _ in range(100_000):
        inner, outer = outer, put(c, contained=(outer,))
        drop(c, inner)
    assert len(c.objects) == 100_001
    drop(c, outer)
    assert not c.objects and len(c.references.take_freed()) == 100_001


def test_a_long_chain_of_lineage_is_released_without_recursion():
    """5,000 large results, each made from the one before. The lineage of the last result is released with it."""
    c = one_node(checked=False)
    value = a_value(c, LARGE, retries=1)
    for _ in range(5_000):
        before, value = value, a_value(c, LARGE, retries=1, deps=(value,))
        drop(c, before)
    assert len(c.objects) == 1 and value.task.args is not None
    first = value.task.deps[0].task
    drop(c, value)
    assert not c.objects and value.task.args is None and first.args is None and first.deps == ()


def test_a_result_that_nobody_needs_is_freed_when_its_task_ends():
    """Not earlier: the task still has to store its value."""
    c = one_node()
    task, _ = running_task(c)
    drop(c, *task.returns)
    assert task.returns[0].status is PENDING and c.objects
    finish(c, task)
    assert not c.objects


def test_a_failed_task_whose_result_nobody_needs_releases_its_arguments_once():
    """The counts of its arguments used to go below zero, because its result was freed while it ended."""
    c = one_node()
    argument = a_value(c, LARGE, retries=1)
    task, worker = running_task(c, deps=(argument,), retries=1)
    drop(c, *task.returns)
    crash(c, worker)
    crash(c, started(c, task))
    assert argument.uses == argument.lineage == 0


def test_a_rebuilt_value_releases_the_objects_inside_the_lost_value():
    """They used to be held forever."""
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
    """Its worker ends, and no object of it is left."""
    c = one_node()
    actor = living_actor(c)
    drop(c, actor.handle)
    assert actor.status is ActorStatus.DEAD and not c.objects and not node(c).workers


def test_an_actor_finishes_its_calls_before_it_ends():
    """`A.remote().m.remote()` drops the handle before the call has run."""
    c = one_node()
    actor = living_actor(c)
    call = a_call(c, actor)
    drop(c, actor.handle)
    assert actor.status is ActorStatus.ALIVE
    started(c, call)
    finish(c, call)
    assert actor.status is ActorStatus.DEAD and call.returns[0].status is READY


def test_a_handle_inside_a_value_keeps_its_actor_alive():
    """The actor ends when the value is freed."""
    c = one_node()
    actor = living_actor(c)
    holder = put(c, contained=(actor.handle,))
    drop(c, actor.handle)
    assert actor.status is ActorStatus.ALIVE
    drop(c, holder)
    assert actor.status is ActorStatus.DEAD


def test_the_handle_of_a_dead_actor_is_freed_with_its_last_reference():
    """Each killed actor used to leave an object behind."""
    c = one_node()
    actor = living_actor(c)
    c.kill_actor(NOW, actor)
    assert actor.handle.number in c.objects
    drop(c, actor.handle)
    assert not c.objects


def test_references_dropped_before_a_report_that_does_not_count_still_have_their_effect():
    """A runtime reports dropped references together with another event. If that event changed nothing, the actions used
    to be left behind."""
    from collections import deque

    c = one_node()
    actor = living_actor(c)
    actors_worker = actor.worker
    task, worker = running_task(c)
    crash(c, worker)
    c.references_dropped(NOW, deque([actor.handle]))
    actions = c.task_finished(NOW, worker, task, (SMALL,))
    assert [action.worker for action in actions] == [actors_worker]


def test_a_finished_task_drops_its_arguments():
    """Its record stays without them."""
    c = one_node()
    task = finished_task(c, deps=(put(c),), contained=(put(c),))
    assert task.args is None and task.deps == task.contained == ()
