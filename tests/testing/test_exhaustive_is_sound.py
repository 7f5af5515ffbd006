"""An exhaustive search that says it has covered everything: whatever another strategy finds, it has found as well."""

from __future__ import annotations

import asyncio
from typing import Any, Callable

import pytest

import miniray as ray
from miniray.testing import explore


@ray.remote
class Counter:
    """Its method gives other calls a chance between reading and writing."""

    def __init__(self) -> None:
        self.count = 0

    async def add(self) -> int:
        before = self.count
        await asyncio.sleep(0)
        self.count = before + 1
        return self.count


def a_loop_that_comes_later() -> object:
    """The first event loop runs after the first calls. The search took those for independent of what the loop does."""
    counter = Counter.remote()
    return ray.get([counter.add.remote(), counter.add.remote()])


@ray.remote
class Log:
    """What it was told, in order."""

    def __init__(self) -> None:
        self.items: list[object] = []

    def add(self, item: object) -> None:
        self.items.append(item)

    def all(self) -> list[object]:
        return self.items

    def leave(self) -> None:
        ray.actor.exit_actor()


@ray.remote
def same(value: object) -> object:
    """The value."""
    return value


@ray.remote
def add(log: Any, item: object) -> None:
    """Another caller of the actor."""
    ray.get(log.add.remote(item))


def a_call_that_waits_for_an_argument() -> object:
    """The report of its argument decides whether the call of another caller overtakes it."""
    log = Log.remote()
    ray.get([log.add.remote(same.remote(1)), add.remote(log, 2)])
    return ray.get(log.all.remote())


def _is_there() -> bool:
    try:
        ray.get_actor("name")
        return True
    except ValueError:
        return False


def the_name_of_an_actor_whose_constructor_fails() -> object:
    """The report of the failure makes the name free."""

    @ray.remote
    class Fails:
        def __init__(self) -> None:
            raise ValueError

    actor = Fails.options(name="name").remote()
    return _is_there(), actor and None


def the_name_of_an_actor_that_leaves() -> object:
    """So does the report of the call that ends the actor."""
    log = Log.options(name="name").remote()
    log.leave.remote()
    return _is_there()


def callbacks() -> object:
    """Threads of the runtime call them, and the driver sees what they have done."""
    done: list[int] = []
    refs = [same.remote(1), same.remote(2)]
    for ref in refs:
        ref._on_completed(done.append)
    before = len(done)
    ray.get(refs)
    return before, done


PROGRAMS: list[Callable[[], object]] = [
    a_loop_that_comes_later,
    a_call_that_waits_for_an_argument,
    the_name_of_an_actor_whose_constructor_fails,
    the_name_of_an_actor_that_leaves,
    callbacks,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_outcome_is_found(program):
    """The search used to miss some of them, and to say that it had covered everything."""

    def outcomes(**options: Any) -> set[object]:
        found: set[object] = set()
        explored = explore(lambda: found.add(repr(program())), **options)
        assert explored.covered or options["strategy"] != "exhaustive"
        return found

    by_chance = outcomes(strategy="random", seeds=100)
    assert len(by_chance) > 1
    assert outcomes(strategy="exhaustive") >= by_chance
