"""The situations that the tests of the core start from, one line each.

Every cluster made here checks all invariants after every event, so each test is also a test of those.
"""

from __future__ import annotations

from typing import Any

from miniray.core.actions import Action
from miniray.core.cluster import Cluster
from miniray.core.invariants import check
from miniray.core.object_store import INLINE_BYTES
from miniray.core.records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    LOST,
    NORMAL_TASK,
    PENDING,
    READY,
    ActorRecord,
    Failure,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
    SchedulingClass,
    TaskRecord,
    TaskSpec,
    WorkerRecord,
    units,
)
from miniray.core.transitions import WorkerStatus

NOW = 1.0
SMALL, LARGE = 8, 4 * INLINE_BYTES
HUGE = 1 << 40
# The end of a session releases no resources and no references: its tables are dropped as a whole.
UNCHECKED = {"references_dropped", "add_reference", "session_ending", "session_ended"}
EVENTS = [name for name, value in vars(Cluster).items() if not name.startswith("_") and callable(value)]


class CheckedCluster(Cluster):
    """A cluster whose tables are checked after every event."""


def _checked(name: str) -> Any:
    event = getattr(Cluster, name)

    def and_check(self: CheckedCluster, now: float, *args: Any, **kwargs: Any) -> Any:
        result = event(self, now, *args, **kwargs)
        assert type(result[-1] if type(result) is tuple else result) is list, f"{name} returns its actions"
        check(self)
        return result

    return and_check


for _name in set(EVENTS) - UNCHECKED:
    setattr(CheckedCluster, _name, _checked(_name))


# ---------------------------------------------------------------- clusters


def one_node(
    cpus: float = 2,
    record_limit: int = 100_000,
    store_bytes: int = HUGE,
    labels: dict | None = None,
    checked: bool = True,
    **resources: float,
) -> Cluster:
    """A cluster of one node. checked: not where so many events come that the checks would take minutes."""
    c = CheckedCluster(record_limit) if checked else Cluster(record_limit)
    add_node(c, cpus, store_bytes, labels, **resources)
    return c


def several_nodes(*cpus: float, store_bytes: int = HUGE) -> Cluster:
    """A cluster with a node for each of these numbers of CPUs."""
    c = CheckedCluster()
    for number in cpus:
        add_node(c, number, store_bytes)
    return c


def add_node(
    c: Cluster, cpus: float = 2, store_bytes: int = HUGE, labels: dict | None = None, **resources: float
) -> NodeRecord:
    """One more node joins; the actions that follow are forgotten."""
    asked = {"CPU": cpus, **resources} if cpus else resources
    return c.add_node(NOW, len(c.nodes) + 1, units(asked), labels, store_bytes)[0]


def node(c: Cluster, number: int = 1) -> NodeRecord:
    """The node of this number."""
    return c.nodes[number]


def free(c: Cluster, number: int = 1, name: str = "CPU") -> float:
    """How much of a resource is free on a node."""
    return c.nodes[number].available[name] / 10_000


# ---------------------------------------------------------------- tasks


def scheduling_class(
    c: Cluster,
    cpus: float = 1,
    strategy: tuple = ("DEFAULT",),
    selector: tuple = (),
    hold: dict | None = None,
    **resources: float,
) -> SchedulingClass:
    """The class of tasks that ask for this."""
    need = units({"CPU": cpus, **resources} if cpus else resources)
    return c.scheduler.scheduling_class(need, need if hold is None else units(hold), strategy, selector)


def a_task(
    c: Cluster,
    deps: tuple = (),
    contained: tuple = (),
    retries: int = 0,
    returns: int | str = 1,
    parent: str = "driver",
    owner: WorkerRecord | None = None,
    backpressure: int = -1,
    **demand: Any,
) -> TaskRecord:
    """A call that was not submitted yet."""
    spec = TaskSpec(
        NORMAL_TASK,
        "f",
        "f",
        scheduling_class=scheduling_class(c, **demand),
        num_returns=returns,
        max_retries=retries,
        backpressure=backpressure,
    )
    return TaskRecord(spec, ("args",), tuple(deps), tuple(contained), parent, owner)


def submitted(c: Cluster, now: float = NOW, **options: Any) -> TaskRecord:
    """A call that was submitted; the actions that follow are forgotten."""
    task = a_task(c, **options)
    c.submit_task(now, task)
    return task


def started(c: Cluster, task: TaskRecord, now: float = NOW) -> WorkerRecord:
    """The worker of a leased task, which has entered the user's function."""
    worker = task.worker
    assert worker is not None, f"{task!r} was given no worker"
    if worker.status is WorkerStatus.STARTING:
        c.worker_started(now, worker)
    task.t_started = now
    return worker


def running_task(c: Cluster, **options: Any) -> tuple[TaskRecord, WorkerRecord]:
    """A task whose code runs, and its worker."""
    task = submitted(c, **options)
    return task, started(c, task)


