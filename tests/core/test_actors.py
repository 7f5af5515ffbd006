"""Actors from their creation to their death: order, restarts, groups, names."""

from __future__ import annotations

import pytest

from miniray.core.actions import InterruptTask, InterruptWait, KillWorker, RunTask, StartWorker
from miniray.core.actor_manager import NameTaken
from miniray.core.records import ACTOR_TASK, Failure, TaskRecord, TaskSpec
from miniray.core.transitions import ActorStatus, TaskStatus
from tests.core.builders import (
    LARGE,
    NOW,
    a_call,
    an_actor,
    a_value,
    construct,
    crash,
    drop,
    finish,
    free,
    living_actor,
    node,
    one_node,
    put,
    raise_in,
    run_call,
    running_task,
    several_nodes,
    started,
    submitted,
)

ALIVE, DEAD, RESTARTING = ActorStatus.ALIVE, ActorStatus.DEAD, ActorStatus.RESTARTING
FAILED, FINISHED, QUEUED = TaskStatus.FAILED, TaskStatus.FINISHED, TaskStatus.SUBMITTED_TO_WORKER


# ---------------------------------------------------------------- creation


def test_an_actor_has_a_worker_of_its_own():
    """An actor is never placed in an idle worker; its constructor is the first thing that runs in its own."""
    c = one_node()
    finish(c, running_task(c)[0])
    actor = an_actor(c)
    assert actor.worker not in node(c).idle and actor.worker.task is actor.creation
    construct(c, actor)
    assert actor.status is ALIVE and actor.worker.task is None


def test_an_actor_needs_a_cpu_to_be_placed_and_holds_none():
    """Ray's default: ten actors can live on one CPU."""
    c = one_node(cpus=1)
    actors = [living_actor(c) for _ in range(10)]
    assert free(c) == 1 and all(actor.status is ALIVE for actor in actors)


def test_an_actor_holds_what_it_asks_for_until_it_dies():
    """A task that needs a CPU waits until the actor is dead."""
    c = one_node(cpus=2)
    actor = living_actor(c, holds_cpus=2)
    waiting = submitted(c)
    assert waiting.worker is None
    c.kill_actor(NOW, actor)
    assert waiting.worker is not None


def test_an_actor_waits_for_its_constructors_arguments():
    """Its calls wait, too."""
    c = one_node()
    producer, _ = running_task(c)
    actor = an_actor(c, deps=producer.returns)
    call = a_call(c, actor)
    assert actor.status is ActorStatus.DEPENDENCIES_UNREADY
    finish(c, producer)
    assert actor.status is ActorStatus.PENDING_CREATION
    construct(c, actor)
    assert call.worker is actor.worker


def test_a_constructor_that_raises_ends_the_actor():
    """Its calls fail with the reason. The constructor is not retried, as in Ray."""
    c = one_node()
    actor = an_actor(c, max_restarts=3)
    call = a_call(c, actor)
    started(c, actor.creation)
    raise_in(c, actor.creation)
    assert actor.status is DEAD and call.status is FAILED and call.failure.error_type == "ACTOR_DIED"
    assert call.failure.cause.error_type == "TASK_EXECUTION_EXCEPTION"


def test_a_failed_argument_of_the_constructor_ends_the_actor():
    """The constructor never runs."""
    c = one_node()
    producer, _ = running_task(c)
    actor = an_actor(c, deps=producer.returns)
    raise_in(c, producer)
    assert actor.status is DEAD and actor.creation.t_leased == 0


# ---------------------------------------------------------------- order


def test_calls_run_one_at_a_time_in_the_order_of_submission():
    """When the worker reports the end of a call, it finds the next call in its record."""
    c = one_node()
    actor = living_actor(c)
    calls = [a_call(c, actor) for _ in range(4)]
    for call, following in zip(calls, calls[1:]):
        assert call.worker is actor.worker and following.worker is None
        started(c, call)
        assert finish(c, call) == [] and actor.worker.task is following


