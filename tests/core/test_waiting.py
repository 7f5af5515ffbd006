"""Wake-ups: which waiters are woken, when, and only once."""

from __future__ import annotations

from miniray.core.actions import Wake
from miniray.core.records import Waiter
from miniray.core.transitions import WorkerStatus
from tests.core.builders import (
    NOW,
    a_value,
    crash,
    finish,
    free,
    one_node,
    put,
    raise_in,
    running_task,
    started,
    submitted,
)


def test_a_waiter_is_woken_when_enough_objects_are_ready():
    """`wait` for two of three objects."""
    c = one_node(cpus=3)
    tasks = [running_task(c)[0] for _ in range(3)]
    waiter = Waiter(2, "driver")
    c.wait_for(NOW, waiter, [task.returns[0] for task in tasks])
    assert finish(c, tasks[2]) == []
    assert finish(c, tasks[0]) == [Wake(waiter)]
    assert finish(c, tasks[1]) == []


def test_a_waiter_for_ready_objects_is_woken_at_once():
    """The event that starts the wait returns the Wake."""
    c = one_node()
    waiter = Waiter(2, "driver")
    assert c.wait_for(NOW, waiter, (a_value(c), put(c))) == [Wake(waiter)]


def test_an_error_wakes_a_waiter_that_needs_all_objects():
    """`get` of many raises the first error without waiting for the rest; `wait` counts an error as one that is
    ready."""
    c = one_node(cpus=2)
    (good, _), (bad, _) = running_task(c), running_task(c)
    objects = [good.returns[0], bad.returns[0]]
    getting, waiting = Waiter(2, "get", fail_fast=True), Waiter(2, "wait")
    c.wait_for(NOW, getting, objects)
    c.wait_for(NOW, waiting, objects)
    assert raise_in(c, bad) == [Wake(getting)]
    assert finish(c, good) == [Wake(waiting)]


def test_the_same_object_twice_counts_twice():
    """`get([x, x])`."""
    c = one_node()
    task, _ = running_task(c)
    waiter = Waiter(2, "driver")
    c.wait_for(NOW, waiter, (task.returns[0], task.returns[0]))
    assert finish(c, task) == [Wake(waiter)]


def test_a_waiter_that_has_given_up_is_not_woken():
    """Its time ran out, and no object refers to it any longer."""
    c = one_node()
    task, _ = running_task(c)
    waiter = Waiter(1, "driver")
    c.wait_for(NOW, waiter, task.returns)
    c.stop_waiting(NOW, waiter, task.returns)
    assert task.returns[0].waiters is None and finish(c, task) == []


def test_a_task_that_waits_lends_its_cpu_to_the_task_that_it_waits_for():
    """Tasks that were queued earlier do not get the CPU: each of them might wait as well, until all of them do."""
    c = one_node(cpus=1)
    parent, worker = running_task(c)
    earlier = submitted(c)
    child = submitted(c, owner=worker, parent=parent.hex)
    waiter = Waiter(1, "parent")
    c.wait_for(NOW, waiter, child.returns, worker)
    assert worker.status is WorkerStatus.BLOCKED and child.worker is not None and earlier.worker is None
    started(c, child)
    finish(c, child)
    c.stop_waiting(NOW, waiter, child.returns, worker)
    assert worker.status is WorkerStatus.LEASED and free(c) == 0


def test_a_task_that_need_not_wait_lends_nothing():
    """The object that it asks for has a value."""
    c = one_node(cpus=1)
    value = put(c)
    _, worker = running_task(c)
    c.wait_for(NOW, Waiter(1, "task"), (value,), worker)
    assert worker.status is WorkerStatus.LEASED and worker.lent == 0


def test_a_thousand_levels_of_waiting_parents_need_one_cpu():
    """Each task waits for its child, and all but the last lend the CPU."""
    c = one_node(cpus=1, checked=False)
    parent, worker = running_task(c)
    waits = []
    for _ in range(1_000):
        child = submitted(c, owner=worker, parent=parent.hex)
        waits.append((Waiter(1, "parent"), parent, worker, child.returns))
        c.wait_for(NOW, waits[-1][0], child.returns, worker)
        parent, worker = child, started(c, child)
    finish(c, parent)
    for waiter, parent, worker, objects in reversed(waits):
        assert waiter.fired
        c.stop_waiting(NOW, waiter, objects, worker)
        finish(c, parent)
    assert free(c) == 1


def test_a_worker_that_died_while_its_task_began_to_wait_lends_nothing():
    """Its thread reports that it is blocked, and later that it goes on: both are ignored."""
    c = one_node(cpus=1)
    _, worker = running_task(c)
    crash(c, worker)
    assert c.blocked(NOW, worker) == [] and c.unblocked(NOW, worker) == []
    assert worker.status is WorkerStatus.DEAD and free(c) == 1
