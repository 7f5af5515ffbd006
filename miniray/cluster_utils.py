"""Cluster: several nodes in one process, for tests of placement and node failure. Ray: ray.cluster_utils."""

from __future__ import annotations

import os
from typing import Any

from .core.records import node_name
from .ids import node_hex
from .process import context
from .session import add_node, clusters, init, node_resources, shutdown

cluster_not_supported = os.name == "nt"  # Ray's word for Windows; tests skip themselves by it
_num_clusters = 0  # made so far in this process; each gets an address of its own


cluster_not_supported = False  # Ray: whether the operating system cannot run several nodes


class ClusterNode:
    """A node of a Cluster. `add_node` returns it, and `remove_node` takes it."""

    def __init__(self, arguments: dict[str, Any], is_head: bool, number: int):
        """number: of the node, in every session of the cluster."""
        self.arguments, self.head, self.number = arguments, is_head, number
        self.record: Any = None  # the core's NodeRecord, from the moment a driver connects

    @property
    def node_id(self) -> str:
        """The node's id, 56 hex digits."""
        return node_hex(self.number)

    unique_id = node_id

    @property
    def node_ip_address(self) -> str:
        """The node's address."""
        return node_name(self.number)

    def __repr__(self) -> str:
        return f"ClusterNode({self.node_id})"


class Cluster:
    """A cluster whose nodes a test adds and removes.

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        node = cluster.add_node(num_cpus=4, resources={"disk": 1})
        ray.init(address=cluster.address)
        cluster.remove_node(node)

    The nodes join the session when `init(address=cluster.address)` connects the driver; nothing runs on them before.

    initialize_head: create the head node at once. connect: connect the driver at once. head_node_args: as for
    `add_node`. Raises RuntimeError for `connect` without `initialize_head`.
    """

    def __init__(
        self,
        initialize_head: bool = False,
        connect: bool = False,
        head_node_args: dict[str, Any] | None = None,
        shutdown_at_exit: bool = True,
    ):
        global _num_clusters
        _num_clusters += 1
        self.address = f"127.0.0.1:{6379 + _num_clusters}"
        self.gcs_address = self.address
        self.worker_nodes: list[ClusterNode] = []
        self.head_node: ClusterNode | None = None
        self.connected = False
        self._runtime: Any = None
        self._last_number = 0  # of the node that was added last
        clusters[self.address] = self
        if not initialize_head and connect:
            raise RuntimeError("Cannot connect to uninitialized cluster.")
        if initialize_head:
            self.add_node(**(head_node_args or {}))
            if connect:
                self.connect()

    def connect(self, namespace: str | None = None) -> None:
        """Connect the driver: `init(address=self.address)`. Raises AssertionError if it is connected already."""
        assert not self.connected, "the cluster is connected already"
        init(address=self.address, namespace=namespace)

    def attach(self, runtime: Any) -> None:
        """Let every node join a session. Called by `init`. Raises RuntimeError if there is no head node."""
        if self.head_node is None:
            raise RuntimeError("a Cluster needs a head node: call add_node, or make it with initialize_head=True")
        self._runtime, self.connected = runtime, True
        for node in self.list_all_nodes():
            self._join(node)

    def _join(self, node: ClusterNode) -> None:
        given = node.arguments
        self._runtime.last_node = node.number - 1  # so that the node gets its own number
        resources, store = node_resources(
            given.get("num_cpus", 1),
            given.get("num_gpus"),
            given.get("resources"),
            given.get("memory"),
            given.get("object_store_memory"),
        )
        node.record = add_node(self._runtime, resources, store, given.get("labels"), node.head)

    def _is_attached(self) -> bool:
        if self._runtime is not None and self._runtime.closed:
            self._runtime, self.connected = None, False
        return self._runtime is not None

    def add_node(self, wait: bool = True, **node_args: Any) -> ClusterNode:
        """Add a node and return it. The first node added is the head.

        node_args: num_cpus (1 by default), num_gpus, resources, labels, memory and object_store_memory (both in bytes).
        wait: accepted as in Ray; the node has joined when this returns.
        """
        attached = self._is_attached()
        self._last_number = (self._runtime.last_node if attached else self._last_number) + 1
        node = ClusterNode(node_args, self.head_node is None, self._last_number)
        if node.head:
            self.head_node = node
        else:
            self.worker_nodes.append(node)
        if attached:
            self._join(node)
        return node

    def remove_node(self, node: ClusterNode, allow_graceful: bool = True) -> None:
        """Remove a node as if its machine had failed: its workers die, and the objects stored on it are lost.

        Raises ValueError for the head node, which ends only with the whole cluster; KeyError for a node that was
        removed before.
        """
        if node is self.head_node:
            raise ValueError("the head node cannot be removed while the cluster lives: call shutdown")
        if node not in self.worker_nodes:
            raise KeyError(f"{node!r} is not, or no longer, in this cluster")
        self.worker_nodes.remove(node)
        if self._is_attached() and node.record is not None:
            self._runtime.remove_node(node.record)

    def kill_node(self, node: ClusterNode) -> None:
        """The same as `remove_node`."""
        self.remove_node(node, allow_graceful=False)

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Return at once: a node has joined when `add_node` returns."""

    def list_all_nodes(self) -> list[ClusterNode]:
        """Return the living nodes, the head first."""
        living = [node for node in self.worker_nodes if node.record is None or node.record.alive]
        return ([self.head_node] if self.head_node is not None else []) + living

    def remaining_processes_alive(self) -> bool:
        """Return True: a node has no process that could die on its own."""
        return True

    def shutdown(self) -> None:
        """Remove every node, and shut down the session of a driver that is still connected."""
        if self._is_attached() and context.session is self._runtime:
            shutdown()
        self.worker_nodes.clear()
        self.head_node = self._runtime = None
        self.connected = False
        clusters.pop(self.address, None)
