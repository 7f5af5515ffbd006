"""Queue: what it refuses, who waits, and what a shutdown leaves."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import miniray
from miniray.util.queue import Empty, Full, Queue


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    miniray.init(num_cpus=2, log_to_driver=False)
    yield
    miniray.shutdown()


def test_a_get_waits_for_a_put():
    """A task that asks an empty queue gets the item that comes later."""
    queue = Queue()

    @miniray.remote
    def take(queue: Queue) -> Any:
        return queue.get()

    taken = take.remote(queue)
    queue.put("late")
    assert miniray.get(taken) == "late"


def test_a_put_waits_for_room():
    """A task that puts into a full queue is through when somebody has taken an item."""
    queue = Queue(maxsize=1)
    queue.put(1)

    @miniray.remote
    def put(queue: Queue) -> None:
        queue.put(2)

    done = put.remote(queue)
    assert queue.get() == 1
    miniray.get(done)
    assert queue.get() == 2


def test_a_copy_of_the_handle_is_the_same_queue():
    """Only the handle is pickled."""
    queue = Queue()
    copy = pickle.loads(pickle.dumps(queue))
    copy.put(1)
    assert queue.get() == 1 and copy.maxsize == queue.maxsize


def test_items_are_snapshots():
    """What is changed after the put does not change in the queue."""
    queue, item = Queue(), [1]
    queue.put(item)
    item.append(2)
    assert queue.get() == [1]


def test_no_waiting_raises_the_plain_class():
    """With block=False the error is Empty itself; after a timeout it is the actor's, an Empty as well, as in Ray."""
    queue = Queue()
    with pytest.raises(Empty) as plain:
        queue.get(block=False)
    with pytest.raises(Empty) as timed_out:
        queue.get(timeout=0.001)
    assert type(plain.value) is Empty and isinstance(timed_out.value, miniray.exceptions.RayTaskError)


def test_a_timeout_of_zero_finds_nothing():
    """As in Ray, where the wait is over before it begins: get_nowait is the way to take what is there."""
    queue = Queue(maxsize=2)
    queue.put(1)
    with pytest.raises(Empty):
        queue.get(timeout=0)
    with pytest.raises(Full):
        queue.put(2, timeout=0)
    assert queue.get_nowait() == 1


def test_a_timeout_counts_only_when_it_may_wait():
    """A negative one is refused, but with block=False nobody looks at it."""
    queue = Queue()
    queue.put(1, block=False, timeout=-1)
    with pytest.raises(ValueError, match="negative"):
        queue.put(1, timeout=-1)
    assert queue.get(block=False, timeout=-1) == 1


def test_a_batch_for_a_limited_queue_needs_a_length():
    """A set or a string has one; an iterator is a TypeError, from the actor, and only when there is a limit."""
    limited, endless = Queue(maxsize=2), Queue()
    limited.put_nowait_batch("ab")
    assert limited.get_nowait_batch(2) == ["a", "b"]
    with pytest.raises(TypeError):
        limited.put_nowait_batch(iter([1]))
    endless.put_nowait_batch(iter([1]))
    endless.put_nowait_batch({"key": 1})
    assert endless.get_nowait_batch(2) == [1, "key"]


def test_options_are_those_of_an_actor():
    """They are checked when the queue is made."""
    with pytest.raises(ValueError):
        Queue(actor_options={"num_cpus": -1})
    named = Queue(actor_options={"name": "the queue"})
    named.put(1)
    assert miniray.get(miniray.get_actor("the queue").qsize.remote()) == 1


def test_after_a_shutdown_there_is_no_queue():
    """Here the handle is gone: AttributeError. Whoever else has the queue gets ActorDiedError. Twice is fine."""
    queue = Queue()
    other = pickle.loads(pickle.dumps(queue))
    queue.shutdown()
    queue.shutdown()
    with pytest.raises(AttributeError):
        queue.put(1)
    with pytest.raises(miniray.exceptions.ActorDiedError):
        other.get()


def test_a_forced_shutdown_does_not_wait():
    """A get that is waiting gets ActorDiedError."""
    queue = Queue()
    waiting = queue.actor.get.remote()
    queue.shutdown(force=True)
    with pytest.raises(miniray.exceptions.ActorDiedError):
        miniray.get(waiting)


def test_coroutines_of_one_loop_can_wait_for_each_other():
    """get_async lets the coroutine run that puts."""

    async def main() -> Any:
        queue = Queue()
        getting = asyncio.ensure_future(queue.get_async())
        await asyncio.sleep(0)
        await queue.put_async("from the same loop")
        return await getting

    assert asyncio.run(main()) == "from the same loop"
