"""How an actor moves: one scenario for each event in ACTOR_MOVES."""

from __future__ import annotations

from collections import deque

from miniray.core.transitions import ActorStatus
from tests.core.builders import (
    NOW,
    a_call,
    a_group,
    a_task,
    an_actor,
    crash_of,
    creation_of,
    drop,
    error_of,
    in_group,
    living_actor,
    node,
    one_node,
    raise_in,
    result_of,
    running_task,
)
from tests.core.moves.scenarios import (
    CPU,
    NOWHERE,
    Stage,
    a_waiter,
    actor_under_construction,
    busy_node,
    lost_result_of_an_ended_actor,
    plays,
    restarting_actor,
    unready_actor,
)

UNREADY, CREATING, ALIVE = ActorStatus.DEPENDENCIES_UNREADY, ActorStatus.PENDING_CREATION, ActorStatus.ALIVE
RESTARTING, DEAD = ActorStatus.RESTARTING, ActorStatus.DEAD


@plays(UNREADY, CREATING, "create_actor")
def an_actor_is_created_without_arguments_to_wait_for() -> Stage:
    c = one_node()
    actor, creation = creation_of(c)
    return c, actor, actor, creation


@plays(UNREADY, CREATING, "task_finished")
def the_last_argument_of_a_constructor_arrives() -> Stage:
    c, producer, actor = unready_actor()
    return c, actor, *result_of(producer)


@plays(UNREADY, DEAD, "create_actor")
def an_actor_is_created_with_a_failed_argument() -> Stage:
    c = one_node()
    bad, _ = running_task(c)
    raise_in(c, bad)
    actor, creation = creation_of(c, deps=bad.returns)
    return c, actor, actor, creation


@plays(UNREADY, DEAD, "task_failed")
def an_argument_of_a_constructor_fails() -> Stage:
    c, producer, actor = unready_actor()
    return c, actor, *error_of(producer)


@plays(UNREADY, DEAD, "kill_actor")
def an_actor_is_killed_while_its_constructor_waits_for_an_argument() -> Stage:
    c, _, actor = unready_actor()
    return c, actor, actor


@plays(UNREADY, DEAD, "references_dropped")
def the_last_handle_is_dropped_while_the_constructor_waits_for_an_argument() -> Stage:
    c, _, actor = unready_actor()
    return c, actor, deque([actor.handle])


@plays(CREATING, ALIVE, "task_finished")
def a_constructor_returns() -> Stage:
    c, actor = actor_under_construction()
    return c, actor, *result_of(actor.creation)


@plays(CREATING, RESTARTING, "worker_died")
def a_worker_crashes_during_a_constructor() -> Stage:
    c, actor = actor_under_construction(max_restarts=1)
    return c, actor, *crash_of(actor.worker)


@plays(CREATING, RESTARTING, "remove_node")
def a_node_dies_during_a_constructor() -> Stage:
    c, actor = actor_under_construction(max_restarts=1)
    return c, actor, node(c)


@plays(CREATING, RESTARTING, "kill_actor")
def an_actor_that_may_restart_is_killed_during_its_constructor() -> Stage:
    c, actor = actor_under_construction(max_restarts=1)
    return c, actor, actor, False


@plays(CREATING, DEAD, "create_actor", on_the_way=True)
def an_actor_must_live_on_a_node_that_does_not_exist() -> Stage:
    c = one_node()
    actor, creation = creation_of(c, strategy=NOWHERE)
    return c, actor, actor, creation


@plays(CREATING, DEAD, "task_failed")
def a_constructor_raises() -> Stage:
    c, actor = actor_under_construction(max_restarts=1)
    return c, actor, *error_of(actor.creation)


@plays(CREATING, DEAD, "worker_died")
def a_worker_crashes_during_a_constructor_that_has_no_second_try() -> Stage:
    c, actor = actor_under_construction()
    return c, actor, *crash_of(actor.worker)


@plays(CREATING, DEAD, "remove_node")
def a_node_dies_during_a_constructor_that_has_no_second_try() -> Stage:
    c, actor = actor_under_construction()
    return c, actor, node(c)


@plays(CREATING, DEAD, "kill_actor")
def an_actor_is_killed_during_its_constructor() -> Stage:
    c, actor = actor_under_construction()
    return c, actor, actor


@plays(CREATING, DEAD, "references_dropped")
def the_last_handle_is_dropped_while_an_actor_waits_for_a_node() -> Stage:
    c, _, _ = busy_node()
    actor = an_actor(c)
    return c, actor, deque([actor.handle])


@plays(ALIVE, RESTARTING, "worker_died")
def the_worker_of_an_actor_crashes() -> Stage:
    c = one_node()
    actor = living_actor(c, max_restarts=1)
    return c, actor, *crash_of(actor.worker)


