"""A cluster of several nodes for tests, and ways to wait for what happens in it without sleeping."""

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
"""Bytes of a value that goes to an object store: more than 100 KiB."""


@contextmanager
def cluster(head_cpus: float = 2, **head: Any) -> Iterator[Cluster]:
    """A cluster with a head node, and a driver connected to it; both are gone at the end."""
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
    """Have what the program let go of taken into account: that happens at the next entry to the runtime."""
    with context.running().locked():
        return


def until(holds: Callable[[], bool], timeout_s: float = 20) -> bool:
    """Wait until something holds that depends on the core's tables: it is looked at after every event."""
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
    """A runtime's table of threads that have not ended, and what tells when it is empty."""

    def __init__(self, threads: dict) -> None:
        super().__init__(threads)
        self.empty = threading.Event()

    def pop(self, *args: Any) -> Any:
        """One has ended."""
        found = super().pop(*args)
        if not self:
            self.empty.set()
        return found


@ray.remote(num_cpus=0)
class Gate:
    """Holds tasks back until it is opened. A task that waits here can be interrupted, and lends its CPU."""

    def __init__(self) -> None:
        self.opened, self.came = asyncio.Event(), 0

    async def wait(self) -> None:
        """Pass when it is open."""
        self.came += 1
        await self.opened.wait()

    async def open(self) -> int:
        """Let all through. Returns how many had come."""
        self.opened.set()
        return self.came

    async def close(self) -> None:
        """Hold back those who come from now on."""
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
    """For a task: where it runs, once the gate is open. Keeps its CPU: it does not wait in `get`."""
    done = threading.Event()
    gate.wait.remote().future().add_done_callback(lambda future: done.set())
    done.wait()
    return ray.get_runtime_context().get_node_id()
