"""A cancellation that arrives while its task is on the way into a `get` of a child, which is cancelled too."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import miniray as ray
from miniray.core.records import FAILED
from miniray.runtime import interrupts


@ray.remote
class Waits:
    """Its call ends when it is cancelled."""

    def __init__(self) -> None:
        self.called = asyncio.Event()

    async def wait(self) -> None:
        """Waits forever."""
        self.called.set()
        await asyncio.Event().wait()

    async def waiting(self) -> None:
        """Returns when `wait` has been called."""
        await self.called.wait()


@ray.remote
def parent(actor: Any) -> str:
    """Asks for its child's value when the child has been cancelled. Returns the name of the error that it sees."""
    try:
        child = actor.wait.remote()
        child.future().exception()
        ray.get(child)
    except BaseException as error:
        return type(error).__name__
    return ""


@ray.remote
def parent_with_a_future(actor: Any) -> tuple[str, str]:
    """Asks for a future of its child, and then for the child's value, when the child has been cancelled. Returns the
    names of the errors that it sees."""
    try:
        child = actor.wait.remote()
        while child._record.status is not FAILED:
            threading.Event().wait(0.001)
        in_future = type(child.future().exception()).__name__
    except BaseException as error:
        return type(error).__name__, ""
    try:
        ray.get(child)
    except BaseException as error:
        return in_future, type(error).__name__
    return in_future, ""


def test_a_cancelled_task_sees_its_interrupt_rather_than_the_error_of_its_child(monkeypatch):
    """The interrupt finds the task inside a call of ours, and is tried again later. The child's error may be there
    first, and the task used to see it. On Ray it sees a KeyboardInterrupt."""
    monkeypatch.setattr(interrupts, "runs_user_code", lambda ident: False)
    ray.init(num_cpus=2)
    try:
        actor = Waits.remote()
        cancelled = parent.remote(actor)
        ray.get(actor.waiting.remote())
        ray.cancel(cancelled)
        assert ray.get(cancelled) == "KeyboardInterrupt"
    finally:
        ray.shutdown()


def test_a_future_of_the_child_has_the_error_of_the_child(monkeypatch):
    """It used to take the interrupt of the task, which then never saw it."""
    monkeypatch.setattr(interrupts, "runs_user_code", lambda ident: False)
    ray.init(num_cpus=2)
    try:
        actor = Waits.remote()
        cancelled = parent_with_a_future.remote(actor)
        ray.get(actor.waiting.remote())
        ray.cancel(cancelled)
        assert ray.get(cancelled) == ("RayTaskError(TaskCancelledError)", "KeyboardInterrupt")
    finally:
        ray.shutdown()
