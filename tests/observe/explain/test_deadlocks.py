"""Deadlocks: `explain` and a stuck `get` tell the circle of tasks that wait for each other, unless it can be broken."""

from __future__ import annotations

import threading


from miniray.core.records import Failure
from miniray.observe.explain.explanation import explain, find_deadlock
from tests.observe.still_session import StillSession, said


def circle(session: StillSession):
    """Two actors. A call runs on each, and is blocked on a call of the other actor. Returns the two running calls."""
    one, two = session.living_actor("One"), session.living_actor("Two")
    first, second = session.call(one, "ask"), session.call(two, "ask")
    session.start(first), session.start(second)
    behind_first, behind_second = session.call(one, "ping"), session.call(two, "ping")
    session.wait(first.worker, behind_second.returns[0])
    session.wait(second.worker, behind_first.returns[0])
    return first, second


def test_actors_that_wait_for_each_other():
    """The sentence tells the circle call by call. It is found for a get of one of the calls, and by explain."""
    session = StillSession(CPU=1)
    first, _ = circle(session)
    found = find_deadlock(session, [first.returns[0]])
    assert found is not None and found.reason == "deadlock"
    assert str(found) == (
        "deadlock: call One.ask is blocked in get() or wait() on call Two.ping, which is queued at actor Two behind "
        "call Two.ask, which is blocked in get() or wait() on call One.ping, which is queued at actor One behind "
        "call One.ask"
    )
    assert str(explain(session, first.hex)) == str(found)


def test_a_constructor_that_waits_for_a_call_of_its_own_actor():
    """The call waits for the constructor; the actor, the call and the constructor are explained by the same circle."""
    session = StillSession(CPU=1)
    actor = session.actor()
    worker = session.start(actor.creation)
    call = session.call(actor)
    session.wait(worker, call.returns[0])
    assert str(find_deadlock(session, [call.returns[0]])) == (
        "deadlock: call Keeper.go waits for the constructor of actor Keeper, which is blocked in get() or wait() on "
        "call Keeper.go"
    )
    assert said(session, actor) == (
        "deadlock",
        "deadlock: actor Keeper is starting: its constructor is blocked in get() or wait() on call Keeper.go, "
        "which waits for the constructor of actor Keeper",
    )


def test_a_circle_with_a_timeout_is_no_deadlock():
    """The get with a timeout will give up, and the other one can go on."""
    session = StillSession(CPU=1)
    first, second = circle(session)
    second.worker.handle.waiter.timed = True
    assert find_deadlock(session, [first.returns[0]]) is None


def test_a_wait_for_one_of_two_objects_goes_on_with_the_other():
    """A task is stuck only if too few of the objects that it needs can still come."""
    session = StillSession(CPU=2)
    first, _ = circle(session)
    free = session.task("free")
    session.start(free)
    waiting = session.task("waiting")
    session.start(waiting)
    session.wait(waiting.worker, first.returns[0], free.returns[0], need=1)
    assert find_deadlock(session, [waiting.returns[0]]) is None
    waiting.worker.handle.waiter.need = 2
    assert find_deadlock(session, [waiting.returns[0]]) is not None


def test_an_actor_with_a_second_thread_is_not_stuck():
    """While one of the calls in flight can end, the queue moves."""
    session = StillSession(CPU=1)
    actor = session.living_actor(limit=2)
    stuck, free = session.call(actor, "stuck"), session.call(actor, "free")
    session.start(stuck), session.start(free)
    queued = session.call(actor, "queued")
    session.wait(stuck.worker, queued.returns[0])
    assert find_deadlock(session, [queued.returns[0]]) is None
    session.wait(free.worker, queued.returns[0])
    assert find_deadlock(session, [queued.returns[0]]).reason == "deadlock"


def test_a_get_while_nothing_runs():
    """A get of a task that fits on no node can never return if every thread of the program waits."""
    session = StillSession(CPU=1)
    huge = session.task("huge", cpus=8)
    session.waits_forever = lambda ident: True
    found = find_deadlock(session, [huge.returns[0]])
    assert found.reason == "infeasible" and str(found).endswith("; nothing else runs that could change this")
    session.start(session.task("busy"))
    assert find_deadlock(session, [huge.returns[0]]) is None


def test_a_thread_of_the_program_that_does_not_wait_may_change_things():
    """It could add a node, or kill an actor that holds resources. The thread of this test is such a thread."""
    session = StillSession(CPU=1)
    huge = session.task("huge", cpus=8)
    assert threading.current_thread().daemon is False
    assert find_deadlock(session, [huge.returns[0]]) is None


def test_a_get_that_need_not_wait_is_no_deadlock():
    """Its value is available, or its list is empty."""
    session = StillSession(CPU=1)
    assert find_deadlock(session, [session.done().returns[0]]) is None
    assert find_deadlock(session, []) is None


def test_the_failure_of_a_worker_is_explained_too():
    """The sentence has the reason that the core was given."""
    session = StillSession(CPU=1)
    task = session.task("odd")
    session.start(task)
    session.cluster.worker_died(session.tick(), task.worker, Failure("WORKER_DIED", "its thread ended"))
    assert said(session, task) == ("failed", "task odd has failed: its thread ended")
