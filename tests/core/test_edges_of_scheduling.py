"""Placement, stores and waiting at their edges: what fits exactly, what comes first, and what is left when nobody asks."""

from __future__ import annotations

import pytest

from miniray.core.actions import Wake
from miniray.core.records import FAILED, LOST, READY, UNIT, Waiter
from miniray.core.scheduler import IDLE_SPARE, labels_match
from miniray.core.transitions import ActorStatus, PlacementGroupStatus, TaskStatus, WorkerStatus
from tests.core.builders import (
    LARGE,
    NOW,
    a_call,
    a_group,
    a_task,
    a_value,
    add_node,
    an_actor,
    drop,
    finish,
    free,
    living_actor,
    node,
    on_node,
    one_node,
    put,
    raise_in,
    running_task,
    several_nodes,
    started,
    submitted,
)

SPREAD = ("SPREAD",)


# ---------------------------------------------------------------- placement


def test_spread_goes_on_behind_the_node_that_took_the_last_task():
    """A full node is passed over, and is not where the next round begins."""
    c = several_nodes(3, 3, 3, 3)
    for on in (2, 3):
        for _ in range(3):
            submitted(c, strategy=("NODE_AFFINITY", node(c, on).hex, False))
    spread = [submitted(c, strategy=SPREAD).node.number for _ in range(5)]
    assert spread == [1, 4, 1, 4, 1]


@pytest.mark.parametrize(
    ("labels", "operator", "values", "matches"),
    [
        ({"zone": "a"}, "in", ("a", "b"), True),
        ({"zone": "c"}, "in", ("a", "b"), False),
        ({}, "in", ("a", "b"), False),
        ({"zone": "a"}, "not_in", ("a", "b"), False),
        ({"zone": "c"}, "not_in", ("a", "b"), True),
        ({}, "not_in", ("a", "b"), True),
        ({"zone": "a"}, "exists", (), True),
        ({}, "exists", (), False),
        ({"zone": "a"}, "absent", (), False),
        ({}, "absent", (), True),
    ],
)
def test_which_labels_a_node_must_have(labels, operator, values, matches):
    """Every operator; all conditions of a selector must hold, in any order, and none are always met."""
    condition, met = ("zone", operator, values), ("other", "absent", ())
    assert labels_match(labels, (condition,)) is matches
    assert labels_match(labels, (met, condition)) is labels_match(labels, (condition, met)) is matches
    assert labels_match(labels, ())


def test_who_has_waited_comes_before_what_becomes_ready():
    """A worker goes on with the next of a chain only if nobody waits, of any class."""
    c = one_node(cpus=1)
    first, worker = running_task(c)
    waiting = submitted(c, cpus=0.5)
    then = submitted(c, deps=first.returns)
    finish(c, first)
    assert waiting.worker is worker and then.worker is None


def test_one_end_may_make_room_for_several_that_wait():
    """Each of them starts at once, as long as there is room."""
    c = one_node(cpus=2)
    large, _ = running_task(c, cpus=2)
    waiting = [submitted(c) for _ in range(3)]
    finish(c, large)
    assert [task.worker is not None for task in waiting] == [True, True, False]


def test_the_next_of_a_chain_has_a_lease_of_its_own_class():
    """It asks for less than the one before it, and holds less."""
    c = one_node(cpus=1)
    first, _ = running_task(c)
    then = submitted(c, deps=first.returns, cpus=0.5)
    finish(c, first)
    assert then.worker.lease is then.spec.scheduling_class and free(c) == 0.5


def test_soft_labels_choose_among_the_nodes_that_have_the_hard_ones():
    """A node that has only the soft ones is none of them."""
    c = one_node(cpus=1, labels={"disk": "ssd"})
    zone, both = add_node(c, cpus=1, labels={"zone": "a"}), add_node(c, cpus=1, labels={"zone": "a", "disk": "ssd"})
    strategy = ("NODE_LABEL", (("zone", "in", ("a",)),), (("disk", "in", ("ssd",)),))
    assert [submitted(c, strategy=strategy).node for _ in range(3)] == [both, zone, None]


def test_a_cpu_that_is_lent_on_one_of_several_nodes_is_found_later():
    """By a task that comes when the node has left the ranking, since it was full."""
    c = several_nodes(1, 1)
    second = [running_task(c)[1] for _ in range(2)][1]
    c.cancel(NOW, submitted(c), False, False)
    c.blocked(NOW, second)
    assert second.lent == UNIT and submitted(c).node is second.node


