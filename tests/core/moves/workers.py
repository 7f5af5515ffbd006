"""How a worker moves: one scenario for each event in WORKER_MOVES."""

from __future__ import annotations

from collections import deque

from miniray.core.records import Waiter
from miniray.core.scheduler import IDLE_SPARE
from miniray.core.transitions import WorkerStatus
from tests.core.builders import (
    LARGE,
    NOW,
    a_call,
    a_group,
    a_task,
    an_actor,
    crash_of,
    drop,
    error_of,
    finish,
    finished_task,
    in_group,
    living_actor,
    node,
    one_node,
    result_of,
    running_task,
    submitted,
)
from tests.core.moves.scenarios import (
    CPU,
    Stage,
    argument_lost_at_start,
    blocked_worker,
    busy_node,
    idle_worker,
    plays,
    starting_worker,
)

STARTING, IDLE, LEASED, BLOCKED = WorkerStatus.STARTING, WorkerStatus.IDLE, WorkerStatus.LEASED, WorkerStatus.BLOCKED
GONE = WorkerStatus.DEAD


@plays(STARTING, LEASED, "worker_started")
def a_worker_has_started() -> Stage:
    c, _, worker = starting_worker()
    return c, worker, worker


@plays(STARTING, GONE, "worker_died")
def a_worker_dies_before_it_has_started() -> Stage:
    c, _, worker = starting_worker()
    return c, worker, *crash_of(worker)


@plays(STARTING, GONE, "remove_node")
def a_node_dies_while_a_worker_is_starting() -> Stage:
    c, _, worker = starting_worker()
    return c, worker, node(c)


@plays(STARTING, GONE, "cancel")
def a_task_is_cancelled_by_force_while_its_worker_is_starting() -> Stage:
    c, task, worker = starting_worker()
    return c, worker, task, True, False


@plays(STARTING, GONE, "kill_actor")
def an_actor_is_killed_while_its_worker_is_starting() -> Stage:
    c = one_node()
    actor = an_actor(c)
    return c, actor.worker, actor


@plays(STARTING, GONE, "session_ending")
def the_session_ends_while_a_worker_is_starting() -> Stage:
    c, _, worker = starting_worker()
    return c, worker, ()


@plays(IDLE, LEASED, "submit_task")
def an_idle_worker_gets_a_new_task() -> Stage:
    c, worker = idle_worker()
    return c, worker, a_task(c)


@plays(IDLE, LEASED, "task_finished")
def the_value_of_a_task_makes_two_others_ready() -> Stage:
    """The first runs on the worker that returned the value, the second on the idle one."""
    c = one_node(cpus=2)
    producer, _ = running_task(c)
    idle = finished_task(c).worker
    submitted(c, deps=producer.returns)
    submitted(c, deps=producer.returns)
    return c, idle, *result_of(producer)


@plays(IDLE, GONE, "task_finished")
def a_task_returns_and_too_many_workers_are_idle() -> Stage:
    c = one_node(cpus=1)
    tasks = [running_task(c, cpus=0)[0] for _ in range(IDLE_SPARE + 2)]
    for task in tasks[:-1]:
        finish(c, task)
    return c, tasks[0].worker, *result_of(tasks[-1])


@plays(IDLE, GONE, "worker_died")
def an_idle_worker_dies() -> Stage:
    c, worker = idle_worker()
    return c, worker, *crash_of(worker)


@plays(IDLE, GONE, "remove_node")
def a_node_dies_with_an_idle_worker() -> Stage:
    c, worker = idle_worker()
    return c, worker, node(c)


@plays(IDLE, GONE, "session_ending")
def the_session_ends_while_a_worker_is_idle() -> Stage:
    c, worker = idle_worker()
    return c, worker, ()


@plays(LEASED, IDLE, "task_finished")
def a_worker_has_returned_its_last_task() -> Stage:
    c, task, worker = busy_node()
    return c, worker, *result_of(task)


@plays(LEASED, IDLE, "task_failed")
def the_last_task_of_a_worker_has_raised() -> Stage:
    c, task, worker = busy_node()
    return c, worker, *error_of(task)


@plays(LEASED, IDLE, "arguments_lost")
def a_worker_returns_a_task_whose_argument_must_be_rebuilt_first() -> Stage:
    c, _, task, worker = argument_lost_at_start()
    return c, worker, worker, task


