"""Owners that end: which of their work is completed, which of their values stay, and when they are gone."""

from __future__ import annotations

from typing import Any

import pytest

from miniray.core.actions import CallLater, KillWorker
from miniray.core.cluster import Cluster
from miniray.core.ownership import DROP_LIMIT_S
from miniray.core.records import FAILED, READY, ActorRecord, TaskRecord, WorkerRecord
from miniray.core.transitions import ActorStatus, TaskStatus, WorkerStatus
from tests.core.builders import (
    LARGE,
    NOW,
    a_call,
    an_actor,
    construct,
    crash,
    drop,
    finish,
    in_group,
    a_group,
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
FINISHED, LOST = TaskStatus.FINISHED, TaskStatus.FAILED
GONE = WorkerStatus.DEAD


def busy_owner(c: Cluster, **options: Any) -> tuple[ActorRecord, WorkerRecord, TaskRecord]:
    """A living actor, its worker, and a running task that it has submitted."""
    actor = living_actor(c, **options)
    return actor, actor.worker, running_task(c, owner=actor.worker)[0]


def leave(c: Cluster, actor: ActorRecord, error: bool = False) -> TaskRecord:
    """The actor ends itself in a call, which is returned."""
    call = a_call(c, actor)
    started(c, call)
    c.actor_exited(NOW, call.worker, call, "it left", error)
    return call


# ---------------------------------------------------------------- the end in good order


def test_a_dropped_actor_is_dead_at_once_and_its_worker_is_gone_with_its_work():
    """Meanwhile its name is free, its resources are taken, and its values are there."""
    c = one_node(cpus=4)
    actor, owner, task = busy_owner(c, name="n", holds_cpus=2)
    value = put(c, owner=owner)
    assert drop(c, actor.handle) == [CallLater(NOW + DROP_LIMIT_S)]
    assert actor.status is DEAD and c.actor_manager.find("n", "") is None
    assert owner.status is not GONE and c.nodes[1].available["CPU"] == 10_000 and value.status is READY
    actions = finish(c, task)
    assert actions == [KillWorker(owner)] and owner.exit_type == "INTENDED_SYSTEM_EXIT"
    assert value.status is FAILED and task.returns[0].status is READY and c.nodes[1].available["CPU"] == 40_000


def test_a_drop_is_a_crash_when_its_limit_has_passed():
    """Its running task ends, a queued one never runs, and the driver's references hold the error."""
    c = one_node(cpus=1)
    actor, owner, running = busy_owner(c)
    queued = submitted(c, owner=owner)
    drop(c, actor.handle)
    assert c.timer(NOW + DROP_LIMIT_S - 0.1) == [] and owner.status is not GONE
    runner = running.worker
    c.timer(NOW + DROP_LIMIT_S)
    assert owner.status is runner.status is GONE and running.status is queued.status is LOST
    assert [task.returns[0].value.error_type for task in (running, queued)] == ["OWNER_DIED"] * 2


def test_a_retry_belongs_to_the_work():
    """The owner stays until the last attempt is over."""
    c = one_node(cpus=2)
    actor = living_actor(c)
    owner = actor.worker
    task, _ = running_task(c, owner=owner, retries=1)
    drop(c, actor.handle)
    crash(c, task.worker)
    assert task.attempt == 1 and owner.status is not GONE
    started(c, task)
    finish(c, task)
    assert task.returns[0].status is READY and owner.status is GONE


def test_an_actor_that_left_is_alive_without_a_limit_and_takes_no_call():
    """Its own call fails at once. Other calls wait, and fail when the work is done."""
    c = one_node(cpus=2)
    actor, owner, task = busy_owner(c, name="n", max_restarts=-1)
    leaving = leave(c, actor)
    assert leaving.failure.error_type == "ACTOR_UNAVAILABLE" and actor.status is ALIVE
    assert c.actor_manager.find("n", "") is actor and c.timer(NOW + 1000) == []
    late = a_call(c, actor)
    assert late.status is TaskStatus.SUBMITTED_TO_WORKER and late.worker is None
    finish(c, task)
    assert actor.status is DEAD and late.failure.error_type == "ACTOR_DIED" and owner.status is GONE


def test_an_actor_without_work_ends_at_once():
    """Then even the call in which it left gets the reason."""
    c = one_node()
    actor = living_actor(c)
    leaving = leave(c, actor)
    assert actor.status is DEAD and leaving.failure is actor.failure


def test_an_actor_that_left_waits_for_its_other_running_calls():
    """They return their values."""
    c = one_node()
    actor = living_actor(c, groups={"": 2})
    running = a_call(c, actor)
    started(c, running)
    leave(c, actor)
    waiting = a_call(c, actor)
    assert actor.status is ALIVE and waiting.worker is None
    finish(c, running)
    assert running.returns[0].status is READY and actor.status is DEAD
    assert waiting.failure.error_type == "ACTOR_DIED"


@pytest.mark.parametrize("retries, outcome", [(0, "ACTOR_UNAVAILABLE"), (1, None)])
def test_an_error_exit_restarts_the_actor_after_the_drain(retries: int, outcome: str | None):
    """Calls that came meanwhile count as sent to the old worker: they need a retry to run in the new one."""
    c = one_node(cpus=2)
    actor, _, task = busy_owner(c, max_restarts=1, max_task_retries=retries)
    leave(c, actor, error=True)
    late = a_call(c, actor)
    assert actor.status is ALIVE
    finish(c, task)
    assert actor.status is RESTARTING
    assert (late.failure.error_type if late.failure is not None else None) == outcome
    construct(c, actor)
    assert actor.status is ALIVE and actor.drain is None


def test_a_failed_constructor_drains():
    """Calls of the actor wait until its work is done."""
    c = one_node(cpus=2)
    actor = an_actor(c)
    owner = started(c, actor.creation)
    task, _ = running_task(c, owner=owner)
    call = a_call(c, actor)
    raise_in(c, actor.creation)
    assert actor.status is ActorStatus.PENDING_CREATION and call.status is TaskStatus.PENDING_NODE_ASSIGNMENT
    finish(c, task)
    assert actor.status is DEAD and call.failure is actor.failure and owner.status is GONE


def test_a_dropped_actor_that_had_left_has_the_limit_from_the_drop_on():
    """As in Ray, the two ends come together."""
    c = one_node(cpus=2)
    actor, owner, task = busy_owner(c)
    leave(c, actor)
    assert drop(c, actor.handle, now=NOW + 10) == [CallLater(NOW + 10 + DROP_LIMIT_S)] and actor.status is DEAD
    c.timer(NOW + 10 + DROP_LIMIT_S)
    assert owner.status is GONE and task.status is LOST


def test_the_threads_of_an_actor_are_one_owner():
    """A value that one thread put stays as long as the work of another is unfinished."""
    c = one_node(cpus=2)
    actor = living_actor(c, groups={"": 2})
    calls = [a_call(c, actor) for _ in range(2)]
    first, second = (started(c, call) for call in calls)
    task, _ = running_task(c, owner=first)
    value = put(c, owner=second)
    for call in calls:
        finish(c, call)
    drop(c, actor.handle)
    assert value.status is READY and first.status is second.status is WorkerStatus.LEASED
    finish(c, task)
    assert value.status is FAILED and first.status is second.status is GONE


def test_children_are_not_waited_for_and_end_with_their_owner():
    """The owner's own call of the child is its work; the driver's call is not."""
    c = one_node(cpus=2)
    owner = living_actor(c)
    child, detached = living_actor(c, owner=owner.worker), living_actor(c, owner=owner.worker, detached=True)
    own = a_call(c, child, owner=owner.worker)
    started(c, own)
    theirs = a_call(c, child)
    drop(c, owner.handle)
    assert child.status is ALIVE
    finish(c, own)
    assert child.status is DEAD and theirs.failure.error_type == "ACTOR_DIED" and detached.status is ALIVE


# ---------------------------------------------------------------- crashes


def test_calls_that_were_sent_survive_a_crash_and_others_do_not():
    """A call behind one of the same caller that waits for its argument was not sent. Nobody gets the values."""
    c = one_node(cpus=3)
    log, other, unborn = living_actor(c), living_actor(c), an_actor(c)
    _, owner = running_task(c)
    pending = submitted(c, owner=owner)
    running, queued = a_call(c, log, owner=owner), a_call(c, log, owner=owner)
    blocked, behind = a_call(c, other, owner=owner, deps=pending.returns), a_call(c, other, owner=owner)
    to_come = a_call(c, unborn, owner=owner)
    started(c, running)
    crash(c, owner)
    assert [call.status for call in (pending, blocked, behind, to_come)] == [LOST] * 4
    assert all(call.returns[0].value.error_type == "OWNER_DIED" for call in (running, queued, behind))
    finish(c, running)
    run_call(c, queued)
    assert running.status is queued.status is FINISHED and running.returns[0].status is FAILED


def test_a_sent_call_of_a_dead_owner_has_no_retries():
    """Its owner would have decided about them."""
    c = one_node(cpus=2)
    actor = living_actor(c, max_restarts=1, max_task_retries=-1)
    _, owner = running_task(c)
    call = a_call(c, actor, owner=owner)
    started(c, call)
    crash(c, owner)
    crash(c, actor.worker)
    assert actor.status is RESTARTING and call.status is LOST


def test_a_task_whose_owner_crashes_ends_but_its_own_work_may_go_on_for_a_while():
    """Its worker returns its resources at once, and loses its work when the limit has passed."""
    c = one_node(cpus=4)
    _, owner = running_task(c)
    child, runner = running_task(c, owner=owner)
    quick, slow = (running_task(c, owner=runner)[0] for _ in range(2))
    crash(c, owner)
    assert child.status is LOST and runner.status is GONE
    finish(c, quick)
    c.timer(NOW + DROP_LIMIT_S)
    assert quick.returns[0].status is READY and slow.status is LOST and not c.ownership.drains


def kill(c: Cluster, actor: ActorRecord) -> None:
    """`kill` of an actor."""
    c.kill_actor(NOW, actor)


def lose_worker(c: Cluster, actor: ActorRecord) -> None:
    """The actor's worker dies."""
    crash(c, actor.worker)


def lose_node(c: Cluster, actor: ActorRecord) -> None:
    """The actor's node dies."""
    c.remove_node(NOW, actor.worker.node)


@pytest.mark.parametrize("end", [kill, lose_worker, lose_node])
def test_a_crash_overtakes_a_drain(end: Any):
    """What is left of the work is lost."""
    c = several_nodes(1, 1)
    actor = living_actor(c, max_restarts=-1, strategy=("NODE_AFFINITY", node(c, 2).hex, False))
    owner = actor.worker
    task, _ = running_task(c, owner=owner, strategy=("NODE_AFFINITY", node(c, 1).hex, False))
    leave(c, actor)
    end(c, actor)
    assert actor.status is DEAD and owner.status is GONE and task.status is LOST and not c.ownership.drains


def test_a_dropped_owner_that_drains_ends_with_its_node_and_with_its_placement_group():
    """Its actor is dead already; only the worker is left to end."""
    c = several_nodes(2, 2)
    group = a_group(c, {"CPU": 1.0})
    owners = []
    for strategy in (("NODE_AFFINITY", node(c, 2).hex, False), in_group(group)):
        actor = living_actor(c, strategy=strategy, holds_cpus=1)
        owners.append((actor.worker, submitted(c, owner=actor.worker, cpus=9)))
        drop(c, actor.handle)
    c.remove_node(NOW, node(c, 2))
    c.remove_placement_group(NOW, group)
    assert all(owner.status is GONE and task.status is LOST for owner, task in owners)


def test_a_session_ends_in_the_middle_of_a_drain():
    """Every worker is told to end, the one that drains as well."""
    c = one_node(cpus=2)
    actor, owner, _ = busy_owner(c)
    drop(c, actor.handle)
    assert KillWorker(owner) in c.session_ending(NOW, ())


def test_nothing_is_left_of_an_owner_that_has_drained():
    """Its record, its work and its values are released like those of any other worker."""
    c = one_node(cpus=2)
    actor, owner, task = busy_owner(c)
    value = put(c, LARGE, owner=owner)
    drop(c, actor.handle)
    finish(c, task, LARGE)
    drop(c, value, task.returns[0])
    assert not c.objects and not c.ownership.drains and owner.drain is None and not c.nodes[1].store.used
