"""The names of miniray.util, and the modules that are imported on first use."""

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


def test_expensive_modules_are_imported_on_first_use():
    """A program that only runs tasks does not pay for asyncio's queues or multiprocessing."""
    program = """
import sys, miniray.util
assert not {"miniray.util.queue", "miniray.util.multiprocessing", "multiprocessing"} & set(sys.modules)
assert miniray.util.queue.Queue and miniray.util.multiprocessing.Pool and "miniray.util.queue" in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_under_the_alias_they_need_an_import_statement():
    """As on Ray, where a program that forgets it fails. So do `ray.dag` and `ray.types`."""
    program = """
from miniray.testing import alias_ray
alias_ray()
import ray
for package, names in (ray.util, ("metrics", "multiprocessing", "queue", "state")), (ray, ("dag", "types")):
    for name in names:
        try:
            getattr(package, name)
        except AttributeError as error:
            assert "before `import ray" in str(error)
        else:
            raise AssertionError(name)
import ray.dag, ray.util.queue
assert ray.dag.InputNode and ray.util.queue.Queue and ray.util.debug and ray.util.scheduling_strategies
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_every_public_name_exists():
    """A missing name raises AttributeError, as with any module."""
    assert all(hasattr(util, name) for name in util.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = util.nonsense


def test_there_is_no_client():
    """Programs that ask whether they are a client get the answer no."""
    assert util.client.ray.is_connected() is False
    assert not isinstance(miniray.ObjectRef.nil(), util.client.common.ClientObjectRef)


def test_a_node_has_the_address_that_nodes_shows(session: None):
    """The driver and a task on its node see the same address."""

    @miniray.remote
    def where() -> str:
        return util.get_node_ip_address()

    assert util.get_node_ip_address() == miniray.get(where.remote()) == miniray.nodes()[0]["NodeManagerAddress"]


def test_named_actors_are_listed_by_namespace(session: None):
    """One namespace gives names, all of them give dicts. Actors without a name are not listed."""

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