def test_no_call_overtakes_an_earlier_call_that_waits_for_an_argument():
    """The calls of one caller keep their order, even if the actor is idle meanwhile."""
    c = one_node()
    actor = living_actor(c)
    producer, _ = running_task(c)
    waiting, ready = a_call(c, actor, deps=producer.returns), a_call(c, actor)
    assert ready.worker is None
    finish(c, producer)
    assert waiting.worker is actor.worker and ready.worker is None


def test_order_is_kept_for_each_caller_and_not_between_callers():
    """Otherwise two callers that wait for each other's calls would deadlock."""
    c = one_node()
    actor = living_actor(c)
    producer, worker = running_task(c)
    waiting, behind = a_call(c, actor, deps=producer.returns), a_call(c, actor)
    others = a_call(c, actor, owner=worker)
    assert others.worker is actor.worker and waiting.worker is behind.worker is None
    run_call(c, others)
    assert actor.worker.task is None
    finish(c, producer)
    assert waiting.worker is actor.worker
    run_call(c, waiting)
    assert behind.worker is actor.worker


def test_a_cancelled_call_in_the_middle_of_the_queue_no_longer_blocks_its_caller():
    """The head of the queue is a call of another caller, which still waits for an argument."""
    c = one_node(cpus=4)
    actor = living_actor(c)
    producer, worker = running_task(c)
    first, second = a_call(c, actor, deps=producer.returns), a_call(c, actor, deps=producer.returns, owner=worker)
    behind_first, behind_second = a_call(c, actor), a_call(c, actor, owner=worker)
    assert not any(call.worker for call in (first, second, behind_first, behind_second))
    c.cancel(NOW, second, False, False)
    assert behind_second.worker is actor.worker and behind_first.worker is None


def test_a_cancelled_call_blocks_no_other_call():
    """Neither at the head of the queue nor behind the head."""
    c = one_node()
    actor = living_actor(c)
    producer, _ = running_task(c)
    first, second, third = a_call(c, actor, deps=producer.returns), a_call(c, actor), a_call(c, actor)
    c.cancel(NOW, second, False, False)
    c.cancel(NOW, first, False, False)
    assert first.status is second.status is FAILED and third.worker is actor.worker


def test_a_running_call_of_a_plain_actor_is_interrupted_only_while_it_waits():
    """As in Ray: otherwise it runs to its end, but it counts as cancelled and its value is discarded."""
    c = one_node()
    actor = living_actor(c)
    call = a_call(c, actor)
    started(c, call)
    assert c.cancel(NOW, call, False, False) == [InterruptWait(actor.worker, call)] and call.cancel_requested
    finish(c, call)
    assert call.status is FAILED and call.failure.error_type == "TASK_CANCELLED" and actor.worker.task is None


def test_a_call_that_raises_is_retried_before_later_calls():
    """max_task_retries=1 and retry_exceptions=True."""
    c = one_node()
    actor = living_actor(c, max_task_retries=1)
    first, second = a_call(c, actor), a_call(c, actor)
    started(c, first)
    raise_in(c, first, retry=True)
    assert actor.worker.task is first and first.attempt == 1 and second.worker is None


def test_a_retried_call_waits_for_an_argument_that_was_lost():
    """The worker used to be given the call without the argument."""
    c = one_node()
    actor = living_actor(c, max_task_retries=1)
    value = a_value(c, LARGE, retries=1)
    first = a_call(c, actor, deps=(value,))
    second = a_call(c, actor)
    started(c, first)
    c.lose_object(NOW, value)
    raise_in(c, first, retry=True)
    assert first.status is TaskStatus.PENDING_ARGS_AVAIL and actor.worker.task is None and second.worker is None
    started(c, value.task)
    finish(c, value.task, LARGE)
    assert actor.worker.task is first


# ---------------------------------------------------------------- concurrency


def test_max_concurrency_adds_workers_up_to_the_limit():
    """Each new worker is started for a call that waits."""
    c = one_node()
    actor = living_actor(c, groups={"": 2})
    calls = [a_call(c, actor) for _ in range(3)]
    assert calls[0].worker is actor.worker and calls[1].worker is not actor.worker and calls[2].worker is None
    worker = started(c, calls[1])
    finish(c, calls[1])
    assert worker.task is calls[2] and len(actor.groups[""].workers) == 2


