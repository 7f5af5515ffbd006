"""What remains of an actor that has ended, and an actor that ends before its thread has started."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

import miniray as ray
from miniray.core import actions
from miniray.process import context
from tests.interpreter import frees_memory

classes: list[weakref.ref] = []


@pytest.fixture(params=[False, True], ids=["threads", "local_mode"])
def session(request) -> Iterator[None]:
    """One node."""
    ray.init(num_cpus=2, local_mode=request.param, log_to_driver=False)
    yield
    ray.shutdown()


def remember(cls: type) -> int:
    """Note a class, weakly. This function travels by name, so an actor appends to this very list."""
    classes.append(weakref.ref(cls))
    return len(classes)


def local_class(base: type = object) -> type:
    """A class that travels by value, so that each actor has its own copy."""

    class Local(base):
        def note(self) -> int:
            """Note this actor's copy of the class."""
            return remember(type(self))

    return Local


class Async:
    """Makes an actor an async one."""

    async def wait(self) -> None:
        """Never called."""


@frees_memory
@pytest.mark.parametrize("base", [object, Async], ids=["threaded", "async"])
def test_the_record_of_a_dead_actor_does_not_keep_its_class(session, base):
    """The record is kept for the tables. It used to keep the actor's copies of classes and functions, 50 KB each."""
    classes.clear()
    actor = ray.remote(local_class(base)).remote()
    assert ray.get(actor.note.remote()) == 1 and classes[0]() is not None
    ended = actor._record.actor.worker.handle.done
    ray.kill(actor)
    if ended is not None:
        assert ended.acquire(timeout=10)  # its thread has ended
    gc.collect()
    assert classes[0]() is None


def test_an_actor_may_be_killed_before_its_thread_is_started(session):
    """Another thread kills it just before the thread is started. This used to raise AttributeError."""
    runtime = context.running()
    start = runtime.carriers[actions.StartWorker]

    def late(action: actions.StartWorker) -> None:
        if action.worker.actor is not None:
            runtime.tell(runtime.cluster.kill_actor, action.worker.actor)
        start(action)

    runtime.carriers[actions.StartWorker] = late
    actor = ray.remote(local_class()).remote()
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actor.note.remote())


may_return, argument_made, has_shut_down = threading.Event(), threading.Event(), threading.Event()
tasks_at_the_end: list[str | None] = []


class Waits:
    """Notes in which task it is asked to clean up."""

    def wait(self, argument: object = None) -> None:
        """Return when the test says so."""
        assert may_return.wait(10)

    def __ray_shutdown__(self) -> None:
        tasks_at_the_end.append(ray.get_runtime_context().get_task_id())
        has_shut_down.set()


def make_argument() -> bool:
    """An argument that comes when the test says so."""
    return argument_made.wait(10)


def test_an_idle_actor_runs_no_task_even_if_a_call_waits_in_its_queue():
    """The thread used to stay in the task of its last call while the next call waited for an argument."""
    for event in may_return, argument_made, has_shut_down:
        event.clear()
    tasks_at_the_end.clear()
    ray.init(num_cpus=2, log_to_driver=False)
    try:
        actor = ray.remote(Waits).remote()
        first = actor.wait.remote()
        second = actor.wait.remote(ray.remote(make_argument).remote())
        may_return.set()
        ray.get(first)
        ray.cancel(second)
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(second)
        del actor
        gc.collect()
        ray.put(None)  # an event of the core, which is told of the dropped handle first
        assert has_shut_down.wait(10)
        assert tasks_at_the_end == [None]
    finally:
        argument_made.set()
        ray.shutdown()
