"""How a task moves: one scenario for each event in TASK_MOVES."""

from __future__ import annotations

from miniray.core.records import Waiter, units
from miniray.core.transitions import TaskStatus
from tests.core.builders import (
    NOW,
    a_call,
    a_group,
    a_task,
    call_of,
    crash_of,
    creation_of,
    error_of,
    in_group,
    living_actor,
    node,
    on_node,
    one_node,
    raise_in,
    result_of,
    running_task,
    several_nodes,
    submitted,
)
from tests.core.moves.scenarios import (
    CPU,
    NOWHERE,
    Stage,
    a_waiter,
    actor_under_construction,
    argument_lost_at_start,
    busy_node,
    late_argument,
    lost_value,
    plays,
)

ARGS, NODE, SUBMITTED = (
    TaskStatus.PENDING_ARGS_AVAIL,
    TaskStatus.PENDING_NODE_ASSIGNMENT,
    TaskStatus.SUBMITTED_TO_WORKER,
)
FINISHED, FAILED = TaskStatus.FINISHED, TaskStatus.FAILED


@plays(ARGS, NODE, "submit_task")
def a_task_is_submitted_to_a_busy_cluster() -> Stage:
    c, _, _ = busy_node()
    task = a_task(c)
    return c, task, task


@plays(ARGS, NODE, "submit_actor_task")
def a_method_is_called_before_the_constructor_has_returned() -> Stage:
    c, actor = actor_under_construction()
    call = call_of(actor)
    return c, call, call


@plays(ARGS, NODE, "create_actor")
def an_actor_is_created_on_a_busy_cluster() -> Stage:
    c, _, _ = busy_node()
    actor, creation = creation_of(c)
    return c, creation, actor, creation


@plays(ARGS, NODE, "task_finished")
def the_last_argument_arrives_but_another_task_has_the_cpu() -> Stage:
    c, producer, _ = busy_node()
    consumer = submitted(c, deps=producer.returns)
    submitted(c)  # it takes the CPU
    return c, consumer, *result_of(producer)


@plays(ARGS, FAILED, "submit_task")
def a_task_is_submitted_with_a_failed_argument() -> Stage:
    c = one_node()
    bad, _ = running_task(c)
    raise_in(c, bad)
    task = a_task(c, deps=bad.returns)
    return c, task, task


@plays(ARGS, FAILED, "submit_actor_task")
def a_method_of_a_dead_actor_is_called() -> Stage:
    c = one_node()
    actor = living_actor(c)
    c.kill_actor(NOW, actor)
    call = call_of(actor)
    return c, call, call


@plays(ARGS, FAILED, "task_failed")
def an_argument_of_a_waiting_task_fails() -> Stage:
    c, producer, consumer = late_argument()
    return c, consumer, *error_of(producer)


@plays(ARGS, FAILED, "cancel")
def a_task_that_waits_for_an_argument_is_cancelled() -> Stage:
    c, _, consumer = late_argument()
    return c, consumer, consumer, False, False


@plays(ARGS, FAILED, "kill_actor")
def an_actor_is_killed_while_a_call_waits_for_an_argument() -> Stage:
    c = one_node()
    producer, _ = running_task(c)
    actor = living_actor(c)
    return c, a_call(c, actor, deps=producer.returns), actor


@plays(NODE, SUBMITTED, "submit_task", on_the_way=True)
def a_task_is_submitted_and_there_is_a_free_cpu() -> Stage:
    c = one_node()
    task = a_task(c)
    return c, task, task


@plays(NODE, SUBMITTED, "submit_actor_task", on_the_way=True)
def a_method_of_a_living_actor_is_called() -> Stage:
    c = one_node()
    call = call_of(living_actor(c))
    return c, call, call


@plays(NODE, SUBMITTED, "create_actor", on_the_way=True)
def an_actor_is_created_and_there_is_a_free_cpu() -> Stage:
    c = one_node()
    actor, creation = creation_of(c)
    return c, creation, actor, creation


@plays(NODE, SUBMITTED, "task_finished")
def a_task_returns_and_its_worker_takes_the_next_one() -> Stage:
    c, task, _ = busy_node()
    return c, submitted(c), *result_of(task)


@plays(NODE, SUBMITTED, "wait_for")
def a_task_waits_for_a_child_and_lends_it_the_cpu() -> Stage:
    c, parent, worker = busy_node()
    child = submitted(c, owner=worker, parent=parent.hex)
    return c, child, Waiter(1, "parent"), child.returns, worker


@plays(NODE, SUBMITTED, "add_node")
def a_node_joins_while_a_task_waits_for_a_cpu() -> Stage:
    c, _, _ = busy_node()
    return c, submitted(c, cpus=2), 2, units({"CPU": 2})


@plays(NODE, FAILED, "submit_task", on_the_way=True)
def a_task_must_run_on_a_node_that_does_not_exist() -> Stage:
    c = one_node()
    task = a_task(c, strategy=NOWHERE)
    return c, task, task


