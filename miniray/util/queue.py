"""Queue: first in, first out, between tasks; an async actor holds the items. Ray: python/ray/util/queue.py."""

from __future__ import annotations

import asyncio
import queue as standard
from collections.abc import Iterable
from typing import Any

from miniray import api


class Empty(standard.Empty):
    """There was no item, or not enough of them."""


class Full(standard.Full):
    """There was no room."""


class Queue:
    """A queue that any task or actor can use which gets this object as an argument: it travels as a handle.

    A blocked put or get waits inside the actor, so nobody polls, and the driver or worker that waits gives its CPU back
    as for any `get`. Who shuts the queue down, or drops its last copy, ends the actor and with it the items.
    """

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None):
        """maxsize: how many items fit; zero or less: without limit. actor_options: `.options()` of the actor inside."""
        self.maxsize = maxsize
        self.actor: Any = api.remote(_QueueActor).options(**(actor_options or {})).remote(maxsize)

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """How many items there are."""
        return api.get(self.actor.qsize.remote())

    def qsize(self) -> int:
        """How many items there are, by the name that Python's own queues use."""
        return self.size()

    def empty(self) -> bool:
        """Whether there are no items."""
        return api.get(self.actor.empty.remote())

    def full(self) -> bool:
        """Whether there is no room; never so without a limit."""
        return api.get(self.actor.full.remote())

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item at the end.

        timeout: seconds to wait for room when block is true; None waits for ever. Full when there was none.
        ValueError for a negative timeout.
        """
        if block:
            api.get(self.actor.put.remote(item, _checked(timeout)))
            return
        try:
            api.get(self.actor.put_nowait.remote(item))
        except asyncio.QueueFull:
            raise Full from None

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """`put` for coroutines: other coroutines run while this one waits."""
        if block:
            await self.actor.put.remote(item, _checked(timeout))
            return
        try:
            await self.actor.put_nowait.remote(item)
        except asyncio.QueueFull:
            raise Full from None

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the first item.

        timeout: seconds to wait for one when block is true; None waits for ever. Empty when there was none.
        ValueError for a negative timeout. Zero never finds an item, as in Ray: to take what is there, use `get_nowait`.
        """
        if block:
            return api.get(self.actor.get.remote(_checked(timeout)))
        try:
            return api.get(self.actor.get_nowait.remote())
        except asyncio.QueueEmpty:
            raise Empty from None

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """`get` for coroutines: other coroutines run while this one waits."""
        if block:
            return await self.actor.get.remote(_checked(timeout))
        try:
            return await self.actor.get_nowait.remote()
        except asyncio.QueueEmpty:
            raise Empty from None

    def put_nowait(self, item: Any) -> None:
        """put(item, block=False)."""
        self.put(item, block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add all items in order, or none: Full when there is not room for all of them.

        TypeError for what is no iterable. A limited queue asks for the length of items, so there they must have one.
        """
        if not isinstance(items, Iterable):
            raise TypeError(f"'items' must be an iterable, and {items!r} is not")
        api.get(self.actor.put_nowait_batch.remote(items))

    def get_nowait(self) -> Any:
        """get(block=False)."""
        return self.get(block=False)

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """num_items items, or Empty and none of them when there are fewer. TypeError or ValueError for no count."""
        if not isinstance(num_items, int):
            raise TypeError(f"'num_items' must be an int, and {num_items!r} is not")
        if num_items < 0:
            raise ValueError(f"'num_items' cannot be negative, and it is {num_items}")
        return api.get(self.actor.get_nowait_batch.remote(num_items))

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the actor, and its items with it. This object is of no use afterwards; a second shutdown does nothing.

        grace_period_s: seconds that calls made before may still take; then, or at once with force, the actor is killed.
        """
        if self.actor is None:
            return
        ended = [] if force else api.wait([self.actor.__ray_terminate__.remote()], timeout=grace_period_s)[0]
        if not ended:
            api.kill(self.actor, no_restart=True)
        self.actor = None


def _checked(timeout: float | None) -> float | None:
    if timeout is not None and not isinstance(timeout, (int, float)):
        raise TypeError(f"'timeout' must be a number of seconds or None, not {timeout!r}")
    if timeout is not None and timeout < 0:
        raise ValueError(f"'timeout' cannot be negative, and it is {timeout}")
    return timeout


class _QueueActor:
    """Holds the items. Its methods interleave at every await, so a put that waits for room does not keep a get out."""

    def __init__(self, maxsize: int):
        self.maxsize = maxsize
        self.queue: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    def qsize(self) -> int:
        return self.queue.qsize()

    def empty(self) -> bool:
        return self.queue.empty()

    def full(self) -> bool:
        return self.queue.full()

    async def put(self, item: Any, timeout: float | None = None) -> None:
        try:
            await asyncio.wait_for(self.queue.put(item), timeout)
        except asyncio.TimeoutError:
            raise Full from None

    async def get(self, timeout: float | None = None) -> Any:
        try:
            return await asyncio.wait_for(self.queue.get(), timeout)
        except asyncio.TimeoutError:
            raise Empty from None

    def put_nowait(self, item: Any) -> None:
        self.queue.put_nowait(item)

    def put_nowait_batch(self, items: Any) -> None:
        if self.maxsize > 0 and len(items) + self.qsize() > self.maxsize:
            raise Full(f"{len(items)} more items do not fit: {self.qsize()} of {self.maxsize} places are taken")
        for item in items:
            self.queue.put_nowait(item)

    def get_nowait(self) -> Any:
        return self.queue.get_nowait()

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        if num_items > self.qsize():
            raise Empty(f"{num_items} items were asked for, and there are {self.qsize()}")
        return [self.queue.get_nowait() for _ in range(num_items)]
