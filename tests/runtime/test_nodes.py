"""Several nodes: what each node has, where tasks and actors are placed, and what happens when a node dies."""

from __future__ import annotations

import pytest

import miniray as ray
from miniray import cluster_utils
from miniray.core import node_ranking
from miniray.core.cluster import Cluster
from miniray.core.records import TaskRecord, TaskSpec, units
from miniray.core.transitions import TaskStatus
from miniray.testing import faults
from miniray.util.scheduling_strategies import (
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
)
from tests.runtime.several_nodes import LARGE, Gate, blob, cluster, core, node_of, store_of, until


def ids(nodes: list) -> list[str]:
    """The ids of these nodes of a Cluster."""
    return [node.node_id for node in nodes]


@ray.remote
class Where:
    """An actor that knows on which node it is."""

    def node(self) -> str:
        """The id of the actor's node."""
        return ray.get_runtime_context().get_node_id()


# ---------------------------------------------------------------- what a node has


def test_a_node_brings_its_resources_and_takes_them_along():
    """CPUs, custom resources, labels. A removed node is still listed, as dead and without resources, as in Ray."""
    with cluster(head_cpus=1) as nodes:
        node = nodes.add_node(num_cpus=2, resources={"disk": 3}, labels={"zone": "a"})
        nodes.wait_for_nodes()
        assert (ray.cluster_resources()["CPU"], ray.cluster_resources()["disk"]) == (3, 3)
        assert {n["NodeID"]: n["Labels"].get("zone") for n in ray.nodes()}[node.node_id] == "a"
        nodes.remove_node(node)
        assert ray.cluster_resources()["CPU"] == 1 and "disk" not in ray.cluster_resources()
        assert [(n["Alive"], bool(n["Resources"])) for n in ray.nodes()] == [(True, True), (False, False)]


def test_init_makes_identical_nodes():
    """num_nodes: each node has the resources and the object store that init was given."""
    ray.init(num_nodes=3, num_cpus=2, object_store_memory=5_000_000)
    assert ray.cluster_resources()["CPU"] == 6 and len(ray.nodes()) == 3
    assert [node.store.capacity for node in core().nodes.values()] == [5_000_000] * 3
    ray.shutdown()


def test_the_head_node_cannot_be_removed():
    """The driver runs on it."""
    with cluster() as nodes:
        with pytest.raises(ValueError):
            nodes.remove_node(nodes.head_node)
        with pytest.raises(ValueError):
            faults.remove_node(nodes.head_node)


def test_a_node_can_be_removed_only_once():
    """It cannot be removed twice, nor after a fault has removed it. It is no longer in the list of living nodes."""
    with cluster() as nodes:
        first, second = nodes.add_node(), nodes.add_node()
        nodes.remove_node(first)
        with pytest.raises(KeyError):
            nodes.remove_node(first)
        with faults.remove_node(second):
            assert nodes.list_all_nodes() == [nodes.head_node]


def test_each_node_has_a_store_of_its_own():
    """A value is in the store of the node that made it, and in the store of each node that has used it."""
    with cluster() as nodes:
        made_on, used_on = nodes.add_node(resources={"a": 1}), nodes.add_node(resources={"b": 1})
        ref = blob.options(resources={"a": 1}).remote()
        ray.wait([ref], fetch_local=False)
        assert [store_of(n).stats()["num_objects"] for n in (made_on, used_on, nodes.head_node)] == [1, 0, 0]
        ray.get(node_of.options(resources={"b": 1}).remote(ref))
        assert [store_of(n).stats()["num_objects"] for n in (made_on, used_on, nodes.head_node)] == [1, 1, 0]
        assert store_of(used_on).stats()["transferred"] == 1
        assert store_of(used_on).stats()["transferred_bytes"] >= LARGE


# ---------------------------------------------------------------- where work goes


