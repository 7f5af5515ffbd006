"""Actors as a program sees them, in every runtime: one behaviour per test."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import miniray as ray
from miniray.exceptions import PendingCallsLimitExceeded, RayActorError, TaskCancelledError
from tests.runtime.behaviour import Counter, double, Loop
from tests.runtime.several_nodes import settle


def test_an_actor_keeps_its_state_between_calls(session: str):
    """Its calls run one at a time, in the order in which they were submitted."""
    counter = Counter.remote(10)
    assert ray.get([counter.add.remote(), counter.add.remote(5), counter.add.remote()]) == [11, 16, 17]


def test_actors_of_one_class_are_separate(session: str):
    """Each actor has its own state."""
    one, two = Counter.remote(), Counter.remote(100)
    assert ray.get([one.add.remote(), two.add.remote()]) == [1, 101]


def test_an_actor_survives_an_error_of_a_call(session: str):
    """Only that call fails."""
    counter = Counter.remote()
    with pytest.raises(ValueError, match="at 0"):
        ray.get(counter.fail.remote())
    assert ray.get(counter.add.remote()) == 1


def test_an_error_of_the_constructor_is_the_error_of_every_call(session: str):
    """The first call already raises it."""

    @ray.remote
    class Broken:
        def __init__(self) -> None:
            raise ValueError("in the constructor")

        def call(self) -> None:
            pass

    with pytest.raises(RayActorError, match="in the constructor"):
        ray.get(Broken.remote().call.remote())


def test_arguments_of_constructors_and_calls_may_be_references(session: str):
    """They arrive as values."""
    counter = Counter.remote(double.remote(10))
    assert ray.get(counter.add.remote(double.remote(1))) == 22


def test_an_actor_is_found_by_its_name(session: str):
    """In the session's namespace, until it ends."""
    counter = Counter.options(name="count").remote()
    assert ray.get(ray.get_actor("count").add.remote()) == 1 and ray.util.list_named_actors() == ["count"]
    with pytest.raises(ValueError, match="already taken"):
        Counter.options(name="count").remote()
    assert Counter.options(name="count", get_if_exists=True).remote() == counter
    ray.kill(counter)
    with pytest.raises(ValueError, match="Failed to look up"):
        ray.get_actor("count")


def test_a_namespace_keeps_names_apart(session: str):
    """A name is found only in its own namespace."""
    counter = Counter.options(name="count", namespace="other").remote()
    with pytest.raises(ValueError):
        ray.get_actor("count")
    assert ray.get_actor("count", namespace="other") == counter


def test_an_actor_ends_with_its_last_handle(session: str):
    """It returns its resources. Calls that were already submitted still run."""
    counter = Counter.options(num_cpus=3).remote()
    ref = counter.add.remote()
    assert ray.get(ref) == 1 and ray.available_resources()["CPU"] == 1
    del counter
    settle()
    assert ray.available_resources()["CPU"] == 4 and ray.get(ref) == 1


def test_a_detached_actor_outlives_its_handles(session: str):
    """It can be found by its name until it is killed."""
    Counter.options(name="stays", lifetime="detached").remote()
    settle()
    assert ray.get(ray.get_actor("stays").add.remote()) == 1
    ray.kill(ray.get_actor("stays"))


def test_kill_ends_an_actor(session: str):
    """Later calls fail with RayActorError."""
    counter = Counter.remote()
    ray.get(counter.add.remote())
    ray.kill(counter)
    with pytest.raises(RayActorError):
        ray.get(counter.add.remote())


def test_an_actor_may_end_itself(session: str):
    """With exit_actor. The call that does it and all later calls fail."""
    counter = Counter.remote()
    for ref in (counter.leave.remote(), counter.add.remote()):
        with pytest.raises(RayActorError):
            ray.get(ref)


def test_an_actor_with_restarts_left_is_restarted(session: str):
    """Its constructor runs again; its state is lost."""
    counter = Counter.options(max_restarts=1).remote(5)
    assert ray.get([counter.add.remote(), counter.add.remote()]) == [6, 7]
    ray.kill(counter, no_restart=False)
    assert ray.get(counter.add.remote()) == 6
    ray.kill(counter, no_restart=False)
    with pytest.raises(RayActorError):
        ray.get(counter.add.remote())


@ray.remote(max_restarts=1, max_task_retries=1)
class Crasher:
    """Its worker dies in the first call."""

    def call(self, path: str) -> str:
        """Succeeds the second time."""
        if not os.path.exists(path):
            open(path, "w", encoding="ascii").close()
            os._exit(1)
        return "lived"


def test_a_call_is_retried_after_its_actor_crashed(session: str, tmp_path: Any):
    """If max_task_retries allows it."""
    assert ray.get(Crasher.remote().call.remote(str(tmp_path / "a"))) == "lived"
    with pytest.raises(RayActorError):
        ray.get(Crasher.options(max_task_retries=0).remote().call.remote(str(tmp_path / "b")))


