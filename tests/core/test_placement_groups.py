"""Resources reserved together: where the bundles go, what runs in them, and what happens when a node dies."""

from __future__ import annotations

import pytest

from miniray.core.actions import KillWorker, Wake
from miniray.core.actor_manager import NameTaken
from miniray.core.records import FAILED, READY, PlacementGroupRecord, Waiter, units
from miniray.core.transitions import ActorStatus, PlacementGroupStatus
from tests.core.builders import (
    NOW,
    a_group,
    add_node,
    an_actor,
    crash,
    drop,
    finish,
    free,
    in_group,
    living_actor,
    node,
    one_node,
    running_task,
    started,
    several_nodes,
    submitted,
)

PENDING, CREATED, RESCHEDULING, REMOVED = (
    PlacementGroupStatus.PENDING,
    PlacementGroupStatus.CREATED,
    PlacementGroupStatus.RESCHEDULING,
    PlacementGroupStatus.REMOVED,
)
CPU = {"CPU": 1}


def nodes_of(group) -> list[int | None]:
    """The number of each bundle's node; None for a bundle that is not reserved."""
    return [bundle.node.number if bundle.node is not None else None for bundle in group.bundles]


# ---------------------------------------------------------------- the four strategies


def test_pack_puts_bundles_together_as_far_as_they_fit():
    """The bundle that does not fit goes to the other node."""
    c = several_nodes(2, 2)
    assert sorted(nodes_of(a_group(c, CPU, CPU, CPU, strategy="PACK"))) in ([1, 1, 2], [1, 2, 2])


def test_spread_puts_bundles_apart_as_far_as_there_are_nodes():
    """The third bundle shares a node."""
    c = several_nodes(2, 2)
    assert sorted(nodes_of(a_group(c, CPU, CPU, CPU, strategy="SPREAD"))) in ([1, 1, 2], [1, 2, 2])
    assert a_group(c, CPU, strategy="SPREAD").status is CREATED


def test_spread_takes_an_unused_node_rather_than_the_one_with_most_room():
    """Both bundles would fit on the first node, which would still have more room than the other."""
    c = several_nodes(8, 2)
    assert sorted(nodes_of(a_group(c, CPU, CPU, strategy="SPREAD"))) == [1, 2]


def test_strict_pack_needs_one_node():
    """Room for the bundles on two nodes together is not enough."""
    c = several_nodes(2, 2)
    group = a_group(c, CPU, CPU, CPU, strategy="STRICT_PACK")
    assert group.status is PENDING and free(c, 1) == free(c, 2) == 2
    add_node(c, cpus=3)
    assert nodes_of(group) == [3, 3, 3]


def test_strict_spread_needs_as_many_nodes_as_bundles():
    """Room for two bundles on one node does not help."""
    c = several_nodes(4)
    group = a_group(c, CPU, CPU, strategy="STRICT_SPREAD")
    assert group.status is PENDING
    add_node(c, cpus=1)
    assert sorted(nodes_of(group)) == [1, 2]


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
def test_all_bundles_are_reserved_or_none(strategy):
    """A group that waits holds nothing: others may use what is free."""
    c = several_nodes(2, 2)
    group = a_group(c, {"CPU": 2}, {"CPU": 2}, {"CPU": 2}, strategy=strategy)
    assert group.status is PENDING and nodes_of(group) == [None] * 3 and free(c, 1) == free(c, 2) == 2


# ---------------------------------------------------------------- waiting


def test_a_waiting_group_is_placed_when_resources_are_returned():
    """The waiter for its ready object is woken."""
    c = one_node(cpus=2)
    task, _ = running_task(c)
    group = a_group(c, CPU, CPU)
    waiter = Waiter(1, "driver")
    c.wait_for(NOW, waiter, (group.ready,))
    assert Wake(waiter) in finish(c, task) and group.status is CREATED and group.ready.status is READY


def test_the_group_that_has_waited_longest_is_placed_first():
    """A smaller group behind a larger one gets what is left."""
    c = one_node(cpus=3)
    task, _ = running_task(c, cpus=3)
    old, large, small = a_group(c, CPU), a_group(c, {"CPU": 3}), a_group(c, CPU)
    finish(c, task)
    assert (old.status, large.status, small.status) == (CREATED, PENDING, CREATED)


