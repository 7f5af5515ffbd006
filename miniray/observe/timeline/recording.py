"""Reads a session for its timeline: from the core's records to one plain row per attempt, in order of creation.

The lock is held only while the tables are copied; rows are built after its release. The writers (`chrome`, `page`) and
the analyses (`utilisation`, `gaps`, `critical_path`) know nothing of a task but its row, so each of them can be tested
with rows made by hand.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from ..amounts import count, count_verb
from ...core.records import ACTOR_CREATION_TASK, UNIT, Attempt, Failure, NodeRecord, TaskRecord, TaskSpec, WorkerRecord
from ...core.transitions import TaskStatus
from ...ids import creation_task_hex, task_hex
from ...process import context
from ..explain.explanation import explain
from ..logs import session
from ..logs.reading import last_lines
from ..metrics import registry
from ..metrics.registry import Curve
from .profile import Span

FINISHED, FAILED, RETRIED, CANCELLED, RUNNING, WAITING = range(6)
OUTCOMES = ("finished", "failed", "retried", "cancelled", "running", "waiting")  # the name of each Row.outcome

Wait = tuple[WorkerRecord | None, int, float, float]  # worker, None for the driver; task number; from; to

_T = TypeVar("_T")


class Mark(NamedTuple):
    """A moment that belongs to no single attempt.

    kind: "node", "restart", "spill", "restore" or "lost". text: a sentence. worker: whose lane it belongs to, None for
    all.
    """

    at: float
    kind: str
    text: str
    worker: WorkerRecord | None


class Row:
    """One attempt of a task.

    number, actor: the numbers of the task and of its actor (0: none). outcome: one of the six above; RETRIED is an
    attempt that failed before another one. worker, node: None until there is a worker. owner: the worker that submitted
    the task, None for the driver. parent: hex id of the task that submitted it. producers: numbers of the tasks whose
    results it takes. place: its index among the rows of its recording.

    Times are seconds on the runtime's clock, and do not decrease from `created` to `finished`; 0.0 for a moment that
    the attempt has not reached.
    """

    __slots__ = (
        "number",
        "actor",
        "attempt",
        "spec",
        "outcome",
        "worker",
        "node",
        "owner",
        "parent",
        "producers",
        "failure",
        "created",
        "ready",
        "leased",
        "started",
        "ended",
        "finished",
        "place",
    )

    def __init__(
        self,
        task: TaskRecord,
        attempt: int,
        outcome: int,
        worker: WorkerRecord | None,
        node: NodeRecord | None,
        failure: Failure | None,
        created: float,
        ready: float,
        leased: float,
        started: float,
        ended: float,
        finished: float,
    ):
        self.number, self.spec, self.owner, self.parent = task.number, task.spec, task.owner, task.parent
        self.producers = task.producers
        self.actor = task.actor.number if task.actor is not None else 0
        self.attempt, self.outcome, self.worker, self.node, self.failure = attempt, outcome, worker, node, failure
        self.created, self.ready, self.leased, self.started = created, ready, leased, started
        self.ended, self.finished = ended, finished
        self.place = 0

    @property
    def hex(self) -> str:
        """The task id that users see."""
        if self.spec.kind == ACTOR_CREATION_TASK:
            return creation_task_hex(self.actor)
        return task_hex(self.number, self.actor or None)

    @property
    def display_name(self) -> str:
        """The name on the span, as in Ray's timeline: module.function, or the bare name of an actor's method."""
        spec = self.spec
        if self.actor:
            return spec.func_name.rpartition(".")[2]
        return f"{spec.module}.{spec.func_name}" if spec.module else spec.func_name

    def until(self, now: float) -> float:
        """When the attempt left its worker; `now` if it has not."""
        return self.finished or now


class Recording:
    """The records of a session, read at one moment.

    epoch: add it to a time to get seconds since the Unix epoch. now: when the session was read. start, end: the
    time that the recording covers. lanes: the workers that ran something, by node and number. spans: of user code,
    see `profile`. waits: the times that threads spent in get or wait. dropped: how many tasks, workers and spans
    the session dropped, and whether it dropped waits. record_limit: how many finished tasks it keeps. stores: the
    numbers of each node's object store. reasons: why a task that waits does not go on, by its number. marks:
    moments of nodes, actors and values. curves: for each node, how full its store was: time, bytes in memory, bytes
    in files. logs: the last lines that some attempts printed, by number and attempt, and the sentence for the
    others. metrics: the values over time of the metrics that the program recorded.
    """

    def __init__(
        self,
        epoch: float,
        now: float,
        rows: list[Row],
        nodes: list[NodeRecord],
        spans: list[Span],
        waits: list[Wait],
        dropped: dict[str, int],
        record_limit: int,
        stores: list[dict[str, Any]] | None = None,
        reasons: dict[int, str] | None = None,
        marks: list[Mark] | None = None,
        curves: list[list[tuple[float, int, int]]] | None = None,
        logs: tuple[dict[tuple[int, int], str], str] | None = None,
        metrics: list[Curve] | None = None,
    ):
        self.stores, self.reasons, self.marks = stores or [], reasons or {}, marks or []
        self.curves, self.logs, self.metrics = curves or [], logs or ({}, SILENT), metrics or []
        self.epoch, self.now, self.rows, self.nodes = epoch, now, rows, nodes
        self.spans, self.waits, self.dropped, self.record_limit = spans, waits, dropped, record_limit
        self._cpus: dict[WorkerRecord | TaskSpec | None, float] = {}
        workers = dict.fromkeys([*[row.worker for row in rows], *[span.worker for span in spans]])
        known = [worker for worker in workers if worker is not None]
        self.lanes = sorted(known, key=lambda worker: (worker.node.number, worker.number))
        self.start = min([row.created for row in rows[:1]] + [span.t_start for span in spans], default=now)
        ends = [row.finished or now for row in rows]
        self.end = max([*ends, *[span.t_end for span in spans]], default=now)
        for place, row in enumerate(rows):
            row.place = place

    @cached_property
    def by_worker(self) -> dict[WorkerRecord, list[Row]]:
        """The attempts of each worker, in the order in which they reached it."""
        attempts: dict[WorkerRecord, list[Row]] = {worker: [] for worker in self.lanes}
        for row in self.rows:
            if row.leased and row.worker is not None:
                attempts[row.worker].append(row)
        for rows in attempts.values():
            rows.sort(key=lambda row: row.leased)
        return attempts

    @cached_property
    def by_spec(self) -> dict[TaskSpec, list[Row]]:
        """The attempts of each combination of function and options."""
        attempts: dict[TaskSpec, list[Row]] = {}
        for row in self.rows:
            rows = attempts.get(row.spec)
            if rows is None:
                rows = attempts[row.spec] = []
            rows.append(row)
        return attempts

    @cached_property
    def latest(self) -> dict[int, Row]:
        """The last attempt of each task, by the task's number."""
        return {row.number: row for row in self.rows}

    def cpus_of(self, row: Row) -> float:
        """How many CPUs an attempt keeps busy: those it holds, but at least one for an actor's call, since it runs."""
        key = row.worker if row.actor else row.spec
        cpus = self._cpus.get(key)
        if cpus is None:
            lease = row.spec.scheduling_class
            if row.actor:
                lease = row.worker.actor.lease if row.worker is not None and row.worker.actor is not None else None
            cpus = lease.hold.get("CPU", 0) / UNIT if lease is not None else 1.0
            self._cpus[key] = cpus = max(1.0, cpus) if row.actor else cpus
        return cpus

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show."""
        return not self.rows and not self.spans

    def why_empty(self) -> str:
        """Explain to people why there is nothing to show."""
        dropped = self.dropped.get("tasks", 0)
        if dropped:
            return (
                f"{'The only task' if dropped == 1 else f'All {dropped:,} tasks'} of this session "
                f"{'has' if dropped == 1 else 'have'} been dropped from its records, which keep the last "
                f"{self.record_limit:,} finished tasks."
            )
        return (
            "This session has run no task yet: nothing was submitted since init, and no span of user code was "
            "recorded. Call .remote() on a remote function or an actor first."
        )

    def dropped_sentences(self) -> list[str]:
        """Tell people what is missing because the session dropped it, a sentence for each kind."""
        sentences = []
        if self.dropped.get("tasks"):
            sentences.append(
                f"{count_verb(self.dropped['tasks'], 'older task', 'is')} missing: the records keep the last "
                f"{self.record_limit:,} finished tasks."
            )
        if self.dropped.get("spans"):
            sentences.append(
                f"{count(self.dropped['spans'], 'older span')} of user code "
                f"{'is' if self.dropped['spans'] == 1 else 'are'} missing: "
                f"the session keeps the last {len(self.spans):,}."
            )
        if self.dropped.get("waits"):
            sentences.append(f"Only the last {len(self.waits):,} waits in get and wait are known.")
        return sentences


def read(runtime: Any, explained: bool = True) -> Recording:
    """Read a running session. Takes the runtime's lock once, for as long as it takes to copy two tables, and once for
    each kind of task that waits.

    explained: whether to ask why the tasks that wait do not go on.
    """
    with runtime.locked() as cluster:
        tasks = list(cluster.tasks.values())
        nodes = list(cluster.nodes.values())
        stores = [node.store.stats() for node in nodes]
        curves = [[*node.store.samples, (runtime.now(), node.store.used, node.store.spilled)] for node in nodes]
        events = list(cluster.events)
        dropped = dict(cluster.dropped)
        now = runtime.now()
    spans, waits = _copied(runtime.spans), _copied(runtime.waits)
    dropped["spans"] = spans[0].number if spans else 0
    dropped["waits"] = len(waits) == runtime.waits.maxlen
    rows: list[Row] = []
    add, any_retried = rows.append, False
    for task in tasks:
        if task.history is not None:
            any_retried = True
            for attempt in list(task.history):
                add(earlier_row_of(task, attempt))
        add(row_of(task))
    if any_retried:  # a later attempt was created after tasks that follow its own task in the table
        rows.sort(key=lambda row: row.created)
    reasons = _reasons(runtime, [row for row in rows if row.outcome == WAITING]) if explained else {}
    return Recording(
        runtime.epoch,
        now,
        rows,
        nodes,
        spans,
        waits,
        dropped,
        cluster.record_limit,
        stores,
        reasons,
        _marks(nodes, rows, events),
        curves,
        _logs(runtime, rows) if explained else None,
        _metrics(runtime, now),
    )


def _metrics(runtime: Any, now: float) -> list[Curve]:
    """The metrics of the program over time: those of the running session, or of a recording."""
    if context.recorded.get() is runtime:
        curves: list[Curve] = runtime.curves()
        return curves
    return registry.curves(now) if context.session is runtime else []


MOST_EXPLAINED = 100  # kinds of waiting tasks: each explanation takes the lock


def _reasons(runtime: Any, waiting: list[Row]) -> dict[int, str]:
    """Why these tasks do not go on. Tasks of one function that wait for the same kind of thing are asked about once."""
    said: dict[tuple[TaskSpec, int, bool], str] = {}
    reasons: dict[int, str] = {}
    for row in waiting:
        key = row.spec, row.actor, bool(row.ready)
        if key not in said and len(said) < MOST_EXPLAINED:
            try:
                said[key] = str(explain(runtime, row.hex))
            except ValueError:  # its record has since been dropped
                continue
        if key in said:
            reasons[row.number] = said[key]
    return reasons


MOST_LOGS = 200  # attempts whose lines a page shows
LOG_LINES = 20
SILENT = "It has printed nothing."


def _logs(runtime: Any, rows: list[Row]) -> tuple[dict[tuple[int, int], str], str]:
    """The last lines that attempts printed: first of those that did not finish well, then of the longest ones. And the
    sentence for an attempt that is not among them."""
    logs = session.shown()
    if logs is None or logs.runtime is not runtime or runtime.local:
        return {}, "Its output went to the driver's own stream, as that of all tasks in this session."
    printed = last_lines(logs, LOG_LINES)
    order = sorted(
        (row for row in rows if (row.number, row.attempt) in printed),
        key=lambda row: (row.outcome == FINISHED, row.started - row.until(runtime.now())),
    )
    kept = {(row.number, row.attempt): printed[row.number, row.attempt] for row in order[:MOST_LOGS]}
    if logs.dropped_workers or len(order) > MOST_LOGS:
        return kept, f"This page shows no lines of it: it has those of {count(len(kept), 'attempt')} only."
    return kept, SILENT


def _marks(nodes: list[NodeRecord], rows: list[Row], events: list[Any]) -> list[Mark]:
    """The nodes that joined or died after the beginning, the restarts of actors, and the values that were written to
    files, read back or lost, in order of time."""
    marks = [Mark(node.t_started, "node", f"node {node.name} joined", None) for node in nodes if not node.is_head]
    marks += [
        Mark(node.t_died, "node", f"node {node.name} died: {node.death_message}", None) for node in nodes if node.t_died
    ]
    for row in rows:
        if row.spec.kind == ACTOR_CREATION_TASK and row.attempt:
            name = row.spec.func_name.rpartition(".")[0]
            marks.append(Mark(row.created, "restart", f"actor {name} was restarted", row.worker))
    marks += [
        Mark(event.at, MARKED_EVENTS[event.kind], event.text, None) for event in events if event.kind in MARKED_EVENTS
    ]
    return sorted(marks, key=lambda mark: mark.at)


MARKED_EVENTS = {"spilled": "spill", "restored": "restore", "object_lost": "lost", "spill_failed": "lost"}
"""The events of the log that the page marks, and the kind of mark."""


def _copied(log: deque[_T]) -> list[_T]:
    """Copy a deque that other threads append to. Iteration raises RuntimeError if it changes; then try again."""
    while True:
        try:
            return list(log)
        except RuntimeError:
            continue


def row_of(task: TaskRecord) -> Row:
    """The row of a task's current attempt.

    An unfinished task may change while it is read, so read again until all fields belong to the same attempt.
    """
    while True:
        attempt, status, failure, worker, node = task.attempt, task.status, task.failure, task.worker, task.node
        created, ready, leased = task.t_created, task.t_ready, task.t_leased
        started, ended, finished = task.t_started, task.t_ended, task.t_finished
        if task.attempt == attempt and task.t_created == created:
            break
    if status is TaskStatus.FINISHED:
        outcome = FINISHED
        if created <= ready <= leased <= started <= ended <= finished:
            return Row(task, attempt, outcome, worker, node, failure, created, ready, leased, started, ended, finished)
    elif status is TaskStatus.FAILED:
        outcome = CANCELLED if failure is not None and failure.error_type == "TASK_CANCELLED" else FAILED
    else:
        outcome, finished = (RUNNING if leased else WAITING), 0.0
    return Row(
        task, attempt, outcome, worker, node, failure, *_in_order(created, ready, leased, started, ended, finished)
    )


def earlier_row_of(task: TaskRecord, attempt: Attempt) -> Row:
    """The row of an attempt that was followed by another one."""
    failure, finished = attempt.failure, attempt.t_finished
    if task.spec.kind == ACTOR_CREATION_TASK and attempt.t_ended:
        # The constructor had returned. What ended later is the actor: the failure belongs to the call that it ran.
        failure, finished = None, attempt.t_ended
    # A task that had finished runs again to rebuild a lost value.
    outcome = RETRIED if failure is not None else FINISHED
    return Row(
        task,
        attempt.number,
        outcome,
        attempt.worker,
        attempt.node,
        failure,
        *_in_order(attempt.t_created, attempt.t_ready, attempt.t_leased, attempt.t_started, attempt.t_ended, finished),
    )


def _in_order(
    created: float, ready: float, leased: float, started: float, ended: float, finished: float
) -> tuple[float, float, float, float, float, float]:
    """Correct the times of an attempt that ended or was read half-way, so that they do not decrease.

    A worker that was declared dead may stamp its task long afterwards: cut such times off at the attempt's end.
    """
    last = finished or float("inf")
    ready = min(max(ready, created), last) if ready else created if leased else 0.0
    leased = min(max(leased, ready), last) if leased else 0.0
    started = min(max(started, leased), last) if started and leased else 0.0
    ended = min(max(ended, started), last) if ended and started else 0.0
    if finished and started and not ended:
        ended = finished
    return created, ready, leased, started, ended, finished


def lane_title(worker: WorkerRecord, level: int = 0) -> str:
    """Name a worker for people: by its number, and the actor that lives in it."""
    actor = worker.actor
    title = f"worker {worker.number}"
    if actor is not None:
        title += f" {actor.name}:{actor.class_name}" if actor.name else f" {actor.class_name}"
    return f"{title} ({level + 1})" if level else title
