"""For tests of Ray programs: actors that hold tasks at a place, and waits for a condition. Ray: ray._common.test_utils."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from miniray.api import remote

__all__ = ["Semaphore", "SignalActor", "async_wait_for_condition", "wait_for_condition"]


@remote(num_cpus=0)
class SignalActor:
    """Those who call `wait` go on when somebody calls `send`."""

    def __init__(self) -> None:
        self.ready_event = asyncio.Event()
        self.num_waiters = 0

    async def send(self, clear: bool = False) -> None:
        """Let them go on, and all who come later; with `clear` only those who wait now."""
        self.ready_event.set()
        if clear:
            self.ready_event.clear()

    async def wait(self, should_wait: bool = True) -> None:
        """Wait for `send`, unless it has been called."""
        if should_wait:
            self.num_waiters += 1
            try:
                await self.ready_event.wait()
            finally:
                self.num_waiters -= 1

    async def cur_num_waiters(self) -> int:
        """How many wait now."""
        return self.num_waiters


@remote(num_cpus=0)
class Semaphore:
    """Lets `value` callers in at a time."""

    def __init__(self, value: int = 1) -> None:
        self._sema = asyncio.Semaphore(value=value)

    async def acquire(self) -> None:
        """Wait to be let in."""
        await self._sema.acquire()

    async def release(self) -> None:
        """Let the next in."""
        self._sema.release()

    async def locked(self) -> bool:
        """Whether the next would have to wait."""
        return self._sema.locked()


def wait_for_condition(
    condition_predictor: Callable[..., bool],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    raise_exceptions: bool = False,
    **kwargs: Any,
) -> None:
    """Ask again and again until it is so. timeout: seconds, after which it is a RuntimeError that shows the last exception that
    `condition_predictor(**kwargs)` raised; with raise_exceptions its first one comes out at once."""
    asked = _Asked(timeout)
    while asked.goes_on:
        try:
            if condition_predictor(**kwargs):
                return
        except Exception:
            if raise_exceptions:
                raise
            asked.trace = traceback.format_exc()
        asked.again.wait(retry_interval_ms / 1000)
    raise asked.in_vain()


async def async_wait_for_condition(
    condition_predictor: Callable[..., bool | Awaitable[bool]],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    **kwargs: Any,
) -> None:
    """The same from a coroutine; the condition may be one as well."""
    asked = _Asked(timeout)
    while asked.goes_on:
        try:
            answer = condition_predictor(**kwargs)
            if await answer if isinstance(answer, Awaitable) else answer:
                return
        except Exception:
            asked.trace = traceback.format_exc()
        await asyncio.sleep(retry_interval_ms / 1000)
    raise asked.in_vain()


class _Asked:
    """Until when it is asked, and how it last failed."""

    def __init__(self, timeout: float):
        self.end, self.trace = time.monotonic() + timeout, ""
        self.again = threading.Event()  # which nobody sets: the condition is the program's own, and can only be asked

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.end

    def in_vain(self) -> RuntimeError:
        return RuntimeError(
            "The condition wasn't met before the timeout expired."
            + (f" Last exception: {self.trace}" if self.trace else "")
        )
