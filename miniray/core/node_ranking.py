"""The node that Ray's hybrid policy would choose, found without looking at all nodes for every task.

The policy takes, of the nodes with room, the first that is at most half used, or if there is none, the least used.
Little changes between two placements, so each kind of demand keeps its nodes in a heap, best first. A node that has
become fuller is corrected when it comes to the top. A node that has become emptier is pushed again, with the best rank,
and corrected in the same way. Ray: hybrid_scheduling_policy.h.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush, heapreplace

from .records import NodeRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    Allowed = Callable[[NodeRecord], bool]

HALF_USED = 0.5  # Ray: scheduler_spread_threshold
NO_ROOM = 2.0  # worse than every real rank: those are at most 1.0
NOTED = 256  # a heap that has missed more changes than this is rebuilt


class FreedNodes:
    """The nodes that gained room last, at most NOTED of them (nodes), and how often any node did (count)."""

    __slots__ = ("nodes", "count")

    def __init__(self) -> None:
        self.nodes: deque[NodeRecord] = deque(maxlen=NOTED)
        self.count = 0

    def note(self, node: NodeRecord) -> None:
        """Resources were returned on the node, or it has joined."""
        self.nodes.append(node)
        self.count += 1

    def forget(self) -> None:
        """Resources were returned for a while without a note: every ranking must be made again from all nodes."""
        self.count += NOTED + 1


def rank(node: NodeRecord, need: dict[str, int]) -> float:
    """How good a choice the node is for a demand: the lower, the better.

    The use of a node is that of its scarcest resource among the needed ones, with `need` added. The rank is 0.0 if the
    use is at most one half, otherwise the use (up to 1.0), and NO_ROOM if the demand does not fit.
    """
    highest, total, available = 0.0, node.total, node.available
    for name, amount in need.items():
        left = available.get(name, 0) - amount
        if left < 0:
            return NO_ROOM
        use = 1.0 - left / total[name] if amount else 0.0
        if use > highest:
            highest = use
    return highest if highest > HALF_USED else 0.0


class NodeRanking:
    """The nodes in the order in which one demand prefers them.

    heap: entries (rank, number, node), best first. A rank may be out of date, a node may be full or dead, and a node
    may have several entries. But every node with room has an entry whose rank is not too high. number: the order in
    which the nodes joined. seen: the value of FreedNodes.count up to which the heap is up to date.
    """

    __slots__ = ("need", "heap", "seen")

    def __init__(self, need: dict[str, int]) -> None:
        self.need = need
        self.heap: list[tuple[float, int, NodeRecord]] = []
        self.seen = -1

    def best(self, alive: list[NodeRecord], freed_nodes: FreedNodes, allowed: Allowed | None) -> NodeRecord | None:
        """The best node with room, or None.

        allowed: whether a node may be chosen; the answer for a node must never change. None if every node may be
        chosen.
        """
        heap, need = self.heap, self.need
        if self.seen != freed_nodes.count:
            self._catch_up(alive, freed_nodes, allowed)
        while heap:
            before, number, node = heap[0]
            now = rank(node, need)
            if now == NO_ROOM or not node.alive:
                heappop(heap)
            elif now == before:
                return node
            else:
                heapreplace(heap, (now, number, node))
        return None

    def _catch_up(self, alive: list[NodeRecord], freed_nodes: FreedNodes, allowed: Allowed | None) -> None:
        """Push the nodes that have gained room since the last call, or rebuild the heap if they were too many."""
        missed = freed_nodes.count - self.seen
        self.seen = freed_nodes.count
        heap, need = self.heap, self.need
        if missed > min(len(alive), NOTED) or len(heap) > 2 * len(alive) + NOTED:
            heap[:] = [(rank(node, need), node.number, node) for node in alive if allowed is None or allowed(node)]
            heapify(heap)
            return
        for index in range(-missed, 0):
            node = freed_nodes.nodes[index]
            if allowed is None or allowed(node):
                heappush(heap, (0.0, node.number, node))  # the best possible rank; `best` corrects it at the top
