"""Scenarios for the moves of `miniray/core/transitions.py`: how they are registered, and the situations that several
share.

A scenario is a function that sets the stage: it returns the cluster, the record that will move, and the arguments of
the event. Its decorator names the move and the event. The other files of this folder hold the scenarios, one file per
state machine; test_moves.py plays them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from miniray.core.cluster import Cluster
from miniray.core.records import ActorRecord, ObjectRecord, PlacementGroupRecord, TaskRecord, Waiter, WorkerRecord
from tests.core.builders import (
    LARGE,
    NOW,
    a_call,
    a_group,
    a_value,
    an_actor,
    crash,
    drop,
    finish,
    finished_task,
    living_actor,
    node,
    one_node,
    put,
    running_task,
    several_nodes,
    started,
    submitted,
)

CPU = {"CPU": 1.0}
NOWHERE = ("NODE_AFFINITY", "f" * 56, False)  # the strategy of work that must run on a node which does not exist

Triple = tuple[Any, Any, str]
# The cluster, the record that will move, and the arguments of the event after `now`. If the event itself creates the
# record, a function that returns the record stands in its place.
Stage = tuple[Any, ...]
Scenario = Callable[[], Stage]
SCENARIOS: dict[Triple, Scenario] = {}
ON_THE_WAY: set[Triple] = set()  # the event makes other moves of the record in a row with this one


def plays(state: Any, to: Any, event: str, on_the_way: bool = False) -> Callable[[Scenario], Scenario]:
    """Register a scenario. on_the_way: the event moves the record before this move, or after it, as well."""

    def register(scenario: Scenario) -> Scenario:
        triple = state, to, event
        assert triple not in SCENARIOS, f"two scenarios for {triple}"
        SCENARIOS[triple] = scenario
        if on_the_way:
            ON_THE_WAY.add(triple)
        return scenario

    return register


# ---------------------------------------------------------------- where scenarios start


def busy_node() -> tuple[Cluster, TaskRecord, WorkerRecord]:
    """A cluster of one CPU, the task that has it, and that task's worker."""
    c = one_node(cpus=1)
    return c, *running_task(c)


def late_argument() -> tuple[Cluster, TaskRecord, TaskRecord]:
    """A task that is running, and a second one that waits for its value. There is a CPU for both."""
    c = one_node()
    producer, _ = running_task(c)
    return c, producer, submitted(c, deps=producer.returns)


def unready_actor(**options: Any) -> tuple[Cluster, TaskRecord, ActorRecord]:
    """A task that is running, and an actor whose constructor waits for the task's value."""
    c = one_node()
    producer, _ = running_task(c)
    return c, producer, an_actor(c, deps=producer.returns, **options)


def lost_value(rebuildable: bool = True) -> tuple[Cluster, ObjectRecord]:
    """A value whose only copy is lost. A task can rebuild it, unless it was put."""
    c = one_node()
    value = a_value(c, LARGE, retries=1) if rebuildable else put(c, LARGE)
    c.lose_object(NOW, value)
    return c, value


def argument_lost_at_start(rebuildable: bool = True) -> tuple[Cluster, ObjectRecord, TaskRecord, WorkerRecord]:
    """A value, and a task with the value as its argument. The value is lost after a worker was told to run the task."""
    c = one_node()
    value = a_value(c, LARGE, retries=1) if rebuildable else put(c, LARGE)
    task, worker = running_task(c, deps=(value,))
    c.lose_object(NOW, value)
    return c, value, task, worker


def spilled_value(owner: WorkerRecord | None = None, c: Cluster | None = None) -> tuple[Cluster, ObjectRecord]:
    """A value that is in a file only. The store has room for two such values."""
    c = c or one_node(store_bytes=2 * LARGE)
    value = put(c, LARGE, owner=owner)
    c.make_room(NOW, node(c), 2 * LARGE)
    value.value = "file"
    c.object_spilled(NOW, value)
    return c, value


def restarting_actor(**options: Any) -> tuple[Cluster, ActorRecord]:
    """An actor that has died once. Its constructor is running again."""
    c = one_node()
    actor = living_actor(c, **{"max_restarts": 1, **options})
    crash(c, actor.worker)
    started(c, actor.creation)
    return c, actor


def actor_under_construction(**options: Any) -> tuple[Cluster, ActorRecord]:
    """An actor whose constructor is running."""
    c = one_node()
    actor = an_actor(c, **options)
    started(c, actor.creation)
    return c, actor


def lost_result_of_an_ended_actor() -> tuple[Cluster, ActorRecord, ObjectRecord]:
    """An actor ended because nobody held it; then a value that it had returned was lost."""
    c = one_node()
    actor = living_actor(c, max_restarts=1, max_task_retries=1)
    call = a_call(c, actor)
    started(c, call)
    finish(c, call, LARGE)
    drop(c, actor.handle)
    c.lose_object(NOW, call.returns[0])
    return c, actor, call.returns[0]


def released_argument() -> tuple[Cluster, ObjectRecord, ObjectRecord]:
    """A value that nobody holds, and a second one, made from the first, that is lost."""
    c = one_node()
    first = a_value(c, LARGE, retries=1)
    second = a_value(c, LARGE, retries=1, deps=(first,))
    drop(c, first)
    c.lose_object(NOW, second)
    return c, first, second


def group_that_lost_its_node() -> tuple[Cluster, PlacementGroupRecord]:
    """A group whose node has died. A task has the only CPU that is left."""
    c = several_nodes(1, 1)
    group = a_group(c, CPU)
    running_task(c)
    (lost,) = {bundle.node for bundle in group.bundles if bundle.node is not None}
    c.remove_node(NOW, lost)
    return c, group


def starting_worker() -> tuple[Cluster, TaskRecord, WorkerRecord]:
    """A worker that has not started yet, and the task that it is started for."""
    c = one_node()
    task = submitted(c)
    return c, task, task.worker


def idle_worker() -> tuple[Cluster, WorkerRecord]:
    """A worker that has run a task."""
    c = one_node()
    return c, finished_task(c).worker


def blocked_worker() -> tuple[Cluster, TaskRecord, WorkerRecord, Waiter, tuple[ObjectRecord, ...]]:
    """A worker whose task waits for a child, with the waiter and the objects of the wait."""
    c, parent, worker = busy_node()
    child = submitted(c, owner=worker, parent=parent.hex)
    waiter = Waiter(1, "parent")
    c.wait_for(NOW, waiter, child.returns, worker)
    return c, parent, worker, waiter, child.returns


def a_waiter() -> Waiter:
    """The driver, which waits for one object."""
    return Waiter(1, "driver")
