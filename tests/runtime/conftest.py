"""Sessions for tests that do not start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import miniray as ray


@pytest.fixture(params=["threaded", "local_mode"])
def session(request: pytest.FixtureRequest) -> Iterator[str]:
    """Four CPUs; the test runs once in each runtime."""
    ray.init(num_cpus=4, local_mode=request.param == "local_mode", log_to_driver=False)
    yield request.param
    ray.shutdown()


@pytest.fixture
def threaded() -> Iterator[None]:
    """Four CPUs. For tests that need a second thread, since one task runs while another waits."""
    ray.init(num_cpus=4, log_to_driver=False)
    yield
    ray.shutdown()
