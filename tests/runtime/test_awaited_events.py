"""The ways in which tests and faults wait for an event notice each event, even one without any consequence.

A task that only joins the queue, and a small value that is only stored, used to be missed: the core returned no actions
for them, and the condition was not checked.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import miniray as ray
from miniray.testing import faults
from tests.runtime.several_nodes import cluster, core, until

EVENTS = pytest.mark.parametrize(
    "cause, count",
    [
        (lambda: one.remote(), lambda tables: len(tables.tasks)),
        (lambda: ray.put(1), lambda tables: len(tables.objects)),
    ],
    ids=["submit", "put"],
)


@ray.remote
def one() -> int:
    """Waits in the queue behind `busy`."""
    return 1


@ray.remote
def busy(here: int, pipe: int) -> None:
    """Keeps the CPU until something is written to the pipe. here: a pipe to write to when the task runs."""
    os.write(here, b"!")
    os.read(pipe, 1)


@pytest.fixture
def nodes() -> Iterator[Any]:
    """A cluster whose one CPU is busy."""
    (running, here), (pipe, go_on) = os.pipe(), os.pipe()
    with cluster(head_cpus=1) as nodes:
        kept = busy.remote(here, pipe)
        os.read(running, 1)
        yield nodes
        os.write(go_on, b"!")
        ray.get(kept, timeout=20)
    for end in (running, here, pipe, go_on):
        os.close(end)


@EVENTS
def test_until_notices_the_event(nodes: Any, cause: Callable[[], Any], count: Callable[[Any], int]):
    """The waiting thread has already checked the condition, in vain; no other event happens later."""
    before, looked, found = count(core()), threading.Semaphore(0), []

    def has_happened() -> bool:
        looked.release()
        return count(core()) > before

    thread = threading.Thread(target=lambda: found.append(until(has_happened)))
    thread.start()
    assert looked.acquire(timeout=20)
    kept = cause()
    thread.join(20)
    assert found == [True]
    del kept


@EVENTS
def test_a_fault_strikes_at_the_event(nodes: Any, cause: Callable[[], Any], count: Callable[[Any], int]):
    """`remove_node` with a condition: the node is dead when the call that made the condition true returns."""
    node, before = nodes.add_node(num_cpus=0), count(core())
    with faults.remove_node(node, when=lambda tables: count(tables) > before) as fault:
        assert fault.count == 0 and node.record.alive
        kept = cause()
        assert fault.count == 1 and not node.record.alive
    del kept
