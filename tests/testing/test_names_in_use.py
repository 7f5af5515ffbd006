"""Every name of Ray Core that real programs use exists under the alias, or its error names the portability page.

The table was collected from the files of 32 public repositories. miniray does not have the names marked `-`.
"""

from __future__ import annotations

import asyncio
import importlib
import pathlib

import pytest

import miniray
from miniray.testing import alias_ray
from miniray.testing.alias import PORTABILITY

USED = """
  get init remote shutdown put is_initialized ObjectRef wait nodes actor.ActorHandle util.placement_group
  cluster_resources kill
  util.get_node_ip_address util.placement_group.PlacementGroup get_runtime_context __version__ available_resources
  get_gpu_ids
  util.scheduling_strategies.PlacementGroupSchedulingStrategy util.remove_placement_group util.placement_group_table
  timeline util.scheduling_strategies.NodeAffinitySchedulingStrategy get_actor exceptions.RayTaskError cancel
  exceptions.GetTimeoutError
  _private.services.get_node_ip_address util.ActorPool cloudpickle.dumps exceptions.RayActorError cloudpickle.loads
  method
  exceptions.WorkerCrashedError cluster_utils.Cluster cloudpickle exceptions runtime_env.RuntimeEnv util.queue.Queue
  util.state.list_actors util.client.ray.is_connected ObjectID util.multiprocessing.Pool exceptions.RayError
  exceptions.ActorDiedError exceptions.OutOfMemoryError exceptions.NodeDiedError util.register_serializer actor
  util.get_current_placement_group exceptions.TaskCancelledError _private.state.actors WORKER_MODE
  exceptions.ActorUnavailableError exceptions.ActorUnschedulableError exceptions.OwnerDiedError
  exceptions.ObjectLostError
  exceptions.RuntimeEnvSetupError exceptions.RaySystemError state.nodes actor.exit_actor
  _private.state.available_resources_per_node
- util.collective util.collective.init_collective_group util.collective.broadcast util.dask.ray_dask_get
- util.iter.ParallelIteratorWorker internal.free
"""
# Names that client libraries look up, and their neighbours in Ray 2.60.
LOOKED_UP = """
  ActorClassID ActorID ClusterID FunctionID JobID Language NodeID PlacementGroupID TaskID UniqueID WorkerID client
  ClientBuilder
  LOCAL_MODE RESTORE_WORKER_MODE SCRIPT_MODE SPILL_WORKER_MODE _private.worker.RESTORE_WORKER_MODE
  _private.worker.SPILL_WORKER_MODE _private.worker.global_worker worker.global_worker
  _private.test_utils.wait_for_condition
  _common.test_utils.SignalActor _common.test_utils.Semaphore _raylet.Language autoscaler.sdk.request_resources
  client_builder.ClientContext job_config.JobConfig experimental.get_object_locations experimental.internal_kv
  experimental.tqdm_ray util.accelerators.NVIDIA_TESLA_V100 util.annotations.PublicAPI
  util.check_serialize.inspect_serializability
  util.log_once util.debug.log_once util.serialization.register_serializer util.connect util.disconnect
  util.pdb.set_trace
  util.rpdb.set_trace dag.InputNode remote_function.RemoteFunction state.actors logger
  util.client.common.ClientObjectRef util.client.common.ClientActorHandle
  util.tracing util.tracing.tracing_helper
- LoggingConfig cross_language java_function data tune serve train util.spark
"""
NAMES = [
    (name, not line.startswith("-")) for line in (USED + LOOKED_UP).splitlines() for name in line.lstrip("-").split()
]


@pytest.fixture(autouse=True)
def aliased():
    """The alias is active during each test."""
    with alias_ray():
        yield


def look_up(name):
    """Find a name as a program would: import the leading parts that are modules, and get the others as attributes."""
    found, path = importlib.import_module("ray"), "ray"
    for part in name.split("."):
        path += f".{part}"
        try:
            found = importlib.import_module(path)
        except ModuleNotFoundError:
            if not hasattr(found, part):
                raise
            found = getattr(found, part)
    return found


@pytest.mark.parametrize(("name", "exists"), NAMES, ids=[name for name, _ in NAMES])
def test_a_name_exists_or_its_error_names_the_portability_page(name, exists):
    """An import and an attribute give the same message."""
    if exists:
        assert look_up(name) is not None
        return
    with pytest.raises(ModuleNotFoundError, match=f"`ray` is miniray here.*{PORTABILITY}"):
        look_up(name)
    with pytest.raises(ImportError):
        exec(
            "from ray.{} import {}".format(*name.rpartition(".")[::2]) if "." in name else f"from ray import {name}", {}
        )


def test_the_portability_page_names_every_missing_name():
    """It names at least the module, such as `ray.data` or `ray.util.iter`."""
    page = (pathlib.Path(__file__).resolve().parents[2] / PORTABILITY).read_text(encoding="utf-8")
    absent = {
        ".".join(f"ray.{name}".split(".")[: 3 if name.startswith("util") else 2])
        for name, exists in NAMES
        if not exists
    }
    assert [name for name in sorted(absent) if f"`{name}`" not in page and f"`{name}." not in page] == []


