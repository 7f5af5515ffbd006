"""Objects and the session as a program sees them, in every runtime: one behaviour per test."""

from __future__ import annotations

import asyncio
import pickle
import threading
from typing import Any

import pytest

import miniray as ray
from miniray import state
from miniray.exceptions import GetTimeoutError
from miniray.util.queue import Empty, Queue
from tests.runtime.behaviour import Counter, double, fail
from tests.runtime.several_nodes import core, settle


def test_put_and_get(session: str):
    """All kinds of values, alone and several at once."""
    values = [None, 1, "text", b"bytes", [1, [2]], {"a": (1, 2)}, {3}, bytes(200_000)]
    assert ray.get([ray.put(value) for value in values]) == values


def test_a_stored_value_does_not_change(session: str):
    """Changes to the object that was put, or to one that `get` returned, do not affect it."""
    mine = [1]
    ref = ray.put(mine)
    mine.append(2)
    got = ray.get(ref)
    got.append(3)
    assert ray.get(ref) == [1]


def test_a_value_that_cannot_be_sent_is_refused_where_it_is_sent(session: str):
    """The error names the path to the culprit."""
    with pytest.raises(TypeError, match="lock"):
        ray.put({"inside": threading.Lock()})
    with pytest.raises(TypeError, match="lock"):
        double.remote(threading.Lock())


def test_a_result_that_cannot_be_sent_is_the_error_of_its_task(session: str):
    """The task fails as if it had raised the error."""

    @ray.remote
    def lock() -> Any:
        return threading.Lock()

    with pytest.raises(TypeError, match="lock"):
        ray.get(lock.remote())


def test_a_reference_inside_a_value_keeps_its_object(session: str):
    """Even after the program itself has dropped the reference."""
    outer = ray.put([ray.put("inner")])
    settle()
    assert ray.get(ray.get(outer)[0]) == "inner"


def test_an_object_without_references_is_gone(session: str):
    """Both its value and its record."""
    ref = ray.put([1])
    number = ref._record.number
    assert number in core().objects
    del ref
    settle()
    assert number not in core().objects


def test_references_are_equal_if_they_name_the_same_object(session: str):
    """Also references that were made in different ways."""
    ref = ray.put(1)
    again = pickle.loads(pickle.dumps(ref))
    assert again == ref and hash(again) == hash(ref) and {ref: 1}[again] == 1 and ref != ray.put(1)
    assert ray.ObjectRef(ref.binary()) == ref and ray.get(ray.ObjectRef(ref.binary())) == 1


def test_classes_of_the_program_travel(session: str):
    """Also local classes. An instance that comes back has the class with which it was sent."""

    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

    point = ray.get(ray.put(Point(4)))
    assert type(point) is Point and point.x == 4


def test_a_reference_gives_a_future(session: str):
    """The future gets the value or the error."""
    assert double.remote(1).future().result(20) == 2
    with pytest.raises(ValueError):
        fail.remote().future().result(20)


def test_a_reference_can_be_awaited(session: str):
    """In an event loop of the program."""

    async def main() -> list:
        return await asyncio.gather(double.remote(1), double.remote(2))

    assert asyncio.run(main()) == [2, 4]


def test_get_takes_references_only(session: str):
    """The error says what it got instead."""
    with pytest.raises(ValueError):
        ray.get(1)
    with pytest.raises(TypeError):
        ray.get([1])
    with pytest.raises(ValueError):
        ray.wait([double.remote(1)], num_returns=2)


def test_a_task_that_fits_nowhere_can_be_waited_for_with_a_timeout(session: str):
    """The error of the timeout says why the task waits."""
    ref = double.options(num_cpus=100).remote(1)
    with pytest.raises(GetTimeoutError, match="CPU"):
        ray.get(ref, timeout=0.001)
    assert ray.wait([ref], timeout=0) == ([], [ref])
    ray.cancel(ref)


def test_a_queue_is_shared(session: str):
    """The program and its tasks share it, first in, first out."""

    @ray.remote
    def fill(queue: Any) -> None:
        for x in range(3):
            queue.put(x)

    queue = Queue()
    ray.get(fill.remote(queue))
    assert [queue.get() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(Empty):
        queue.get_nowait()


def test_the_tables_tell_what_was_run(session: str):
    """There is a row for each task and actor, with its final state."""
    counter = Counter.remote()
    ray.get([double.remote(1), counter.add.remote()])
    with pytest.raises(ValueError):
        ray.get(fail.remote())
    rows = {row["name"]: row["state"] for row in state.list_tasks()}
    assert (rows["double"], rows["Counter.add"], rows["fail"]) == ("FINISHED", "FINISHED", "FAILED")
    assert [row["class_name"] for row in state.list_actors()] == ["Counter"]


def test_a_session_starts_by_itself(session: str):
    """At the first use after the last session was shut down."""
    ray.shutdown()
    assert not ray.is_initialized()
    assert ray.get(ray.put(1)) == 1 and ray.is_initialized()


def test_a_second_init_is_refused(session: str):
    """Unless ignore_reinit_error is given."""
    with pytest.raises(RuntimeError, match="twice"):
        ray.init()
    ray.init(ignore_reinit_error=True)