def test_the_workers_of_a_killed_actor_end_in_the_order_in_which_they_were_started():
    """The worker of the constructor is the first."""
    c = one_node()
    actor = living_actor(c, groups={"": 3})
    calls = [a_call(c, actor) for _ in range(3)]
    assert [each.worker.number for each in calls] == [1, 2, 3]
    killed = [action.worker for action in c.kill_actor(NOW, actor) if type(action) is KillWorker]
    assert [worker.number for worker in killed] == [1, 2, 3]


def test_concurrency_groups_have_limits_of_their_own():
    """A full group does not block the calls of another."""
    c = one_node()
    actor = living_actor(c, groups={"": 1, "io": 1})
    a_call(c, actor)
    behind, io = a_call(c, actor), a_call(c, actor, group="io")
    assert behind.worker is None and io.worker is not None and io.worker is not actor.worker


def test_calls_of_a_concurrent_actor_do_not_wait_for_each_others_arguments():
    """Order is only kept in an actor that runs one call at a time."""
    c = one_node()
    actor = living_actor(c, groups={"": 2})
    producer, _ = running_task(c)
    waiting, ready = a_call(c, actor, deps=producer.returns), a_call(c, actor)
    assert waiting.worker is None and ready.worker is not None


def test_a_call_of_an_unknown_concurrency_group_gets_its_own_worker():
    """The worker will die of it: in Ray, such a call crashes the process that receives it. It waits for no other
    call."""
    c = one_node()
    actor = living_actor(c)
    started(c, a_call(c, actor))
    assert a_call(c, actor, group="nope").worker not in (None, actor.worker)


def test_an_async_actor_runs_its_calls_in_one_worker():
    """It runs as many as its limit. The core sends it each call: it does not look for the next one by itself."""
    c = one_node()
    actor = living_actor(c, is_async=True, groups={"": 2})
    first, second, third = (TaskRecord(TaskSpec(ACTOR_TASK, "A.m", "A.m"), ("args",), actor=actor) for _ in range(3))
    assert c.submit_actor_task(NOW, first) == [RunTask(actor.worker, first)]
    assert c.submit_actor_task(NOW, second) == [RunTask(actor.worker, second)]
    assert c.submit_actor_task(NOW, third) == []
    assert finish(c, first) == [RunTask(actor.worker, third)]
    assert set(actor.worker.running) == {second.number, third.number}


def test_each_group_of_an_async_actor_has_a_worker_of_its_own():
    """It is started when the group is first called. The calls given to it until it has started are handed to it then."""
    c = one_node()
    actor = living_actor(c, is_async=True, groups={"": 2, "io": 2})
    spec = TaskSpec(ACTOR_TASK, "A.m", "A.m", group="io")
    first, second, third = (TaskRecord(spec, ("args",), actor=actor) for _ in range(3))
    (start,) = c.submit_actor_task(NOW, first)
    worker = start.worker
    assert type(start) is StartWorker and worker is not actor.worker and worker.task is None
    assert c.submit_actor_task(NOW, second) == [] == c.submit_actor_task(NOW, third)
    assert a_call(c, actor).worker is actor.worker
    assert c.worker_started(NOW, worker) == [RunTask(worker, first), RunTask(worker, second)]
    assert finish(c, first) == [RunTask(worker, third)]


def test_a_call_cancelled_before_its_groups_worker_has_started_ends_there():
    """The worker is told, and will find the request in the call's record; the call holds its place until then."""
    c = one_node()
    actor = living_actor(c, is_async=True, groups={"": 1, "io": 1})
    call = a_call(c, actor, group="io")
    assert c.cancel(NOW, call, False, False) == [InterruptTask(call.worker, call)]
    assert c.worker_started(NOW, call.worker) == [RunTask(call.worker, call)]
    raise_in(c, call, error_type="TASK_CANCELLED")
    assert call.status is FAILED and not actor.groups["io"].running