def test_a_group_takes_the_cpu_that_a_waiting_task_lends():
    """Lending a CPU gives waiting groups a turn. The group used to wait for the next event."""
    c = one_node(cpus=1)
    _, worker = running_task(c)
    group = a_group(c, CPU)
    c.blocked(NOW, worker)
    assert group.status is CREATED


# ---------------------------------------------------------------- what runs in a group


def test_tasks_run_in_their_bundle():
    """They take resources from the bundle and not from the node; the index chooses the bundle."""
    c = one_node(cpus=4)
    group = a_group(c, CPU, {"CPU": 2})
    assert free(c) == 1
    task, worker = running_task(c, cpus=2, strategy=in_group(group, 1))
    assert worker.bundle is group.bundles[1] and group.bundles[1].available["CPU"] == 0 and free(c) == 1
    finish(c, task)
    assert group.bundles[1].available == group.bundles[1].total


def test_a_task_without_an_index_takes_any_bundle_that_fits():
    """It waits if none fits, whatever the node has free."""
    c = one_node(cpus=4)
    group = a_group(c, CPU, CPU)
    tasks = [submitted(c, strategy=in_group(group)) for _ in range(3)]
    assert [task.worker is not None for task in tasks] == [True, True, False]


def test_a_task_waits_for_its_group():
    """It was submitted before the group was placed, and runs in one of its bundles afterwards."""
    c = one_node(cpus=1)
    group = a_group(c, CPU, CPU)
    task = submitted(c, strategy=in_group(group))
    assert task.worker is None
    add_node(c, cpus=2)
    assert task.worker.bundle in group.bundles and task.node is task.worker.bundle.node


def test_shares_of_different_gpus_do_not_add_up_in_a_bundle_either():
    """What is left of two different GPUs does not make the share of one that the task needs."""
    c = one_node(cpus=8, GPU=2)
    kept = [running_task(c, GPU=0.6)[0] for _ in range(2)]
    group = a_group(c, {"CPU": 1, "GPU": 0.8})
    task = submitted(c, GPU=0.8, strategy=in_group(group))
    assert group.status is CREATED and task.worker is None
    finish(c, kept[0])
    assert task.worker.devices == {"GPU": (0,)}


def test_a_task_in_a_bundle_lends_the_cpu_of_the_bundle_and_takes_it_back():
    """The node has a CPU of its own that is free all the time: it stays free."""
    c = one_node(cpus=2)
    group = a_group(c, CPU)
    parent, worker = running_task(c, strategy=in_group(group))
    child = submitted(c, strategy=in_group(group), owner=worker)
    waiter = Waiter(1, worker)
    c.wait_for(NOW, waiter, child.returns, worker)
    started(c, child)
    assert group.bundles[0].available["CPU"] == 0 and worker.lent
    finish(c, child)
    c.stop_waiting(NOW, waiter, child.returns, worker)
    assert not worker.lent and group.bundles[0].available["CPU"] == 0 and free(c) == 1
    finish(c, parent)


# ---------------------------------------------------------------- removal


def test_removing_a_group_ends_what_runs_in_it():
    """Its resources are free again, and the errors of its task and its actor give the reason."""
    c = one_node(cpus=2)
    group = a_group(c, CPU, CPU)
    task, worker = running_task(c, strategy=in_group(group))
    actor = living_actor(c, holds_cpus=1, strategy=in_group(group))
    actors_worker = actor.worker
    assert c.remove_placement_group(NOW, group) == [KillWorker(worker), KillWorker(actors_worker)]
    assert task.failure.error_type == "TASK_PLACEMENT_GROUP_REMOVED" and actor.status is ActorStatus.DEAD
    assert actor.failure.error_type == "ACTOR_PLACEMENT_GROUP_REMOVED" and free(c) == 2
    assert worker.exit_detail == "its placement group was removed"


def test_the_resources_of_a_removed_group_are_used_again():
    """The group and then the task that waited get them."""
    c = one_node(cpus=1)
    group = a_group(c, CPU)
    task, other = submitted(c), a_group(c, CPU)
    c.remove_placement_group(NOW, group)
    assert other.status is CREATED and task.worker is None
    c.remove_placement_group(NOW, other)
    assert task.worker is not None


def test_a_waiting_group_can_be_removed():
    """Its ready object holds an error, and a node with room changes nothing."""
    c = one_node(cpus=1)
    group = a_group(c, {"CPU": 2})
    c.remove_placement_group(NOW, group)
    assert group.status is REMOVED and group.ready.status is FAILED
    assert group.ready.value.error_type == "TASK_PLACEMENT_GROUP_REMOVED"
    add_node(c, cpus=2)
    assert group.status is REMOVED