def finish(c: Cluster, task: TaskRecord, *sizes: int, contained: tuple | None = None, now: float = NOW) -> list[Action]:
    """The task's attempt returns: one small value for each return, unless sizes are given. Returns the actions."""
    worker = task.worker
    wanted = 1 if task.stream is not None else len(task.returns)
    for index, obj in enumerate(task.returns[:wanted]):
        if obj.status in (PENDING, LOST):
            obj.value = f"value {index} of attempt {task.attempt}"
    return c.task_finished(now, worker, task, sizes or (SMALL,) * wanted, contained)


def raise_in(
    c: Cluster, task: TaskRecord, retry: bool = False, error_type: str = "TASK_EXECUTION_EXCEPTION", now: float = NOW
) -> list[Action]:
    """The task's attempt raises. Returns the actions."""
    return c.task_failed(now, task.worker, task, Failure(error_type, "it raised", about=task), retry)


def crash(c: Cluster, worker: WorkerRecord, now: float = NOW) -> list[Action]:
    """The worker's thread ends in the middle. Returns the actions."""
    return c.worker_died(now, worker, Failure("WORKER_DIED", "it crashed", about=worker))


def finished_task(c: Cluster, size: int = SMALL, **options: Any) -> TaskRecord:
    """A task that has returned one value of this size."""
    task, _ = running_task(c, **options)
    finish(c, task, *(size for _ in task.returns))
    return task


def a_value(c: Cluster, size: int = SMALL, **options: Any) -> ObjectRecord:
    """The value of a task that has ended."""
    return finished_task(c, size, **options).returns[0]


def put(
    c: Cluster, size: int = SMALL, contained: tuple = (), owner: WorkerRecord | None = None, on: int = 1
) -> ObjectRecord:
    """A value that was put."""
    obj = ObjectRecord(0, owner=owner, status=READY)
    obj.value, obj.contained = "a value that was put", tuple(contained)
    c.put(NOW, obj, size, c.nodes[on])
    return obj


def drop(c: Cluster, *records: Any, now: float = NOW) -> list[Action]:
    """The program lets go of these. Returns the actions."""
    from collections import deque

    c.references_dropped(now, deque(records))
    return c.settled(now)


# ---------------------------------------------------------------- actors


def an_actor(
    c: Cluster,
    deps: tuple = (),
    contained: tuple = (),
    holds_cpus: float = 0,
    strategy: tuple = ("DEFAULT",),
    max_task_retries: int = 0,
    **options: Any,
) -> ActorRecord:
    """An actor that was asked for; the actions that follow are forgotten. options: of ActorRecord."""
    actor = ActorRecord("A", options={"max_task_retries": max_task_retries}, **options)
    wanted = scheduling_class(c, holds_cpus or 1, strategy, hold={"CPU": holds_cpus} if holds_cpus else {})
    spec = TaskSpec(ACTOR_CREATION_TASK, "A.__init__", "A.__init__", scheduling_class=wanted, num_returns=0)
    creation = TaskRecord(spec, ("args",), tuple(deps), tuple(contained), owner=actor.owner)
    creation.actor = actor
    c.create_actor(NOW, actor, creation)
    return actor


def construct(c: Cluster, actor: ActorRecord) -> list[Action]:
    """The actor's constructor runs and returns. Returns the actions that follow."""
    started(c, actor.creation)
    return c.task_finished(NOW, actor.worker, actor.creation, ())


def living_actor(c: Cluster, **options: Any) -> ActorRecord:
    """An actor whose constructor has returned."""
    actor = an_actor(c, **options)
    construct(c, actor)
    return actor


def a_call(
    c: Cluster,
    actor: ActorRecord,
    deps: tuple = (),
    contained: tuple = (),
    group: str = "",
    returns: int | str = 1,
    owner: WorkerRecord | None = None,
) -> TaskRecord:
    """A method was called; the actions that follow are forgotten."""
    spec = TaskSpec(
        ACTOR_TASK,
        "A.m",
        "A.m",
        num_returns=returns,
        max_retries=(actor.options or {}).get("max_task_retries", 0),
        group=group,
    )
    task = TaskRecord(spec, ("args",), tuple(deps), tuple(contained), owner=owner, actor=actor)
    c.submit_actor_task(NOW, task)
    return task


def run_call(c: Cluster, task: TaskRecord) -> list[Action]:
    """The call runs, and returns. Returns the actions that follow."""
    started(c, task)
    return finish(c, task)


# ---------------------------------------------------------------- placement groups


def a_group(c: Cluster, *bundles: dict[str, float], strategy: str = "PACK", **options: Any) -> PlacementGroupRecord:
    """A placement group that was asked for; the actions that follow are forgotten."""
    group = PlacementGroupRecord([units(bundle) for bundle in bundles], strategy, **options)
    c.create_placement_group(NOW, group)
    return group


def in_group(group: PlacementGroupRecord, index: int = -1) -> tuple:
    """The strategy of what runs in a group."""
    return ("PLACEMENT_GROUP", group.number, index)