def test_work_goes_where_the_resource_is():
    """Both tasks and actors."""
    with cluster() as nodes:
        node = nodes.add_node(resources={"disk": 1})
        assert ray.get(node_of.options(resources={"disk": 0.5}).remote()) == node.node_id
        actor = Where.options(resources={"disk": 0.5}).remote()
        assert ray.get(actor.node.remote()) == node.node_id


def test_a_task_goes_to_its_arguments():
    """To the node that holds most of the arguments' bytes, while at most half of the node is in use."""
    with cluster(head_cpus=4) as nodes:
        a, b = nodes.add_node(num_cpus=4, resources={"a": 1}), nodes.add_node(num_cpus=4, resources={"b": 1})
        on_a = blob.options(resources={"a": 0.1}).remote()
        on_b = [blob.options(resources={"b": 0.1}).remote(size) for size in (LARGE, 2 * LARGE)]
        ray.wait([on_a, *on_b], num_returns=3, fetch_local=False)
        assert ray.get(node_of.remote(on_a)) == a.node_id
        assert ray.get(node_of.remote(on_a, *on_b)) == b.node_id


def place(num_nodes: int, num_tasks: int) -> list[int]:
    """Submit tasks of one CPU to nodes of four CPUs each, with no thread to run them. Returns where each was placed."""
    c = Cluster()
    for number in range(1, num_nodes + 1):
        c.add_node(0.0, number, units({"CPU": 4}))
    wanted = c.scheduler.scheduling_class(units({"CPU": 1}), units({"CPU": 1}))
    tasks = [TaskRecord(TaskSpec("NORMAL_TASK", "f", "f", scheduling_class=wanted), ()) for _ in range(num_tasks)]
    for task in tasks:
        c.submit_task(0.0, task)
    return [task.node.number for task in tasks]


def test_nodes_are_filled_to_the_half_in_order_and_then_evenly():
    """Ray's hybrid policy; the driver's own node comes first."""
    assert place(num_nodes=3, num_tasks=12) == [1, 1, 2, 2, 3, 3, 1, 2, 3, 1, 2, 3]


def test_not_all_of_a_hundred_nodes_are_examined_for_every_task(monkeypatch):
    """A node's rank is computed about once per placement, however many nodes there are."""
    asked = []
    plain = node_ranking.rank
    monkeypatch.setattr(node_ranking, "rank", lambda node, need: (asked.append(node), plain(node, need))[1])
    assert sorted(place(num_nodes=100, num_tasks=400)) == sorted(list(range(1, 101)) * 4)
    assert len(asked) < 4 * 400


def test_spread_is_round_robin():
    """Each task goes to the next node with room."""
    with cluster(head_cpus=2) as nodes:
        others = [nodes.add_node(num_cpus=2) for _ in range(2)]
        spread = node_of.options(scheduling_strategy="SPREAD")
        assert ray.get([spread.remote() for _ in range(3)]) == [nodes.head_node.node_id, *ids(others)]


@pytest.mark.parametrize("soft", [False, True])
def test_affinity_puts_work_on_its_node(soft):
    """Hard and soft affinity."""
    with cluster() as nodes:
        node = nodes.add_node(num_cpus=1)
        there = NodeAffinitySchedulingStrategy(node.node_id, soft=soft)
        assert ray.get(node_of.options(scheduling_strategy=there).remote()) == node.node_id
        actor = Where.options(scheduling_strategy=there).remote()
        assert ray.get(actor.node.remote()) == node.node_id


def test_soft_affinity_waits_for_a_node_that_is_only_busy():
    """As in Ray: the task goes elsewhere if the node is gone or too small, but not if the node is only busy."""
    with cluster() as nodes:
        node = nodes.add_node(num_cpus=1)
        there = NodeAffinitySchedulingStrategy(node.node_id, soft=True)
        busy = Where.options(num_cpus=1, scheduling_strategy=there).remote()
        assert ray.get(busy.node.remote()) == node.node_id
        waits = node_of.options(scheduling_strategy=there).remote()
        assert waits._record.task.status is TaskStatus.PENDING_NODE_ASSIGNMENT
        del busy
        assert ray.get(waits) == node.node_id
        assert ray.get(node_of.options(scheduling_strategy=there, num_cpus=2).remote()) == nodes.head_node.node_id
        nodes.remove_node(node)
        assert ray.get(node_of.options(scheduling_strategy=there).remote()) == nodes.head_node.node_id


