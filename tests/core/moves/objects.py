"""How an object moves: one scenario for each event in OBJECT_MOVES."""

from __future__ import annotations

from collections import deque

from miniray.core.records import units
from miniray.core.transitions import ObjectStatus
from tests.core.builders import (
    LARGE,
    NOW,
    a_call,
    a_group,
    a_task,
    call_of,
    crash,
    crash_of,
    drop,
    error_of,
    finish,
    finished_task,
    group_of,
    living_actor,
    node,
    one_node,
    put,
    raise_in,
    result_of,
    running_task,
    started,
    submitted,
)
from tests.core.moves.scenarios import (
    CPU,
    Stage,
    a_waiter,
    argument_lost_at_start,
    busy_node,
    lost_value,
    plays,
    released_argument,
    spilled_value,
)

PENDING, READY, SPILLED, LOST = ObjectStatus.PENDING, ObjectStatus.READY, ObjectStatus.SPILLED, ObjectStatus.LOST
ERROR, RELEASED, ENDED = ObjectStatus.FAILED, ObjectStatus.RELEASED, ObjectStatus.ENDED


@plays(PENDING, READY, "task_finished")
def a_task_returns_its_value() -> Stage:
    c, task, _ = busy_node()
    return c, task.returns[0], *result_of(task)


@plays(PENDING, READY, "stream_item")
def a_lost_item_is_yielded_again() -> Stage:
    """A new item is READY in the event that creates it; only one that is being rebuilt was PENDING before."""
    c = one_node()
    task, worker = running_task(c, returns="streaming", retries=1)
    c.stream_item(NOW, worker, task, "an item", LARGE)
    finish(c, task)
    item, _ = c.take_item(NOW, task.stream)
    assert item is not None
    c.lose_object(NOW, item)
    c.wait_for(NOW, a_waiter(), (item,))
    return c, item, started(c, task), task, "the item again", LARGE


@plays(PENDING, READY, "task_failed")
def a_generator_raises_and_its_stream_ends_well() -> Stage:
    """The error is an item of the stream. The first return, which marks the end, holds no error."""
    c = one_node()
    task, _ = running_task(c, returns="streaming")
    return c, task.returns[0], *error_of(task)


@plays(PENDING, READY, "create_placement_group")
def a_group_is_ready_at_once() -> Stage:
    c = one_node()
    group = group_of(CPU)
    return c, lambda: group.ready, group


@plays(PENDING, READY, "add_node")
def a_node_joins_and_a_group_is_ready() -> Stage:
    c = one_node(cpus=1)
    return c, a_group(c, {"CPU": 2}).ready, 2, units({"CPU": 2})


@plays(PENDING, ERROR, "submit_task")
def the_value_of_a_task_with_a_failed_argument_is_an_error() -> Stage:
    c = one_node()
    bad, _ = running_task(c)
    raise_in(c, bad)
    task = a_task(c, deps=bad.returns)
    return c, lambda: task.returns[0], task


@plays(PENDING, ERROR, "submit_actor_task")
def the_value_of_a_call_of_a_dead_actor_is_an_error() -> Stage:
    c = one_node()
    actor = living_actor(c)
    c.kill_actor(NOW, actor)
    call = call_of(actor)
    return c, lambda: call.returns[0], call


@plays(PENDING, ERROR, "task_failed")
def the_value_of_a_task_that_raised_is_an_error() -> Stage:
    c, task, _ = busy_node()
    return c, task.returns[0], *error_of(task)


@plays(PENDING, ERROR, "worker_died")
def the_value_of_a_task_whose_worker_crashed_is_an_error() -> Stage:
    c, task, worker = busy_node()
    return c, task.returns[0], *crash_of(worker)


@plays(PENDING, ERROR, "remove_node")
def the_value_of_a_task_whose_node_died_is_an_error() -> Stage:
    c, task, _ = busy_node()
    return c, task.returns[0], node(c)


@plays(PENDING, ERROR, "cancel")
def the_value_of_a_cancelled_task_is_an_error() -> Stage:
    c, _, _ = busy_node()
    task = submitted(c)
    return c, task.returns[0], task, False, False


@plays(PENDING, ERROR, "kill_actor")
def the_value_of_a_call_of_a_killed_actor_is_an_error() -> Stage:
    c = one_node()
    actor = living_actor(c)
    return c, a_call(c, actor).returns[0], actor


