"""Placement groups over several nodes: where bundles are placed, what runs in them, and how a node's death affects
them."""

from __future__ import annotations

import pytest

import miniray as ray
from miniray.util import get_placement_group, placement_group, placement_group_table, remove_placement_group
from miniray.util.placement_group import get_current_placement_group
from miniray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.runtime.several_nodes import Gate, cluster, node_of, until


def nodes_of(group) -> list[str]:
    """The node of each bundle, in order; "" for a bundle that is not placed."""
    return list(placement_group_table(group)["bundles_to_node_id"].values())


def state_of(group) -> str:
    """PENDING, CREATED, RESCHEDULING or REMOVED."""
    return placement_group_table(group)["state"]


def inside(group, index: int = -1, capture: bool = False) -> PlacementGroupSchedulingStrategy:
    """The scheduling strategy of work that runs in a group."""
    return PlacementGroupSchedulingStrategy(group, index, placement_group_capture_child_tasks=capture)


@ray.remote
class Where:
    """An actor that knows on which node it is."""

    def node(self) -> str:
        """The id of the actor's node."""
        return ray.get_runtime_context().get_node_id()


# ---------------------------------------------------------------- where bundles are placed


def made(strategy: str, bundles: list, *sizes: int) -> list[int] | None:
    """The node (0 is the head) of each bundle of a group, in a cluster of nodes of these sizes; None if the group does
    not fit."""
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
        ("PACK", [ONE] * 4, (1, 4), [1, 1, 1, 1]),  # the emptiest node first, so that one node is enough
        ("PACK", [TWO] * 3, (4, 2), [0, 0, 1]),  # more nodes if one is not enough
        ("PACK", [TWO] * 4, (4, 2), None),
        ("STRICT_PACK", [ONE] * 3, (2, 4), [1, 1, 1]),
        ("STRICT_PACK", [TWO] * 2, (2, 2), None),
        ("SPREAD", [ONE] * 3, (4, 4, 4), [0, 1, 2]),
        ("SPREAD", [ONE] * 3, (4, 4), [0, 1, 0]),  # bundles share a node if they must
        ("STRICT_SPREAD", [ONE] * 3, (1, 1, 1), [0, 1, 2]),
        ("STRICT_SPREAD", [ONE] * 3, (4, 4), None),
        ("STRICT_SPREAD", [ONE, TWO], (2, 1), [1, 0]),  # the large bundle first: the fewest nodes can hold it
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_the_strategy_decides_where_bundles_are_placed(strategy, bundles, sizes, places):
    """Either all bundles are reserved, or none."""
    assert made(strategy, bundles, *sizes) == places


def test_a_bundle_can_ask_for_labels():
    """The bundle is placed on a node with these labels, or waits for one."""
    with cluster() as nodes:
        group = placement_group([ONE], bundle_label_selector=[{"zone": "a"}])
        assert state_of(group) == "PENDING"
        node = nodes.add_node(num_cpus=1, labels={"zone": "a"})
        assert group.wait(5) and nodes_of(group) == [node.node_id]


def test_reserved_resources_are_taken_from_the_node():
    """Nothing else can use it, even while nothing runs in the group. It is returned when the group is removed."""
    with cluster(head_cpus=3):
        group = placement_group([ONE, ONE])
        assert ray.available_resources()["CPU"] == 1
        remove_placement_group(group)
        assert ray.available_resources()["CPU"] == 3 and state_of(group) == "REMOVED"


# ---------------------------------------------------------------- waiting for a group


def test_a_group_waits_for_its_resources_and_is_then_ready():
    """ready() returns a reference; wait() has a timeout."""
    with cluster(head_cpus=1) as nodes:
        group = placement_group([ONE, TWO])
        ready = group.ready()
        assert not group.wait(0) and ray.wait([ready], timeout=0)[0] == []
        nodes.add_node(num_cpus=2)
        assert ray.get(ready) == group and group.wait(0) and len(set(nodes_of(group))) == 2


def test_groups_wait_in_line_behind_each_other():
    """A removed group's resources go to the next group in line, the oldest first."""
    with cluster(head_cpus=2):
        groups = [placement_group([TWO]) for _ in range(3)]
        assert [state_of(group) for group in groups] == ["CREATED", "PENDING", "PENDING"]
        remove_placement_group(groups[0])
        assert [state_of(group) for group in groups] == ["REMOVED", "CREATED", "PENDING"]


def test_a_group_that_is_removed_before_it_was_placed_says_so():
    """Code that waits for the group gets an error, and so does work that was to run in it."""
    with cluster(head_cpus=1):
        group = placement_group([TWO])
        ready = group.ready()
        remove_placement_group(group)
        with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
            ray.get(ready)


# ---------------------------------------------------------------- what runs in a group


def test_work_goes_to_its_bundle():
    """To the bundle with this index, or to any bundle with room. Actors too."""
    with cluster(head_cpus=1) as nodes:
        nodes.add_node(num_cpus=1)
        group = placement_group([ONE, ONE], strategy="STRICT_SPREAD")
        places = nodes_of(group)
        for index in (0, 1):
            assert ray.get(node_of.options(scheduling_strategy=inside(group, index)).remote()) == places[index]
        actors = [Where.options(num_cpus=1, scheduling_strategy=inside(group)).remote() for _ in range(2)]
        assert sorted(ray.get([actor.node.remote() for actor in actors])) == sorted(places)


def test_a_bundle_gives_no_more_than_it_has():
    """The second task waits for the first, although the node has free CPUs."""
    with cluster(head_cpus=4):
        group = placement_group([ONE])
        holder = Where.options(num_cpus=1, scheduling_strategy=inside(group)).remote()
        ray.get(holder.node.remote())
        waits = node_of.options(scheduling_strategy=inside(group)).remote()
        assert ray.wait([waits], timeout=0)[0] == []
        del holder
        assert ray.get(waits)


def test_children_stay_in_the_group_when_they_are_captured():
    """placement_group_capture_child_tasks: tasks that a task in the group submits run in the group too; otherwise
    outside of it."""
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


def test_work_in_a_removed_group_ends():
    """Both tasks and actors. Work that asks for the group afterwards is refused or never runs."""
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
    """As in Ray: it lives until the job ends, or until it is removed."""
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
    """By hex id, with strategy, bundles and state; removed groups too."""
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


# ---------------------------------------------------------------- a node dies


def test_lost_bundles_are_reserved_again_and_the_others_stay():
    """Work in the remaining bundles goes on, and new work too. Work in the lost bundles waits for their return."""
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
        assert placement_group_table(group)["stats"]["scheduling_state"] == "INFEASIBLE"  # it used to be FINISHED
        assert ray.get(node_of.options(scheduling_strategy=inside(group, 0)).remote()) == head
        waits = moves.node.remote()
        assert ray.wait([waits], timeout=0)[0] == []
        other = nodes.add_node(num_cpus=1)
        assert ray.get([stays.node.remote(), waits]) == [head, other.node_id] and state_of(group) == "CREATED"


def test_a_group_that_loses_nodes_twice_is_placed_completely():
    """A second loss while the group is being rescheduled counts as well. No resource is assigned twice, or lost."""
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
    """On the node where the bundle is placed then."""
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
