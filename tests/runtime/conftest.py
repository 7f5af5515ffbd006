"""Sessions for tests that do not start their own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import miniray as ray

SEED = int(os.environ.get("SIMULATED_SEED", "1"))
NOT_SIMULATED = {
    "test_a_running_task_is_cancelled": "a task waits for a pipe, which the simulation cannot see",
    "test_force_ends_the_worker": "a task waits for a pipe",
    "test_tasks_run_side_by_side": "two tasks wait for each other's pipes",
}
"""Tests that do not run on the simulated runtime, with the reason."""


def _skip_if_not_simulated(request: pytest.FixtureRequest) -> None:
    reason = NOT_SIMULATED.get(request.node.originalname)
    if request.param == "simulated" and reason is not None:
        pytest.skip(reason)


@pytest.fixture(params=["threaded", "local_mode", "simulated"])
def session(request: pytest.FixtureRequest) -> Iterator[str]:
    """Four CPUs; the test runs once in each runtime."""
    _skip_if_not_simulated(request)
    runtime = "simulated" if request.param == "simulated" else "threaded"
    ray.init(num_cpus=4, local_mode=request.param == "local_mode", log_to_driver=False, runtime=runtime, seed=SEED)
    yield request.param
    ray.shutdown()


@pytest.fixture(params=["threaded", "simulated"])
def threaded(request: pytest.FixtureRequest) -> Iterator[None]:
    """Four CPUs. For tests that need a second thread, since one task runs while another waits."""
    _skip_if_not_simulated(request)
    ray.init(num_cpus=4, log_to_driver=False, runtime=request.param, seed=SEED)
    yield
    ray.shutdown()