@plays(PENDING, ERROR, "remove_placement_group")
def a_group_is_removed_before_it_was_ready() -> Stage:
    c = one_node(cpus=1)
    group = a_group(c, {"CPU": 2})
    return c, group.ready, group


@plays(PENDING, ENDED, "session_ended")
def the_session_ends_before_a_task_has_returned() -> Stage:
    c, task, _ = busy_node()
    c.session_ending(NOW, ())
    return c, task.returns[0]


@plays(READY, SPILLED, "object_spilled")
def a_value_has_been_written_to_its_file() -> Stage:
    c = one_node(store_bytes=2 * LARGE)
    value = put(c, LARGE)
    c.make_room(NOW, node(c), 2 * LARGE)
    value.value = "file"
    return c, value, value


@plays(READY, SPILLED, "make_room")
def a_restored_value_makes_room_and_is_in_its_file_already() -> Stage:
    c, value = spilled_value()
    c.object_restored(NOW, value)
    value.value = "the value again"
    return c, value, node(c), 2 * LARGE


@plays(READY, LOST, "remove_node")
def a_node_dies_with_the_only_copy_of_a_value() -> Stage:
    c = one_node()
    return c, put(c, LARGE), node(c)


@plays(READY, LOST, "lose_object")
def every_copy_of_a_value_vanishes() -> Stage:
    c = one_node()
    value = put(c, LARGE)
    return c, value, value


@plays(READY, ERROR, "worker_died")
def the_owner_of_a_value_dies() -> Stage:
    c, _, owner = busy_node()
    return c, put(c, owner=owner), *crash_of(owner)


@plays(READY, RELEASED, "references_dropped")
def the_last_reference_to_a_value_is_dropped() -> Stage:
    c = one_node()
    value = put(c)
    return c, value, deque([value])


@plays(READY, RELEASED, "task_finished")
def the_last_task_that_uses_a_value_returns() -> Stage:
    c = one_node()
    value = put(c)
    task, _ = running_task(c, deps=(value,))
    drop(c, value)
    return c, value, *result_of(task)


@plays(READY, ENDED, "session_ended")
def the_session_ends_while_a_value_is_in_memory() -> Stage:
    c = one_node()
    return c, put(c)


@plays(SPILLED, READY, "object_restored")
def a_value_is_read_back_from_its_file() -> Stage:
    c, value = spilled_value()
    return c, value, value


@plays(SPILLED, LOST, "remove_node")
def a_node_dies_with_its_files() -> Stage:
    c, value = spilled_value()
    return c, value, node(c)


@plays(SPILLED, LOST, "lose_object")
def the_file_of_a_value_vanishes() -> Stage:
    c, value = spilled_value()
    return c, value, value


@plays(SPILLED, LOST, "restore_failed")
def the_file_of_a_value_cannot_be_read() -> Stage:
    c, value = spilled_value()
    return c, value, value, "input/output error"


@plays(SPILLED, ERROR, "worker_died")
def the_owner_of_a_spilled_value_dies() -> Stage:
    c = one_node(store_bytes=2 * LARGE)
    _, owner = running_task(c)
    _, value = spilled_value(owner, c)
    return c, value, *crash_of(owner)


@plays(SPILLED, RELEASED, "references_dropped")
def the_last_reference_to_a_spilled_value_is_dropped() -> Stage:
    c, value = spilled_value()
    return c, value, deque([value])


@plays(SPILLED, RELEASED, "task_finished")
def the_last_task_that_uses_a_spilled_value_returns() -> Stage:
    c, value = spilled_value()
    task, _ = running_task(c, deps=(value,))
    drop(c, value)
    return c, value, *result_of(task)


@plays(SPILLED, ENDED, "session_ended")
def the_session_ends_while_a_value_is_in_its_file() -> Stage:
    return spilled_value()


@plays(LOST, PENDING, "wait_for")
def the_driver_waits_for_a_lost_value() -> Stage:
    c, value = lost_value()
    return c, value, a_waiter(), (value,)


@plays(LOST, PENDING, "submit_task")
def a_task_is_submitted_with_a_lost_argument() -> Stage:
    c, value = lost_value()
    return c, value, a_task(c, deps=(value,))


