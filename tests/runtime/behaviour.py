"""The remote functions and actors that the test_behaviour files share."""

from __future__ import annotations

from typing import Any

import miniray as ray


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
        """Let all calls of `wait` return."""
        self.came.set()

    async def items(self, length: int) -> Any:
        """An async generator."""
        for x in range(length):
            yield x
