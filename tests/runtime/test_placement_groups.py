"""Placement groups over several nodes: where bundles lie, who runs in them, and what becomes of them when a node
goes."""

from __future__ import annotations

import pytest

import miniray as ray
from miniray.util import get_placement_group, placement_group, placement_group_table, remove_placement_group
from miniray.util.placement_group import get_current_placement_group
from miniray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.runtime.several_nodes import Gate, cluster, node_of, until


def nodes_of(group) -> list[str]:
    """The node of each bundle, in order; "" for one that has none."""
    return list(placement_group_table(group)["bundles_to_node_id"].values())


def state_of(group) -> str:
    """PENDING, CREATED, RESCHEDULING or REMOVED."""
    return placement_group_table(group)["state"]


def inside(group, index: int = -1, capture: bool = False) -> PlacementGroupSchedulingStrategy:
    """The strategy of what runs in a group."""
    return PlacementGroupSchedulingStrategy(group, index, placement_group_capture_child_tasks=capture)


@ray.remote
class Where:
    """An actor that knows its node."""

    def node(self) -> str:
        """Its id."""
        return ray.get_runtime_context().get_node_id()


# ---------------------------------------------------------------- where bundles lie


def made(strategy: str, bundles: list, *sizes: int) -> list[int] | None:
    """The places (0 for the head) at which the bundles of a group lie in a cluster of nodes of these sizes; None when
    it does not fit."""
    with cluster(head_cpus=sizes[0]) as nodes:
        for size in sizes[1:]:
            nodes.add_node(num_cpus=size)
        group = placement_group(bundles, strategy=strategy)
        if state_of(group) != "CREATED":
            return None
        order = [node.node_id for node in nodes.list_all_nodes()]
        return [order.index(node) for node in nodes_of(group)]


ONE, TWO = {"CPU": 1}, {"CPU": 2}