def test_a_name_is_taken_by_one_group_only():
    """Two threads may ask for the same name at once: the second is refused, and nothing has changed."""
    c = several_nodes(2)
    first, second = (PlacementGroupRecord([units(CPU)], "PACK", "mine") for _ in range(2))
    c.create_placement_group(NOW, first)
    with pytest.raises(NameTaken):
        c.create_placement_group(NOW, second)
    assert list(c.placement_groups.values()) == [first] and free(c) == 1
    c.remove_placement_group(NOW, first)
    c.create_placement_group(NOW, second)


def test_removing_twice_changes_nothing():
    """The first call has returned the resources."""
    c = one_node(cpus=1)
    group = a_group(c, CPU)
    c.remove_placement_group(NOW, group)
    assert c.remove_placement_group(NOW, group) == [] and free(c) == 1


def test_a_group_outlives_the_references_to_its_ready_object():
    """The object is freed; the group stays."""
    c = one_node(cpus=1)
    group = a_group(c, CPU)
    drop(c, group.ready)
    assert not c.objects and group.status is CREATED


def test_a_group_outlives_the_worker_that_asked_for_it():
    """As in Ray, the group ends with its job. Its ready object used to become an error, and then a value."""
    c = one_node(cpus=2)
    _, owner = running_task(c)
    group = a_group(c, CPU, CPU, owner=owner)
    crash(c, owner)
    assert group.status is CREATED and group.ready.status is READY


# ---------------------------------------------------------------- nodes die


def test_the_bundles_of_a_dead_node_are_reserved_again():
    """The other bundles stay where they are, with what runs in them."""
    c = several_nodes(1, 1)
    group = a_group(c, CPU, CPU, strategy="STRICT_SPREAD")
    (_, stays), (dies, _) = (
        running_task(c, strategy=in_group(group, group.bundles.index(bundle)), retries=1)
        for bundle in sorted(group.bundles, key=lambda b: b.node.number)
    )
    c.remove_node(NOW, node(c, 2))
    assert group.status is RESCHEDULING and stays.task is not None and dies.worker is None
    add_node(c, cpus=1)
    assert group.status is CREATED and sorted(nodes_of(group)) == [1, 3] and dies.node is node(c, 3)


def test_a_second_node_may_die_before_the_first_bundle_is_placed():
    """The bundle of the second node used to be left on the dead node."""
    c = several_nodes(1, 1, 1)
    group = a_group(c, CPU, CPU, CPU, strategy="STRICT_SPREAD")
    c.remove_node(NOW, node(c, 1))
    c.remove_node(NOW, node(c, 2))
    assert group.status is RESCHEDULING and sorted(nodes_of(group), key=str) == [3, None, None]
    add_node(c, cpus=1)
    add_node(c, cpus=1)
    assert group.status is CREATED and sorted(nodes_of(group)) == [3, 4, 5]


def test_nothing_is_placed_in_a_bundle_while_its_node_dies():
    """The workers of a node die one after the other, within one event.

    The death of the first freed a place in the bundle on the dead node, and the next task used to be placed there.
    """
    c = several_nodes(2, 1)
    group = a_group(c, CPU, CPU, strategy="STRICT_PACK")
    tasks = [submitted(c, strategy=in_group(group), retries=1) for _ in range(4)]
    assert nodes_of(group) == [1, 1]
    c.remove_node(NOW, node(c, 1))
    assert all(task.worker is None for task in tasks) and group.status is RESCHEDULING


def test_an_actor_in_a_lost_bundle_restarts_in_the_new_one():
    """It waits for the group, and restarts in the new bundle."""
    c = several_nodes(1, 1)
    group = a_group(c, CPU)
    actor = living_actor(c, holds_cpus=1, strategy=in_group(group), max_restarts=1)
    c.remove_node(NOW, actor.node)
    assert actor.status is ActorStatus.RESTARTING and actor.node is group.bundles[0].node and actor.node.alive


def test_an_actor_waits_for_a_place_in_its_group():
    """There would be room outside the group."""
    c = one_node(cpus=3)
    group = a_group(c, CPU)
    running_task(c, strategy=in_group(group))
    assert an_actor(c, holds_cpus=1, strategy=in_group(group)).worker is None
