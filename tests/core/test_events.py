"""What holds for every event: the hooks at its end, the CPU that goes back to the one who waits, and the
session's last events."""

from __future__ import annotations

from miniray.core.actions import DropValues, InterruptTask, KillWorker, Say, Wake
from miniray.core.records import DROPPED, ENDED, Waiter
from miniray.core.transitions import TaskStatus, WorkerStatus
from tests.core.builders import (
    NOW,
    a_call,
    a_task,
    crash,
    finish,
    free,
    living_actor,
    one_node,
    put,
    running_task,
    started,
    submitted,
)

# ---------------------------------------------------------------- hooks


def test_hooks_are_called_with_the_time_at_the_end_of_every_event():
    """What they ask for comes after what the event asks for, in the order of the hooks."""
    c = one_node(cpus=1)
    first, second = Say("INFO", "first"), Say("INFO", "second")
    called = []
    c.after_event += [lambda now: called.append(now) or [first], lambda now: called.append(now) or [second]]
    actions = c.submit_task(7.0, a_task(c))
    assert called == [7.0, 7.0] and len(actions) == 3 and actions[1:] == [first, second]
    assert c.settled(8.0) == [first, second] and called[2:] == [8.0, 8.0]


def test_the_events_of_a_hook_call_no_hook():
    """Otherwise it would be called for its own event, without end. They are called again for the next event."""
    c = one_node(cpus=1)
    submits = [a_task(c), a_task(c)]
    c.after_event.append(lambda now: c.submit_task(now, submits.pop()))
    assert len(c.settled(NOW)) == 1 and len(submits) == 1
    c.settled(NOW)
    assert not submits and len(c.after_event) == 1


# ---------------------------------------------------------------- whose CPU it is


def test_the_cpu_of_a_child_goes_back_to_the_parent_that_waits_for_it():
    """Not to the next task in the queue: each nested wait would let one more task run than there are CPUs."""
    c = one_node(cpus=1)
    parent, worker = running_task(c)
    child = submitted(c, owner=worker, parent=parent.hex)
    waiter = Waiter(1, "parent")
    c.wait_for(NOW, waiter, child.returns, worker)
    next_one = submitted(c)
    started(c, child)
    assert finish(c, child) == [Wake(waiter)]
    assert worker.lent == 0 and next_one.worker is None and free(c) == 0


def test_the_cpu_goes_to_the_next_task_when_only_the_driver_waits():
    """The driver holds none, and the worker goes on with the task in the same step."""
    c = one_node(cpus=1)
    task, worker = running_task(c)
    waiter = Waiter(1, "driver")
    c.wait_for(NOW, waiter, task.returns)
    next_one = submitted(c)
    assert finish(c, task) == [Wake(waiter)] and next_one.worker is worker


# ---------------------------------------------------------------- cancelled calls


def test_a_cancelled_call_is_not_retried_when_its_actor_restarts():
    """Though it has retries left; the other call is."""
    c = one_node()
    actor = living_actor(c, is_async=True, groups={"": 2}, max_restarts=1, max_task_retries=3)
    cancelled, other = a_call(c, actor), a_call(c, actor)
    assert c.cancel(NOW, cancelled, False, False) == [InterruptTask(actor.worker, cancelled)]
    crash(c, actor.worker)
    assert cancelled.status is TaskStatus.FAILED and other.status is not TaskStatus.FAILED


# ---------------------------------------------------------------- the end of the session


def test_the_end_of_a_session_wakes_everybody_and_kills_the_living():
    """In this order; a worker that has died already is told nothing."""
    c = one_node(cpus=2, checked=False)
    _, dead = running_task(c)
    crash(c, dead)
    task, worker = running_task(c)
    waiter = Waiter(1, "sleeps")
    assert c.session_ending(NOW, [waiter]) == [Wake(waiter), KillWorker(worker)]
    assert worker.status is WorkerStatus.DEAD and c.task_finished(NOW, worker, task, (8,)) == []


def test_the_values_of_a_session_are_dropped_in_the_order_in_which_they_came():
    """And everybody who still waits is woken, for an object as for a stream."""
    c = one_node(cpus=2, checked=False)
    values = [put(c), put(c), put(c)]
    for number, obj in enumerate(values):
        obj.value = f"value {number}"
    stream, (pending, _) = running_task(c, returns="streaming")[0].stream, running_task(c)
    waiters = Waiter(1, "for an object"), Waiter(1, "for a stream")
    c.wait_for(NOW, waiters[0], pending.returns)
    c.wait_for(NOW, waiters[1], (stream,))
    c.session_ending(NOW, ())
    dropped, *woken = c.session_ended(NOW)
    assert type(dropped) is DropValues and dropped.values[:3] == ["value 0", "value 1", "value 2"]
    assert woken == [Wake(waiter) for waiter in waiters]
    assert all(obj.status is ENDED and obj.value is DROPPED for obj in c.objects.values())
