"""The hot path has some rules written out, for their common case. Here each copy is compared with the rule itself."""

from __future__ import annotations

from enum import Enum
from typing import Any, Callable

import pytest

from miniray.core.cluster import Cluster
from miniray.core.records import FAILED, READY, ObjectRecord, TaskRecord, Waiter
from miniray.core.transitions import ObjectStatus
from tests.core.builders import (
    LARGE,
    NOW,
    a_call,
    a_task,
    a_value,
    call_of,
    finish,
    finished_task,
    living_actor,
    one_node,
    put,
    running_task,
    started,
    submitted,
)


def picture(record: Any, seen: dict[int, int] | None = None) -> Any:
    """Everything that can be reached from a record or the tables, in a form that can be compared. Each record is drawn
    once; after that, it is only a number."""
    seen = {} if seen is None else seen
    if isinstance(record, (int, float, str, bytes, type(None), Enum)) or callable(record):
        return record if not callable(record) else "a function"
    if id(record) in seen:
        return f"record {seen[id(record)]}"
    seen[id(record)] = len(seen)
    if isinstance(record, dict):
        return [(picture(key, seen), picture(value, seen)) for key, value in record.items()]
    if hasattr(record, "__iter__"):
        return [type(record).__name__, *(picture(one, seen) for one in record)]
    names = vars(record) if hasattr(record, "__dict__") else type(record).__slots__
    return type(record).__name__, {name: picture(getattr(record, name, "unset"), seen) for name in names}


def busy() -> Cluster:
    """A node with one CPU, a task that runs and another in the queue."""
    c = one_node(cpus=1)
    started(c, submitted(c))
    submitted(c)
    return c


@pytest.mark.parametrize("prepared", [busy, one_node])
def test_a_submission_to_a_busy_node_is_registered_and_queued(prepared: Callable[[], Cluster]):
    """`Cluster.submit_task` against `TaskManager.submit`. On an idle node, too."""
    c, twin = prepared(), prepared()
    c.submit_task(NOW, a_task(c))
    twin.task_manager.submit(NOW, a_task(twin))
    twin._done(NOW)
    assert picture(c) == picture(twin)


def test_a_small_result_is_stored_as_any_other():
    """`TaskManager.complete` with no contained references, against the same with an empty list of them."""
    c, twin = busy(), busy()
    finish(c, c.tasks[1])
    finish(twin, twin.tasks[1], contained=((),))
    assert picture(c) == picture(twin)


def test_a_result_among_too_many_records_drops_the_oldest():
    """`TaskManager.complete` against `History.task_ended`, when the history is full."""

    def full() -> Cluster:
        c = one_node(cpus=1)
        c.history.limit = 1
        for _ in range(3):
            submitted(c)
        for number in (1, 2):
            started(c, c.tasks[number])
            finish(c, c.tasks[number])
        return c

    c, twin = full(), full()
    assert list(c.history.kept_for_values) == [1]
    finish(c, c.tasks[3])
    finish(twin, twin.tasks[3], contained=((),))
    assert list(c.history.kept_for_values) == [1, 2]
    assert picture(c) == picture(twin)


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_an_actor_that_reports_goes_on_with_its_next_call(calls: int):
    """`ActorManager.worker_free` for a plain actor, against `_start_calls`, which it calls for any other."""

    def with_calls() -> tuple[Cluster, TaskRecord]:
        c = one_node()
        actor = living_actor(c)
        tasks = [a_call(c, actor) for _ in range(calls)]
        started(c, tasks[0])
        return c, tasks[0]

    (c, task), (twin, same) = with_calls(), with_calls()
    finish(c, task)
    same.actor.in_order = False  # it is handled as any other
    finish(twin, same)
    same.actor.in_order = True
    assert picture(c) == picture(twin)


def test_a_call_of_a_living_actor_is_registered_and_queued():
    """`ActorManager.submit` against `TaskManager.register` and `ActorManager.call_ready`."""

    def alive() -> tuple[Cluster, TaskRecord]:
        c = one_node()
        return c, call_of(living_actor(c))

    (c, task), (twin, same) = alive(), alive()
    c.submit_actor_task(NOW, task)
    twin.task_manager.register(NOW, same)
    same.actor.calls[same.number] = same
    same.actor.groups[""].queue.append(same)  # as `_enqueue` does for a plain actor
    twin.actor_manager.call_ready(NOW, same)
    twin._done(NOW)
    assert picture(c) == picture(twin)


