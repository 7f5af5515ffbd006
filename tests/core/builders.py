"""The situations from which the tests of the core start, one line each.

Every cluster made here checks all invariants after every event, so each test is also a test of the invariants.
"""

from __future__ import annotations

from collections import deque
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
# No check follows these events. A dropped reference takes full effect only with the next event, and the end of a
# session releases neither resources nor references, since its tables are dropped as a whole.
UNCHECKED = {"references_dropped", "add_reference", "add_weak_reference", "session_ending", "session_ended"}
EVENTS = [name for name, value in vars(Cluster).items() if not name.startswith("_") and callable(value)]


class CheckedCluster(Cluster):
    """A cluster that checks its tables after every event."""


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
    labels: dict[str, str] | None = None,
    checked: bool = True,
    **resources: float,
) -> Cluster:
    """A cluster of one node. checked=False is for tests with so many events that the checks would take minutes."""
    c = CheckedCluster(record_limit) if checked else Cluster(record_limit)
    add_node(c, cpus, store_bytes, labels, **resources)
    return c


def several_nodes(*cpus: float, store_bytes: int = HUGE) -> Cluster:
    """A cluster with one node for each of these numbers of CPUs."""
    c = CheckedCluster()
    for number in cpus:
        add_node(c, number, store_bytes)
    return c


def add_node(
    c: Cluster, cpus: float = 2, store_bytes: int = HUGE, labels: dict[str, str] | None = None, **resources: float
) -> NodeRecord:
    """One more node joins. Ignores the actions that follow."""
    asked = {"CPU": cpus, **resources} if cpus else resources
    return c.add_node(NOW, len(c.nodes) + 1, units(asked), labels, store_bytes)[0]


def node(c: Cluster, number: int = 1) -> NodeRecord:
    """The node with this number."""
    return c.nodes[number]


def free(c: Cluster, number: int = 1, name: str = "CPU") -> float:
    """How much of a resource is free on a node."""
    return c.nodes[number].available[name] / 10_000


def on_node(c: Cluster, number: int, soft: bool = False) -> tuple[Any, ...]:
    """The strategy of work that must run on this node, or (soft) should."""
    return ("NODE_AFFINITY", node(c, number).hex, soft)


# ---------------------------------------------------------------- tasks


def scheduling_class(
    c: Cluster,
    cpus: float = 1,
    strategy: tuple[Any, ...] = ("DEFAULT",),
    selector: tuple[Any, ...] = (),
    hold: dict[str, float] | None = None,
    **resources: float,
) -> SchedulingClass:
    """The class of the tasks with this demand."""
    need = units({"CPU": cpus, **resources} if cpus else resources)
    return c.scheduler.scheduling_class(need, need if hold is None else units(hold), strategy, selector)


def a_task(
    c: Cluster,
    deps: tuple[ObjectRecord, ...] = (),
    contained: tuple[ObjectRecord, ...] = (),
    retries: int = 0,
    returns: int | str = 1,
    parent: str = "driver",
    owner: WorkerRecord | None = None,
    backpressure: int = -1,
    **demand: Any,
) -> TaskRecord:
    """A call of a function that has not been submitted yet."""
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
    """A call that has been submitted. Ignores the actions that follow."""
    task = a_task(c, **options)
    c.submit_task(now, task)
    return task


def started(c: Cluster, task: TaskRecord, now: float = NOW) -> WorkerRecord:
    """The worker of a leased task. The worker has entered the user's function."""
    worker = task.worker
    assert worker is not None, f"{task!r} was given no worker"
    if worker.status is WorkerStatus.STARTING:
        c.worker_started(now, worker)
    task.t_started = now
    return worker


def running_task(c: Cluster, **options: Any) -> tuple[TaskRecord, WorkerRecord]:
    """A task whose code is running, and its worker."""
    task = submitted(c, **options)
    return task, started(c, task)


