"""Attempts, restarts and references at their edges: what is counted, what runs first, and what is let go."""

from __future__ import annotations

import pytest

from miniray.core.actions import RunTask, Wake
from miniray.core.actor_manager import MOST_FAILED_STARTS
from miniray.core.records import FAILED, LOST, READY, Waiter
from miniray.core.transitions import ActorStatus, TaskStatus, WorkerStatus
from tests.core.builders import (
    LARGE,
    NOW,
    a_call,
    a_value,
    an_actor,
    construct,
    crash,
    drop,
    finish,
    finished_task,
    living_actor,
    one_node,
    put,
    raise_in,
    run_call,
    running_task,
    started,
    submitted,
)

# ---------------------------------------------------------------- attempts


def test_a_lost_value_of_an_actor_that_was_killed_holds_the_reason_of_its_death():
    """No call of it can run again."""
    c = one_node()
    actor = living_actor(c, max_restarts=1, max_task_retries=1)
    call = a_call(c, actor)
    started(c, call)
    finish(c, call, LARGE)
    c.kill_actor(NOW, actor)
    obj = call.returns[0]
    c.lose_object(NOW, obj)
    waiter = Waiter(1, "driver")
    assert c.wait_for(NOW, waiter, (obj,)) == [Wake(waiter)]
    assert obj.status is FAILED and obj.value is actor.failure and obj.size == LARGE


def test_a_late_timer_leaves_the_next_attempt_alone():
    """A task was cancelled and returned anyway. It runs again for its lost value when the first attempt's time is up."""
    c = one_node()
    task, _ = running_task(c, retries=1)
    c.cancel(NOW, task, False, False)
    finish(c, task, LARGE)
    c.lose_object(NOW, task.returns[0])
    submitted(c, deps=task.returns)
    started(c, task)
    c.timer(NOW + 10)
    assert task.attempt == 1 and task.status is TaskStatus.SUBMITTED_TO_WORKER and not task.failure


def test_a_worker_counts_the_attempts_that_failed_too():
    """Every one that it has reported, of its tasks and of its actor's calls."""
    c = one_node(cpus=1)
    task, worker = running_task(c, retries=1)
    raise_in(c, task, retry=True)
    started(c, task)
    finish(c, task)
    assert worker.tasks_done == 2
    actor = living_actor(c)
    raise_in(c, a_call(c, actor))
    assert (actor.worker.tasks_done, actor.tasks_done) == (2, 1)


def test_a_cancelled_task_whose_argument_is_lost_does_not_wait_for_it():
    """It has not begun, and need not."""
    c = one_node()
    value = a_value(c, LARGE, retries=1)
    task = submitted(c, deps=(value,))
    worker = task.worker
    c.lose_object(NOW, value)
    c.cancel(NOW, task, False, False)
    c.arguments_lost(NOW, worker, task)
    assert task.status is TaskStatus.FAILED and task.failure.error_type == "TASK_CANCELLED"
    assert value.status is LOST and worker.status is WorkerStatus.IDLE


def test_a_task_whose_lost_argument_is_there_again_waits_for_a_worker_only():
    """It was rebuilt between the look of the worker and its report. The attempt is the same."""
    c = one_node()
    value = a_value(c)
    task = submitted(c, deps=(value,))
    c.arguments_lost(NOW, task.worker, task)
    assert task.worker is not None and task.status is TaskStatus.SUBMITTED_TO_WORKER and task.attempt == 0
    finish(c, task)
    assert task.status is TaskStatus.FINISHED


def test_a_call_that_was_not_begun_is_not_counted():
    """Its argument was lost on the way to the actor, which has run no call yet."""
    c = one_node()
    actor = living_actor(c)
    value = a_value(c, LARGE, retries=1)
    call = a_call(c, actor, deps=(value,))
    c.lose_object(NOW, value)
    c.arguments_lost(NOW, call.worker, call)
    assert actor.tasks_done == 0 and call.attempt == 0
    started(c, value.task)
    finish(c, value.task, LARGE)
    run_call(c, call)
    assert actor.tasks_done == 1