def test_ids_have_the_lengths_of_ray_s():
    """An id that is not part of another one has 28 bytes, and can be random."""
    import ray

    for kind in ray.UniqueID, ray.FunctionID, ray.ActorClassID, ray.ClusterID, ray.NodeID, ray.WorkerID:
        made = kind.from_random()
        assert issubclass(kind, ray.UniqueID) and kind.size() == 28 == len(made.binary())
        assert kind.from_binary(made.binary()) == made != kind.from_random() and not made.is_nil()
    assert ray.JobID.from_int(7).int() == 7 and ray.JobID.from_int(1).hex() == "01000000"
    assert repr(ray.Language.PYTHON) == "PYTHON" and len(ray.Language) == 3


def test_a_client_without_an_address_starts_a_session():
    """The session has the client's namespace and environment. With an address, the error says how to run on Ray."""
    import ray

    with ray.client().namespace("mine").env({"env_vars": {"A": "1"}}).connect():
        context = ray.get_runtime_context()
        assert (context.namespace, context.runtime_env) == ("mine", {"env_vars": {"A": "1"}})
        assert not ray.util.client.ray.is_connected()
    assert not ray.is_initialized()
    for connect in ray.ClientBuilder("ray://10.0.0.1:10001").connect, lambda: ray.util.connect("10.0.0.1:10001"):
        with pytest.raises(ConnectionError, match="--engine ray"):
            connect()
    ray.util.disconnect()


def test_a_job_config_provides_the_arguments_that_init_does_not_get():
    """The table of jobs shows its metadata."""
    import ray
    from ray.job_config import JobConfig

    config = JobConfig(ray_namespace="config", runtime_env={"env_vars": {"A": "1"}}, metadata={"who": "me"})
    with ray.init(num_cpus=1, job_config=config):
        context = ray.get_runtime_context()
        assert (context.namespace, context.runtime_env) == ("config", {"env_vars": {"A": "1"}})
        from ray.util.state import list_jobs

        assert list_jobs(detail=True)[0].metadata == {"who": "me"}
    with ray.init(num_cpus=1, job_config=config, namespace="own"):
        assert ray.get_runtime_context().namespace == "own"
    with pytest.raises(ValueError, match="detached"):
        JobConfig(default_actor_lifetime="long")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"num_cpus": "x"}, TypeError),
        ({"num_cpus": 1.5}, TypeError),
        ({"bundles": {"CPU": 1}}, TypeError),
        ({"bundles": [1]}, TypeError),
        ({"bundles": [{"CPU": "x"}]}, TypeError),
        ({"bundles": [{1: 1}]}, TypeError),
        ({"bundles": [{"CPU": 1}]}, RuntimeError),
        ({}, RuntimeError),
        ({"num_cpus": -1}, RuntimeError),
    ],
)
def test_a_request_to_the_autoscaler_is_checked_as_in_ray(given, error):
    """The types are checked first, then whether a session runs. In a session the request has no effect."""
    import ray
    from ray.autoscaler.sdk import request_resources

    with pytest.raises(error):
        request_resources(**given)
    if error is RuntimeError:
        with ray.init(num_cpus=1):
            assert request_resources(**given) is None
            assert ray.cluster_resources()["CPU"] == 1


def test_the_global_worker_describes_its_caller():
    """It gives the ids and the mode of the running task or driver. Without a session it is not connected."""
    import ray

    worker = ray._private.worker.global_worker
    assert (worker.connected, worker.mode) == (False, None)
    with pytest.raises(ray.exceptions.RaySystemError):
        worker.check_connected()

    @ray.remote
    def inside():
        return (
            worker.mode,
            worker.current_task_id.hex() == ray.get_runtime_context().get_task_id(),
            worker.actor_id.is_nil(),
            ray.get_runtime_context().worker.mode,
        )

    with ray.init(num_cpus=1, namespace="n"):
        assert ray.get(inside.remote()) == (ray.WORKER_MODE, True, True, ray.WORKER_MODE)
        assert ray.get_runtime_context().worker is worker
        assert worker.placement_group_id.is_nil() and not worker.should_capture_child_tasks_in_placement_group
        assert (worker.mode, worker.namespace, worker.current_job_id.int()) == (ray.SCRIPT_MODE, "n", 1)
        assert worker.current_node_id.hex() == ray.nodes()[0]["NodeID"] and len(worker.worker_id) == 28
    with pytest.raises(AttributeError, match="public"):
        worker.core_worker  # noqa: B018


