"""Generators: values that arrive one by one."""

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
    """The consumer takes the next item, and owns its one reference."""
    return c.take_item(NOW, task.stream)[0]


def test_each_item_is_ready_when_it_is_yielded():
    """The generator has not ended yet, so the object of its end is still pending."""
    c = one_node()
    task, _ = running_task(c, returns="streaming")
    yield_one(c, task)
    item = take(c, task)
    assert item.status is READY and item.value == "item 0 of attempt 0" and task.returns[0].status is PENDING
    finish(c, task)
    assert task.stream.ended and task.returns[0].status is READY


def test_a_consumer_is_woken_by_the_next_item_and_by_the_end():
    """It waits for the stream, since the next item is not an object yet."""
    c = one_node()
    task, _ = running_task(c, returns="streaming")
    first, second = Waiter(1, 1), Waiter(1, 2)
    c.wait_for(NOW, first, (task.stream,))
    assert yield_one(c, task) == [Wake(first)]
    take(c, task)
    c.wait_for(NOW, second, (task.stream,))
    assert finish(c, task) == [Wake(second)]


def test_the_id_of_an_item_begins_with_that_of_its_task():
    """As in Ray. So the items of two generators never have one id, whichever their places are."""
    c = one_node()
    tasks = [running_task(c, returns="streaming")[0] for _ in range(2)]
    items = []
    for task in tasks:
        yield_one(c, task)
        yield_one(c, task)
        items += [(task, take(c, task)), (task, take(c, task))]
    assert all(item.hex.startswith(task.hex) for task, item in items) and len({item.hex for _, item in items}) == 4


def test_an_error_is_the_last_item():
    """The items before it have their values, and the object of the end is no error, as in Ray."""
    c = one_node()
    task, _ = running_task(c, returns="streaming")
    yield_one(c, task)
    raise_in(c, task)
    assert take(c, task).status is READY
    error = take(c, task)
    assert error.status is FAILED and error.value is task.failure
    assert task.stream.ended and task.returns[0].status is READY


def test_a_second_attempt_does_not_yield_twice():
    """The items of the first attempt keep their values; the consumer sees each item once."""
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


def test_items_that_nobody_will_take_are_dropped_with_the_stream():
    """Both the items already yielded and those still to come."""
    c = one_node()
    task, _ = running_task(c, returns="streaming")
    inside = put(c)
    yield_one(c, task, contained=(inside,))
    drop(c, inside, task.stream, task.returns[0])
    assert inside.number not in c.objects and len(c.objects) == 1
    yield_one(c, task)
    finish(c, task)
    assert not c.objects


def test_a_generator_that_waits_for_its_consumer_is_woken_when_the_stream_is_dropped():
    """Back-pressure must not block a generator whose items nobody will take."""
    c = one_node()
    task, _ = running_task(c, returns="streaming", backpressure=1)
    yield_one(c, task)
    task.stream.producer_waiter = waiter = Waiter(1, "generator")
    assert drop(c, task.stream) == [Wake(waiter)]


def test_a_lost_item_is_yielded_again():
    """The generator runs again for it; the other items keep their values. The item used to be skipped, and its waiter
    waited forever."""
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


def test_a_lost_item_that_is_not_yielded_again_is_an_error():
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


def test_an_item_that_is_lost_while_its_generator_runs_is_rebuilt_after_its_end():
    """Its waiter waits for the end of the first run, and then for the second. The end of the task used to fail."""
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
    """Its actor starts the next call when the generator has ended."""
    c = one_node()
    actor = living_actor(c)
    streaming, following = a_call(c, actor, returns="streaming"), a_call(c, actor)
    started(c, streaming)
    yield_one(c, streaming)
    assert following.worker is None
    finish(c, streaming)
    assert following.worker is actor.worker and take(c, streaming).status is READY


def test_a_method_runs_again_for_an_item_that_was_lost_while_it_ran():
    """The end of the first run starts the next one. The call used to be removed from the actor's calls at that
    moment."""
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


def test_a_generator_may_yield_forever():
    """Items that were taken and dropped are removed from the list in its task. The list used to grow forever, and to be
    copied at every yield."""
    c = one_node(checked=False)
    task, _ = running_task(c, returns="streaming")
    for _ in range(2_000):
        yield_one(c, task)
        drop(c, take(c, task))
    assert len(task.returns) < 300 and len(c.objects) == 1
    finish(c, task)
    assert task.returns[0].status is READY


def test_the_end_of_a_generator_that_runs_again_and_raises_has_a_value():
    """Another task takes the object of the end, which was dropped and must be rebuilt. The object used to stay without
    a value, so it was rebuilt again and again."""
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