def test_a_class_that_nobody_asks_for_any_more_is_not_kept_as_infeasible():
    """Its only task was cancelled: the next node that joins finds nothing to look at."""
    c = one_node(cpus=1)
    task = submitted(c, cpus=4)
    c.cancel(NOW, task, False, False)
    add_node(c, cpus=1)
    assert not c.scheduler.infeasible and not c.scheduler.waiting


def test_a_group_counts_how_often_the_scheduler_has_tried_it():
    """Once at its creation, and once each time that something was given back."""
    c = one_node(cpus=2)
    (first, _), (second, _) = running_task(c), running_task(c)
    group = a_group(c, {"CPU": 2})
    assert group.attempts == 1
    finish(c, first)
    finish(c, second)
    assert group.status is PlacementGroupStatus.CREATED and group.attempts == 3


def test_how_far_the_scheduler_has_come_with_a_group():
    """In Ray's words: it fits if nothing else ran, it never fits, it is placed, it is gone."""
    c = one_node(cpus=2)
    task, _ = running_task(c)
    waits, never = a_group(c, {"CPU": 2}), a_group(c, {"CPU": 3})
    state = c.groups.scheduling_state
    assert (state(waits), state(never)) == ("NO_RESOURCES", "INFEASIBLE")
    finish(c, task)
    assert state(waits) == "FINISHED"
    c.remove_placement_group(NOW, waits)
    assert state(waits) == "REMOVED"


def test_a_strict_pack_goes_where_the_labels_of_every_bundle_are():
    """One bundle asks for nothing; the node must still be that of the other."""
    c = one_node(cpus=4)
    zone = add_node(c, cpus=3, labels={"zone": "a"})
    selectors = [(), (("zone", "in", ("a",)),)]
    group = a_group(c, {"CPU": 1}, {"CPU": 1}, strategy="STRICT_PACK", selectors=selectors)
    assert [bundle.node for bundle in group.bundles] == [zone, zone]


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
def test_a_bundle_goes_where_most_is_left(strategy):
    """Of what it asks for, in proportion to what is free; the first of equal nodes."""
    c = several_nodes(2, 8, 8)
    assert a_group(c, {"CPU": 1}, strategy=strategy).bundles[0].node is node(c, 2)


def test_ready_of_a_group_is_the_same_object_until_the_group_is_removed():
    """After the removal a new `ready` is an error; a `ready` that had the value keeps it."""
    c = one_node(cpus=2)
    group = a_group(c, {"CPU": 1})
    first, again = (c.placement_group_ready(NOW, group, "the group")[0] for _ in range(2))
    assert first is again is group.ready and (first.status, first.value) == (READY, "the group")
    c.remove_placement_group(NOW, group)
    later, _ = c.placement_group_ready(NOW, group, "the group")
    assert first.status is READY and later.status is FAILED and later.number != first.number
    assert later.value.error_type == "TASK_PLACEMENT_GROUP_REMOVED"


def test_ready_of_a_group_that_is_removed_before_it_is_placed_fails():
    """For those who have asked, and for those who ask later: it is one object."""
    c = one_node(cpus=2)
    group = a_group(c, {"CPU": 3})
    first, _ = c.placement_group_ready(NOW, group, "the group")
    c.remove_placement_group(NOW, group)
    assert c.placement_group_ready(NOW, group, "the group")[0] is first
    assert first.status is FAILED and first.value.error_type == "TASK_PLACEMENT_GROUP_REMOVED"


def test_a_worker_that_is_not_needed_any_more_has_a_time_of_death():
    """As one that crashed: rows and timelines would take it for alive."""
    c = one_node(cpus=20)
    tasks = [running_task(c, cpus=0)[0] for _ in range(40)]
    for task in tasks:
        finish(c, task, now=7.0)
    dead = [worker for worker in c.workers.values() if worker.status is WorkerStatus.DEAD]
    assert len(dead) == 40 - 20 - IDLE_SPARE
    assert {(worker.t_died, worker.exit_type) for worker in dead} == {(7.0, "INTENDED_SYSTEM_EXIT")}


