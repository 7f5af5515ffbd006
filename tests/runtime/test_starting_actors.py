"""The threads of actors are started a few at a time; each new thread starts the next."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import miniray as ray
from miniray.exceptions import ActorDiedError
from miniray.process import context
from miniray.runtime.threaded import STARTING_AT_A_TIME

MANY = 10 * STARTING_AT_A_TIME


@pytest.fixture
def session() -> Iterator[Any]:
    """Two CPUs."""
    ray.init(num_cpus=2, log_to_driver=False)
    yield context.running()
    ray.shutdown()


@ray.remote
class Named:
    def __init__(self, name: int):
        self.name, self.thread = name, threading.get_ident()

    def who(self) -> tuple[int, bool]:
        return self.name, self.thread == threading.get_ident()


def test_many_actors_made_at_once_all_come_up_each_with_a_thread_of_its_own(session: Any):
    """Calls run on the thread on which the constructor ran."""
    actors = [Named.remote(name) for name in range(MANY)]
    assert ray.get([actor.who.remote() for actor in actors], timeout=60) == [(name, True) for name in range(MANY)]
    assert len({handle.ident for handle in session.threads if handle.record.actor is not None}) == MANY
    assert len(session.start_permits) == STARTING_AT_A_TIME and not session.unstarted


def test_an_actor_whose_constructor_blocks_holds_up_no_other(session: Any):
    """The limit is on the threads that are starting, not on the constructors that run."""

    @ray.remote
    class Slow:
        def __init__(self, gate: Any):
            gate.get()

    gate = ray.util.queue.Queue()
    slow = [Slow.remote(gate) for _ in range(2 * STARTING_AT_A_TIME)]
    assert ray.get(Named.remote(7).who.remote(), timeout=60) == (7, True)
    for _ in slow:
        gate.put(None)
    ray.get([actor.__ray_ready__.remote() for actor in slow], timeout=60)


def test_actors_that_were_dropped_need_no_thread(session: Any, monkeypatch: pytest.MonkeyPatch):
    """They were created and dropped while they were in the queue. Only actors that had begun to start got a thread."""
    started: list[Any] = []
    begin = _thread.start_new_thread

    def start_later(function: Any, args: tuple) -> int:
        started.append((function, args))
        return 0

    monkeypatch.setattr(context.running(), "start_thread", start_later)
    actors = [Named.remote(name) for name in range(MANY)]
    assert len(started) == STARTING_AT_A_TIME and len(session.unstarted) == MANY - STARTING_AT_A_TIME
    for actor in actors:
        ray.kill(actor)
    monkeypatch.undo()
    for function, args in started:
        begin(function, args)
    for _, (_, handle) in started:
        assert handle.done.acquire(timeout=60)
    assert ray.get(Named.remote(1).who.remote(), timeout=60) == (1, True)
    assert not session.unstarted and len(session.start_permits) == STARTING_AT_A_TIME


def test_an_actor_whose_thread_the_system_refuses_is_dead_and_says_why(session: Any, monkeypatch: pytest.MonkeyPatch):
    """The next actor starts, because the system allows threads again."""

    def refuse(function: Any, args: tuple) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(context.running(), "start_thread", refuse)
    actor = Named.remote(1)
    with pytest.raises(ActorDiedError, match="can't start new thread"):
        ray.get(actor.who.remote(), timeout=60)
    monkeypatch.undo()
    assert ray.get(Named.remote(2).who.remote(), timeout=60) == (2, True)


def test_a_task_whose_worker_cannot_start_is_retried_and_fails_with_the_worker(
    session: Any, monkeypatch: pytest.MonkeyPatch
):
    """The limit of retries applies, so that a system without threads does not cause an endless loop."""

    @ray.remote(max_retries=2)
    def anything() -> int:
        return 1

    attempts: list[int] = []

    def refuse(function: Any, args: tuple) -> int:
        attempts.append(1)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(context.running(), "start_thread", refuse)
    ref = anything.remote()
    with pytest.raises(ray.exceptions.WorkerCrashedError):
        ray.get(ref, timeout=60)
    assert len(attempts) == 3
    monkeypatch.undo()
    assert ray.get(anything.remote(), timeout=60) == 1
