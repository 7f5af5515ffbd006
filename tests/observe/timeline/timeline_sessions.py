"""Handmade sessions for the tests of the timeline: records as the core would leave them, without threads."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from miniray.core.object_store import ObjectStore
from miniray.core.records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    NORMAL_TASK,
    ActorRecord,
    Attempt,
    Failure,
    NodeRecord,
    SchedulingClass,
    TaskRecord,
    TaskSpec,
    WorkerRecord,
    units,
)
from miniray.core.transitions import TaskStatus
from miniray.observe.timeline.profile import Span
from miniray.observe.timeline.recording import Recording, read
from miniray.values.errors import TaskError

EPOCH = 1_700_000_000.0  # when a session's time 0 was
BEGIN = 100.0  # what its clock showed then: in a record 0.0 means never
ONE_CPU = SchedulingClass(units({"CPU": 1}), units({"CPU": 1}))
NO_CPU = SchedulingClass(units({"CPU": 1}), {})


class Session:
    """The parts of a runtime that the timeline reads. Times are seconds since the beginning; `clock` is the present."""

    def __init__(self, cpus: int = 2, record_limit: int = 100_000):
        self.cluster = SimpleNamespace(
            tasks={},
            nodes={},
            workers={},
            events=[],
            record_limit=record_limit,
            dropped={"tasks": 0, "actors": 0, "workers": 0, "events": 0},
        )
        self.epoch, self.clock, self.number = EPOCH - BEGIN, 0.0, 0
        self.spans: deque = deque(maxlen=1000)
        self.waits: deque = deque(maxlen=1000)
        self.specs: dict[Any, TaskSpec] = {}
        self.head = self.node(cpus)

    def now(self) -> float:
        """The present, on the runtime's clock."""
        return BEGIN + self.clock

    @contextmanager
    def locked(self) -> Iterator[Any]:
        """The tables; there is no other thread to lock out."""
        yield self.cluster

    def node(self, cpus: int) -> NodeRecord:
        """Add a node at time 0."""
        number = len(self.cluster.nodes) + 1
        node = NodeRecord(number, units({"CPU": cpus}), {}, number == 1, ObjectStore(1 << 40), BEGIN)
        self.cluster.nodes[number] = node
        return node

    def worker(self, node: NodeRecord | None = None, actor: ActorRecord | None = None) -> WorkerRecord:
        """Add a worker, for the actor if one is given."""
        worker = WorkerRecord(len(self.cluster.workers) + 1, node or self.head, actor)
        self.cluster.workers[worker.number] = worker
        if actor is not None:
            actor.worker, actor.node = worker, worker.node
        return worker

    def actor(
        self, class_name: str, is_async: bool = False, groups: dict[str, int] | None = None, name: str = ""
    ) -> ActorRecord:
        """Add an actor and its worker. Its constructor is a separate task, see `task(constructs=True)`."""
        actor = ActorRecord(class_name, name=name, groups=groups, is_async=is_async)
        self.number += 1
        actor.number = self.number
        actor.lease = NO_CPU
        self.worker(actor=actor)
        return actor

    def task(
        self,
        function: str,
        *times: float | None,
        worker: WorkerRecord | None = None,
        after: tuple[TaskRecord, ...] = (),
        actor: ActorRecord | None = None,
        constructs: bool = False,
        failure: Failure | None = None,
        name: str = "",
        inside: TaskRecord | None = None,
    ) -> TaskRecord:
        """Add a task with the given times, in the order of `TaskRecord`. It has not reached those that are None or left
        out; without the last one, it has not ended.

        after: the tasks whose results it takes. inside: the task that submitted it. worker: the default is the actor's,
        or the first one.
        """
        kind = ACTOR_CREATION_TASK if constructs else ACTOR_TASK if actor is not None else NORMAL_TASK
        func_name = f"{actor.class_name}.{function}" if actor is not None else function
        key = kind, func_name, name
        spec = self.specs.get(key)
        if spec is None:
            spec = self.specs[key] = TaskSpec(
                kind,
                name or func_name,
                func_name,
                "" if actor is not None else "work",
                scheduling_class=None if kind == ACTOR_TASK else ONE_CPU,
            )
        task = TaskRecord(
            spec,
            parent=inside.hex if inside is not None else "f" * 40 + "01000000",
            owner=inside.worker if inside is not None else None,
            actor=actor,
        )
        self.number += 1
        task.number = self.number
        task.producers = tuple(made.number for made in after)
        self.cluster.tasks[task.number] = task
        stamp(task, *times)
        if task.t_leased:
            task.worker = worker or (
                actor.worker if actor is not None else next(iter(self.cluster.workers.values()), None) or self.worker()
            )
            task.node = task.worker.node
        task.failure = failure
        if task.t_finished:
            task.status = TaskStatus.FAILED if failure is not None else TaskStatus.FINISHED
        elif task.t_started:
            task.status = TaskStatus.SUBMITTED_TO_WORKER
        self._advance(times)
        return task

    def again(
        self, task: TaskRecord, failure: Failure | None, *times: float | None, worker: WorkerRecord | None = None
    ) -> None:
        """End the task's attempt, with a failure or for a lost value; its next attempt has these times."""
        task.history = [*(task.history or ()), Attempt(task, failure)]
        task.attempt += 1
        stamp(task, *times)
        task.worker = (worker or task.worker) if task.t_leased else None
        task.status = TaskStatus.FINISHED if task.t_finished else TaskStatus.PENDING_ARGS_AVAIL
        self._advance(times)

    def _advance(self, times: tuple[float | None, ...]) -> None:
        self.clock = max([self.clock, *(at for at in times if at is not None)])

    def span(
        self, name: str, start: float, end: float, worker: WorkerRecord | None = None, task: int = 0, /, **extra: str
    ) -> None:
        """Add a span of user code."""
        span = Span(name, worker, task, BEGIN + start, BEGIN + end, extra)
        span.number = self.spans[-1].number + 1 if self.spans else 0
        self.spans.append(span)

    def wait(self, task: TaskRecord | None, start: float, end: float) -> None:
        """Add a wait of a task, or of the driver for None, in get."""
        worker, number = (task.worker, task.number) if task is not None else (None, 0)
        self.waits.append((worker, number, BEGIN + start, BEGIN + end))

    def read(self) -> Recording:
        """Read the session as the timeline does."""
        return read(self, explained=False)