def test_a_worker_that_has_run_a_function_often_enough_ends():
    """Of the calls of this function, not of all; Ray says that the user wanted it so. The next call gets another worker."""
    c = one_node(cpus=1)

    def call(max_calls):
        task = a_task(c)
        task.spec.max_calls = max_calls
        c.submit_task(NOW, task)
        worker = started(c, task)
        finish(c, task, now=5.0)
        return worker

    workers = [call(max_calls) for max_calls in (0, 2, 0, 2, 2)]
    assert len(set(workers[:4])) == 1 and workers[4] is not workers[0]
    ended = workers[0]
    assert (ended.status, ended.t_died, ended.exit_type) == (WorkerStatus.DEAD, 5.0, "INTENDED_USER_EXIT")


def test_what_a_task_waits_for_comes_first_up_to_the_first_that_finds_no_room():
    """Behind that one, what is awaited has its turn in the queue as any other."""
    c = one_node(cpus=1)
    parent, worker = running_task(c)
    earlier = submitted(c)
    small, large = (submitted(c, owner=worker, parent=parent.hex, cpus=cpus) for cpus in (1, 2))
    c.wait_for(NOW, Waiter(2, "parent"), (*large.returns, *small.returns), worker)
    assert earlier.worker is not None and small.worker is None


def test_a_task_may_wait_for_what_was_put_together_with_what_is_made():
    """Only tasks can be given its CPU."""
    c = one_node(cpus=1)
    parent, worker = running_task(c)
    child = submitted(c, owner=worker, parent=parent.hex)
    c.wait_for(NOW, Waiter(2, "parent"), (put(c), child.returns[0]), worker)
    assert child.worker is not None and worker.lent == UNIT


def test_of_equally_used_nodes_the_one_with_the_arguments_is_taken():
    """Though another has joined before, and both are more than half used."""
    c = several_nodes(4, 4)
    for number in (1, 2):
        for _ in range(3):
            submitted(c, strategy=("NODE_AFFINITY", node(c, number).hex, False))
    assert submitted(c, deps=(put(c, LARGE, on=2),)).node is node(c, 2)
    assert submitted(c).node is node(c, 1)


def test_a_task_with_labels_on_the_only_node_runs_when_an_actor_ends():
    """The ranking dates from when the node was full; what the actor returned was not noted, and the task waited forever."""
    c = one_node(cpus=1, labels={"zone": "a"})
    actor = living_actor(c, holds_cpus=1)
    task = submitted(c, selector=(("zone", "in", ("a",)),))
    assert task.worker is None
    c.kill_actor(NOW, actor)
    assert task.worker is not None


def test_room_that_came_while_a_node_was_alone_is_known_when_the_next_one_joins():
    """The full node had left the ranking, and nothing was noted while it was the only one: it used to stay out."""
    c = several_nodes(1, 1)
    on_first, _ = running_task(c)
    running_task(c)
    waiting = submitted(c)
    c.cancel(NOW, waiting, False, False)
    c.remove_node(NOW, node(c, 2))
    finish(c, on_first)
    third = add_node(c, cpus=1)
    running_task(c, strategy=("NODE_AFFINITY", third.hex, False))
    assert submitted(c).node is node(c, 1)