def test_all_workers_of_an_async_actor_end_with_it():
    """A restart begins with the constructor's worker alone; new threads for the others are started when they are needed."""
    c = one_node()
    actor = living_actor(c, is_async=True, groups={"": 1, "io": 1}, max_restarts=1)
    call = a_call(c, actor, group="io")
    c.worker_started(NOW, call.worker)
    workers = [actor.worker, call.worker]
    actions = c.worker_died(NOW, call.worker, Failure("WORKER_DIED", "it crashed"))
    assert [action.worker for action in actions if type(action) is KillWorker] == workers
    assert actor.status is RESTARTING and not actor.groups["io"].workers


def test_a_call_of_an_async_actor_can_be_cancelled_while_it_runs():
    """Its coroutine is cancelled; the other calls continue."""
    c = one_node()
    actor = living_actor(c, is_async=True, groups={"": 2})
    call, _ = a_call(c, actor), a_call(c, actor)
    assert c.cancel(NOW, call, False, False) == [InterruptTask(actor.worker, call)]
    raise_in(c, call, error_type="TASK_CANCELLED")
    assert call.status is FAILED and len(actor.worker.running) == 1


# ---------------------------------------------------------------- restarts


def test_an_actor_is_restarted_as_often_as_its_options_allow():
    """max_restarts=1: it survives the first crash and not the second."""
    c = one_node()
    actor = living_actor(c, max_restarts=1)
    old = actor.worker
    assert crash(c, old) == [KillWorker(old), StartWorker(actor.worker)] and actor.status is RESTARTING
    construct(c, actor)
    assert actor.status is ALIVE and actor.restarts == 1
    crash(c, actor.worker)
    assert actor.status is DEAD and free(c) == 2


def test_calls_of_an_actor_that_dies_are_retried_in_their_order():
    """max_task_retries=1: the call that ran, and those in the queue."""
    c = one_node()
    actor = living_actor(c, max_restarts=1, max_task_retries=1)
    calls = [a_call(c, actor) for _ in range(3)]
    started(c, calls[0])
    crash(c, actor.worker)
    assert [call.status for call in calls] == [TaskStatus.PENDING_NODE_ASSIGNMENT] * 3
    construct(c, actor)
    for call in calls:
        assert actor.worker.task is call
        run_call(c, call)


def test_calls_without_retries_fail_when_the_actor_restarts_and_later_ones_wait():
    """max_task_retries=0: calls from before the crash fail as ACTOR_UNAVAILABLE. Calls submitted during the restart run
    later."""
    c = one_node()
    actor = living_actor(c, max_restarts=1)
    lost = a_call(c, actor)
    started(c, lost)
    crash(c, actor.worker)
    later = a_call(c, actor)
    assert lost.failure.error_type == "ACTOR_UNAVAILABLE"
    construct(c, actor)
    assert later.worker is actor.worker


@pytest.mark.parametrize("groups", [{"": 1}, {"": 3}])
def test_calls_that_were_never_sent_survive_a_crash_in_the_constructor(groups):
    """They keep their place and their retries. They used to be lost in a concurrent actor, and to fail in others."""
    c = one_node()
    actor = an_actor(c, max_restarts=1, groups=groups)
    call = a_call(c, actor)
    started(c, actor.creation)
    crash(c, actor.worker)
    assert actor.status is RESTARTING and call.status is TaskStatus.PENDING_NODE_ASSIGNMENT
    construct(c, actor)
    assert call.worker is actor.worker


def test_kill_without_restart_ends_the_actor_and_its_calls():
    """The running call, the waiting call and a later call all fail."""
    c = one_node()
    actor = living_actor(c, max_restarts=-1)
    running, queued = a_call(c, actor), a_call(c, actor)
    started(c, running)
    worker = actor.worker
    assert c.kill_actor(NOW, actor) == [KillWorker(worker)]
    assert {running.failure.error_type, queued.failure.error_type, a_call(c, actor).failure.error_type} == {
        "ACTOR_DIED"
    }


def test_kill_with_restart_restarts_the_actor():
    """no_restart=False: it restarts while it has restarts left, and then dies."""
    c = one_node()
    actor = living_actor(c, max_restarts=1)
    c.kill_actor(NOW, actor, no_restart=False)
    assert actor.status is RESTARTING
    construct(c, actor)
    c.kill_actor(NOW, actor, no_restart=False)
    assert actor.status is DEAD