def result_of(task: TaskRecord, *sizes: int, contained: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
    """The arguments with which the task's worker reports `task_finished`, after storing the values.

    sizes: bytes of each value; one small value per return if none are given.
    """
    wanted = 1 if task.stream is not None else len(task.returns)
    for index, obj in enumerate(task.returns[:wanted]):
        if obj.status in (PENDING, LOST):
            obj.value = f"value {index} of attempt {task.attempt}"
    return task.worker, task, sizes or (SMALL,) * wanted, contained


def finish(
    c: Cluster, task: TaskRecord, *sizes: int, contained: tuple[Any, ...] | None = None, now: float = NOW
) -> list[Action]:
    """The task's attempt returns (see `result_of`). Returns the actions."""
    return c.task_finished(now, *result_of(task, *sizes, contained=contained))


def error_of(
    task: TaskRecord, retry: bool = False, error_type: str = "TASK_EXECUTION_EXCEPTION"
) -> tuple[WorkerRecord, TaskRecord, Failure, bool]:
    """The arguments with which the task's worker reports `task_failed`."""
    return task.worker, task, Failure(error_type, "it raised", about=task), retry


def raise_in(
    c: Cluster, task: TaskRecord, retry: bool = False, error_type: str = "TASK_EXECUTION_EXCEPTION", now: float = NOW
) -> list[Action]:
    """The task's attempt raises. Returns the actions."""
    return c.task_failed(now, *error_of(task, retry, error_type))


def crash_of(worker: WorkerRecord) -> tuple[WorkerRecord, Failure]:
    """The arguments with which the runtime reports `worker_died`."""
    return worker, Failure("WORKER_DIED", "it crashed", about=worker)


def crash(c: Cluster, worker: WorkerRecord, now: float = NOW) -> list[Action]:
    """The worker's thread ends in the middle of its task. Returns the actions."""
    return c.worker_died(now, *crash_of(worker))


def finished_task(c: Cluster, size: int = SMALL, **options: Any) -> TaskRecord:
    """A task that has returned; each of its values has this size."""
    task, _ = running_task(c, **options)
    finish(c, task, *(size for _ in task.returns))
    return task


def a_value(c: Cluster, size: int = SMALL, **options: Any) -> ObjectRecord:
    """The value that a finished task returned."""
    value: ObjectRecord = finished_task(c, size, **options).returns[0]
    return value


def put(
    c: Cluster,
    size: int = SMALL,
    contained: tuple[ObjectRecord, ...] = (),
    owner: WorkerRecord | None = None,
    on: int = 1,
) -> ObjectRecord:
    """A value that was put on the node with the number `on`."""
    obj = ObjectRecord(0, owner=owner, status=READY)
    obj.value, obj.contained = "a value that was put", tuple(contained)
    c.put(NOW, obj, size, c.nodes[on])
    return obj


def drop(c: Cluster, *records: Any, now: float = NOW) -> list[Action]:
    """The program drops one reference to each of these. Returns the actions."""
    c.references_dropped(now, deque(records))
    return c.settled(now)


# ---------------------------------------------------------------- actors


def creation_of(
    c: Cluster,
    deps: tuple[ObjectRecord, ...] = (),
    contained: tuple[ObjectRecord, ...] = (),
    holds_cpus: float = 0,
    strategy: tuple[Any, ...] = ("DEFAULT",),
    max_task_retries: int = 0,
    **options: Any,
) -> tuple[ActorRecord, TaskRecord]:
    """The arguments of `create_actor`: an actor, and the task that will run its constructor. options: of
    ActorRecord."""
    actor = ActorRecord("A", options={"max_task_retries": max_task_retries}, **options)
    wanted = scheduling_class(c, holds_cpus or 1, strategy, hold={"CPU": holds_cpus} if holds_cpus else {})
    spec = TaskSpec(ACTOR_CREATION_TASK, "A.__init__", "A.__init__", scheduling_class=wanted, num_returns=0)
    creation = TaskRecord(spec, ("args",), tuple(deps), tuple(contained), owner=actor.owner)
    creation.actor = actor
    return actor, creation


def an_actor(c: Cluster, **options: Any) -> ActorRecord:
    """An actor that has been requested (options: see `creation_of`). Ignores the actions that follow."""
    actor, creation = creation_of(c, **options)
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


def call_of(
    actor: ActorRecord,
    deps: tuple[ObjectRecord, ...] = (),
    contained: tuple[ObjectRecord, ...] = (),
    group: str = "",
    returns: int | str = 1,
    owner: WorkerRecord | None = None,
) -> TaskRecord:
    """A call of a method that has not been submitted yet."""
    spec = TaskSpec(
        ACTOR_TASK,
        "A.m",
        "A.m",
        num_returns=returns,
        max_retries=(actor.options or {}).get("max_task_retries", 0),
        group=group,
    )
    return TaskRecord(spec, ("args",), tuple(deps), tuple(contained), owner=owner, actor=actor)


def a_call(c: Cluster, actor: ActorRecord, **options: Any) -> TaskRecord:
    """A call of a method that has been submitted (options: see `call_of`). Ignores the actions that follow."""
    task = call_of(actor, **options)
    c.submit_actor_task(NOW, task)
    return task


def run_call(c: Cluster, task: TaskRecord) -> list[Action]:
    """The call runs and returns. Returns the actions that follow."""
    started(c, task)
    return finish(c, task)


# ---------------------------------------------------------------- placement groups


def group_of(*bundles: dict[str, float], strategy: str = "PACK", **options: Any) -> PlacementGroupRecord:
    """A placement group that has not been requested yet. options: of PlacementGroupRecord."""
    return PlacementGroupRecord([units(bundle) for bundle in bundles], strategy, **options)


def a_group(c: Cluster, *bundles: dict[str, float], **options: Any) -> PlacementGroupRecord:
    """A placement group that has been requested (options: see `group_of`). Ignores the actions that follow."""
    group = group_of(*bundles, **options)
    c.create_placement_group(NOW, group)
    return group


def in_group(group: PlacementGroupRecord, index: int = -1) -> tuple[Any, ...]:
    """The strategy of work that runs in a group: in the bundle with this index, or in any."""
    return ("PLACEMENT_GROUP", group.number, index)
