"""A generator that does nothing but yield is stopped like any other code. It used to run on: each time its thread was
examined it was storing an item, and must not be interrupted there."""

from __future__ import annotations

import threading

import pytest

import miniray as ray

MANY = 200_000


class Seen:
    """What happened to the generator of one test."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.items = 0
        self.caught: type | None = None


seen = Seen()


def items(limit=MANY):
    noted = seen
    try:
        for noted.items in range(limit):
            yield noted.items
    except BaseException as error:
        noted.caught = type(error)
        raise
    finally:
        noted.ended.set()


class Plain:
    def items(self):
        yield from items()


class WithALoop(Plain):
    async def wait(self):
        pass


@pytest.fixture(autouse=True)
def session():
    global seen
    seen = Seen()
    ray.init(num_cpus=2, log_to_driver=False)
    yield
    ray.shutdown()


def was_stopped():
    """Whether the generator was stopped: by the exception that was raised in it, or by being closed, if the exception
    came out of its last frame."""
    return seen.ended.wait(20) and seen.caught is not None and seen.items < MANY - 1


def test_cancel_stops_a_generator_that_only_yields():
    stream = ray.remote(num_returns="streaming")(items).remote()
    next(stream)
    ray.cancel(stream)
    assert was_stopped()
    with pytest.raises(ray.exceptions.TaskCancelledError):
        for ref in stream:
            ray.get(ref)


@pytest.mark.parametrize("cls", [Plain, WithALoop])
def test_a_killed_actors_generator_ends(cls):
    actor = ray.remote(cls).remote()
    stream = actor.items.options(num_returns="streaming").remote()
    next(stream)
    ray.kill(actor)
    assert was_stopped()


def test_the_end_of_the_session_ends_it():
    stream = ray.remote(num_returns="streaming")(items).remote()
    next(stream)
    ray.shutdown()
    assert was_stopped()


def test_a_generator_object_that_was_made_of_anything_else_is_refused():
    """It used to be accepted; dropping it then broke an unrelated call."""
    with pytest.raises(TypeError, match="cannot be made from"):
        ray.ObjectRefGenerator("no stream", "no reference")
    assert ray.get(ray.put(1)) == 1
