"""References that a program drops are noticed at its next call of miniray, whichever call that is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import miniray as ray
from tests.runtime.several_nodes import until


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """One CPU, so that a task has to wait for an actor that holds it."""
    ray.init(num_cpus=1, log_to_driver=False)
    yield
    ray.shutdown()


@ray.remote(num_cpus=1)
class Holder:
    """Holds the CPU as long as there is a handle."""


@ray.remote
def needs_a_cpu() -> int:
    return 1


def test_polling_releases_an_actor(one_cpu: Any):
    """The program used to poll forever: `wait` with a timeout of 0 was the only call that did not look."""
    actor = Holder.remote()
    ray.get(actor.__ray_ready__.remote())
    ref = needs_a_cpu.remote()
    del actor
    assert until(lambda: ray.wait([ref], timeout=0)[0] == [ref])


@pytest.mark.parametrize(
    "call",
    [
        ray.get,
        lambda ref: ray.wait([ref]),
        lambda ref: ray.get(ref, timeout=20),
        lambda ref: ref.future().result(20),
    ],
    ids=["get", "wait", "get with a timeout", "future"],
)
def test_a_call_that_waits_releases_an_actor(one_cpu: Any, call: Any):
    """The awaited task gets the CPU that the actor held."""
    actor = Holder.remote()
    ray.get(actor.__ray_ready__.remote())
    ref = needs_a_cpu.remote()
    del actor
    call(ref)
    assert ray.get(ref) == 1


def test_the_end_of_a_task_releases_an_actor_while_the_program_waits(one_cpu: Any):
    """The program drops the handle and makes no further call. The end of any task notices it."""
    actor = Holder.remote()
    ray.get(actor.__ray_ready__.remote())
    ref = needs_a_cpu.remote()
    (read_end, write_end), (come, here) = os.pipe(), os.pipe()

    @ray.remote(num_cpus=0)
    def other() -> None:
        os.write(here, b"!")
        os.read(read_end, 1)

    kept = other.remote()
    os.read(come, 1)
    answer = ref.future()  # from here on the program does not call miniray
    del actor
    os.write(write_end, b"!")
    assert answer.result(20) == 1
    ray.get(kept)
    for pipe in (read_end, write_end, come, here):
        os.close(pipe)
