"""A session in which nothing happens by itself: the core with its tables, and a fake runtime that only tells the time.

A test reports each event to the core, as a runtime would, so it can stop between any two events and look.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from miniray.core.cluster import Cluster
from miniray.core.records import (
    READY,
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    NORMAL_TASK,
    ActorRecord,
    Failure,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
    SPILLED,
    TaskRecord,
    TaskSpec,
    Waiter,
    WorkerRecord,
    units,
)
from miniray.ids import task_hex
from miniray.observe.explain.explanation import explain


class StillSession:
    """The part of a runtime that readers use, and a method for each event. Each event takes one second."""

    epoch = 1_000_000.0

    def __init__(self, record_limit: int = 100_000, **resources: float):
        self.cluster = Cluster(record_limit)
        self.time = 0.0
        self.options: dict[str, Any] = {"namespace": "test"}
        self.driver_waiters: dict[Waiter, list] = {}
        self.waits_forever = lambda ident: False
        self.times_locked = 0
        if resources:
            self.node(**resources)

    # ------------------------------------------------------------ what readers use

    @contextmanager
    def locked(self) -> Iterator[Cluster]:
        """The core. Counts how often it was locked."""
        self.times_locked += 1
        yield self.cluster

    def now(self) -> float:
        """The time of the last event."""
        return self.time

    def error_text(self, failure: Failure) -> str:
        """The failure's own sentence."""
        return failure.message

    def waiting_for(self, worker: WorkerRecord) -> list:
        """The objects and streams that the worker's thread waits for."""
        return list(worker.handle.waiting) if worker.handle is not None else []

    # ------------------------------------------------------------ events

    def tick(self) -> float:
        """Let one second pass. Returns the time of the next event."""
        self.time += 1.0
        return self.time

    def node(self, labels: dict[str, str] | None = None, store_bytes: int = 1 << 40, **resources: float) -> NodeRecord:
        """A node joins."""
        number = len(self.cluster.nodes) + 1
        return self.cluster.add_node(self.tick(), number, units(resources), labels, store_bytes, number == 1)[0]

    def task(
        self,
        name: str = "work",
        *deps: ObjectRecord,
        strategy: tuple = ("DEFAULT",),
        selector: tuple = (),
        retries: int = 0,
        num_returns: Any = 1,
        owner: WorkerRecord | None = None,
        cpus: float = 1,
        **resources: float,
    ) -> TaskRecord:
        """The driver, or `owner`, calls a function that needs one CPU, or whatever resources are given."""
        need = units({"CPU": cpus, **resources} if cpus else resources)
        wanted = self.cluster.scheduler.scheduling_class(need, need, strategy, selector)
        spec = TaskSpec(NORMAL_TASK, name, name, "module", None, wanted, resources, num_returns, retries)
        task = TaskRecord(spec, (), deps, (), task_hex(0), owner)
        self.cluster.submit_task(self.tick(), task)
        return task

    def actor(
        self,
        name: str = "Keeper",
        *deps: ObjectRecord,
        limit: int = 1,
        cpus: float = 0,
        max_restarts: int = 0,
        groups: dict[str, int] | None = None,
        is_async: bool = False,
        called: str = "",
    ) -> ActorRecord:
        """The driver creates an actor, which needs no CPU unless `cpus` is given."""
        need = units({"CPU": cpus} if cpus else {})
        spec = TaskSpec(
            ACTOR_CREATION_TASK,
            f"{name}.__init__",
            f"{name}.__init__",
            "module",
            None,
            self.cluster.scheduler.scheduling_class(need, need),
            {},
            0,
            -1,
        )
        actor = ActorRecord(name, called, "test", False, max_restarts, {"": limit, **(groups or {})}, is_async)
        self.cluster.create_actor(self.tick(), actor, TaskRecord(spec, (), deps, (), task_hex(0), None, actor))
        return actor

    def living_actor(self, name: str = "Keeper", **options: Any) -> ActorRecord:
        """The driver creates an actor, and its constructor returns."""
        actor = self.actor(name, **options)
        self.start(actor.creation)
        self.finish(actor.creation)
        return actor

    def call(
        self,
        actor: ActorRecord,
        name: str = "go",
        *deps: ObjectRecord,
        retries: int = 0,
        group: str = "",
        owner: WorkerRecord | None = None,
    ) -> TaskRecord:
        """The driver, or `owner`, calls a method of an actor."""
        shown = f"{actor.class_name}.{name}"
        spec = TaskSpec(ACTOR_TASK, shown, shown, "module", None, None, {}, 1, retries, group=group)
        task = TaskRecord(spec, (), deps, (), task_hex(0), owner, actor)
        self.cluster.submit_actor_task(self.tick(), task)
        return task

    def start(self, task: TaskRecord) -> WorkerRecord:
        """The task's worker has started, and enters the user's function."""
        worker = task.worker
        assert worker is not None, f"{task!r} has no worker"
        if not worker.t_started:
            worker.handle = SimpleNamespace(waiter=None, waiting=(), ident=worker.number)
            self.cluster.worker_started(self.tick(), worker)
        task.t_started = self.tick()
        return worker

    def finish(self, task: TaskRecord, size: int = 8) -> None:
        """The function returns values of `size` bytes."""
        task.t_ended = self.tick()
        self.cluster.task_finished(self.tick(), task.worker, task, [size] * len(task.returns))

    def fail(self, task: TaskRecord, message: str = "ValueError: no", retry: bool = False) -> None:
        """The function raises."""
        task.t_ended = self.tick()
        failure = Failure("TASK_EXECUTION_EXCEPTION", message, about=task)
        self.cluster.task_failed(self.tick(), task.worker, task, failure, retry)

    def done(self, name: str = "work", **options: Any) -> TaskRecord:
        """The driver calls a function, which runs and returns."""
        task = self.task(name, **options)
        self.start(task)
        self.finish(task)
        return task

    def put(self, size: int = 8) -> ObjectRecord:
        """The driver puts a value of `size` bytes."""
        obj = ObjectRecord(0, status=READY)
        self.cluster.put(self.tick(), obj, size, next(iter(self.cluster.nodes.values())))
        return obj

    def spilled(self) -> ObjectRecord:
        """A put value that was spilled to a file. Its node's store must have room for one such value only."""
        value = self.put(1_000_000)
        self.put(1_000_000)
        self.cluster.object_spilled(self.tick(), value)
        assert value.status is SPILLED
        return value

    def group(self, *bundles: dict[str, float], strategy: str = "PACK", name: str = "") -> PlacementGroupRecord:
        """The driver creates a placement group."""
        group = PlacementGroupRecord([units(bundle) for bundle in bundles], strategy, name)
        self.cluster.create_placement_group(self.tick(), group)
        return group

    def wait(self, worker: WorkerRecord, *objects: Any, need: int | None = None, timed: bool = False) -> None:
        """The worker's thread blocks in get, or in wait for `need` of the objects."""
        waiter = Waiter(len(objects) if need is None else need, lambda: None)
        waiter.timed = timed
        worker.handle.waiter, worker.handle.waiting = waiter, list(objects)
        self.cluster.wait_for(self.tick(), waiter, objects, worker if worker.actor is None else None)


def said(session: StillSession, record: Any) -> tuple[str, str]:
    """The reason and the sentence of the explanation of a record, by its id."""
    found = explain(session, record.hex)
    assert str(found) == found.sentence
    return found.reason, found.sentence
