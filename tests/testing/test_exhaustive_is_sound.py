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


PROGRAMS: list[Callable[[], object]] = [
    a_loop_that_comes_later,
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