@plays(LEASED, BLOCKED, "wait_for")
def a_task_waits_for_another() -> Stage:
    c, parent, worker = busy_node()
    child = submitted(c, owner=worker, parent=parent.hex)
    return c, worker, Waiter(1, "parent"), child.returns, worker


@plays(LEASED, BLOCKED, "blocked")
def a_task_blocks_in_some_other_way() -> Stage:
    c, _, worker = busy_node()
    return c, worker, worker


@plays(LEASED, BLOCKED, "producer_waits")
def a_generator_waits_for_its_consumer() -> Stage:
    c = one_node()
    task, worker = running_task(c, returns="streaming", backpressure=1)
    c.stream_item(NOW, worker, task, "an item", LARGE)
    return c, worker, task.stream, Waiter(1, "producer"), worker


@plays(LEASED, GONE, "worker_died")
def a_worker_crashes() -> Stage:
    c, _, worker = busy_node()
    return c, worker, *crash_of(worker)


@plays(LEASED, GONE, "remove_node")
def a_node_dies_with_a_worker_that_runs_a_task() -> Stage:
    c, _, worker = busy_node()
    return c, worker, node(c)


@plays(LEASED, GONE, "cancel")
def the_task_of_a_worker_is_cancelled_by_force() -> Stage:
    c, task, worker = busy_node()
    return c, worker, task, True, False


@plays(LEASED, GONE, "timer")
def a_worker_is_abandoned_with_its_cancelled_task() -> Stage:
    c, task, worker = busy_node()
    c.cancel(NOW, task, False, False)
    return c, worker


@plays(LEASED, GONE, "kill_actor")
def the_actor_of_a_worker_is_killed() -> Stage:
    c = one_node()
    actor = living_actor(c)
    return c, actor.worker, actor


@plays(LEASED, GONE, "actor_exited")
def the_actor_of_a_worker_ends_itself() -> Stage:
    c = one_node()
    actor = living_actor(c)
    return c, actor.worker, actor.worker, a_call(c, actor), "it exited"


@plays(LEASED, GONE, "references_dropped")
def the_actor_of_a_worker_is_no_longer_held() -> Stage:
    c = one_node()
    actor = living_actor(c)
    return c, actor.worker, deque([actor.handle])


@plays(LEASED, GONE, "task_finished")
def the_last_task_of_an_actor_that_was_dropped_is_over() -> Stage:
    c = one_node()
    actor = living_actor(c)
    worker = actor.worker
    task, _ = running_task(c, owner=worker)
    drop(c, actor.handle)
    return c, worker, *result_of(task)


@plays(LEASED, GONE, "remove_placement_group")
def the_placement_group_of_a_worker_is_removed() -> Stage:
    c = one_node()
    group = a_group(c, CPU)
    _, worker = running_task(c, strategy=in_group(group))
    return c, worker, group


@plays(LEASED, GONE, "session_ending")
def the_session_ends_while_a_worker_runs_a_task() -> Stage:
    c, _, worker = busy_node()
    return c, worker, ()


@plays(BLOCKED, LEASED, "stop_waiting")
def a_task_goes_on_after_a_wait() -> Stage:
    c, _, worker, waiter, objects = blocked_worker()
    return c, worker, waiter, objects, worker


@plays(BLOCKED, LEASED, "unblocked")
def a_task_goes_on_after_it_blocked_in_some_other_way() -> Stage:
    c, _, worker = busy_node()
    c.blocked(NOW, worker)
    return c, worker, worker


@plays(BLOCKED, GONE, "worker_died")
def a_worker_dies_while_its_task_waits() -> Stage:
    c, _, worker, _, _ = blocked_worker()
    return c, worker, *crash_of(worker)


@plays(BLOCKED, GONE, "remove_node")
def a_node_dies_while_a_task_waits() -> Stage:
    c, _, worker, _, _ = blocked_worker()
    return c, worker, node(c)


@plays(BLOCKED, GONE, "cancel")
def a_task_is_cancelled_by_force_while_it_waits() -> Stage:
    c, parent, worker, _, _ = blocked_worker()
    return c, worker, parent, True, False


@plays(BLOCKED, GONE, "session_ending")
def the_session_ends_while_a_task_waits() -> Stage:
    c, _, worker, _, _ = blocked_worker()
    return c, worker, ()