@plays(NODE, FAILED, "cancel")
def a_queued_task_is_cancelled() -> Stage:
    c, _, _ = busy_node()
    task = submitted(c)
    return c, task, task, False, False


@plays(NODE, FAILED, "kill_actor")
def an_actor_is_killed_before_its_first_call_could_run() -> Stage:
    c, actor = actor_under_construction()
    return c, a_call(c, actor), actor


@plays(NODE, FAILED, "worker_died")
def the_owner_of_a_queued_task_dies() -> Stage:
    c, parent, owner = busy_node()
    return c, submitted(c, owner=owner, parent=parent.hex), *crash_of(owner)


@plays(NODE, FAILED, "remove_node")
def the_only_node_on_which_a_queued_task_may_run_dies() -> Stage:
    c = several_nodes(1, 1)
    running_task(c, strategy=on_node(c, 2))
    return c, submitted(c, strategy=on_node(c, 2)), node(c, 2)


@plays(SUBMITTED, FINISHED, "task_finished")
def a_task_returns() -> Stage:
    c, task, _ = busy_node()
    return c, task, *result_of(task)


@plays(SUBMITTED, FAILED, "task_failed")
def a_task_raises() -> Stage:
    c, task, _ = busy_node()
    return c, task, *error_of(task)


@plays(SUBMITTED, FAILED, "worker_died")
def a_worker_crashes_and_its_task_has_no_retries() -> Stage:
    c, task, worker = busy_node()
    return c, task, *crash_of(worker)


@plays(SUBMITTED, FAILED, "remove_node")
def a_node_dies_with_a_task_that_has_no_retries() -> Stage:
    c, task, _ = busy_node()
    return c, task, node(c)


@plays(SUBMITTED, FAILED, "cancel")
def a_running_task_is_cancelled_by_force() -> Stage:
    c, task, _ = busy_node()
    return c, task, task, True, False


@plays(SUBMITTED, FAILED, "timer")
def a_cancelled_task_ignores_the_interrupt_for_too_long() -> Stage:
    c, task, _ = busy_node()
    c.cancel(NOW, task, False, False)
    return c, task


@plays(SUBMITTED, FAILED, "kill_actor")
def an_actor_is_killed_during_a_call() -> Stage:
    c = one_node()
    actor = living_actor(c)
    return c, a_call(c, actor), actor


@plays(SUBMITTED, FAILED, "actor_exited")
def an_actor_ends_itself_during_a_call() -> Stage:
    c = one_node()
    call = a_call(c, living_actor(c))
    return c, call, call.worker, call, "it exited"


@plays(SUBMITTED, FAILED, "remove_placement_group")
def a_group_is_removed_with_a_task_in_it() -> Stage:
    c = one_node()
    group = a_group(c, CPU)
    task, _ = running_task(c, strategy=in_group(group))
    return c, task, group


@plays(SUBMITTED, ARGS, "task_failed", on_the_way=True)
def a_task_raises_and_is_retried() -> Stage:
    c = one_node()
    task, _ = running_task(c, retries=1)
    return c, task, *error_of(task, retry=True)


@plays(SUBMITTED, ARGS, "worker_died", on_the_way=True)
def a_worker_crashes_and_its_task_is_retried() -> Stage:
    c = one_node()
    task, worker = running_task(c, retries=1)
    return c, task, *crash_of(worker)


@plays(SUBMITTED, ARGS, "remove_node", on_the_way=True)
def a_node_dies_and_its_task_is_retried_elsewhere() -> Stage:
    c = several_nodes(1, 1)
    task, _ = running_task(c, retries=1)
    return c, task, task.node


@plays(SUBMITTED, ARGS, "kill_actor", on_the_way=True)
def a_killed_actor_restarts_and_its_call_is_retried() -> Stage:
    c = one_node()
    actor = living_actor(c, max_restarts=1, max_task_retries=1)
    return c, a_call(c, actor), actor, False


@plays(SUBMITTED, ARGS, "arguments_lost")
def a_worker_finds_that_an_argument_is_lost() -> Stage:
    c, _, task, worker = argument_lost_at_start()
    return c, task, worker, task


@plays(FINISHED, ARGS, "wait_for", on_the_way=True)
def the_driver_waits_for_a_lost_value_and_its_task_runs_again() -> Stage:
    c, value = lost_value()
    return c, value.task, a_waiter(), (value,)


@plays(FINISHED, ARGS, "submit_task", on_the_way=True)
def a_task_needs_a_lost_value_whose_task_runs_again() -> Stage:
    c, value = lost_value()
    return c, value.task, a_task(c, deps=(value,))


@plays(FINISHED, ARGS, "submit_actor_task", on_the_way=True)
def a_call_needs_a_lost_value_whose_task_runs_again() -> Stage:
    c, value = lost_value()
    return c, value.task, call_of(living_actor(c), deps=(value,))


@plays(FINISHED, ARGS, "arguments_lost", on_the_way=True)
def a_worker_finds_an_argument_lost_whose_task_runs_again() -> Stage:
    c, value, task, worker = argument_lost_at_start()
    return c, value.task, worker, task