def test_a_call_that_was_not_begun_goes_before_later_calls_of_its_caller():
    """The worker found its argument lost. The call behind it waits, too, until the first has run."""
    c = one_node()
    actor = living_actor(c)
    value = a_value(c, LARGE, retries=1)
    first, second = a_call(c, actor, deps=(value,)), a_call(c, actor)
    c.lose_object(NOW, value)
    c.arguments_lost(NOW, first.worker, first)
    assert first.worker is None and second.worker is None
    started(c, value.task)
    finish(c, value.task, LARGE)
    assert first.worker is not None and second.worker is None


def test_an_actor_whose_record_was_dropped_is_in_the_table_again_when_it_is_revived():
    """And is not counted as dropped."""
    c = one_node()
    c.actor_manager.dead_kept = 0
    actor = living_actor(c, max_restarts=1, max_task_retries=1)
    call = a_call(c, actor)
    started(c, call)
    finish(c, call, LARGE)
    drop(c, actor.handle)
    assert not c.actors and c.dropped["actors"] == 1
    c.lose_object(NOW, call.returns[0])
    submitted(c, deps=call.returns)
    assert list(c.actors.values()) == [actor] and c.dropped["actors"] == 0


def test_an_actor_that_is_found_by_its_name_is_in_scope_again():
    """Its last handle had been dropped while a call ran; without the new one it would end with the call."""
    c = one_node()
    actor = living_actor(c, name="n")
    call = a_call(c, actor)
    started(c, call)
    drop(c, actor.handle)
    assert actor.out_of_scope
    c.add_reference(NOW, actor.handle)
    finish(c, call)
    assert actor.status is ActorStatus.ALIVE and not actor.out_of_scope


def test_a_dead_actor_keeps_its_class_as_long_as_it_can_be_called_or_revived():
    """A call by a handle that is left needs it for its error; a lost result may need the actor again."""
    c = one_node()
    held, let_go = living_actor(c, meta="class"), living_actor(c, meta="class")
    drop(c, let_go.handle)
    c.kill_actor(NOW, held)
    assert (held.meta, let_go.meta) == ("class", None)
    drop(c, held.handle)
    assert held.meta is None
    again = living_actor(c, meta="class", max_restarts=1, max_task_retries=1)
    call = a_call(c, again)
    started(c, call)
    finish(c, call, LARGE)
    drop(c, again.handle)
    assert again.status is ActorStatus.DEAD and again.meta == "class"
    drop(c, *call.returns)
    assert again.meta is None


def test_calls_are_given_to_their_actor_in_the_order_in_which_they_were_made():
    """Those that waited for its constructor: all start in one step, the first first."""
    c = one_node()
    actor = an_actor(c, is_async=True, groups={"": 3})
    calls = [a_call(c, actor) for _ in range(3)]
    assert construct(c, actor) == [RunTask(actor.worker, call) for call in calls]


def test_a_task_knows_the_tasks_that_made_its_arguments():
    """Each once, in the order of the arguments, also when the arguments are gone; what was put was made by none."""
    c = one_node()
    first, second = finished_task(c), finished_task(c)
    one = finished_task(c, deps=second.returns)
    many = finished_task(c, deps=(*second.returns, put(c), *first.returns, *second.returns))
    assert one.producers == (second.number,) and many.producers == (second.number, first.number)
    assert finished_task(c, deps=(put(c),)).producers == ()


# ---------------------------------------------------------------- what is let go


def test_a_task_whose_values_are_all_small_keeps_no_arguments():
    """They stay with their owner and cannot be lost; one large value among them is enough to keep the arguments."""
    c = one_node()
    for sizes, kept in (((8, 8), False), ((8, LARGE), True)):
        task, _ = running_task(c, returns=2, retries=1, deps=(put(c),))
        finish(c, task, *sizes)
        assert (task.args is not None, len(task.deps)) == (kept, kept)


def test_arguments_are_kept_until_the_last_value_that_may_be_lost_is_freed():
    """One of two large values goes: the other can still be rebuilt, and is."""
    c = one_node()
    value = put(c)
    task, _ = running_task(c, returns=2, retries=2, deps=(value,))
    finish(c, task, LARGE, LARGE)
    first, second = task.returns
    drop(c, first, value)
    assert task.args is not None
    c.lose_object(NOW, second)
    submitted(c, deps=(second,))
    started(c, task)
    finish(c, task, LARGE, LARGE)
    assert second.status is READY
    drop(c, second)
    for waiting in [one for one in c.tasks.values() if one is not task]:
        started(c, waiting)
        finish(c, waiting)
    assert task.args is None and value.number not in c.objects


