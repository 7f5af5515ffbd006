"""Owners that end while some of their work is unfinished, in both runtimes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import miniray as ray
from miniray import state


@pytest.fixture(params=[False, True], ids=["threads", "local_mode"])
def session(request: pytest.FixtureRequest) -> Iterator[None]:
    """A drain after a drop is cut almost at once."""
    limit = {"kill_worker_timeout_milliseconds": 50}
    ray.init(num_cpus=2, local_mode=request.param, log_to_driver=False, _system_config=limit)
    yield
    ray.shutdown()


@ray.remote(num_cpus=0)
def work(name: str) -> str:
    """Some work."""
    return name


@ray.remote(num_cpus=0)
class Log:
    """Keeps rows."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def add(self, row: str) -> None:
        """Add a row."""
        self.rows.append(row)

    def get(self) -> list[str]:
        """All rows so far."""
        return self.rows


@ray.remote(num_cpus=0)
class Owner:
    """Submits work that no node can run."""

    def submit(self) -> list:
        """A task that waits for a resource which no node has."""
        return [work.options(resources={"late": 1}).remote("worked")]

    def log(self, log: Log, rows: int) -> None:
        """Send calls, and wait for none of them."""
        for row in range(rows):
            log.add.remote(str(row))

    def leave(self) -> None:
        """End in good order."""
        ray.actor.exit_actor()

    def ping(self) -> str:
        """A call that returns at once."""
        return "pong"


def test_calls_that_a_dropped_actor_has_sent_are_not_lost(session):
    """They used to fail when the actor ended. Nothing was raised, since nobody held a reference to them."""
    log = Log.remote()
    for _ in range(50):
        owner = Owner.remote()
        ray.get(owner.log.remote(log, 3))
        del owner
    rows: list[str] = []
    while len(rows) < 150:
        rows = ray.get(log.get.remote())
    assert sorted(rows) == sorted([*"012"] * 50)


def test_the_limit_of_a_drain_after_a_drop(session):
    """A wait for the work ends with OwnerDiedError, also in local_mode, where it would otherwise be a deadlock."""
    owner = Owner.remote()
    (ref,) = ray.get(owner.submit.remote())
    del owner
    with pytest.raises(ray.exceptions.OwnerDiedError):
        ray.get(ref)


def test_an_actor_that_left_waits_for_its_work_without_a_limit(session):
    """`explain` tells what it waits for, and `kill` ends it at once."""
    owner = Owner.remote()
    (ref,) = ray.get(owner.submit.remote())
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(owner.leave.remote())
    waiting = owner.ping.remote()
    text = str(state.explain(waiting))
    assert "has ended itself, runs no more calls, and waits for task work" in text and "late" in text
    assert "has ended itself, and waits for 1 task" in str(state.explain(owner))
    assert [row["state"] for row in state.list_actors()] == ["ALIVE"]
    ray.kill(owner)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(waiting)
    with pytest.raises(ray.exceptions.OwnerDiedError):
        ray.get(ref)


def test_the_worker_of_an_owner_ends_with_its_last_work(session):
    """Until then its worker is alive, too."""
    owner = Owner.remote()
    refs = [ray.get(owner.submit.remote()) for _ in range(2)]
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(owner.leave.remote())
    assert not state.list_workers(filters=[("state", "=", "DEAD")])
    for (ref,) in refs:
        ray.cancel(ref)
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(owner.ping.remote())


@ray.remote(num_cpus=0)
class AsyncOwner:
    """Leaves while another of its calls runs."""

    async def wait(self, box: list) -> str:
        """Wait for the reference in the box."""
        return await box[0]

    async def leave(self) -> None:
        """End in good order."""
        ray.actor.exit_actor()


def test_an_async_actor_that_left_goes_on_with_its_running_calls(threaded):
    """Their coroutines used to be cancelled."""
    log, owner = Log.remote(), AsyncOwner.remote()
    opened = ray.remote(Opens).options(num_cpus=0, max_concurrency=2).remote()
    running = owner.wait.remote([opened.wait.remote()])
    with pytest.raises(ray.exceptions.ActorUnavailableError):
        ray.get(owner.leave.remote())
    late = owner.wait.remote([log.get.remote()])
    opened.open.remote()
    assert ray.get(running) == "open"
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(late)


class Opens:
    """One call waits for another."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def wait(self) -> str:
        """Wait for `open`."""
        self.event.wait()
        return "open"

    def open(self) -> None:
        """Let `wait` return."""
        self.event.set()
