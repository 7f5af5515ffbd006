"""An actor that tests hold calls back with."""

from __future__ import annotations

import asyncio

import miniray


class Gate:
    """Lets nobody through before it is opened."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def passed(self) -> bool:
        """True, when it is open."""
        return await self.event.wait()

    async def open(self) -> None:
        """From now on everybody may pass."""
        self.event.set()


RemoteGate = miniray.remote(num_cpus=0)(Gate)
