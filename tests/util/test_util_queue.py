"""Queue: blocking, timeouts, batches, refused arguments, and its shutdown."""

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
    """A task that reads an empty queue gets the item that is put later."""
    queue = Queue()

    @miniray.remote
    def take(queue: Queue) -> Any:
        return queue.get()

    taken = take.remote(queue)
    queue.put("late")
    assert miniray.get(taken) == "late"


def test_a_put_waits_for_room():
    """A task that puts an item into a full queue returns after another item has been taken."""
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


def test_items_are_copies():
    """Changing an item after the put does not change it in the queue."""
    queue, item = Queue(), [1]
    queue.put(item)
    item.append(2)
    assert queue.get() == [1]


def test_without_blocking_the_plain_class_is_raised():
    """With block=False the error is Empty itself. After a timeout, it is also a RayTaskError, as in Ray."""
    queue = Queue()
    with pytest.raises(Empty) as plain:
        queue.get(block=False)
    with pytest.raises(Empty) as timed_out:
        queue.get(timeout=0.001)
    assert type(plain.value) is Empty and isinstance(timed_out.value, miniray.exceptions.RayTaskError)


def test_a_timeout_of_zero_finds_nothing():
    """As in Ray, the wait is over before it begins. Use get_nowait to take an item without waiting."""
    queue = Queue(maxsize=2)
    queue.put(1)
    with pytest.raises(Empty):
        queue.get(timeout=0)
    with pytest.raises(Full):
        queue.put(2, timeout=0)
    assert queue.get_nowait() == 1


def test_a_timeout_counts_only_with_block():
    """A negative timeout is refused. With block=False it is ignored."""
    queue = Queue()
    queue.put(1, block=False, timeout=-1)
    with pytest.raises(ValueError, match="negative"):
        queue.put(1, timeout=-1)
    assert queue.get(block=False, timeout=-1) == 1


def test_a_batch_for_a_limited_queue_needs_a_length():
    """A queue with a limit raises TypeError for an iterator, in the actor. One without a limit accepts it."""
    limited, endless = Queue(maxsize=2), Queue()
    limited.put_nowait_batch("ab")
    assert limited.get_nowait_batch(2) == ["a", "b"]
    with pytest.raises(TypeError):
        limited.put_nowait_batch(iter([1]))
    endless.put_nowait_batch(iter([1]))
    endless.put_nowait_batch({"key": 1})
    assert endless.get_nowait_batch(2) == [1, "key"]


def test_actor_options():
    """They are checked when the queue is created, and apply to its actor."""
    with pytest.raises(ValueError):
        Queue(actor_options={"num_cpus": -1})
    named = Queue(actor_options={"name": "the queue"})
    named.put(1)
    assert miniray.get(miniray.get_actor("the queue").qsize.remote()) == 1


def test_after_a_shutdown_there_is_no_queue():
    """This object raises AttributeError; other copies raise ActorDiedError. A second shutdown does nothing."""
    queue = Queue()
    other = pickle.loads(pickle.dumps(queue))
    queue.shutdown()
    queue.shutdown()
    with pytest.raises(AttributeError):
        queue.put(1)
    with pytest.raises(miniray.exceptions.ActorDiedError):
        other.get()


def test_a_forced_shutdown_does_not_wait():
    """A waiting get raises ActorDiedError."""
    queue = Queue()
    waiting = queue.actor.get.remote()
    queue.shutdown(force=True)
    with pytest.raises(miniray.exceptions.ActorDiedError):
        miniray.get(waiting)


def test_coroutines_of_one_loop_can_wait_for_each_other():
    """While get_async waits, the coroutine that puts the item can run."""

    async def main() -> Any:
        queue = Queue()
        getting = asyncio.ensure_future(queue.get_async())
        await asyncio.sleep(0)
        await queue.put_async("from the same loop")
        return await getting

    assert asyncio.run(main()) == "from the same loop"
