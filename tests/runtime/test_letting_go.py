"""What a program lets go of is noticed at its next call, whichever that is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import miniray as ray
from tests.runtime.several_nodes import until


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """A task that needs the CPU waits for an actor that has it."""
    ray.init(num_cpus=1, log_to_driver=False)
    yield
    ray.shutdown()


@ray.remote(num_cpus=1)
class Holder:
    """Holds the CPU while somebody holds a handle."""


@ray.remote
def needs_a_cpu() -> int:
    return 1


def test_a_program_that_only_polls_lets_an_actor_go_by_it(one_cpu: Any):
    """It used to poll for ever: wait with a timeout of 0 was the one call that did not look."""
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
def test_a_call_that_waits_lets_an_actor_go(one_cpu: Any, call: Any):
    """The task that is waited for gets the CPU that the actor held."""
    actor = Holder.remote()
    ray.get(actor.__ray_ready__.remote())
    ref = needs_a_cpu.remote()
    del actor
    call(ref)
    assert ray.get(ref) == 1


def test_the_end_of_a_task_lets_an_actor_go_while_the_program_waits(one_cpu: Any):
    """The program drops the handle and calls nothing any more: it is noticed when anything of the session ends."""
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
    answer = ref.future()  # from here on the program calls nothing of the session's
    del actor
    os.write(write_end, b"!")
    assert answer.result(20) == 1
    ray.get(kept)
    for pipe in (read_end, write_end, come, here):
        os.close(pipe)
