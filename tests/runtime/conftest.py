"""The sessions of tests that have none of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import miniray as ray


@pytest.fixture(params=["threaded", "local_mode"])
def session(request: pytest.FixtureRequest) -> Iterator[str]:
    """Four CPUs, in each runtime in turn."""
    ray.init(num_cpus=4, local_mode=request.param == "local_mode", log_to_driver=False)
    yield request.param
    ray.shutdown()


@pytest.fixture
def threaded() -> Iterator[None]:
    """Four CPUs. For what needs a second thread: something that runs while another waits."""
    ray.init(num_cpus=4, log_to_driver=False)
    yield
    ray.shutdown()