def test_the_key_value_store_lasts_as_long_as_the_session():
    """Its answers were recorded on Ray 2.60."""
    import ray
    from ray.experimental import internal_kv as kv

    assert not kv._internal_kv_initialized()
    with ray.init(num_cpus=1):
        assert kv._internal_kv_initialized()
        assert [
            kv._internal_kv_put("a", "1"),
            kv._internal_kv_put("a", "2"),
            kv._internal_kv_put("a", "3", overwrite=False),
        ] == [False, True, True]
        assert [kv._internal_kv_get(key) for key in ("a", b"a", "no")] == [b"2", b"2", None]
        kv._internal_kv_put("ab", b"x", namespace="n")
        assert [kv._internal_kv_get("ab"), kv._internal_kv_get("ab", namespace="n")] == [None, b"x"]
        assert kv._internal_kv_list("a", namespace=b"n") == [b"ab"] and kv._internal_kv_exists("a")
        assert [kv._internal_kv_del("a"), kv._internal_kv_del("a")] == [1, 0]
        kv._internal_kv_put("p1", "1"), kv._internal_kv_put("p2", "1")
        assert kv._internal_kv_del("p", del_by_prefix=True) == 2
        with pytest.raises(AssertionError):
            kv._internal_kv_put(1, "x")
        kv._internal_kv_put("left", "1")
    with pytest.raises(RuntimeError):
        kv._internal_kv_get("left")
    with ray.init(num_cpus=1):
        assert kv._internal_kv_get("left") is None


def test_the_locations_of_objects():
    """A small value is in no object store, and a pending one has no size."""
    import ray
    from ray.experimental import get_object_locations

    with ray.init(num_cpus=1):

        @ray.remote
        def make(size):
            return b"x" * size

        small, large, never = make.remote(1), make.remote(10**6), make.options(num_cpus=9).remote(1)
        ray.wait([small, large], num_returns=2)
        found = get_object_locations([small, large, never])
        assert found[small]["node_ids"] == [] and found[small]["object_size"] > 0
        assert found[large]["node_ids"] == [ray.nodes()[0]["NodeID"]] and found[large]["object_size"] >= 10**6
        assert found[never] == {"node_ids": [], "object_size": None, "did_spill": False}
        with pytest.raises(TypeError):
            get_object_locations([1])


def test_helpers_for_tests_of_ray_programs():
    """A signal on which tasks wait, a semaphore, and functions that wait for a condition."""
    import ray
    from ray._common.test_utils import Semaphore, SignalActor, async_wait_for_condition, wait_for_condition

    @ray.remote
    def held(signal):
        ray.get(signal.wait.remote())
        return "went on"

    with ray.init(num_cpus=1):
        signal, semaphore = SignalActor.remote(), Semaphore.remote(1)
        ref = held.remote(signal)
        wait_for_condition(lambda: ray.get(signal.cur_num_waiters.remote()) == 1, retry_interval_ms=1)
        ray.get(signal.send.remote())
        assert ray.get(ref) == "went on"
        assert ray.get(
            [
                semaphore.acquire.remote(),
                semaphore.locked.remote(),
                semaphore.release.remote(),
                semaphore.locked.remote(),
            ]
        ) == [None, True, None, False]
    with pytest.raises(RuntimeError, match="before the timeout expired.$"):
        wait_for_condition(lambda: False, timeout=0.01, retry_interval_ms=1)
    with pytest.raises(RuntimeError, match="Last exception:(?s:.*)ZeroDivisionError"):
        asyncio.run(async_wait_for_condition(lambda: 1 / 0, timeout=0.01, retry_interval_ms=1))
    with pytest.raises(ZeroDivisionError):
        wait_for_condition(lambda: 1 / 0, timeout=0.01, raise_exceptions=True)


def test_log_once():
    """It returns true once for each key, until the key is reset."""
    from ray.util import debug, log_once

    assert [log_once("names in use"), log_once("names in use"), debug.log_once("others")] == [True, False, True]
    debug.reset_log_once("names in use")
    assert log_once("names in use") and not debug.log_once("others")
    debug.reset_log_once()


def test_names_that_ray_has_moved():
    """Both the old and the new name give the same object."""
    from ray._common import test_utils
    from ray._private.test_utils import SignalActor
    from ray.client_builder import client
    from ray.experimental.locations import get_object_locations
    from ray.util import accelerators, pdb
    from ray.util.check_serialize import inspect_serializability
    from ray.util.debug import log_once
    from ray.util.rpdb import set_trace
    from ray.util.serialization import register_serializer

    assert SignalActor is test_utils.SignalActor and client is miniray.client and pdb.set_trace is set_trace
    assert get_object_locations is miniray.experimental.get_object_locations and log_once is miniray.util.log_once
    assert inspect_serializability is miniray.util.inspect_serializability
    assert register_serializer is miniray.util.register_serializer
    assert accelerators.NVIDIA_TESLA_V100 == "V100" and len(accelerators.__all__) == 41


def test_submodules_are_attributes_without_an_import():
    """A program with only `import ray` can call `ray.state.nodes()`."""
    for name in "actor exceptions experimental runtime_env state util".split():
        assert miniray.__getattr__(name) is importlib.import_module(f"miniray.{name}")
