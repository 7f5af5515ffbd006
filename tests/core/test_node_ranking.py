"""The ranking of the nodes finds what a look at every node would find."""

from __future__ import annotations

import random

import pytest

from miniray.core.node_ranking import HALF_USED, NO_ROOM, NOTED, FreedNodes, NodeRanking, rank
from miniray.core.records import NodeRecord

NEED = {"CPU": 2}


def a_node(number: int, cpus: int, used: int = 0) -> NodeRecord:
    """A node of which some CPUs are used."""
    node = NodeRecord(number, {"CPU": cpus}, {"even": str(number % 2 == 0)}, number == 1, None, 0.0)
    node.available["CPU"] -= used
    return node


@pytest.mark.parametrize(
    ("cpus", "used", "expected"),
    [(10, 0, 0.0), (10, 3, 0.0), (10, 4, 0.6), (10, 8, 1.0), (10, 9, NO_ROOM), (4, 0, 0.0), (2, 0, 1.0)],
)
def test_the_rank_of_a_node(cpus, used, expected):
    """With the task on top: 0 up to half used, then the share that is used; no room is the worst."""
    assert rank(a_node(1, cpus, used), NEED) == pytest.approx(expected) and HALF_USED == 0.5


def test_the_scarcest_resource_decides():
    """One of which nothing is asked does not count, nor does one that the node has and the task does not need."""
    node = NodeRecord(1, {"CPU": 10, "GPU": 10}, {}, True, None, 0.0)
    node.available.update(CPU=9, GPU=4)
    assert rank(node, {"CPU": 2, "GPU": 1}) == pytest.approx(0.7) == rank(node, {"GPU": 1})
    assert rank(node, {"CPU": 2}) == rank(node, {"CPU": 2, "GPU": 0}) == rank(node, {}) == 0.0
    assert rank(node, {"disk": 1}) == NO_ROOM


def test_the_best_node_is_that_of_a_look_at_every_node(seed):
    """However resources are taken and given back, nodes come and go, and others look in between: the lowest rank, and of
    equal ones the node that joined first. Rarely looked at, it has missed more than is noted."""
    chance = random.Random(seed)
    alive, freed_nodes, number = [], FreedNodes(), 0
    allowed = (lambda node: node.labels["even"] == "True") if seed % 2 else None
    ranking, pause = NodeRanking(NEED), chance.choice((1, 3, 2 * NOTED))
    for step in range(2_000):
        kind = chance.random()
        if len(alive) < 2 or kind < 0.01 and len(alive) < 9:
            number += 1
            alive.append(a_node(number, chance.choice((2, 3, 8, 16))))
            freed_nodes.note(alive[-1])
        elif kind < 0.015 and len(alive) > 2:
            gone = alive.pop(chance.randrange(len(alive)))
            gone.alive = False
        else:
            node = chance.choice(alive)
            if kind < 0.5 and node.available["CPU"]:
                node.available["CPU"] -= 1
            elif node.available["CPU"] < node.total["CPU"]:
                node.available["CPU"] += 1
                freed_nodes.note(node)
        if step % pause == 0:
            may = [node for node in alive if allowed is None or allowed(node)]
            ranked = [(rank(node, NEED), node.number, node) for node in may if rank(node, NEED) != NO_ROOM]
            assert ranking.best(alive, freed_nodes, allowed) is (min(ranked)[2] if ranked else None)
            assert len(ranking.heap) <= 2 * len(alive) + 2 * NOTED