@plays(LOST, PENDING, "submit_actor_task")
def a_method_is_called_with_a_lost_argument() -> Stage:
    c, value = lost_value()
    return c, value, call_of(living_actor(c), deps=(value,))


@plays(LOST, PENDING, "arguments_lost")
def a_worker_reports_a_lost_argument() -> Stage:
    c, value, task, worker = argument_lost_at_start()
    return c, value, worker, task


@plays(LOST, ERROR, "wait_for")
def the_driver_waits_for_a_value_that_cannot_be_rebuilt() -> Stage:
    c, value = lost_value(rebuildable=False)
    return c, value, a_waiter(), (value,)


@plays(LOST, ERROR, "submit_task")
def an_argument_of_a_task_cannot_be_rebuilt() -> Stage:
    c, value = lost_value(rebuildable=False)
    return c, value, a_task(c, deps=(value,))


@plays(LOST, ERROR, "submit_actor_task")
def an_argument_of_a_call_cannot_be_rebuilt() -> Stage:
    c, value = lost_value(rebuildable=False)
    return c, value, call_of(living_actor(c), deps=(value,))


@plays(LOST, ERROR, "arguments_lost")
def a_worker_reports_an_argument_that_cannot_be_rebuilt() -> Stage:
    c, value, task, worker = argument_lost_at_start(rebuildable=False)
    return c, value, worker, task


@plays(LOST, ERROR, "worker_died")
def the_owner_of_a_lost_value_dies() -> Stage:
    c, _, owner = busy_node()
    value = put(c, LARGE, owner=owner)
    c.lose_object(NOW, value)
    return c, value, *crash_of(owner)


@plays(LOST, READY, "task_finished")
def a_value_is_lost_while_its_task_runs_again_for_another() -> Stage:
    c = one_node()
    task = finished_task(c, LARGE, returns=2, retries=1)
    first, second = task.returns
    c.lose_object(NOW, first)
    c.wait_for(NOW, a_waiter(), (first,))
    started(c, task)
    c.lose_object(NOW, second)
    return c, second, *result_of(task, LARGE, LARGE)


@plays(LOST, READY, "stream_item")
def an_item_is_lost_and_its_generator_runs_again_anyway() -> Stage:
    c = one_node()
    task, worker = running_task(c, returns="streaming", retries=1)
    c.stream_item(NOW, worker, task, "an item", LARGE)
    item, _ = c.take_item(NOW, task.stream)
    assert item is not None
    c.lose_object(NOW, item)
    crash(c, worker)
    return c, item, started(c, task), task, "the item again", LARGE


@plays(LOST, RELEASED, "references_dropped")
def the_last_reference_to_a_lost_value_is_dropped() -> Stage:
    c, value = lost_value()
    return c, value, deque([value])


@plays(LOST, ENDED, "session_ended")
def the_session_ends_after_a_value_was_lost() -> Stage:
    return lost_value()


@plays(ERROR, RELEASED, "references_dropped")
def the_last_reference_to_an_error_is_dropped() -> Stage:
    c, task, _ = busy_node()
    raise_in(c, task)
    return c, task.returns[0], deque(task.returns)


@plays(ERROR, ENDED, "session_ended")
def the_session_ends_after_a_task_has_failed() -> Stage:
    c, task, _ = busy_node()
    raise_in(c, task)
    return c, task.returns[0]


@plays(RELEASED, LOST, "wait_for", on_the_way=True)
def rebuilding_a_value_needs_one_that_was_released() -> Stage:
    c, first, second = released_argument()
    return c, first, a_waiter(), (second,)


@plays(RELEASED, LOST, "submit_task", on_the_way=True)
def rebuilding_an_argument_needs_a_value_that_was_released() -> Stage:
    c, first, second = released_argument()
    return c, first, a_task(c, deps=(second,))


@plays(RELEASED, READY, "placement_group_ready")
def somebody_asks_again_whether_a_group_is_ready() -> Stage:
    c = one_node()
    group = a_group(c, CPU)
    drop(c, group.ready)
    return c, group.ready, group, "placed"


@plays(READY, ERROR, "task_finished")
def the_owner_of_a_value_ends_with_the_last_task_that_it_has_submitted() -> Stage:
    c = one_node()
    actor = living_actor(c)
    value = put(c, owner=actor.worker)
    task, _ = running_task(c, owner=actor.worker)
    drop(c, actor.handle)
    return c, value, *result_of(task)