def test_a_handle_may_be_passed_on(session: str):
    """To tasks and actors. It refers to the same actor there."""

    @ray.remote
    def add(counter: Any) -> int:
        return ray.get(counter.add.remote())

    counter = Counter.remote()
    assert ray.get([add.remote(counter), add.remote(counter)]) in ([1, 2], [2, 1])


def test_an_actor_may_make_actors(session: str):
    """It can call them, too."""

    @ray.remote
    class Parent:
        def __init__(self) -> None:
            self.child = Counter.remote(1)

        def add(self) -> int:
            return ray.get(self.child.add.remote())

    parent = Parent.remote()
    assert ray.get([parent.add.remote(), parent.add.remote()]) == [2, 3]


def test_a_method_may_return_several_references(session: str):
    """The decorator decides how many, or the call's options."""

    @ray.remote
    class Parts:
        @ray.method(num_returns=2)
        def two(self) -> tuple:
            return 1, 2

        def three(self) -> tuple:
            return 1, 2, 3

    parts = Parts.remote()
    assert ray.get(parts.two.remote()) == [1, 2] and ray.get(parts.three.options(num_returns=3).remote()) == [1, 2, 3]


def test_a_generator_method_yields_references(session: str):
    """Like a generator task."""

    @ray.remote
    class Source:
        def items(self) -> Iterator[str]:
            yield "a"
            yield "b"

    source = Source.remote()
    assert [ray.get(ref) for ref in source.items.remote()] == ["a", "b"]


def test_coroutines_of_an_actor_take_turns(session: str):
    """The first coroutine waits for the second to do something."""
    loop = Loop.remote()
    waits, arrives = loop.wait.remote(), loop.arrive.remote()
    assert ray.get([waits, arrives]) == ["came", None]


def test_an_async_generator_yields_references(session: str):
    """In order."""
    loop = Loop.remote()
    assert [ray.get(ref) for ref in loop.items.remote(3)] == [0, 1, 2]


def test_a_coroutine_that_waits_is_cancelled(session: str):
    """CancelledError is raised in it; the actor goes on."""
    loop = Loop.remote()
    ray.get(loop.__ray_ready__.remote())
    ref = loop.wait.remote()
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref)
    ray.get(loop.arrive.remote())
    assert ray.get(loop.wait.remote()) == "came"


def test_a_call_knows_its_actor(session: str):
    """It can ask for the actor's id, name and handle."""

    @ray.remote
    class Self:
        def look(self) -> tuple:
            here = ray.get_runtime_context()
            return here.get_actor_id(), here.get_actor_name(), here.current_actor

    actor = Self.options(name="me").remote()
    assert ray.get(actor.look.remote()) == (actor._actor_id.hex(), "me", actor)


def test_only_methods_can_be_reached_through_a_handle(session: str):
    """Neither attributes nor unknown names can be reached."""
    counter = Counter.remote()
    for name in ("n", "unknown"):
        with pytest.raises(AttributeError):
            getattr(counter, name)
    with pytest.raises(TypeError):
        counter.add.remote(1, 2)


# ---------------------------------------------------------------- what needs a second thread


@ray.remote(max_concurrency=2)
class Meeting:
    """Two of its calls wait for each other."""

    def __init__(self) -> None:
        self.both = threading.Barrier(2)

    def come(self) -> bool:
        """Returns when the other call has come, too."""
        self.both.wait(20)
        return True


def test_calls_of_an_actor_with_threads_run_side_by_side(threaded: None):
    """As many as max_concurrency allows."""
    meeting = Meeting.remote()
    assert ray.get([meeting.come.remote(), meeting.come.remote()], timeout=20) == [True, True]


def test_an_actor_keeps_its_cpus_while_it_waits(threaded: None):
    """In its constructor and in a method, as in Ray. A plain task would lend them."""
    all_cpus = ray.cluster_resources()["CPU"]

    @ray.remote(num_cpus=all_cpus)
    class Holder:
        def __init__(self) -> None:
            self.done = self.wait()

        def wait(self) -> list[int]:
            done, _ = ray.wait([double.options(num_cpus=all_cpus).remote(1)], timeout=0.1)
            return [*getattr(self, "done", ()), len(done)]

    assert ray.get(Holder.remote().wait.remote(), timeout=20) == [0, 0]


def test_kill_ends_running_and_waiting_calls(threaded: None):
    """All of these calls fail."""
    meeting = Meeting.options(max_concurrency=1).remote()
    refs = [meeting.come.remote(), meeting.come.remote()]
    ray.kill(meeting)
    for ref in refs:
        with pytest.raises(RayActorError):
            ray.get(ref, timeout=20)


def test_the_number_of_pending_calls_is_limited(threaded: None):
    """max_pending_calls: one call more is refused at once."""
    loop = Loop.options(max_pending_calls=1).remote()
    first = loop.wait.remote()
    with pytest.raises(PendingCallsLimitExceeded):
        loop.arrive.remote()
    ray.cancel(first)
    with pytest.raises(TaskCancelledError):
        ray.get(first, timeout=20)