def test_hard_affinity_fails_if_the_node_can_never_run_the_task():
    """The node is gone or too small, so no new node would help. Tasks that wait for a node fail when it dies."""
    with cluster() as nodes:
        node = nodes.add_node(num_cpus=1)
        there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
        with pytest.raises(ray.exceptions.TaskUnschedulableError):
            ray.get(node_of.options(num_cpus=2, scheduling_strategy=there).remote())
        actor = Where.options(num_cpus=1, scheduling_strategy=there).remote()
        ray.get(actor.node.remote())
        waits = node_of.options(scheduling_strategy=there).remote()
        nodes.remove_node(node)
        with pytest.raises(ray.exceptions.TaskUnschedulableError):
            ray.get(waits)
        with pytest.raises(ray.exceptions.ActorUnschedulableError):
            ray.get(Where.options(scheduling_strategy=there).remote().node.remote())


def test_labels_exclude_nodes_and_prefer_nodes():
    """Hard conditions exclude nodes, soft conditions prefer nodes."""
    with cluster() as nodes:
        a = nodes.add_node(num_cpus=2, labels={"zone": "a", "disk": "ssd"})
        b = nodes.add_node(num_cpus=2, labels={"zone": "b"})
        head = nodes.head_node.node_id

        def where(**rules):
            return ray.get(node_of.options(scheduling_strategy=NodeLabelSchedulingStrategy(**rules)).remote())

        assert where(hard={"zone": In("a")}) == a.node_id
        assert where(hard={"zone": In("a", "b"), "disk": NotIn("ssd")}) == b.node_id
        assert where(hard={"zone": Exists()}, soft={"zone": In("b")}) == b.node_id
        assert where(hard={}, soft={"zone": In("elsewhere")}) == head
        assert ray.get(node_of.options(label_selector={"zone": "!a", "disk": "!ssd"}).remote()) in (b.node_id, head)
        assert ray.get(node_of.options(label_selector={"zone": "in(b,c)"}).remote()) == b.node_id


# ---------------------------------------------------------------- what fits nowhere


def test_work_that_fits_nowhere_waits_for_a_node_that_fits():
    """Both tasks and actors. Work behind them in the queue is not held up."""
    with cluster(head_cpus=1) as nodes:
        task = node_of.options(resources={"rare": 1}).remote()
        actor = Where.options(resources={"rare": 1}, num_cpus=0).remote()
        where = actor.node.remote()
        assert ray.get(node_of.remote()) == nodes.head_node.node_id
        assert ray.wait([task, where], timeout=0)[0] == []
        nodes.add_node(num_cpus=1, resources={"rare": 0.5})
        assert ray.wait([task, where], timeout=0)[0] == []
        node = nodes.add_node(num_cpus=1, resources={"rare": 2})
        assert ray.get([task, where]) == [node.node_id, node.node_id]


def test_work_waits_for_labels_that_no_node_has():
    """In the same way as resources."""
    with cluster() as nodes:
        task = node_of.options(label_selector={"zone": "a"}).remote()
        assert ray.wait([task], timeout=0)[0] == []
        node = nodes.add_node(num_cpus=1, labels={"zone": "a"})
        assert ray.get(task) == node.node_id


# ---------------------------------------------------------------- a node dies


