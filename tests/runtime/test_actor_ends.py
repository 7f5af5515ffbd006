"""What is left of an actor that has ended, and one that ends before its thread is there."""

from __future__ import annotations

import gc
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
    """Note a class, weakly. This function travels by name, so that its list is this very one for actors, too."""
    classes.append(weakref.ref(cls))
    return len(classes)


def local_class(base: type = object) -> type:
    """A class that travels by value: each actor has a copy of its own."""

    class Local(base):
        def note(self) -> int:
            """Remember this actor's copy of the class."""
            return remember(type(self))

    return Local


class Async:
    """Makes an actor an async one."""

    async def wait(self) -> None:
        """Never called."""


@frees_memory
@pytest.mark.parametrize("base", [object, Async], ids=["threaded", "async"])
def test_what_a_dead_actor_is_remembered_by_does_not_hold_its_class(session, base):
    """Its record stays, for the tables; it used to keep the actor's copies of classes and functions, 50 KB for each
    actor."""
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
    """Another thread was quicker than the one that is about to start it: that used to end with an AttributeError."""
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