def test_a_rebuilt_value_holds_what_it_contains_now():
    """What only the lost value contained is freed."""
    c = one_node()
    inner = put(c)
    task, _ = running_task(c, retries=1)
    finish(c, task, LARGE, contained=((inner,),))
    drop(c, inner)
    assert inner.number in c.objects
    c.lose_object(NOW, task.returns[0])
    submitted(c, deps=task.returns)
    started(c, task)
    finish(c, task, LARGE)
    assert inner.number not in c.objects and not task.returns[0].contained


def test_a_value_whose_owner_died_is_dropped_by_the_runtime():
    """Not by the core, under its lock: dropping it may run code of the program."""
    c = one_node()
    _, worker = running_task(c)
    obj = put(c, LARGE, owner=worker)
    obj.value = "the value"
    c.references.take_freed()
    crash(c, worker)
    assert obj.status is FAILED and c.references.take_freed() == ["the value"]


def test_a_worker_that_is_ended_with_its_task_has_ended_as_intended():
    """Cancelled by force: it did not crash, and the log does not say so."""
    c = one_node()
    task, worker = running_task(c)
    c.cancel(NOW, task, True, False)
    assert (worker.status, worker.exit_type) == (WorkerStatus.DEAD, "INTENDED_SYSTEM_EXIT")
    assert "worker_died" not in [event.kind for event in c.events]


@pytest.mark.parametrize("record_limit", [1, 100])
def test_a_task_does_not_keep_its_freed_value(record_limit):
    """The two refer to each other: only the cyclic collector would find them. Whatever frees the value ends that."""
    c = one_node(record_limit=record_limit)
    small = a_value(c)
    large = a_value(c, LARGE)
    unneeded, _ = running_task(c)
    drop(c, *unneeded.returns)
    finish(c, unneeded)
    drop(c, small, large)
    assert [task.returns for task in (small.task, large.task, unneeded)] == [(), (), ()]


def test_a_task_whose_record_is_dropped_releases_all_its_values():
    """This holds for several returns, too: a reference to the record does not keep them."""
    c = one_node(record_limit=1)
    task, _ = running_task(c, returns=2)
    finish(c, task)
    drop(c, *task.returns)
    finished_task(c)
    assert task.number not in c.tasks and task.returns == ()


def test_arguments_are_dropped_in_the_order_of_the_call():
    """So the finalisers of their values run in this order, too."""
    c = one_node()
    values = [put(c), put(c), put(c)]
    for number, obj in enumerate(values):
        obj.value = f"value {number}"
    task, _ = running_task(c, deps=tuple(values))
    drop(c, *values)
    c.references.take_freed()
    finish(c, task)
    assert c.references.take_freed() == ["value 0", "value 1", "value 2"]


def test_a_child_of_a_dead_worker_fails_with_its_owner_s_death():
    """Those that run, those that wait, and the large values that they made."""
    c = one_node(cpus=2)
    parent, worker = running_task(c)
    ended = submitted(c, owner=worker, parent=parent.hex)
    started(c, ended)
    finish(c, ended, LARGE)
    running, waiting = (submitted(c, owner=worker, parent=parent.hex, cpus=n) for n in (1, 2))
    started(c, running)
    crash(c, worker)
    for obj in (ended.returns[0], running.returns[0], waiting.returns[0]):
        assert obj.status is FAILED and obj.value.error_type == "OWNER_DIED"


def test_an_actor_whose_constructor_crashes_each_time_is_dead_in_the_end():
    """max_restarts=-1: it used to restart forever, and its calls waited forever. A successful start resets the count."""
    c = one_node()
    actor = an_actor(c, max_restarts=-1)
    for crashes in MOST_FAILED_STARTS - 1, MOST_FAILED_STARTS:
        for _ in range(crashes):
            started(c, actor.creation)
            crash(c, actor.worker)
        if actor.status is not ActorStatus.DEAD:
            construct(c, actor)
            crash(c, actor.worker)
            call = a_call(c, actor)
    assert actor.status is ActorStatus.DEAD and call.failure.error_type == "ACTOR_DIED"
