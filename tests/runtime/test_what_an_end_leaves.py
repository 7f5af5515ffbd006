"""What is left when a task is cancelled, or when the owner of a stream or of a call ends. The answers are Ray's."""

from __future__ import annotations

import os
import pickle
import time
from typing import Any

import pytest

import miniray as ray
from miniray.exceptions import GetTimeoutError, RayActorError, TaskCancelledError


@pytest.fixture(autouse=True)
def session() -> Any:
    """Four CPUs, threads."""
    with ray.init(num_cpus=4, log_to_driver=False):
        yield


def test_a_cancelled_task_sees_a_keyboard_interrupt():
    """By its class's name, too, and what it passes on is a plain one. It used to be called TaskInterrupt."""
    came, here = os.pipe()

    @ray.remote(max_retries=0)
    def handles() -> Any:
        try:
            os.write(here, b"!")
            time.sleep(1000)
        except BaseException as error:
            return type(error).__name__, repr(error), pickle.loads(pickle.dumps(error)), error

    ref = handles.remote()
    os.read(came, 1)
    ray.cancel(ref)
    name, text, copy, passed_on = ray.get(ref, timeout=20)
    assert (name, text) == ("KeyboardInterrupt", "KeyboardInterrupt()")
    assert type(copy) is type(passed_on) is KeyboardInterrupt
    os.close(came)
    os.close(here)


def test_a_recursive_cancellation_by_force_interrupts_nobody(tmp_path: Any):
    """The workers of the children and of their children die at once, so that no `except` clause of theirs runs."""
    came, here = os.pipe()

    @ray.remote(max_retries=0)
    def leaf() -> None:
        try:
            os.write(here, b"!")
            time.sleep(1000)
        except Exception:
            (tmp_path / "leaf").touch()
        except KeyboardInterrupt:
            (tmp_path / "interrupt").touch()
            raise

    @ray.remote(max_retries=0)
    def middle() -> None:
        ray.get(leaf.remote())

    @ray.remote(max_retries=0)
    def top() -> None:
        ray.get(middle.remote())

    ref = top.remote()
    os.read(came, 1)
    ray.cancel(ref, force=True, recursive=True)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=20)
    ray.shutdown()  # waits for the threads
    assert not list(tmp_path.iterdir())
    os.close(came)
    os.close(here)


@ray.remote
def numbers(length: int) -> Any:
    """Yields numbers."""
    yield from (number for number in range(length))


@ray.remote
class Owner:
    """Owns a stream."""

    def first_two(self) -> Any:
        """Start a stream, and pass on its first two references."""
        self.stream = numbers.remote(5)
        return [next(self.stream), next(self.stream)]

    def leave(self) -> None:
        """End in order."""
        ray.actor.exit_actor()

    def crash(self) -> None:
        """End as a process that dies."""
        os._exit(1)


@pytest.mark.parametrize("way", ["leave", "crash", "kill", "drop"])
def test_references_taken_from_a_stream_outlive_its_owner(way: str):
    """They were passed on before the owner ended, in whatever way."""
    owner = Owner.remote()
    refs = ray.get(owner.first_two.remote(), timeout=20)
    if way == "kill":
        ray.kill(owner)
    elif way in ("leave", "crash"):
        with pytest.raises(RayActorError):
            ray.get(getattr(owner, way).remote(), timeout=20)
    del owner
    assert ray.get(refs, timeout=20) == [0, 1]


@ray.remote
class Box:
    """Keeps a value."""

    def put(self, value: Any) -> None:
        """Keep it."""
        self.value = value

    def get(self) -> Any:
        """The value."""
        return self.value


@ray.remote
class Leaver:
    """Calls itself, and leaves."""

    def one(self) -> int:
        """Answer."""
        return 1

    def go(self, me: Any, box: Any) -> None:
        """Submit a call to itself, pass on its reference, and exit."""
        ray.get(box.put.remote([me.one.remote()]))
        ray.actor.exit_actor()


def test_an_actor_that_leaves_waits_forever_for_its_own_call_to_itself():
    """The call is queued behind the one that exits, and the actor drains before it ends: neither happens."""
    box, leaver = Box.remote(), Leaver.options(name="leaver").remote()
    gone = leaver.go.remote(leaver, box)
    with pytest.raises(RayActorError):
        ray.get(gone, timeout=20)
    (ref,) = ray.get(box.get.remote(), timeout=20)
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0.2)
    assert ray.get_actor("leaver") == leaver