def test_the_arguments_of_most_bytes_count_together():
    """Two on one node, and a larger one on the other: the task goes where fewer bytes must be copied."""
    c = several_nodes(4, 4)
    values = put(c, 3 * LARGE // 2, on=1), put(c, LARGE, on=2), put(c, LARGE, on=2)
    assert submitted(c, deps=values).node is node(c, 2)


def test_the_node_of_the_arguments_must_be_allowed():
    """It has the room, but not the label."""
    c = one_node(cpus=4, labels={"zone": "a"})
    add_node(c, cpus=4)
    for number in (1, 2):
        for _ in range(3):
            submitted(c, strategy=("NODE_AFFINITY", node(c, number).hex, False))
    task = submitted(c, deps=(put(c, LARGE, on=2),), selector=(("zone", "in", ("a",)),))
    assert task.node is node(c, 1)


def test_an_actor_whose_owner_died_with_its_node_restarts_on_a_living_node():
    """The owner's node is preferred only while it is alive. The actor is detached, so it outlives its owner."""
    c = several_nodes(1, 4, 1)
    _, owner = running_task(c, strategy=on_node(c, 2))
    actor = living_actor(c, owner=owner, detached=True, holds_cpus=1, max_restarts=1)
    assert actor.node is node(c, 2)
    c.remove_node(NOW, node(c, 2))
    assert actor.status is ActorStatus.RESTARTING and actor.node is node(c, 1)


def test_two_whole_gpus_are_not_one_and_the_rest_of_others():
    """Enough is free in all, but on three devices that are shared."""
    c = one_node(cpus=8, GPU=4)
    for _ in range(3):
        submitted(c, GPU=0.6)
    assert free(c, name="GPU") == 2.2 and submitted(c, GPU=2).worker is None
    assert submitted(c, GPU=1).worker.devices["GPU"] == (3,)


@pytest.mark.parametrize("name", "GPU TPU NPU HPU neuron_cores RBLN FURIOSA MBLT TTNPU".split())
def test_a_worker_gets_single_devices_of_every_accelerator(name):
    """Ray's list of accelerators."""
    _, worker = running_task(one_node(**{name: 2}), **{name: 1})
    assert worker.devices == {name: (0,)}


def test_parts_of_devices_on_several_nodes_are_no_device():
    """Every node has enough of the resource in sum, and no device of which so much is free."""
    c = one_node(cpus=4, GPU=2)
    add_node(c, 4, GPU=2)
    assert all(submitted(c, GPU=0.6).worker for _ in range(4))
    assert submitted(c, GPU=0.8).worker is None and submitted(c, GPU=0.4).worker


def test_what_needs_a_gpu_waits_when_no_node_has_one_left():
    """Single GPUs are not ranked: every node is asked. The same holds for what needs no CPU."""
    c = one_node(cpus=2, GPU=1)
    add_node(c, cpus=2, GPU=1)
    first, second, third = (submitted(c, GPU=1) for _ in range(3))
    assert (first.node, second.node, third.node) == (node(c, 1), node(c, 2), None)
    only = [submitted(c, cpus=0, GPU=1) for _ in range(2)]
    assert [task.node for task in only] == [None, None]
    started(c, second)
    finish(c, second)
    assert third.node is node(c, 2)


def test_what_can_never_run_is_not_said_to_wait_for_a_node():
    """It has failed with its reason, and is in no queue."""
    c = several_nodes(1, 1)
    only = ("NODE_AFFINITY", node(c, 2).hex, False)
    c.remove_node(NOW, node(c, 2))
    task = a_task(c, strategy=only)
    assert c.submit_task(NOW, task) == [] and task.status is TaskStatus.FAILED
    assert not task.spec.scheduling_class.queue and not c.scheduler.infeasible


def test_what_must_run_on_a_dead_node_fails():
    """It fails at once, or when the node dies: the task with one error, the actor with another. Neither waits forever."""
    c = several_nodes(1, 1)
    only = ("NODE_AFFINITY", node(c, 2).hex, False)
    running_task(c, strategy=only)
    before = submitted(c, strategy=only), an_actor(c, strategy=only)
    c.remove_node(NOW, node(c, 2))
    for task, actor in (before, (submitted(c, strategy=only), an_actor(c, strategy=only))):
        assert task.status is TaskStatus.FAILED and task.failure.error_type == "TASK_UNSCHEDULABLE_ERROR"
        assert actor.status is ActorStatus.DEAD and actor.failure.error_type == "ACTOR_UNSCHEDULABLE_ERROR"
        assert "does not exist, is dead" in task.failure.message == actor.failure.message


def test_a_strict_spread_that_lost_a_node_may_keep_the_nodes_that_it_has():
    """It is feasible if all of its bundles would fit: the one that is placed does not stand in its own way."""
    c = several_nodes(1, 1, 1)
    busy, _ = running_task(c, strategy=("NODE_AFFINITY", node(c, 3).hex, False))
    group = a_group(c, {"CPU": 1}, {"CPU": 1}, strategy="STRICT_SPREAD")
    c.remove_node(NOW, node(c, 2))
    assert group.status is PlacementGroupStatus.RESCHEDULING
    assert c.groups.scheduling_state(group) == "NO_RESOURCES"
    finish(c, busy)
    assert [bundle.node for bundle in group.bundles] == [node(c, 1), node(c, 3)]
    c.remove_node(NOW, node(c, 3))
    assert c.groups.scheduling_state(group) == "INFEASIBLE"


@pytest.mark.parametrize("chain", [False, True], ids=["to the queue", "to what its end makes ready"])
def test_a_worker_that_never_got_its_cpu_back_hands_none_on(chain):
    """Its wait ran out of time while its child has the CPU. When it ends, nothing is free."""
    c = one_node(cpus=1)
    parent, worker = running_task(c)
    child = submitted(c, owner=worker, parent=parent.hex)
    waiter = Waiter(1, "parent")
    c.wait_for(NOW, waiter, child.returns, worker)
    started(c, child)
    waiting = submitted(c, deps=parent.returns) if chain else submitted(c)
    c.stop_waiting(NOW, waiter, child.returns, worker)
    finish(c, parent)
    assert waiting.worker is None and free(c) == 0
    finish(c, child)
    assert waiting.worker is not None


def test_workers_are_numbered_in_the_order_in_which_they_are_asked_for():
    """From one on."""
    c = one_node(cpus=3)
    assert [running_task(c)[1].number for _ in range(3)] == [1, 2, 3]


# ---------------------------------------------------------------- stores


def test_no_more_copies_are_evicted_than_necessary():
    """One makes room for exactly the value that comes."""
    c = several_nodes(1, 1, store_bytes=3 * LARGE)
    values = [put(c, LARGE, on=1) for _ in range(2)]
    for obj in values:
        c.object_used(NOW, obj, node(c, 2))
    put(c, LARGE, on=2)
    put(c, LARGE, on=2)
    store = node(c, 2).store
    assert store.counters["evicted"] == 1 and store.used == store.capacity and not store.spilling
    assert [obj.locations.keys() >= {2} for obj in values] == [False, True]


def test_no_more_is_spilled_than_makes_exactly_enough_room():
    """Neither by a value that comes, nor by room that is asked for."""
    c = one_node(store_bytes=2 * LARGE)
    first, second = put(c, LARGE), put(c, LARGE)
    assert not node(c).store.spilling
    c.make_room(NOW, node(c), LARGE)
    assert list(node(c).store.spilling.values()) == [first]
    c.make_room(NOW, node(c), LARGE)
    assert list(node(c).store.spilling.values()) == [first]
    c.make_room(NOW, node(c), 2 * LARGE)
    assert list(node(c).store.spilling.values()) == [first, second]


def test_a_spill_that_fails_after_its_value_was_freed_is_only_logged():
    """The counter is of values that stay in memory for it."""
    c = one_node(store_bytes=LARGE)
    obj = put(c, LARGE)
    put(c, LARGE)
    drop(c, obj)
    c.spill_failed(NOW, obj, "the disk is full")
    assert node(c).store.counters["spill_failures"] == 0


def test_values_up_to_ray_s_limit_stay_with_their_owner():
    """100 KiB: Ray's max_direct_call_object_size."""
    c = one_node()
    small, large = a_value(c, 102_400), a_value(c, 102_401)
    assert small.locations is None and large.locations is not None


def test_a_value_that_is_in_no_store_is_not_copied():
    """It is small, or was lost while it was read. Nor is any copied to a node that has died."""
    c = several_nodes(1, 1)
    small, lost, large = put(c), put(c, LARGE), put(c, LARGE)
    c.lose_object(NOW, lost)
    for obj in (small, lost):
        c.object_used(NOW, obj, node(c, 2))
        assert obj.locations is None
    c.remove_node(NOW, node(c, 2))
    c.object_used(NOW, large, node(c, 2))
    assert list(large.locations) == [1]


def test_what_is_copied_is_counted_and_makes_room_for_itself():
    """Once per node, with its bytes; an older copy goes."""
    c = several_nodes(1, 1, store_bytes=LARGE)
    store = node(c, 2).store
    first, second = put(c, LARGE), put(c, LARGE, on=1)
    for _ in range(2):
        c.object_used(NOW, first, node(c, 2))
    assert (store.counters["transferred"], store.counters["transferred_bytes"]) == (1, LARGE)
    c.object_used(NOW, second, node(c, 2))
    assert (store.counters["evicted"], store.used) == (1, LARGE) and list(first.locations) == [1]


def test_a_spilled_value_that_is_read_on_another_node_is_not_in_its_memory():
    """The reader has it for this one use; the bytes are counted as transferred."""
    c = several_nodes(1, 1, store_bytes=LARGE)
    obj = put(c, LARGE)
    put(c, LARGE)
    obj.value = "file"
    c.object_spilled(NOW, obj)
    c.object_used(NOW, obj, node(c, 2))
    assert list(obj.locations) == [1] and not node(c, 2).store.objects
    assert node(c, 2).store.counters["transferred_bytes"] == LARGE


# ---------------------------------------------------------------- streams


def test_a_generator_that_is_held_back_lends_its_cpu():
    """That of an actor holds none that others could have."""
    c = one_node(cpus=1)
    task, worker = running_task(c, returns="streaming")
    waiting = submitted(c)
    waiter = Waiter(1, "generator")
    c.producer_waits(NOW, task.stream, waiter, worker)
    assert worker.status is WorkerStatus.BLOCKED and waiting.worker is not None
    c.stream_item(NOW, worker, task, "an item", 8)
    assert c.take_item(NOW, task.stream)[1] == [Wake(waiter)] and task.stream.producer_waiter is None
    c = one_node()
    actor = living_actor(c)
    call = a_call(c, actor, returns="streaming")
    c.producer_waits(NOW, call.stream, Waiter(1, "method"), actor.worker)
    assert actor.worker.status is WorkerStatus.LEASED


def test_a_generator_that_yields_for_ever_does_not_list_what_was_freed():
    """Its list of returns stays short; the object of its end stays in it."""
    c = one_node(checked=False)
    task, worker = running_task(c, returns="streaming")
    for _ in range(1_000):
        c.stream_item(NOW, worker, task, "an item", 8)
        drop(c, c.take_item(NOW, task.stream)[0])
    end = task.returns[0]
    assert len(task.returns) < 250 and end.number == task.number << 32 | 1
    items = []
    for _ in range(300):
        c.stream_item(NOW, worker, task, "an item", LARGE)
        items.append(c.take_item(NOW, task.stream)[0])
    finish(c, task)
    drop(c, end, *items)
    assert len(task.returns) < 250 and task.returns[0] is end


def test_a_lost_item_that_nobody_needs_is_not_rebuilt_at_the_end_of_its_generator():
    """As any lost value, it is rebuilt when somebody asks for it."""
    c = one_node()
    task, worker = running_task(c, returns="streaming", retries=1)
    c.stream_item(NOW, worker, task, "an item", LARGE)
    item = c.take_item(NOW, task.stream)[0]
    c.lose_object(NOW, item)
    finish(c, task)
    assert item.status is LOST and task.t_finished and task.attempt == 0


# ---------------------------------------------------------------- waiting


def test_those_who_wait_are_woken_in_the_order_in_which_they_came():
    """For an object, and for the next item of a stream."""
    c = one_node()
    task, worker = running_task(c, returns="streaming")
    value, _ = running_task(c)
    for awaited, comes in (
        (task.stream, lambda: c.stream_item(NOW, worker, task, "an item", 8)),
        (value.returns[0], lambda: finish(c, value)),
    ):
        waiters = [Waiter(1, number) for number in range(3)]
        for waiter in waiters:
            c.wait_for(NOW, waiter, (awaited,))
        assert comes() == [Wake(waiter) for waiter in waiters]


def test_an_item_of_a_stream_is_no_error():
    """One that waits for all, or for the first error, goes on waiting for the other."""
    c = one_node()
    task, worker = running_task(c, returns="streaming")
    value, _ = running_task(c)
    waiter = Waiter(2, "get", fail_fast=True)
    c.wait_for(NOW, waiter, (task.stream, *value.returns))
    assert c.stream_item(NOW, worker, task, "an item", 8) == []
    assert finish(c, value) == [Wake(waiter)]


def test_an_error_that_is_there_already_counts_as_one_for_wait():
    """`wait` for two returns with the error and the value; `get` needs only the error."""
    c = one_node()
    (bad, _), (good, _) = running_task(c), running_task(c)
    raise_in(c, bad)
    objects = [bad.returns[0], good.returns[0]]
    waiting, getting = Waiter(2, "wait"), Waiter(2, "get", fail_fast=True)
    assert c.wait_for(NOW, waiting, objects) == [] and c.wait_for(NOW, getting, objects) == [Wake(getting)]
    assert finish(c, good) == [Wake(waiting)]


def test_the_items_of_a_stream_are_numbered_from_two_and_its_error_is_the_next():
    """Number one is the object of its end. An item that was taken keeps its number."""
    c = one_node()
    task, worker = running_task(c, returns="streaming")
    for _ in range(2):
        c.stream_item(NOW, worker, task, "an item", 8)
    taken = c.take_item(NOW, task.stream)[0]
    raise_in(c, task)
    numbers = [obj.number & 0xFFFF for obj in (task.returns[0], taken, *task.stream.items[1:])]
    assert numbers == [1, 2, 3, 4] and task.stream.items[2].status is FAILED
