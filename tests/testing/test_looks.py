"""A simulated thread that looks at something without waiting may see it before and after another thread's change."""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import miniray as ray
from miniray import state
from miniray.cluster_utils import Cluster
from miniray.experimental import internal_kv
from miniray.testing import explore
from miniray.util.placement_group import placement_group


def _beside(change: Callable[[], object], look: Callable[[], object]) -> object:
    """What a thread sees while the driver makes a change."""
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(look()))
    thread.start()
    change()
    thread.join()
    return seen[0]


def event() -> object:
    """Event.is_set"""
    made = threading.Event()
    return _beside(made.set, made.is_set)


def lock() -> object:
    """Lock.locked"""
    made = threading.Lock()
    return _beside(made.acquire, made.locked)


def lock_that_is_held_for_a_moment() -> object:
    """Lock.acquire(False)"""
    made = threading.Lock()

    def hold() -> None:
        with made:
            pass

    return _beside(hold, lambda: made.acquire(False) and (made.release() or True))


def condition() -> object:
    """Condition.wait(0)"""
    made = threading.Condition()

    def wait() -> bool:
        with made:
            return made.wait(0)

    def notify() -> None:
        with made:
            made.notify()

    return _beside(notify, wait)


def thread_is_alive() -> object:
    """Thread.is_alive"""
    thread = threading.Thread(target=len, args=((),))
    thread.start()
    return thread.is_alive()


def join_without_a_wait() -> object:
    """Thread.join(0)"""
    thread = threading.Thread(target=len, args=((),))
    thread.start()
    thread.join(0)
    return thread.is_alive()


def simple_queue() -> object:
    """SimpleQueue.qsize"""
    made: Any = queue.SimpleQueue()
    return _beside(lambda: made.put(1), made.empty)


def future() -> object:
    """Future.done"""
    made: Any = concurrent.futures.Future()
    return _beside(lambda: made.set_result(1), made.done)


def threads_begin_in_any_order() -> object:
    """The first line of a thread's function."""
    order: list[int] = []
    threads = [threading.Thread(target=order.append, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tuple(order)


@ray.remote
def one() -> int:
    """1."""
    return 1


def state_rows() -> object:
    """state.list_tasks"""
    ref = one.remote()
    finished = state.list_tasks()[0]["state"] == "FINISHED"
    ray.get(ref)
    return finished


def resources() -> object:
    """available_resources"""
    ray.init(num_cpus=2)
    ref = one.remote()
    free = ray.available_resources()["CPU"]
    ray.get(ref)
    return free


@ray.remote
def num_nodes() -> int:
    """How many nodes are alive."""
    return sum(node["Alive"] for node in ray.nodes())


def node_that_joins() -> object:
    """nodes, while Cluster.add_node"""
    cluster = Cluster(initialize_head=True, connect=True)
    ref = num_nodes.remote()
    cluster.add_node()
    return ray.get(ref)


@ray.remote
def two() -> Any:
    """Yields 1 and 2."""
    yield 1
    yield 2


def generator() -> object:
    """wait with a generator"""
    items = two.remote()
    return len(ray.wait([items], timeout=0)[0])


def next_item() -> object:
    """ObjectRefGenerator.next_ready"""
    return two.remote().next_ready()


def group() -> object:
    """PlacementGroup.wait(0)"""
    ray.init(num_cpus=1)
    ref = one.remote()
    made = placement_group([{"CPU": 1}])
    reserved = made.wait(0)
    ray.get(ref)
    return reserved


def group_is_ready() -> object:
    """wait with the reference of a placement group"""
    ray.init(num_cpus=1)
    ref = one.remote()
    ready = ray.wait([placement_group([{"CPU": 1}]).ready()], timeout=0)[0]
    ray.get(ref)
    return len(ready)


@ray.remote
def store(value: bytes) -> bool:
    """Store a value, unless there is one."""
    return internal_kv._internal_kv_put(b"key", value, overwrite=False)


def key() -> object:
    """_internal_kv_get"""
    ref = store.remote(b"1")
    found = internal_kv._internal_kv_get(b"key")
    ray.get(ref)
    return found


def keys() -> object:
    """_internal_kv_list"""
    ref = store.remote(b"1")
    found = len(internal_kv._internal_kv_list(b"k"))
    ray.get(ref)
    return found


def two_that_store() -> object:
    """_internal_kv_put"""
    return tuple(ray.get([store.remote(b"1"), store.remote(b"2")]))


PROGRAMS = [
    event,
    lock,
    lock_that_is_held_for_a_moment,
    condition,
    thread_is_alive,
    join_without_a_wait,
    simple_queue,
    future,
    threads_begin_in_any_order,
    state_rows,
    resources,
    node_that_joins,
    generator,
    next_item,
    group,
    group_is_ready,
    key,
    keys,
    two_that_store,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_both_outcomes_are_found(program):
    """One of them used to be impossible, and "exhaustive" said that it had covered everything."""

    def outcomes(*arguments: Any, **options: Any) -> set[object]:
        found: set[object] = set()
        explored = explore(lambda: found.add(program()), *arguments, **options)
        assert explored.covered or not options
        return found

    assert len(outcomes(100)) == 2
    assert len(outcomes(strategy="exhaustive")) == 2


@pytest.mark.parametrize("make", [lambda: queue.SimpleQueue(), lambda: queue.Queue()])
def test_two_threads_put_in_any_order(make):
    """Whichever of them was started first."""
    found = set()

    def program() -> None:
        made = make()
        threads = [threading.Thread(target=made.put, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        found.add((made.get(), made.get()))

    explore(program, 100)
    assert found == {(0, 1), (1, 0)}


def test_a_loop_that_only_looks_comes_to_an_end():
    """Each look lets others go on, and in the end the clock."""

    def program() -> None:
        event, lock = threading.Event(), threading.Lock()

        def later() -> None:
            time.sleep(10)
            lock.acquire()
            event.set()

        thread = threading.Thread(target=later)
        thread.start()
        while not event.is_set():
            pass
        while not lock.locked() or thread.is_alive():
            pass
        ref = one.remote()
        while state.list_tasks()[0]["state"] != "FINISHED":
            pass
        ray.get(ref)

    for strategy in "random", "pct":
        explore(program, 3, strategy)


def test_a_schedule_that_is_left_out_says_nothing_in_an_event_loop(caplog):
    """The search leaves it where a callback of the loop runs."""

    def program() -> None:
        async def wait() -> int:
            return await one.remote()

        async def both() -> list[int]:
            return await asyncio.gather(wait(), wait())

        assert asyncio.run(both()) == [1, 1]

    assert explore(program, strategy="exhaustive").pruned
    assert not caplog.records
