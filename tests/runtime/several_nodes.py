"""A cluster of several nodes for tests, and ways to wait for an event in it without polling."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import miniray as ray
from miniray.cluster_utils import Cluster
from miniray.process import context

LARGE = 200_000
"""The size in bytes of a value that goes to an object store, because it has more than 100 KiB."""


@contextmanager
def cluster(head_cpus: float = 2, **head: Any) -> Iterator[Cluster]:
    """A cluster with a head node, and a driver that is connected to it. Both end with the block."""
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": head_cpus, **head})
    ray.init(address=nodes.address, log_to_driver=False)
    try:
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()


def core() -> Any:
    """The tables of the running session."""
    return context.running().cluster


def store_of(node: Any) -> Any:
    """The object store of a node of a Cluster."""
    return node.record.store


def settle() -> None:
    """Report the references that the program has dropped. Otherwise this happens at the next call of the runtime."""
    with context.running().locked():
        return


def until(holds: Callable[[], bool], timeout_s: float = 20) -> bool:
    """Wait until a condition on the core's tables holds. It is checked at once, and then after every event of the core.

    Returns False if no event has made it true for `timeout_s` seconds. A change that is no event of the core (a task
    has entered its code, a thread has ended) is not noticed by itself.
    """
    tables, changed = core(), threading.Event()

    def note(now: float) -> list:
        changed.set()
        return []

    with context.running().lock:
        tables.after_event.append(note)
    try:
        while not holds():
            if not changed.wait(timeout_s):
                return False
            changed.clear()
        return True
    finally:
        with context.running().lock:
            tables.after_event.remove(note)


class Threads(dict):
    """A runtime's table of threads that have not ended. empty: an event that is set while there are none."""

    def __init__(self, threads: dict) -> None:
        super().__init__(threads)
        self.empty, self._lock = threading.Event(), threading.Lock()
        if not threads:
            self.empty.set()

    def __setitem__(self, handle: Any, value: None) -> None:
        with self._lock:
            super().__setitem__(handle, value)
            self.empty.clear()

    def pop(self, *args: Any) -> Any:
        """A thread has ended."""
        with self._lock:
            found = super().pop(*args)
            if not self:
                self.empty.set()
        return found


@ray.remote(num_cpus=0)
class Gate:
    """Holds tasks back until it is opened. A task that waits for it can be interrupted, and lends its CPU."""

    def __init__(self) -> None:
        self.opened, self.came = asyncio.Event(), 0

    async def wait(self) -> None:
        """Return when the gate is open."""
        self.came += 1
        await self.opened.wait()

    async def open(self) -> int:
        """Let everybody through. Returns how many have come so far."""
        self.opened.set()
        return self.came

    async def close(self) -> None:
        """Hold back everybody who comes from now on."""
        self.opened.clear()


@ray.remote
def node_of(*arguments: Any) -> str:
    """The id of the node that the task runs on."""
    return ray.get_runtime_context().get_node_id()


@ray.remote
def blob(size: int = LARGE) -> bytes:
    """A large value."""
    return bytes(size)


def stay(gate: Any) -> str:
    """Called in a task: wait until the gate is open, without lending the CPU, since this does not wait in `get`.
    Returns the id of the node."""
    done = threading.Event()
    gate.wait.remote().future().add_done_callback(lambda future: done.set())
    done.wait()
    return ray.get_runtime_context().get_node_id()
