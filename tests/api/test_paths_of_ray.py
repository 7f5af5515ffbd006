"""Modules and names that programs import under the paths that Ray has for them."""

from __future__ import annotations

import importlib
import threading

import pytest

import miniray as ray
from miniray import cloudpickle, cluster_utils
from miniray.dag import DAGContext
from miniray.dag.class_node import ClassNode
from miniray.dag.dag_node import DAGNode
from miniray.dag.function_node import FunctionNode
from miniray.dag.input_node import InputNode
from miniray.dag.output_node import MultiOutputNode
from miniray.util import state


@pytest.fixture
def session():
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


def test_the_parts_of_a_graph_have_modules_of_their_own(session):
    @ray.remote
    def double(x):
        return 2 * x

    with InputNode() as i:
        graph = double.bind(i)
    assert isinstance(graph, FunctionNode) and ray.get(graph.execute(4)) == 8
    assert ClassNode is importlib.import_module("miniray.dag").ClassNode
    assert issubclass(MultiOutputNode, DAGNode) and issubclass(FunctionNode, DAGNode)


def test_the_settings_of_compiled_graphs_have_rays_defaults():
    context = DAGContext.get_current()
    assert context is DAGContext.get_current() and context.buffer_size_bytes == 1_000_000
    with pytest.raises(ValueError, match="less than or equal"):
        DAGContext(get_timeout=1, read_iteration_timeout=2)


def test_the_old_path_of_the_state_api_warns():
    with pytest.warns(DeprecationWarning, match="ray.util.state"):
        from miniray.experimental.state import api

        importlib.reload(api)
    from miniray.experimental.state import common, exception

    assert api.list_tasks is state.list_tasks  # type: ignore[attr-defined]
    assert common.TaskState is state.common.TaskState and exception.RayStateApiException


def test_functions_have_the_paths_of_the_modules_that_have_them_in_ray():
    """`ray.util.state.api` and the resources that Ray has given up; the strategies of placement groups have a name."""
    from miniray.experimental.dynamic_resources import set_resource
    from miniray.util.placement_group import VALID_PLACEMENT_GROUP_STRATEGIES
    from miniray.util.state import api

    assert api.list_tasks is state.list_tasks and api.StateApiClient is state.StateApiClient
    assert VALID_PLACEMENT_GROUP_STRATEGIES == {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}
    assert ray.util.get_node_instance_id() == ""
    with pytest.raises(DeprecationWarning):
        set_resource("chip", 1)
    with pytest.raises(DeprecationWarning):
        ray.experimental.set_resource("chip", 1)


def test_memory_summary_is_what_the_command_prints(session):
    from miniray._private.internal_api import memory_summary

    ref = ray.put(1)
    text = memory_summary(units="KB", num_entries=5)
    assert "Object references status" in text and ref.hex() in text and " KB" in text
    assert ref.hex() not in memory_summary(stats_only=True)
    with pytest.raises(KeyError):
        memory_summary(units="stone")


def test_dumps_debug_says_how_to_find_the_part_at_fault(monkeypatch, capsys):
    assert cloudpickle.loads(cloudpickle.dumps_debug([1])) == [1]
    with pytest.raises(TypeError, match="RAY_PICKLE_VERBOSE_DEBUG"):
        cloudpickle.dumps_debug(threading.Lock())
    monkeypatch.setenv("RAY_PICKLE_VERBOSE_DEBUG", "1")
    with pytest.raises(TypeError, match="pickle"):
        cloudpickle.dumps_debug(threading.Lock())
    assert "lock" in capsys.readouterr().out


def test_clusters_are_supported():
    assert cluster_utils.cluster_not_supported is False