def stamp(task: TaskRecord, *times: float | None) -> None:
    """Set a task's times, given since the beginning."""
    on_clock = [BEGIN + at if at is not None else 0.0 for at in times]
    on_clock += [0.0] * (6 - len(on_clock))
    task.t_created, task.t_ready, task.t_leased, task.t_started, task.t_ended, task.t_finished = on_clock


def raised(error: Exception, function: str = "work") -> Failure:
    """The failure of an attempt whose code raised."""
    text = f'Traceback (most recent call last):\n  File "{function}.py", line 1\n{type(error).__name__}: {error}\n'
    return Failure(
        "TASK_EXECUTION_EXCEPTION",
        f"{type(error).__name__}: {error}",
        error=TaskError(function, text, None, error, None, None, None),
    )


CANCELLED = Failure("TASK_CANCELLED", "it was cancelled")


def pipeline(tasks: int, seed: int = 1, nodes: int = 2, cpus: int = 4, mean_s: float = 0.02) -> Session:
    """A run of about `tasks` tasks: load files, clean them, merge them in groups, count in an actor; some fail.

    Each task runs on the worker that is free first.
    """
    chance = random.Random(seed)
    session = Session(cpus)
    for _ in range(nodes - 1):
        session.node(cpus)
    workers = [session.worker(node) for node in session.cluster.nodes.values() for _ in range(cpus)]
    free_at = {worker: 0.001 + 0.0005 * number for number, worker in enumerate(workers)}
    counter = session.actor("Counter", name="tally")
    actor_free = 0.004
    session.task("__init__", 0.001, 0.001, 0.0012, 0.0014, 0.0038, 0.0039, actor=counter, constructs=True)
    at, group = 0.002, []
    while session.number < tasks:
        at += mean_s / (cpus * nodes) * 0.5
        if session.number % 97 == 96:
            at += mean_s * 4  # the driver does something else
        loaded = place(session, chance, free_at, "load", at, at, mean_s * chance.uniform(0.5, 1.5))
        cleaned = place(
            session,
            chance,
            free_at,
            "clean",
            at + 0.0001,
            max(at + 0.0001, over(loaded)),
            mean_s * chance.uniform(0.2, 0.6),
            after=(loaded,),
        )
        if chance.random() < 0.02:
            cleaned.failure, cleaned.status = raised(ValueError("a row has no key"), "clean"), TaskStatus.FAILED
        group.append(cleaned)
        if len(group) == 8:
            ready = max(map(over, group))
            merged = place(session, chance, free_at, "merge", at + 0.0002, ready, mean_s * 0.8, after=tuple(group))
            begin = max(actor_free, over(merged))
            actor_free = begin + mean_s * 0.1
            session.task(
                "add",
                at + 0.0003,
                over(merged),
                begin,
                begin + 0.00002,
                actor_free - 0.00002,
                actor_free,
                actor=counter,
                after=(merged,),
            )
            group.clear()
    return session


def over(task: TaskRecord) -> float:
    """The end of a task, since the beginning."""
    return task.t_finished - BEGIN


def place(
    session: Session,
    chance: random.Random,
    free_at: dict[WorkerRecord, float],
    function: str,
    created: float,
    ready: float,
    length: float,
    after: tuple[TaskRecord, ...] = (),
) -> TaskRecord:
    """Run a task on the worker that is free first. One attempt in fifty loses its connection and is retried."""
    worker = min(free_at, key=free_at.__getitem__)
    leased = max(free_at[worker] + 0.00002, ready)
    end = leased + length
    task = session.task(
        function, created, ready, leased, leased + length * 0.02, end - length * 0.03, end, worker=worker, after=after
    )
    if chance.random() < 0.02:
        session.again(
            task,
            raised(ConnectionError("the peer went away"), function),
            end,
            end,
            end + 0.00001,
            end + length * 0.02,
            end + length * 0.97,
            end + length,
            worker=worker,
        )
        end += length
    free_at[worker] = end
    return task