@pytest.mark.parametrize("waiting", [1, 2])
@pytest.mark.parametrize("has_argument", [False, True])
def test_a_worker_that_reports_goes_on_with_the_next_task_of_its_class(waiting: int, has_argument: bool):
    """`Scheduler.worker_free` against `Scheduler._assign`. An argument in the store is marked as used."""

    def reporting() -> tuple[Cluster, TaskRecord]:
        c = one_node(cpus=1)
        value, _ = put(c, LARGE), put(c, LARGE)
        task, worker = running_task(c)
        for _ in range(waiting):
            submitted(c, deps=(value,) if has_argument else ())
        c.scheduler.reporting = worker
        return c, task

    (c, task), (twin, same) = reporting(), reporting()
    c.scheduler.worker_free(NOW, task.worker)
    wanted, worker = same.spec.scheduling_class, same.worker
    following = wanted.queue.popleft()
    if not wanted.queue:
        del twin.scheduler.waiting[wanted]
    twin.scheduler._assign(NOW, worker, following)
    assert task.worker.task is not task
    assert picture(c) == picture(twin)


@pytest.mark.parametrize("prepared", [busy, one_node])
def test_a_report_after_which_the_worker_goes_on_is_settled_as_any_other(prepared: Callable[[], Cluster]):
    """`Cluster.task_finished` against `_reported` and `_done`, which run at the end of every event if somebody asks."""

    def running() -> tuple[Cluster, TaskRecord]:
        c = prepared()
        if not c.tasks:
            call = a_call(c, living_actor(c))
            a_call(c, call.actor)
            started(c, call)
            return c, call
        return c, c.tasks[1]

    (c, task), (twin, same) = running(), running()
    asked: list[float] = []
    twin.after_event.append(lambda now: asked.append(now) or [])
    assert finish(c, task) == finish(twin, same) == [] and asked
    twin.after_event.clear()
    assert picture(c) == picture(twin)


@pytest.mark.parametrize("made", [a_value, put])
def test_a_small_value_is_freed_as_any_other(made: Callable[[Cluster], ObjectRecord]):
    """`ReferenceCounter.release` against `check`."""
    c, twin = one_node(), one_node()
    obj, same = made(c), made(twin)
    for one in obj, same:
        one.refs = 0
    c.references.release(NOW, [obj])
    twin.references.check(NOW, same)
    assert obj.number not in c.objects and c.references.freed
    assert picture(c) == picture(twin)


@pytest.mark.parametrize("status", [READY, FAILED])
@pytest.mark.parametrize(
    "need, fail_fast, fired", [(1, False, False), (2, False, False), (2, True, False), (1, True, True)]
)
def test_waiters_are_told_as_anywhere_else(status: ObjectStatus, need: int, fail_fast: bool, fired: bool):
    """`Wakeups.settle` against `satisfy`."""

    def awaited() -> tuple[Cluster, ObjectRecord, Waiter]:
        c = busy()
        obj, waiter = c.tasks[1].returns[0], Waiter(need, None, fail_fast)
        waiter.fired = fired
        obj.waiters, obj.status = [waiter], status
        c.ready.append(obj)
        return c, obj, waiter

    (c, _, waiter), (twin, same, other) = awaited(), awaited()
    c.wakeups.settle(NOW)
    twin.wakeups.satisfy(other, status is FAILED)
    same.waiters = None
    twin.wakeups.settle(NOW)
    assert picture((c, waiter)) == picture((twin, other))


def test_a_dropped_task_of_the_same_name_is_counted_as_any_other():
    """`History._drop` against `Totals.task_dropped`, which it calls unless the two names are one object."""

    def ended(*names: str) -> tuple[Cluster, list[TaskRecord]]:
        c = one_node(cpus=1)
        tasks = [finished_task(c) for _ in names]
        for task, name in zip(tasks, names):
            task.spec.name = name
        return c, tasks

    name = "counted"
    copies = [name.encode().decode() for _ in range(2)]
    (c, tasks), (twin, same) = ended(name, name, name), ended(name, *copies)
    for cluster, dropped in (c, tasks), (twin, same):
        for one in dropped:
            cluster.history._drop(one)
    assert twin.totals.name is name is not copies[0]
    assert c.totals.same == 3 and picture(c) == picture(twin)


def test_a_picture_shows_every_difference():
    """A slot, an entry of a table, and the identity of a record."""
    c, twin = busy(), busy()
    assert picture(c) == picture(twin)
    twin.tasks[2].t_ready += 1
    assert picture(c) != picture(twin)
    twin = busy()
    twin.tasks[2].owner = twin.tasks[1].worker
    assert picture(c) != picture(twin)
    twin = busy()
    del twin.objects[max(twin.objects)]
    assert picture(c) != picture(twin)
