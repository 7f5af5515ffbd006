"""Helpers for tests: actors at which tasks wait, and functions that wait for a condition. Ray:
ray._common.test_utils."""

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
    """A signal between tasks: calls of `wait` return after a call of `send`."""

    def __init__(self) -> None:
        self.ready_event = asyncio.Event()
        self.num_waiters = 0

    async def send(self, clear: bool = False) -> None:
        """Let all present and later calls of `wait` return; with `clear`, only the present ones."""
        self.ready_event.set()
        if clear:
            self.ready_event.clear()

    async def wait(self, should_wait: bool = True) -> None:
        """Wait for `send`. With should_wait=False, return at once."""
        if should_wait:
            self.num_waiters += 1
            try:
                await self.ready_event.wait()
            finally:
                self.num_waiters -= 1

    async def cur_num_waiters(self) -> int:
        """The number of calls of `wait` that are waiting now."""
        return self.num_waiters


@remote(num_cpus=0)
class Semaphore:
    """A semaphore between tasks: at most `value` holders at a time."""

    def __init__(self, value: int = 1) -> None:
        self._sema = asyncio.Semaphore(value=value)

    async def acquire(self) -> None:
        """Wait until the semaphore is free, and take it."""
        await self._sema.acquire()

    async def release(self) -> None:
        """Release the semaphore, so that the next caller can take it."""
        self._sema.release()

    async def locked(self) -> bool:
        """Whether the next `acquire` would have to wait."""
        return self._sema.locked()


def wait_for_condition(
    condition_predictor: Callable[..., bool],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    raise_exceptions: bool = False,
    **kwargs: Any,
) -> None:
    """Call condition_predictor(**kwargs) again and again until it returns True.

    An exception counts as False; with `raise_exceptions` it is raised at once. After `timeout` seconds, raises a
    RuntimeError that shows the last exception.
    """
    attempts = _Attempts(timeout)
    while attempts.in_time:
        try:
            if condition_predictor(**kwargs):
                return
        except Exception:
            if raise_exceptions:
                raise
            attempts.last_error = traceback.format_exc()
        attempts.never_set.wait(retry_interval_ms / 1000)
    raise attempts.timed_out()


async def async_wait_for_condition(
    condition_predictor: Callable[..., bool | Awaitable[bool]],
    timeout: float = 10,
    retry_interval_ms: float = 100,
    **kwargs: Any,
) -> None:
    """The same as `wait_for_condition`, for coroutines. The condition may be a coroutine function."""
    attempts = _Attempts(timeout)
    while attempts.in_time:
        try:
            answer = condition_predictor(**kwargs)
            if await answer if isinstance(answer, Awaitable) else answer:
                return
        except Exception:
            attempts.last_error = traceback.format_exc()
        await asyncio.sleep(retry_interval_ms / 1000)
    raise attempts.timed_out()


class _Attempts:
    """Repeated calls of a condition: the time of the last one, and the traceback of the last failure."""

    def __init__(self, timeout: float):
        self.end, self.last_error = time.monotonic() + timeout, ""
        # Waiting on it is the pause between two calls. The condition is the program's own, so nothing announces its
        # change.
        self.never_set = threading.Event()

    @property
    def in_time(self) -> bool:
        return time.monotonic() < self.end

    def timed_out(self) -> RuntimeError:
        return RuntimeError(
            "The condition wasn't met before the timeout expired."
            + (f" Last exception: {self.last_error}" if self.last_error else "")
        )
