"""Generators: values that come one by one."""

from __future__ import annotations

from miniray.core.actions import Wake
from miniray.core.records import FAILED, LOST, PENDING, READY, ObjectRecord, TaskRecord, Waiter
from tests.core.builders import (
    LARGE,
    NOW,
    SMALL,
    a_call,
    crash,
    drop,
    finish,
    living_actor,
    one_node,
    put,
    raise_in,
    running_task,
    started,
)


def yield_one(c, task: TaskRecord, size: int = SMALL, contained: tuple = ()) -> list:
    """The generator yields. Returns the actions."""
    return c.stream_item(
        NOW, task.worker, task, f"item {task.stream.produced} of attempt {task.attempt}", size, contained
    )


def take(c, task: TaskRecord) -> ObjectRecord:
    """The consumer takes the next item: its reference is the consumer's now."""
    return c.take_item(NOW, task.stream)[0]


def test_each_item_is_there_when_it_is_yielded():
    """Before the generator has ended; the object that tells of the end is still pending."""
    c = one_node()
    task, _ = running_task(c, returns="streaming")
    yield_one(c, task)
    item = take(c, task)
    assert item.status is READY and item.value == "item 0 of attempt 0" and task.returns[0].status is PENDING
    finish(c, task)
    assert task.stream.ended and task.returns[0].status is READY


def test_a_consumer_is_woken_by_the_next_item_and_by_the_end():
    """It waits for the stream, not for an object that is not there yet."""
    c = one_node()
    task, _ = running_task(c, returns="streaming")
    first, second = Waiter(1, 1), Waiter(1, 2)
    c.wait_for(NOW, first, (task.stream,))
    assert yield_one(c, task) == [Wake(first)]
    take(c, task)
    c.wait_for(NOW, second, (task.stream,))
    assert finish(c, task) == [Wake(second)]


def test_an_error_is_the_last_item():
    """The items before it are good, and the end itself is no error, as in Ray."""
    c = one_node()
    task, _ = running_task(c, returns="streaming")
    yield_one(c, task)
    raise_in(c, task)
    assert take(c, task).status is READY
    error = take(c, task)
    assert error.status is FAILED and error.value is task.failure
    assert task.stream.ended and task.returns[0].status is READY


def test_a_second_attempt_does_not_yield_twice():
    """What the first had yielded stays; the consumer sees each item once."""
    c = one_node()
    task, worker = running_task(c, returns="streaming", retries=1)
    yield_one(c, task)
    yield_one(c, task)
    taken = take(c, task)
    crash(c, worker)
    started(c, task)
    for _ in range(3):
        yield_one(c, task)
    finish(c, task)
    assert [item.value for item in (taken, take(c, task), take(c, task))] == [
        "item 0 of attempt 0",
        "item 1 of attempt 0",
        "item 2 of attempt 1",
    ]


def test_items_that_nobody_will_take_go_with_the_stream():
    """Those that are there, and those that are still to come."""
    c = one_node()
    task, _ = running_task(c, returns="streaming")
    inside = put(c)
    yield_one(c, task, contained=(inside,))
    drop(c, inside, task.stream, task.returns[0])
    assert inside.number not in c.objects and len(c.objects) == 1
    yield_one(c, task)
    finish(c, task)
    assert not c.objects


def test_a_generator_that_waits_for_its_consumer_is_woken_when_that_has_gone():
    """Back-pressure must not hold a generator that nobody listens to."""
    c = one_node()
    task, _ = running_task(c, returns="streaming", backpressure=1)
    yield_one(c, task)
    task.stream.producer_waiter = waiter = Waiter(1, "generator")
    assert drop(c, task.stream) == [Wake(waiter)]


