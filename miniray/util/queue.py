"""Queue: a first-in, first-out queue that tasks and actors share. Ray: python/ray/util/queue.py."""

from __future__ import annotations

import asyncio
import queue as standard
from collections.abc import Iterable
from typing import Any

from miniray import api


class Empty(standard.Empty):
    """The queue has no item, or not as many as were asked for."""


class Full(standard.Full):
    """The queue has no room for the item, or for all the items."""


class Queue:
    """A first-in, first-out queue that tasks and actors share.

        queue = Queue(maxsize=100)
        producer.remote(queue)      # pass it to tasks and actors like any value
        item = queue.get(timeout=5)

    The methods are those of `queue.Queue`, with `_async` variants for coroutines and `_batch` variants for many items
    at once. An async actor holds the items. A blocked `put` or `get` waits inside that actor without polling, and a
    task that waits releases its CPU. The actor, and with it the items, ends when `shutdown` is called or the last copy
    of the queue is gone.
    """

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None):
        """maxsize: the largest number of items; no limit if it is 0 or less. actor_options: options of the actor."""
        self.maxsize = maxsize
        self.actor: Any = api.remote(_QueueActor).options(**(actor_options or {})).remote(maxsize)

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """The number of items in the queue."""
        size: int = api.get(self.actor.qsize.remote())
        return size

    def qsize(self) -> int:
        """The number of items in the queue; the name that Python's own queues use."""
        return self.size()

    def empty(self) -> bool:
        """Whether the queue has no items."""
        empty: bool = api.get(self.actor.empty.remote())
        return empty

    def full(self) -> bool:
        """Whether the queue has `maxsize` items; always False without a limit."""
        full: bool = api.get(self.actor.full.remote())
        return full

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item at the end of the queue.

        If the queue is full and `block` is true, wait for room: at most `timeout` seconds, or forever if `timeout` is
        None.

        Raises Full if there is still no room, or at once if `block` is false; ValueError for a negative timeout.
        """
        if block:
            api.get(self.actor.put.remote(item, _checked(timeout)))
            return
        try:
            api.get(self.actor.put_nowait.remote(item))
        except asyncio.QueueFull:
            raise Full from None

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """The same as `put`, for coroutines: `await queue.put_async(item)`."""
        if block:
            await self.actor.put.remote(item, _checked(timeout))
            return
        try:
            await self.actor.put_nowait.remote(item)
        except asyncio.QueueFull:
            raise Full from None

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove the first item from the queue and return it.

        If the queue is empty and `block` is true, wait for an item: at most `timeout` seconds, or forever if `timeout`
        is None. As in Ray, a timeout of 0 never returns an item; use `get_nowait` instead.

        Raises Empty if there is still no item, or at once if `block` is false; ValueError for a negative timeout.
        """
        if block:
            return api.get(self.actor.get.remote(_checked(timeout)))
        try:
            return api.get(self.actor.get_nowait.remote())
        except asyncio.QueueEmpty:
            raise Empty from None

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """The same as `get`, for coroutines: `item = await queue.get_async()`."""
        if block:
            return await self.actor.get.remote(_checked(timeout))
        try:
            return await self.actor.get_nowait.remote()
        except asyncio.QueueEmpty:
            raise Empty from None

    def put_nowait(self, item: Any) -> None:
        """The same as `put(item, block=False)`."""
        self.put(item, block=False)

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add all items in order. Raises Full, and adds none, if there is not enough room for all of them.

        Raises TypeError if `items` is not an iterable, or has no length although the queue has a limit.
        """
        if not isinstance(items, Iterable):
            raise TypeError(f"'items' must be an iterable, not {items!r}")
        api.get(self.actor.put_nowait_batch.remote(items))

    def get_nowait(self) -> Any:
        """The same as `get(block=False)`."""
        return self.get(block=False)

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Remove the first `num_items` items and return them. Raises Empty, and removes none, if there are fewer.

        Raises TypeError if `num_items` is not an int, ValueError if it is negative.
        """
        if not isinstance(num_items, int):
            raise TypeError(f"'num_items' must be an int, not {num_items!r}")
        if num_items < 0:
            raise ValueError(f"'num_items' must be nonnegative, got {num_items}")
        items: list[Any] = api.get(self.actor.get_nowait_batch.remote(num_items))
        return items

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the actor that holds the items. The queue cannot be used afterwards. A second shutdown does nothing.

        force: kill the actor at once. grace_period_s: otherwise, seconds to let earlier calls finish before it is
        killed.
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
        raise ValueError(f"'timeout' must be a non-negative number, got {timeout}")
    return timeout


class _QueueActor:
    """Holds the items. It is an async actor: while a `put` waits for room, a `get` can run and make room."""

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
            raise Full(
                f"no room for {len(items)} more items: the queue has {self.qsize()}, and its maxsize is {self.maxsize}"
            )
        for item in items:
            self.queue.put_nowait(item)

    def get_nowait(self) -> Any:
        return self.queue.get_nowait()

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        if num_items > self.qsize():
            raise Empty(f"{num_items} items were asked for, but the queue has {self.qsize()}")
        return [self.queue.get_nowait() for _ in range(num_items)]
