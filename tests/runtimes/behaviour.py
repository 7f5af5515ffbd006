"""What the suites of behaviours share: a session of each runtime, and the remote functions and actors they use."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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


@ray.remote
def double(x: Any) -> Any:
    """Twice the argument."""
    return 2 * x


@ray.remote
def fail(text: str = "it failed") -> None:
    """Always a ValueError."""
    raise ValueError(text)


@ray.remote
class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.n = start

    def add(self, by: int = 1) -> int:
        """Returns the new number."""
        self.n += by
        return self.n

    def fail(self) -> None:
        """Always a ValueError."""
        raise ValueError(f"at {self.n}")

    def leave(self) -> None:
        """End the actor from inside."""
        ray.actor.exit_actor()


@ray.remote
class Loop:
    """An async actor."""

    def __init__(self) -> None:
        import asyncio
        self.came = asyncio.Event()

    async def wait(self) -> str:
        """Returns when `arrive` was called."""
        await self.came.wait()
        return "came"

    async def arrive(self) -> None:
        """Let those who wait go on."""
        self.came.set()

    async def items(self, length: int) -> Any:
        """An async generator."""
        for x in range(length):
            yield x