def test_a_running_task_is_retried_on_another_node():
    """The lost attempt counts: the task needs a retry, and fails without one."""
    with cluster() as nodes:
        node = nodes.add_node(num_cpus=2, resources={"here": 2})
        gate = Gate.remote()

        @ray.remote(resources={"here": 1})
        def job(gate):
            ray.get(gate.wait.remote())
            return ray.get_runtime_context().get_node_id()

        retried, single = job.remote(gate), job.options(max_retries=0).remote(gate)
        assert until(lambda: faults.started("job", 2)(core()))
        nodes.remove_node(node)
        other = nodes.add_node(num_cpus=2, resources={"here": 2})
        ray.get(gate.open.remote())
        assert ray.get(retried) == other.node_id
        assert retried._record.task.attempt == 1
        with pytest.raises(ray.exceptions.NodeDiedError):
            ray.get(single)


def test_a_task_that_only_waited_for_the_node_loses_no_retry():
    """No attempt had begun."""
    with cluster(head_cpus=0) as nodes:
        node = nodes.add_node(num_cpus=1)
        holder = Where.options(num_cpus=1).remote()
        ray.get(holder.node.remote())
        waits = node_of.options(max_retries=0).remote()
        nodes.remove_node(node)
        other = nodes.add_node(num_cpus=1)
        assert ray.get(waits) == other.node_id and waits._record.task.attempt == 0


def test_an_actor_is_restarted_on_another_node():
    """If it has restarts left; otherwise it is dead. Its calls wait for the restart."""
    with cluster() as nodes:
        node = nodes.add_node(num_cpus=2, resources={"here": 2})

        @ray.remote(resources={"here": 1}, num_cpus=0)
        class Counter:
            def __init__(self):
                self.n = 0

            def add(self):
                self.n += 1
                return self.n

        lasting, mortal = Counter.options(max_restarts=1, max_task_retries=1).remote(), Counter.remote()
        assert ray.get([lasting.add.remote(), lasting.add.remote(), mortal.add.remote()]) == [1, 2, 1]
        nodes.remove_node(node)
        waits = lasting.add.remote()
        assert ray.wait([waits], timeout=0)[0] == []
        nodes.add_node(num_cpus=2, resources={"here": 2})
        assert ray.get(waits) == 1
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(mortal.add.remote())


def test_a_worker_that_was_declared_dead_starts_nothing_more():
    """Its thread may still run for a moment, but can no longer submit a task or put a value: nobody would own them."""
    with cluster() as nodes:
        node = nodes.add_node(num_cpus=1, resources={"here": 1})

        @ray.remote(resources={"here": 1}, max_retries=0)
        def busy():
            while True:
                node_of.remote()

        ref = busy.remote()
        assert until(lambda: faults.started("busy")(core()))
        nodes.remove_node(node)
        with pytest.raises(ray.exceptions.NodeDiedError):
            ray.get(ref)
        before = core().number
        ray.get(node_of.remote())
        assert core().number == before + 1


def test_the_nodes_of_a_cluster_have_their_ids_before_a_driver_connects():
    """A node keeps its id and its address in every session, whatever becomes of the other nodes."""
    nodes = cluster_utils.Cluster()
    head, gone = nodes.add_node(num_cpus=1), nodes.add_node(num_cpus=1)
    nodes.remove_node(gone)
    kept = nodes.add_node(num_cpus=1)
    ids = [head.node_id, kept.node_id]
    assert len({*ids, gone.node_id}) == 3 and kept.node_ip_address == "127.0.0.3"
    for _ in range(2):
        ray.init(address=nodes.address)
        try:
            assert [row["NodeID"] for row in ray.nodes()] == ids == [head.record.hex, kept.record.hex]
            added = nodes.add_node(num_cpus=1)
            assert added.node_id == added.record.hex and added.node_id not in ids
            nodes.remove_node(added)
        finally:
            ray.shutdown()
    nodes.shutdown()


def test_a_driver_that_connects_cannot_set_the_clusters_configuration():
    """Its head node was started with it. Nothing has been started after the error."""
    nodes = cluster_utils.Cluster(initialize_head=True)
    with pytest.raises(ValueError, match="_system_config"):
        ray.init(address=nodes.address, _system_config={"object_timeout_milliseconds": 200})
    assert not ray.is_initialized()
    nodes.shutdown()