def test_an_actor_that_waits_for_a_node_survives_a_kill_with_restart():
    """It keeps its place in the queue. This used to be an illegal move."""
    c = one_node(cpus=1)
    blocker, _ = running_task(c)
    actor = an_actor(c, max_restarts=1)
    c.kill_actor(NOW, actor, no_restart=False)
    assert actor.status is RESTARTING and actor.restarts == 1
    finish(c, blocker)
    construct(c, actor)
    assert actor.status is ALIVE


def test_a_kill_with_restart_of_an_actor_that_waits_for_arguments_does_nothing():
    """Nothing of it runs yet that could be restarted; as in Ray."""
    c = one_node()
    producer, _ = running_task(c)
    actor = an_actor(c, deps=producer.returns)
    assert c.kill_actor(NOW, actor, no_restart=False) == [] and actor.status is ActorStatus.DEPENDENCIES_UNREADY


def test_an_actor_that_exits_is_not_restarted():
    """It called exit_actor, so its end was intended."""
    c = one_node()
    actor = living_actor(c, max_restarts=-1)
    call = a_call(c, actor)
    worker = started(c, call)
    c.actor_exited(NOW, worker, call, "exit_actor() is called.")
    assert actor.status is DEAD and call.status is FAILED and actor.failure.message == "exit_actor() is called."


def test_an_actor_that_nobody_holds_is_not_restarted():
    """It crashed in its last call."""
    c = one_node()
    actor = living_actor(c, max_restarts=-1)
    call = a_call(c, actor)
    started(c, call)
    drop(c, actor.handle)
    crash(c, actor.worker)
    assert actor.status is DEAD and call.status is FAILED and not node(c).workers


def test_the_end_of_a_call_may_be_the_end_of_its_actor():
    """The last call of an actor that nobody holds raises. Its worker used to be freed twice."""
    c = one_node()
    actor = living_actor(c)
    call = a_call(c, actor)
    worker = started(c, call)
    drop(c, actor.handle)
    raise_in(c, call)
    assert actor.status is DEAD and worker.status.name == "DEAD"


def test_an_actor_moves_to_another_node_when_its_own_dies():
    """If it has restarts left. It holds its resources on the new node."""
    c = several_nodes(1, 1)
    actor = living_actor(c, holds_cpus=1, max_restarts=1)
    first = actor.node
    c.remove_node(NOW, first)
    construct(c, actor)
    assert actor.status is ALIVE and actor.node is not first and actor.node.available["CPU"] == 0


def test_arguments_of_a_constructor_are_kept_while_it_may_run_again():
    """They are released when the actor is dead; at once if it has no restarts."""
    c = one_node()
    argument, inside = put(c), put(c)
    actor = living_actor(c, deps=(argument,), contained=(inside,), max_restarts=1)
    drop(c, argument, inside)
    assert argument.number in c.objects and inside.number in c.objects
    c.kill_actor(NOW, actor)
    assert set(c.objects) == {actor.handle.number}
    once = living_actor(c, deps=(put(c),))
    assert once.creation.args is None


# ---------------------------------------------------------------- names and owners


def test_a_name_belongs_to_one_actor():
    """A second actor with the name is refused, and nothing changes. The name is free in another namespace."""
    c = one_node()
    actor = living_actor(c, name="n")
    before = c.number, dict(c.tasks), dict(c.objects), dict(c.actors)
    with pytest.raises(NameTaken):
        an_actor(c, name="n")
    assert (c.number, c.tasks, c.objects, c.actors) == before
    assert c.actor_manager.find("n", "") is actor and an_actor(c, name="n", namespace="other").number


def test_a_name_is_free_when_its_actor_is_dead():
    """Not while its actor restarts."""
    c = one_node()
    actor = living_actor(c, name="n", max_restarts=1)
    crash(c, actor.worker)
    assert c.actor_manager.find("n", "") is actor
    c.kill_actor(NOW, actor)
    assert c.actor_manager.find("n", "") is None
    assert living_actor(c, name="n").status is ALIVE


