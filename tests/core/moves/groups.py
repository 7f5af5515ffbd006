"""How a placement group moves: one scenario for each event in PLACEMENT_GROUP_MOVES."""

from __future__ import annotations

from miniray.core.records import units
from miniray.core.transitions import PlacementGroupStatus
from tests.core.builders import a_group, group_of, node, one_node, result_of, several_nodes
from tests.core.moves.scenarios import CPU, Stage, busy_node, group_that_lost_its_node, plays

WANTED, CREATED = PlacementGroupStatus.PENDING, PlacementGroupStatus.CREATED
RESCHEDULING, REMOVED = PlacementGroupStatus.RESCHEDULING, PlacementGroupStatus.REMOVED


@plays(WANTED, CREATED, "create_placement_group")
def a_group_fits_at_once() -> Stage:
    c = one_node()
    group = group_of(CPU)
    return c, group, group


@plays(WANTED, CREATED, "add_node")
def a_node_joins_that_has_room_for_a_group() -> Stage:
    c = one_node(cpus=1)
    return c, a_group(c, {"CPU": 2}), 2, units({"CPU": 2})


@plays(WANTED, CREATED, "task_finished")
def a_task_returns_and_makes_room_for_a_group() -> Stage:
    c, task, _ = busy_node()
    return c, a_group(c, CPU), *result_of(task)


@plays(WANTED, REMOVED, "remove_placement_group")
def a_group_is_removed_before_it_is_placed() -> Stage:
    c, _, _ = busy_node()
    group = a_group(c, CPU)
    return c, group, group


@plays(CREATED, RESCHEDULING, "remove_node")
def a_node_dies_with_a_bundle_for_which_there_is_no_other_room() -> Stage:
    c = one_node()
    return c, a_group(c, CPU), node(c)


@plays(CREATED, REMOVED, "remove_placement_group")
def a_group_is_removed() -> Stage:
    c = one_node()
    group = a_group(c, CPU)
    return c, group, group


@plays(RESCHEDULING, CREATED, "remove_node", on_the_way=True)
def a_node_dies_with_a_bundle_and_another_node_has_room() -> Stage:
    c = several_nodes(1, 1)
    group = a_group(c, CPU)
    return c, group, group.bundles[0].node


@plays(RESCHEDULING, CREATED, "add_node")
def a_node_joins_for_the_bundle_of_a_dead_one() -> Stage:
    c, group = group_that_lost_its_node()
    return c, group, 3, units(CPU)


@plays(RESCHEDULING, CREATED, "task_finished")
def a_task_returns_and_makes_room_for_the_bundle_of_a_dead_node() -> Stage:
    c, group = group_that_lost_its_node()
    (task,) = c.tasks.values()
    return c, group, *result_of(task)


@plays(RESCHEDULING, REMOVED, "remove_placement_group")
def a_group_is_removed_before_it_is_placed_again() -> Stage:
    c, group = group_that_lost_its_node()
    return c, group, group