def test_a_lost_item_is_yielded_again():
    """The generator runs once more for it; the others keep their values. It used to be passed over, and waited for, for ever."""
    c = one_node()
    task, _ = running_task(c, returns="streaming", retries=1)
    yield_one(c, task, LARGE)
    yield_one(c, task, LARGE)
    finish(c, task)
    first, second = take(c, task), take(c, task)
    c.lose_object(NOW, second)
    waiter = Waiter(1, "driver")
    c.wait_for(NOW, waiter, (second,))
    started(c, task)
    yield_one(c, task, LARGE)
    yield_one(c, task, LARGE)
    finish(c, task)
    assert waiter.fired and second.value == "item 1 of attempt 1" and first.value == "item 0 of attempt 0"


def test_a_lost_item_that_does_not_come_again_is_an_error():
    """The generator yielded fewer values the second time."""
    c = one_node()
    task, _ = running_task(c, returns="streaming", retries=1)
    yield_one(c, task, LARGE)
    finish(c, task)
    item = take(c, task)
    c.lose_object(NOW, item)
    waiter = Waiter(1, "driver")
    c.wait_for(NOW, waiter, (item,))
    started(c, task)
    finish(c, task)
    assert waiter.fired and item.status is FAILED and item.value.error_type == "OBJECT_LOST"


def test_an_item_that_is_lost_while_its_generator_goes_on_comes_with_another_run():
    """Whoever waits for it waits for the end, and then for the second run. The end of the task used to break on it."""
    c = one_node()
    task, _ = running_task(c, returns="streaming", retries=1)
    yield_one(c, task, LARGE)
    item = take(c, task)
    c.lose_object(NOW, item)
    waiter = Waiter(1, "driver")
    c.wait_for(NOW, waiter, (item,))
    assert item.status is LOST and not waiter.fired
    finish(c, task)
    started(c, task)
    yield_one(c, task, LARGE)
    finish(c, task)
    assert waiter.fired and item.value == "item 0 of attempt 1"


def test_a_method_may_stream():
    """Its actor goes on with the next call when the generator has ended."""
    c = one_node()
    actor = living_actor(c)
    streaming, following = a_call(c, actor, returns="streaming"), a_call(c, actor)
    started(c, streaming)
    yield_one(c, streaming)
    assert following.worker is None
    finish(c, streaming)
    assert following.worker is actor.worker and take(c, streaming).status is READY


def test_a_method_runs_again_for_an_item_that_was_lost_while_it_ran():
    """Its end is at once the beginning of the next run, which used to be taken out of the actor's calls."""
    c = one_node()
    actor = living_actor(c, max_task_retries=1)
    call = a_call(c, actor, returns="streaming")
    started(c, call)
    yield_one(c, call, LARGE)
    item = take(c, call)
    c.lose_object(NOW, item)
    waiter = Waiter(1, "driver")
    c.wait_for(NOW, waiter, (item,))
    finish(c, call)
    assert actor.worker.task is call
    yield_one(c, call, LARGE)
    finish(c, call)
    assert waiter.fired and not actor.calls


def test_a_generator_may_yield_for_ever():
    """What was taken and let go of is not listed in its task: that list used to be copied at every yield, and only grew."""
    c = one_node(checked=False)
    task, _ = running_task(c, returns="streaming")
    for _ in range(2_000):
        yield_one(c, task)
        drop(c, take(c, task))
    assert len(task.returns) < 300 and len(c.objects) == 1
    finish(c, task)
    assert task.returns[0].status is READY


def test_the_end_of_a_generator_that_is_run_again_and_fails_has_a_value():
    """Another task needs to know of the end, which was let go of, and is made again: it had no value, and was asked for again
    and again."""
    c = one_node(cpus=1)
    task, _ = running_task(c, returns="streaming", retries=1)
    yield_one(c, task, LARGE)
    item = take(c, task)
    finish(c, task)
    user, _ = running_task(c, retries=1, deps=(task.returns[0],))
    finish(c, user, LARGE)
    drop(c, task.returns[0])
    assert task.returns[0].number not in c.objects and item.number in c.objects
    c.lose_object(NOW, user.returns[0])
    c.wait_for(NOW, Waiter(1, "driver"), user.returns)
    started(c, task)
    raise_in(c, task)
    assert task.returns[0].status is READY and task.returns[0].value is None and user.worker is not None