@pytest.mark.parametrize(
    ("strategy", "bundles", "sizes", "places"),
    [
        ("PACK", [ONE] * 3, (4, 4), [0, 0, 0]),
        ("PACK", [ONE] * 4, (1, 4), [1, 1, 1, 1]),  # the emptiest node first, so that one is enough
        ("PACK", [TWO] * 3, (4, 2), [0, 0, 1]),  # more nodes when one is not enough
        ("PACK", [TWO] * 4, (4, 2), None),
        ("STRICT_PACK", [ONE] * 3, (2, 4), [1, 1, 1]),
        ("STRICT_PACK", [TWO] * 2, (2, 2), None),
        ("SPREAD", [ONE] * 3, (4, 4, 4), [0, 1, 2]),
        ("SPREAD", [ONE] * 3, (4, 4), [0, 1, 0]),  # some share a node when they have to
        ("STRICT_SPREAD", [ONE] * 3, (1, 1, 1), [0, 1, 2]),
        ("STRICT_SPREAD", [ONE] * 3, (4, 4), None),
        ("STRICT_SPREAD", [ONE, TWO], (2, 1), [1, 0]),  # the large one has the fewest places to go to
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_the_strategy_says_where_bundles_lie(strategy, bundles, sizes, places):
    """All of them are reserved, or none is."""
    assert made(strategy, bundles, *sizes) == places


def test_a_bundle_can_ask_for_labels():
    """It lies on a node that has them, or waits."""
    with cluster() as nodes:
        group = placement_group([ONE], bundle_label_selector=[{"zone": "a"}])
        assert state_of(group) == "PENDING"
        node = nodes.add_node(num_cpus=1, labels={"zone": "a"})
        assert group.wait(5) and nodes_of(group) == [node.node_id]


def test_what_is_reserved_is_taken_from_the_node():
    """Others cannot have it, also while nobody runs in the group; it comes back with the group's end."""
    with cluster(head_cpus=3):
        group = placement_group([ONE, ONE])
        assert ray.available_resources()["CPU"] == 1
        remove_placement_group(group)
        assert ray.available_resources()["CPU"] == 3 and state_of(group) == "REMOVED"


# ---------------------------------------------------------------- waiting for a group


def test_a_group_waits_for_its_resources_and_tells_when_it_has_them():
    """ready() is a reference, wait() a question with an end."""
    with cluster(head_cpus=1) as nodes:
        group = placement_group([ONE, TWO])
        ready = group.ready()
        assert not group.wait(0) and ray.wait([ready], timeout=0)[0] == []
        nodes.add_node(num_cpus=2)
        assert ray.get(ready) == group and group.wait(0) and len(set(nodes_of(group))) == 2


def test_groups_wait_in_line_behind_each_other():
    """What one gives back the next may have, the oldest first."""
    with cluster(head_cpus=2):
        groups = [placement_group([TWO]) for _ in range(3)]
        assert [state_of(group) for group in groups] == ["CREATED", "PENDING", "PENDING"]
        remove_placement_group(groups[0])
        assert [state_of(group) for group in groups] == ["REMOVED", "CREATED", "PENDING"]


def test_a_group_that_is_removed_before_it_was_placed_says_so():
    """To who waits for it, and to what was to run in it."""
    with cluster(head_cpus=1):
        group = placement_group([TWO])
        ready = group.ready()
        remove_placement_group(group)
        with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
            ray.get(ready)


# ---------------------------------------------------------------- who runs in it


def test_work_goes_to_its_bundle():
    """By index, or to any that has room; actors too."""
    with cluster(head_cpus=1) as nodes:
        nodes.add_node(num_cpus=1)
        group = placement_group([ONE, ONE], strategy="STRICT_SPREAD")
        places = nodes_of(group)
        for index in (0, 1):
            assert ray.get(node_of.options(scheduling_strategy=inside(group, index)).remote()) == places[index]
        actors = [Where.options(num_cpus=1, scheduling_strategy=inside(group)).remote() for _ in range(2)]
        assert sorted(ray.get([actor.node.remote() for actor in actors])) == sorted(places)


def test_a_bundle_gives_no_more_than_it_has():
    """The second task waits for the first, although the node has CPUs to spare."""
    with cluster(head_cpus=4):
        group = placement_group([ONE])
        holder = Where.options(num_cpus=1, scheduling_strategy=inside(group)).remote()
        ray.get(holder.node.remote())
        waits = node_of.options(scheduling_strategy=inside(group)).remote()
        assert ray.wait([waits], timeout=0)[0] == []
        del holder
        assert ray.get(waits)


def test_children_stay_in_the_group_when_they_are_captured():
    """placement_group_capture_child_tasks: what a task in the group submits runs there too; without it, outside."""
    with cluster(head_cpus=2):

        @ray.remote(num_cpus=0.5)
        def current() -> str | None:
            group = get_current_placement_group()
            return None if group is None else group.id.hex()

        @ray.remote(num_cpus=0.5)
        def parent() -> str | None:
            return ray.get(current.remote())

        group = placement_group([ONE])
        assert ray.get(parent.options(scheduling_strategy=inside(group, capture=True)).remote()) == group.id.hex()
        assert ray.get(parent.options(scheduling_strategy=inside(group)).remote()) is None


def test_what_runs_in_a_removed_group_ends():
    """Tasks and actors; what asks for the group afterwards is refused or never runs."""
    with cluster(head_cpus=2):
        group = placement_group([ONE, ONE])
        gate = Gate.remote()

        @ray.remote(max_retries=0)
        def hold(gate):
            ray.get(gate.wait.remote())

        task = hold.options(scheduling_strategy=inside(group)).remote(gate)
        actor = Where.options(num_cpus=1, scheduling_strategy=inside(group)).remote()
        ray.get(actor.node.remote())
        remove_placement_group(group)
        with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
            ray.get(task)
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(actor.node.remote())


# ---------------------------------------------------------------- names and ends


def test_a_group_is_found_by_its_name():
    """Until it is removed."""
    with cluster():
        group = placement_group([ONE], name="mine", lifetime="detached")
        assert get_placement_group("mine") == group and get_placement_group("mine").bundle_specs == [ONE]
        remove_placement_group(group)
        with pytest.raises(ValueError):
            get_placement_group("mine")


def test_a_group_outlives_the_worker_that_made_it():
    """As in Ray: it goes with the job, or when it is removed."""
    with cluster():

        @ray.remote(num_cpus=0)
        class Maker:
            def make(self):
                return placement_group([ONE])

        maker = Maker.remote()
        group = ray.get(maker.make.remote())
        ray.kill(maker)
        assert state_of(group) == "CREATED"
        assert ray.get(node_of.options(scheduling_strategy=inside(group)).remote())


def test_the_table_knows_every_group():
    """By hex id, with strategy, bundles and state; removed ones too."""
    with cluster():
        first, second = placement_group([ONE], strategy="SPREAD", name="a"), placement_group([ONE])
        remove_placement_group(second)
        table = placement_group_table()
        assert (table[first.id.hex()]["name"], table[first.id.hex()]["strategy"], table[first.id.hex()]["bundles"]) == (
            "a",
            "SPREAD",
            {0: ONE},
        )
        assert table[second.id.hex()]["state"] == "REMOVED"


# ---------------------------------------------------------------- a node goes


def test_lost_bundles_are_reserved_anew_and_the_others_stay():
    """What runs in those that are left goes on, new work too; what was in the lost ones waits for their new place."""
    with cluster(head_cpus=1) as nodes:
        node = nodes.add_node(num_cpus=1)
        group = placement_group([ONE, ONE], strategy="STRICT_SPREAD")
        head, lost = nodes_of(group)
        stays = Where.options(num_cpus=0, scheduling_strategy=inside(group, 0)).remote()
        moves = Where.options(
            num_cpus=1, max_restarts=1, max_task_retries=1, scheduling_strategy=inside(group, 1)
        ).remote()
        assert ray.get([stays.node.remote(), moves.node.remote()]) == [head, lost]
        nodes.remove_node(node)
        assert state_of(group) == "RESCHEDULING" and nodes_of(group) == [head, ""]
        assert placement_group_table(group)["stats"]["scheduling_state"] == "INFEASIBLE"  # it said FINISHED
        assert ray.get(node_of.options(scheduling_strategy=inside(group, 0)).remote()) == head
        waits = moves.node.remote()
        assert ray.wait([waits], timeout=0)[0] == []
        other = nodes.add_node(num_cpus=1)
        assert ray.get([stays.node.remote(), waits]) == [head, other.node_id] and state_of(group) == "CREATED"


def test_a_group_that_loses_nodes_twice_comes_back_whole():
    """The second loss while it is being rescheduled counts as well; no resource is given out twice, or lost."""
    with cluster(head_cpus=1) as nodes:
        first, second = nodes.add_node(num_cpus=2), nodes.add_node(num_cpus=2)
        group = placement_group([TWO, TWO], strategy="STRICT_SPREAD")
        nodes.remove_node(first)
        nodes.remove_node(second)
        assert nodes_of(group) == ["", ""]
        new = [nodes.add_node(num_cpus=2).node_id for _ in range(2)]
        assert group.wait(5) and sorted(nodes_of(group)) == sorted(new)
        assert ray.available_resources()["CPU"] == 1
        remove_placement_group(group)
        assert ray.available_resources()["CPU"] == 5


def test_a_task_in_a_lost_bundle_is_retried_in_its_new_place():
    """On the node where the bundle lies then."""
    with cluster(head_cpus=0) as nodes:
        node = nodes.add_node(num_cpus=1)
        group = placement_group([ONE])
        gate = Gate.remote()

        @ray.remote
        def job(gate):
            ray.get(gate.wait.remote())
            return ray.get_runtime_context().get_node_id()

        ref = job.options(scheduling_strategy=inside(group)).remote(gate)
        assert until(lambda: ref._record.task.t_started > 0)
        nodes.remove_node(node)
        other = nodes.add_node(num_cpus=1)
        ray.get(gate.open.remote())
        assert ray.get(ref) == other.node_id and ref._record.task.attempt == 1
