"""A node is lost with the values stored on it. A task's result is rebuilt, because its lineage is known.

The value is computed on a node, which then dies. `get` finds no copy, runs the task again on another node, and returns
as if nothing had happened. A value from `put` has no task that could rebuild it, and the result of a task with
`max_retries=0` is not rebuilt either; `get` then raises ObjectLostError.

Prints:

    computed on the node: 1 run
    the node is lost, but the value is not: 2000000 bytes
    the task ran again: 2 runs
    a result without retries is lost: ObjectLostError
"""

import miniray as ray
from miniray.cluster_utils import Cluster


@ray.remote(num_cpus=0)
class Runs:
    def __init__(self):
        self.n = 0

    def add(self):
        self.n += 1

    def count(self):
        return self.n


@ray.remote(num_cpus=0, resources={"disk": 1})
def big(runs):
    ray.get(runs.add.remote())
    return b"x" * 2_000_000


cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
ray.init(address=cluster.address)
runs, uncounted = Runs.remote(), Runs.remote()
ray.get([runs.count.remote(), uncounted.count.remote()])  # they now live on the head, so far the only node

node = cluster.add_node(num_cpus=1, resources={"disk": 1})
value = big.remote(runs)
fragile = big.options(max_retries=0).remote(uncounted)
ray.wait([value, fragile], num_returns=2, fetch_local=False)  # wait, but leave the values where they are
print("computed on the node:", ray.get(runs.count.remote()), "run")

cluster.remove_node(node)
cluster.add_node(num_cpus=1, resources={"disk": 1})

print("the node is lost, but the value is not:", len(ray.get(value)), "bytes")
print("the task ran again:", ray.get(runs.count.remote()), "runs")
try:
    ray.get(fragile)
except ray.exceptions.ObjectLostError:
    print("a result without retries is lost: ObjectLostError")

ray.shutdown()
cluster.shutdown()
