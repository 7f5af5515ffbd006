"""An actor with which tests hold calls back."""

from __future__ import annotations

import asyncio

import miniray


class Gate:
    """Calls of `passed` wait until `open` is called."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def passed(self) -> bool:
        """Return True once the gate is open."""
        return await self.event.wait()

    async def open(self) -> None:
        """Open the gate for all present and later calls."""
        self.event.set()


RemoteGate = miniray.remote(num_cpus=0)(Gate)
