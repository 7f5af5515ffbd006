"""An exhaustive search where tasks wait for resources: the order of submissions and reports decides who runs first."""

from __future__ import annotations

from typing import Any

import pytest

import miniray as ray
from miniray.experimental import internal_kv
from miniray.testing import explore


@ray.remote
def begin(name: bytes, argument: object = None) -> None:
    """Note that it runs, if it is the first."""
    internal_kv._internal_kv_put(b"first", name, overwrite=False)


def first() -> object:
    """Which task began first."""
    return internal_kv._internal_kv_get(b"first")


@ray.remote
def one(argument: object = None) -> int:
    """1."""
    return 1


def big_and_small() -> object:
    """The small task runs first if the big one does not find room at once."""
    ray.init(num_cpus=2)
    ray.get([one.remote(), begin.options(num_cpus=2).remote(b"big"), begin.remote(b"small")])
    return first()


def arguments() -> object:
    """The one whose argument is ready first runs first."""
    ray.init(num_cpus=2)
    ray.get([begin.options(num_cpus=2).remote(name, one.remote()) for name in (b"1", b"2")])
    return first()


def devices() -> object:
    """The second task gets the first one's GPU, if that one has ended."""
    ray.init(num_cpus=2, num_gpus=2)

    @ray.remote(num_gpus=1)
    def gpu() -> Any:
        return ray.get_gpu_ids()[0]

    return tuple(ray.get([gpu.remote(), gpu.remote()]))


@pytest.mark.parametrize("program", [big_and_small, arguments, devices])
def test_every_outcome_is_found(program):
    """The search used to see one of them only, and to say that it had covered everything."""

    def outcomes(**options: Any) -> set[object]:
        found: set[object] = set()
        explored = explore(lambda: found.add(program()), **options)
        assert explored.covered or options["strategy"] != "exhaustive"
        return found

    by_chance = outcomes(strategy="random", seeds=60)
    assert len(by_chance) > 1
    assert outcomes(strategy="exhaustive") >= by_chance


@pytest.mark.parametrize("num_cpus", [1, 2, 4])
def test_tasks_that_make_one_demand_run_in_their_order(num_cpus):
    """However many of them find room: the search need not look at who ends first."""

    def program() -> None:
        ray.init(num_cpus=num_cpus)
        ray.get([one.remote() for _ in range(4)])

    found = explore(program, strategy="exhaustive")
    assert (found.covered, found.runs) == (True, 1)
