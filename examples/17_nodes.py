"""Several nodes: the scheduler chooses where a task runs, and a task can say where it wants to run.

The nodes of `cluster_utils.Cluster` are as separate as those of a real cluster with respect to resources and objects,
so you can try out placement on one machine. A task can be tied to a node by a resource that only this node has, or by
affinity to its id; or tasks can be spread over all nodes.

Prints:

    nodes: ['head', 'one', 'two']
    needs the disk of node one: one
    asks for node two by its id: two
    SPREAD used more than one node: True
"""

import miniray as ray
from miniray.cluster_utils import Cluster
from miniray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

NAMES = ("head", "one", "two")


@ray.remote(num_cpus=1)
def where():
    return ray.get_runtime_context().get_node_id()


def name_of(node_id):
    """The name of a node: each node has a resource with the node's name."""
    node = next(node for node in ray.nodes() if node["NodeID"] == node_id)
    return next(name for name in NAMES if name in node["Resources"])


cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "resources": {"head": 1}})
ray.init(address=cluster.address)
cluster.add_node(num_cpus=2, resources={"one": 1, "disk": 1})
cluster.add_node(num_cpus=2, resources={"two": 1})
cluster.wait_for_nodes()

ids = {name_of(node["NodeID"]): node["NodeID"] for node in ray.nodes()}
print("nodes:", sorted(ids))

print("needs the disk of node one:", name_of(ray.get(where.options(resources={"disk": 0.5}).remote())))

on_two = NodeAffinitySchedulingStrategy(node_id=ids["two"], soft=False)
print("asks for node two by its id:", name_of(ray.get(where.options(scheduling_strategy=on_two).remote())))

spread = ray.get([where.options(scheduling_strategy="SPREAD").remote() for _ in range(6)])
print("SPREAD used more than one node:", len(set(spread)) > 1)

ray.shutdown()
cluster.shutdown()
