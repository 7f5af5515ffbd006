"""A cancellation that arrives after a worker was leased and before the task's first line of code."""

from __future__ import annotations

import time

import pytest

import miniray as ray
from miniray.exceptions import TaskCancelledError

LONG_S = 0.2


@ray.remote
def busy() -> str:
    """Returns after LONG_S seconds, unless it is interrupted."""
    end = time.perf_counter() + LONG_S
    while time.perf_counter() < end:
        continue
    return "it ran"


@ray.remote
class Async:
    """Its calls are coroutines."""

    async def busy(self) -> str:
        """Never waits."""
        return "it ran"


@pytest.fixture(autouse=True)
def session():
    """Two workers."""
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def test_a_task_that_is_cancelled_at_once_does_not_run():
    """It does not matter whether its worker is starting, is taking the task from its inbox, or has entered its code.
    The task used to run to its end, since the interrupt had no code in which to be raised. Ray's answer is the same."""
    for _ in range(10):
        ref = busy.remote()
        ray.cancel(ref)
        with pytest.raises(TaskCancelledError):
            ray.get(ref)


def test_a_call_of_an_async_actor_that_is_cancelled_at_once_ends():
    """Either with its result, if the call was faster, or with the error."""
    actor = Async.remote()
    refs = [actor.busy.remote() for _ in range(10)]
    for ref in refs:
        ray.cancel(ref)
    for ref in refs:
        try:
            assert ray.get(ref, timeout=10) == "it ran"
        except TaskCancelledError as cancelled:
            assert "cancelled" in str(cancelled)