@plays(ALIVE, RESTARTING, "actor_exited")
def an_actor_ends_itself_because_of_an_error() -> Stage:
    c = one_node()
    actor = living_actor(c, max_restarts=1)
    return c, actor, actor.worker, a_call(c, actor), "it raised SystemExit(1)", True


@plays(ALIVE, RESTARTING, "remove_node")
def the_node_of_an_actor_dies() -> Stage:
    c = one_node()
    return c, living_actor(c, max_restarts=1), node(c)


@plays(ALIVE, RESTARTING, "kill_actor")
def an_actor_is_killed_and_may_restart() -> Stage:
    c = one_node()
    actor = living_actor(c, max_restarts=1)
    return c, actor, actor, False


@plays(ALIVE, DEAD, "kill_actor")
def an_actor_is_killed_for_good() -> Stage:
    c = one_node()
    actor = living_actor(c, max_restarts=1)
    return c, actor, actor


@plays(ALIVE, DEAD, "actor_exited")
def an_actor_ends_itself() -> Stage:
    c = one_node()
    actor = living_actor(c, max_restarts=1)
    return c, actor, actor.worker, a_call(c, actor), "it exited"


@plays(ALIVE, DEAD, "worker_died")
def the_worker_of_an_actor_without_restarts_crashes() -> Stage:
    c = one_node()
    actor = living_actor(c)
    return c, actor, *crash_of(actor.worker)


@plays(ALIVE, DEAD, "remove_node")
def the_node_of_an_actor_without_restarts_dies() -> Stage:
    c = one_node()
    return c, living_actor(c), node(c)


@plays(ALIVE, DEAD, "references_dropped")
def the_last_handle_of_an_idle_actor_is_dropped() -> Stage:
    c = one_node()
    actor = living_actor(c)
    return c, actor, deque([actor.handle])


@plays(ALIVE, DEAD, "task_finished")
def the_last_call_of_an_actor_that_nobody_holds_returns() -> Stage:
    c = one_node()
    actor = living_actor(c)
    call = a_call(c, actor)
    drop(c, actor.handle)
    return c, actor, *result_of(call)


@plays(ALIVE, DEAD, "remove_placement_group")
def a_group_is_removed_with_an_actor_in_it() -> Stage:
    c = one_node()
    group = a_group(c, CPU)
    return c, living_actor(c, holds_cpus=1, strategy=in_group(group), max_restarts=1), group


@plays(RESTARTING, ALIVE, "task_finished")
def the_constructor_of_a_restarted_actor_returns() -> Stage:
    c, actor = restarting_actor()
    return c, actor, *result_of(actor.creation)


@plays(RESTARTING, RESTARTING, "worker_died")
def a_worker_crashes_during_a_restart() -> Stage:
    c, actor = restarting_actor(max_restarts=2)
    return c, actor, *crash_of(actor.worker)


@plays(RESTARTING, RESTARTING, "remove_node")
def a_node_dies_during_a_restart() -> Stage:
    c, actor = restarting_actor(max_restarts=2)
    return c, actor, node(c)


@plays(RESTARTING, RESTARTING, "kill_actor")
def an_actor_is_killed_during_a_restart_and_may_restart_again() -> Stage:
    c, actor = restarting_actor(max_restarts=2)
    return c, actor, actor, False


@plays(RESTARTING, DEAD, "task_failed")
def the_constructor_of_a_restarted_actor_raises() -> Stage:
    c, actor = restarting_actor()
    return c, actor, *error_of(actor.creation)


@plays(RESTARTING, DEAD, "worker_died")
def a_worker_crashes_during_the_last_restart() -> Stage:
    c, actor = restarting_actor()
    return c, actor, *crash_of(actor.worker)


@plays(RESTARTING, DEAD, "remove_node")
def a_node_dies_during_the_last_restart() -> Stage:
    c, actor = restarting_actor()
    return c, actor, node(c)


@plays(RESTARTING, DEAD, "kill_actor")
def an_actor_is_killed_during_its_restart() -> Stage:
    c, actor = restarting_actor()
    return c, actor, actor


@plays(RESTARTING, DEAD, "references_dropped")
def the_last_handle_is_dropped_while_an_actor_waits_for_a_node_to_restart_on() -> Stage:
    c = one_node()
    actor = living_actor(c, holds_cpus=1, max_restarts=1)
    c.remove_node(NOW, node(c))
    return c, actor, deque([actor.handle])


@plays(DEAD, RESTARTING, "wait_for")
def the_driver_waits_for_a_lost_value_that_an_ended_actor_had_returned() -> Stage:
    c, actor, value = lost_result_of_an_ended_actor()
    return c, actor, a_waiter(), (value,)


@plays(DEAD, RESTARTING, "submit_task")
def a_task_needs_a_lost_value_that_an_ended_actor_had_returned() -> Stage:
    c, actor, value = lost_result_of_an_ended_actor()
    return c, actor, a_task(c, deps=(value,))
