"""The node that Ray's hybrid policy would choose, found without looking at all nodes for every task.

The policy: of the nodes that have room, the first that is at most half used; when there is none, the least used. Between two
placements little changes, so the nodes stand in a heap for each kind of demand. A rank that has grown is noticed when its node
comes to the top; where something was given back the node is entered anew. Ray: hybrid_scheduling_policy.h.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush, heapreplace
from typing import Callable

from .records import NodeRecord

Allowed = Callable[[NodeRecord], bool]

HALF_USED = 0.5  # Ray: scheduler_spread_threshold
NO_ROOM = 2.0
NOTED = 256


class GivenBack:
    """The last nodes where room came, and how often that was in all."""

    __slots__ = ("nodes", "count")

    def __init__(self) -> None:
        self.nodes: deque[NodeRecord] = deque(maxlen=NOTED)
        self.count = 0

    def note(self, node: NodeRecord) -> None:
        """Something was given back on the node, or it has joined."""
        self.nodes.append(node)
        self.count += 1

    def not_noted(self) -> None:
        """What was given back for a while was not noted: all nodes are to be ranked anew."""
        self.count += NOTED + 1


def rank(node: NodeRecord, need: dict[str, int]) -> float:
    """The lower, the better: 0 for a node that is at most half used with `need` on top, else how much it is used, which is the
    share of the scarcest resource that is needed; NO_ROOM when that is not free."""
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
    """The nodes for one demand. heap: (rank, number, node), of which some ranks are too low and some nodes have no room left;
    number is the order in which they joined. seen: the count of `given_back` up to which the heap knows."""

    __slots__ = ("need", "heap", "seen")

    def __init__(self, need: dict[str, int]) -> None:
        self.need = need
        self.heap: list[tuple[float, int, NodeRecord]] = []
        self.seen = -1

    def best(self, alive: list[NodeRecord], given_back: GivenBack, allowed: Allowed | None) -> NodeRecord | None:
        """The node to choose, or None when none has room. allowed: whether a node may be chosen at all, now and for ever; None
        when every one may."""
        heap, need = self.heap, self.need
        if self.seen != given_back.count:
            self._catch_up(alive, given_back, allowed)
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

    def _catch_up(self, alive: list[NodeRecord], given_back: GivenBack, allowed: Allowed | None) -> None:
        missed = given_back.count - self.seen
        self.seen = given_back.count
        heap, need = self.heap, self.need
        if missed > min(len(alive), NOTED) or len(heap) > 2 * len(alive) + NOTED:
            heap[:] = [(rank(node, need), node.number, node) for node in alive if allowed is None or allowed(node)]
            heapify(heap)
            return
        for index in range(-missed, 0):
            node = given_back.nodes[index]
            if allowed is None or allowed(node):
                heappush(
                    heap, (0.0, node.number, node)
                )  # as low as can be: what it is, is seen when it comes to the top