def test_a_detached_actor_outlives_its_handles_and_its_owner():
    """It lives until it is killed."""
    c = one_node()
    _, owner = running_task(c)
    actor = living_actor(c, name="n", detached=True, owner=owner)
    drop(c, actor.handle)
    crash(c, owner)
    assert actor.status is ALIVE
    c.kill_actor(NOW, actor)
    assert actor.status is DEAD and actor.handle.number not in c.objects


def test_an_actor_dies_with_the_worker_that_created_it():
    """The actors that it created die with it."""
    c = one_node(cpus=4)
    _, owner = running_task(c)
    child = living_actor(c, owner=owner, max_restarts=-1)
    grandchild = living_actor(c, owner=child.worker)
    crash(c, owner)
    assert child.status is grandchild.status is DEAD and "owner" in child.failure.message


def test_a_new_handle_by_name_keeps_an_actor_alive_that_was_about_to_end():
    """Somebody looked it up while its last call ran."""
    c = one_node()
    actor = living_actor(c, name="n")
    call = a_call(c, actor)
    started(c, call)
    drop(c, actor.handle)
    c.actor_manager.find("n", "").handle.refs += 1
    finish(c, call)
    assert actor.status is ALIVE


def test_a_weak_handle_does_not_keep_an_actor_alive():
    """It is counted in an object of its own, which is gone with the last weak handle."""
    c = one_node()
    actor = living_actor(c, name="n")
    weak = c.add_weak_reference(NOW, actor)
    assert c.add_weak_reference(NOW, actor) is weak is actor.weak_handle is not actor.handle
    drop(c, weak)
    assert actor.status is ALIVE and actor.weak_handle is weak
    drop(c, actor.handle)
    assert actor.status is DEAD and c.objects[weak.number] is weak
    drop(c, weak)
    assert actor.weak_handle is None and weak.number not in c.objects


def test_a_call_with_an_argument_that_is_an_error_never_runs():
    """The error was there when the call was submitted. The next call runs."""
    c = one_node()
    bad = submitted(c)
    started(c, bad)
    raise_in(c, bad)
    actor = living_actor(c)
    call, following = a_call(c, actor, deps=bad.returns), a_call(c, actor)
    assert call.status is TaskStatus.FAILED and call.worker is None and following.worker is actor.worker


def test_an_actor_without_weak_handles_lives_on():
    """Another one is counted in a new object."""
    c = one_node()
    actor = living_actor(c)
    drop(c, c.add_weak_reference(NOW, actor))
    assert actor.status is ALIVE and actor.weak_handle is None
    assert c.add_weak_reference(NOW, actor).refs == 1


def test_a_call_through_a_weak_handle_ends_before_its_actor():
    """Nobody holds the actor any longer, but the call is unfinished."""
    c = one_node()
    actor = living_actor(c)
    c.add_weak_reference(NOW, actor)
    call = a_call(c, actor)
    started(c, call)
    drop(c, actor.handle)
    assert actor.status is ALIVE
    finish(c, call)
    assert actor.status is DEAD and call.status is FINISHED


def test_a_dead_actors_class_is_kept_for_a_weak_handle():
    """The program may still read methods from it; their calls fail."""
    c = one_node()
    actor = living_actor(c)
    actor.meta = "class"
    weak = c.add_weak_reference(NOW, actor)
    drop(c, actor.handle)
    assert actor.meta == "class" and a_call(c, actor).status is FAILED
    drop(c, weak)
    assert actor.meta is None


def test_late_reports_of_an_actors_dead_worker_are_ignored():
    """They change nothing, and the new worker continues."""
    c = one_node()
    actor = living_actor(c, max_restarts=1, max_task_retries=1)
    call = a_call(c, actor)
    old = started(c, call)
    crash(c, old)
    construct(c, actor)
    assert c.task_finished(NOW, old, call, (8,)) == [] and c.actor_exited(NOW, old, call, "late") == []
    assert c.worker_died(NOW, old, Failure("WORKER_DIED")) == [] and actor.status is ALIVE and call.status is QUEUED
