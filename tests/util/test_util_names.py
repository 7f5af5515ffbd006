"""The names of miniray.util, and what is only imported when it is asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

import miniray
import miniray.util.client.common
from miniray import util


@pytest.fixture
def session() -> Iterator[None]:
    miniray.init(num_cpus=2, log_to_driver=False)
    yield
    miniray.shutdown()


def test_what_is_costly_is_imported_when_it_is_asked_for():
    """A program that only runs tasks does not pay for asyncio's queues or for multiprocessing."""
    program = """
import sys, miniray.util
assert not {"miniray.util.queue", "miniray.util.multiprocessing", "multiprocessing"} & set(sys.modules)
assert miniray.util.queue.Queue and miniray.util.multiprocessing.Pool and "miniray.util.queue" in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_every_public_name_is_there():
    """And a name that is not raises AttributeError, as from any module."""
    assert all(hasattr(util, name) for name in util.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = util.nonsense


def test_there_is_no_client():
    """Programs that ask are told so."""
    assert util.client.ray.is_connected() is False
    assert not isinstance(miniray.ObjectRef.nil(), util.client.common.ClientObjectRef)


def test_a_node_has_the_address_that_nodes_gives(session: None):
    """In the driver and in a task."""

    @miniray.remote
    def where() -> str:
        return util.get_node_ip_address()

    assert util.get_node_ip_address() == miniray.get(where.remote()) == miniray.nodes()[0]["NodeManagerAddress"]


def test_named_actors_are_listed_by_namespace(session: None):
    """Names for this one, dicts for all; detached ones too, nameless ones not."""

    @miniray.remote(num_cpus=0)
    class Actor:
        """Has nothing to do."""

    kept = [
        Actor.options(name="here").remote(),
        Actor.options(name="there", namespace="elsewhere").remote(),
        Actor.remote(),
    ]
    assert util.list_named_actors() == ["here"]
    assert {"name": "there", "namespace": "elsewhere"} in util.list_named_actors(all_namespaces=True)
    assert len(util.list_named_actors(True)) == len(kept) - 1
