"""What the core keeps: one record per entity, with its own timestamps, attempts and outcome.

Every view (state rows, summaries, the timeline, explanations) is a reading of these records. They are slotted and plain:
the hot path stores a number in a slot, whoever asks pays for the row. Times are seconds on the runtime's clock, 0.0 when it
has not come to that. What the core never looks into (functions, arguments, values, exceptions) is called *opaque*.

A slot that holds None until it has come to that is declared as Any: the core reads it where its tables say that it is filled,
and a question at every reading would be paid for on the hot path.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from ..ids import (
    INDEX_BITS,
    actor_hex,
    creation_task_hex,
    foreign_hex,
    node_hex,
    object_hex,
    placement_group_hex,
    task_hex,
    worker_hex,
)
from .transitions import ActorStatus, ObjectStatus, PlacementGroupStatus, TaskStatus, WorkerStatus

UNIT = 10_000  # resources are counted in ten-thousandths, so that fractions add up exactly (Ray: FixedPoint)

NORMAL_TASK = "NORMAL_TASK"
ACTOR_CREATION_TASK = "ACTOR_CREATION_TASK"
ACTOR_TASK = "ACTOR_TASK"

# The states of an object under short names, since the code that reads them most is the hottest.
PENDING, READY, SPILLED, LOST, FAILED, RELEASED, ENDED = ObjectStatus

# The slots that a runtime writes. Everything else in a record changes through the events of `cluster.Cluster` only.
RUNTIME_SLOTS = {
    "TaskSpec": ("function",),  # dropped when the program no longer uses it
    "TaskRecord": ("t_started", "t_ended", "was_interrupted"),
    "ObjectRecord": ("value",),  # stored before the event that reports it
    "WorkerRecord": ("handle",),
    "ActorRecord": ("repr_name",),
    "Waiter": ("fired", "timed", "thread"),
}


class _Dropped:
    """Takes the place of a value that was dropped."""

    __slots__ = ()

    def __repr__(self):
        return "<dropped>"


DROPPED = _Dropped()


def units(resources: dict[str, float]) -> dict[str, int]:
    """Amounts as a user gives them, in the core's whole units."""
    return {name: round(amount * UNIT) for name, amount in resources.items()}


def amounts(resources: dict[str, int]) -> dict[str, float]:
    """The core's units as a user reads them."""
    return {name: amount / UNIT for name, amount in resources.items()}


def _moments(record: Any, **labels: str) -> list[str]:
    """A line for each time that a record has noted, in order. labels: a sentence for each slot."""
    noted = sorted((getattr(record, slot), text) for slot, text in labels.items() if getattr(record, slot))
    return [f"at {at:.6f}: {text}" for at, text in noted]


class Failure:
    """Why an object has an error in place of a value, or why an actor is dead.

    error_type: Ray's name (common.proto, ErrorType). message: one sentence for people. error: the user's exception, opaque,
    when there is one. cause: the failure of the argument or actor that this one follows from. about: the record it is about.
    """

    __slots__ = ("error_type", "message", "error", "cause", "about")

    def __init__(self, error_type: str, message: str = "", error=None, cause: "Failure | None" = None, about=None):
        self.error_type, self.message, self.error, self.cause, self.about = error_type, message, error, cause, about

    def __repr__(self):
        return f"Failure({self.error_type}, {self.message!r})"


class SchedulingClass:
    """All tasks that ask for the same: they stand in one queue, and when its head cannot be placed, none of them can.

    need: what a node must have free. hold: what is taken from it; less than need for a default actor, which needs a CPU to be
    placed and then holds none. strategy: ("DEFAULT",) | ("SPREAD",) | ("NODE_AFFINITY", node hex, soft) | ("NODE_LABEL", hard,
    soft) | ("PLACEMENT_GROUP", number, bundle index). selector: labels a node must have. Ray: SchedulingClass.
    """

    __slots__ = ("need", "hold", "strategy", "selector", "queue", "group", "spread_at", "ranking", "plain")

    group: Any  # PlacementGroupRecord
    ranking: Any  # NodeRanking

    def __init__(
        self, need: dict[str, int], hold: dict[str, int], strategy: tuple = ("DEFAULT",), selector: tuple = ()
    ):
        self.need, self.hold, self.strategy, self.selector = need, hold, strategy, selector
        self.queue: deque[TaskRecord] = deque()
        self.group = None
        self.spread_at = 0
        self.plain = strategy == ("DEFAULT",) and not selector  # may run wherever there is room
        self.ranking = None  # of the nodes, made by the scheduler when there are several

    def __repr__(self):
        return f"SchedulingClass({amounts(self.need)}, {self.strategy})"


class TaskSpec:
    """What every call of one remote function with one set of options has in common.

    name: what the task is called (options(name=)); func_name: the function's or Class.method's own. num_returns: a number,
    "streaming" or "dynamic". max_retries: -1 for no limit. retry_exceptions, function, runtime_env: opaque.
    resources: what was asked for, as the user wrote it. group: the concurrency group of a method, "" for the default.
    max_calls: after so many calls of the function its worker ends; 0 for never.
    """

    __slots__ = (
        "kind",
        "name",
        "func_name",
        "module",
        "function",
        "scheduling_class",
        "resources",
        "num_returns",
        "max_retries",
        "retry_exceptions",
        "group",
        "runtime_env",
        "capture_child_tasks",
        "backpressure",
        "streams",
        "max_calls",
        "options",
    )

    scheduling_class: Any  # None for a method: its actor holds the resources

    def __init__(
        self,
        kind: str,
        name: str,
        func_name: str,
        module: str = "",
        function=None,
        scheduling_class: SchedulingClass | None = None,
        resources: dict | None = None,
        num_returns=1,
        max_retries: int = 0,
        retry_exceptions=False,
        group: str = "",
        runtime_env=None,
        capture_child_tasks: bool = False,
        backpressure: int = -1,
        options: dict | None = None,
        max_calls: int = 0,
    ):
        self.kind, self.name, self.func_name, self.module, self.function = kind, name, func_name, module, function
        self.scheduling_class, self.resources, self.num_returns = scheduling_class, resources or {}, num_returns
        self.max_retries, self.retry_exceptions, self.group = max_retries, retry_exceptions, group
        self.runtime_env, self.capture_child_tasks, self.backpressure = runtime_env, capture_child_tasks, backpressure
        self.streams = num_returns == "streaming"
        self.max_calls, self.options = max_calls, options or {}


class Attempt:
    """An attempt that is over while its task goes on: what its row needs."""

    __slots__ = (
        "number",
        "worker",
        "node",
        "t_created",
        "t_ready",
        "t_leased",
        "t_started",
        "t_ended",
        "t_finished",
        "failure",
    )

    def __init__(self, task: "TaskRecord", failure: Failure | None):
        self.number, self.worker, self.node, self.failure = task.attempt, task.worker, task.node, failure
        self.t_created, self.t_ready, self.t_leased = task.t_created, task.t_ready, task.t_leased
        self.t_started, self.t_ended, self.t_finished = task.t_started, task.t_ended, task.t_finished

    def story(self) -> list[str]:
        """What happened in this attempt, one line each, for people."""
        lines = [f"attempt {self.number}, worker {self.worker!r}", *_moments(self, **ATTEMPT_TIMES)]
        return lines if self.failure is None else [*lines, f"it failed: {self.failure!r}"]


ATTEMPT_TIMES = {
    "t_created": "submitted",
    "t_ready": "its arguments were ready",
    "t_leased": "a worker was told to run it",
    "t_started": "its code was entered",
    "t_ended": "its code ended",
    "t_finished": "it was over",
}


class TaskRecord:
    """One task: its call, and where its current attempt stands.

    args: opaque, dropped when no attempt can need it any more. deps: the objects that stand as arguments themselves;
    contained: those inside arguments, which the task keeps alive. producers: numbers of the tasks that make the deps, which stay
    known when deps is emptied at the end. parent: hex id of the task that called `.remote()`.
    owner: the worker that did, None for the driver. pending: how many deps have no value yet. cancel_requested: somebody called
    `cancel`. was_interrupted: the task's code has received the interrupt that `cancel` caused.
    Times: created (.remote() was called), ready (arguments there), leased (a worker was told), started (the user's function
    was entered), ended (it returned or raised), finished (its values are stored, or its error).
    """

    __slots__ = (
        "number",
        "spec",
        "args",
        "deps",
        "contained",
        "producers",
        "parent",
        "owner",
        "pending",
        "status",
        "attempt",
        "retries_left",
        "worker",
        "node",
        "returns",
        "actor",
        "stream",
        "failure",
        "history",
        "cancel_requested",
        "was_interrupted",
        "t_created",
        "t_ready",
        "t_leased",
        "t_started",
        "t_ended",
        "t_finished",
    )

    worker: Any
    node: Any
    stream: Any
    failure: Any
    history: Any
    actor: Any
    returns: Any  # ObjectRecords in a tuple; in a list where a generator adds to it

    def __init__(
        self,
        spec: TaskSpec,
        args=None,
        deps: tuple = (),
        contained: tuple = (),
        parent: str = "",
        owner: "WorkerRecord | None" = None,
        actor: "ActorRecord | None" = None,
        number: int = 0,
    ):
        self.number = number
        self.spec, self.args, self.deps, self.contained = spec, args, deps, contained
        self.producers: tuple[int, ...] = ()
        self.parent, self.owner, self.actor = parent, owner, actor
        self.pending = self.attempt = 0
        self.status = TaskStatus.PENDING_ARGS_AVAIL
        self.retries_left = spec.max_retries
        self.worker = self.node = self.stream = self.failure = self.history = None
        self.returns = ()
        self.cancel_requested = self.was_interrupted = False
        self.t_created = self.t_ready = self.t_leased = self.t_started = self.t_ended = self.t_finished = 0.0

    @property
    def hex(self) -> str:
        """The id that users see."""
        if self.spec.kind == ACTOR_CREATION_TASK:
            return creation_task_hex(self.actor.number)
        return task_hex(self.number, self.actor.number if self.actor is not None else None)

    def story(self) -> list[str]:
        """Every attempt so far, one line for each thing that happened, for people."""
        lines = [line for attempt in self.history or () for line in attempt.story()]
        lines += Attempt(self, self.failure).story()
        if self.cancel_requested:
            lines.append("its code was interrupted" if self.was_interrupted else "somebody asked to cancel it")
        return lines

    def __repr__(self):
        return f"TaskRecord({self.number}, {self.spec.name}, {self.status.name}, attempt {self.attempt})"


class ObjectRecord:
    """One object: who makes it, who holds it, where it is.

    value: opaque, a Failure when FAILED, DROPPED when RELEASED, LOST or ENDED. size: bytes, -1 while unknown.
    refs: ObjectRefs in the program; uses: unfinished tasks that take it; held: stored values that contain it. At zero of all
    three its value goes. lineage: values that could only be rebuilt with its help; until that is zero too, whatever could
    rebuild this one stays. contained: the records inside its value. locations: the nodes with a copy, None for a small value that
    stays with its owner. task: who makes it; None for a put and for an actor's handle. number: below zero for an id that nothing
    here has (see ids).
    """

    __slots__ = (
        "number",
        "task",
        "status",
        "value",
        "size",
        "refs",
        "uses",
        "held",
        "lineage",
        "contained",
        "waiters",
        "dependents",
        "locations",
        "owner",
        "actor",
        "t_created",
        "t_ready",
    )

    task: Any
    value: Any
    actor: Any
    waiters: Any
    dependents: Any
    locations: Any

    def __init__(
        self,
        number: int,
        task: TaskRecord | None = None,
        owner: "WorkerRecord | None" = None,
        actor: "ActorRecord | None" = None,
        refs: int = 1,
        status: ObjectStatus = PENDING,
        value: Any = None,
        contained: tuple = (),
    ):
        self.number, self.task, self.owner, self.actor, self.refs = number, task, owner, actor, refs
        self.status, self.value, self.size, self.contained = status, value, -1, contained
        self.uses = self.held = self.lineage = 0
        self.waiters = self.dependents = self.locations = None
        self.t_created = self.t_ready = 0.0

    @property
    def hex(self) -> str:
        """The id that users see."""
        if self.number < 0:
            return foreign_hex(self.number)
        number, index = self.number >> INDEX_BITS, self.number & (1 << INDEX_BITS) - 1
        if self.task is not None:
            return object_hex(task_hex(number, self.task.actor.number if self.task.actor is not None else None), index)
        return object_hex(task_hex(number, self.actor.number if self.actor is not None else None), index)

    def story(self) -> list[str]:
        """What happened to it, one line each, for people."""
        lines = _moments(self, t_created="put", t_ready="its value was stored")
        lines.append(
            f"held by {self.refs} references, {self.uses} tasks, {self.held} values; lineage of {self.lineage} values"
        )
        return lines if self.task is None else [*lines, f"made by {self.task!r}:", *self.task.story()]

    def __repr__(self):
        return f"ObjectRecord({self.number >> INDEX_BITS}.{self.number & (1 << INDEX_BITS) - 1}, {self.status.name})"


class StreamRecord:
    """What a generator task has yielded. items: an object per yield; taken: how many were handed out; ended: no more come.
    gone: how many of the task's returns were let go of, and are still listed there."""

    __slots__ = ("task", "items", "taken", "produced", "ended", "waiters", "refs", "producer_waiter", "gone")

    producer_waiter: Any  # Waiter

    def __init__(self, task: TaskRecord):
        self.task = task
        self.items: list[Any] = []  # ObjectRecords; None in place of one that was handed out
        self.taken = self.produced = self.gone = 0
        self.ended = False
        self.waiters: list[Waiter] | None = None
        self.refs = 1
        self.producer_waiter = None


class WorkerRecord:
    """One worker. handle: the runtime's own, opaque. lease: the class whose resources it holds (from `bundle`, or else from its
    node); lent: the CPU units of it that are given back while it is blocked. task: what it runs now."""

    __slots__ = (
        "number",
        "node",
        "status",
        "handle",
        "lease",
        "lent",
        "bundle",
        "task",
        "running",
        "actor",
        "group",
        "gpu_ids",
        "owns",
        "calls",
        "tasks_done",
        "t_created",
        "t_started",
        "t_died",
        "exit_type",
        "exit_detail",
    )

    actor: Any
    handle: Any
    lease: Any
    bundle: Any
    task: Any
    group: Any
    exit_type: Any

    def __init__(self, number: int, node: "NodeRecord", actor: "ActorRecord | None" = None):
        self.number, self.node, self.actor = number, node, actor
        self.status = WorkerStatus.STARTING
        self.handle = self.lease = self.bundle = self.task = self.group = self.exit_type = None
        self.owns = False  # whether it ever submitted a task, made an actor or put a value
        self.running: dict[int, TaskRecord] = {}  # only of an async actor's worker: its calls in flight
        self.gpu_ids: tuple[int, ...] = ()
        self.lent = self.tasks_done = 0
        self.calls: dict[tuple, int] | None = None  # of functions with max_calls, by module and name
        self.t_created = self.t_started = self.t_died = 0.0
        self.exit_detail = ""

    @property
    def hex(self) -> str:
        """The id that users see."""
        return worker_hex(self.number)

    key = hex

    def story(self) -> list[str]:
        """What happened to it, one line each, for people."""
        lines = _moments(self, t_created="ordered", t_started="started", t_died="died")
        lines.append(f"it ran {self.tasks_done} tasks; now {self.task!r}")
        return lines if not self.exit_type else [*lines, f"{self.exit_type}: {self.exit_detail}"]

    def __repr__(self):
        return f"WorkerRecord({self.number}, {self.status.name})"


class NodeRecord:
    """One node. total, available: resource units. idle: its parked workers, the last to park last. starting: workers ordered
    for tasks that have not answered yet. store: its object store."""

    __slots__ = (
        "number",
        "name",
        "alive",
        "is_head",
        "total",
        "available",
        "labels",
        "idle",
        "workers",
        "starting",
        "store",
        "gpu_free",
        "t_started",
        "t_died",
        "death_message",
    )

    def __init__(self, number: int, total: dict[str, int], labels: dict[str, str], is_head: bool, store, now: float):
        self.number, self.total, self.labels, self.is_head, self.store = number, total, labels, is_head, store
        self.name = f"127.0.0.{number}"
        self.alive = True
        self.available = dict(total)
        self.idle: list[WorkerRecord] = []
        self.workers: dict[int, WorkerRecord] = {}
        self.starting = 0
        self.gpu_free = {index: UNIT for index in range(total.get("GPU", 0) // UNIT)}
        self.t_started, self.t_died, self.death_message = now, 0.0, ""

    @property
    def hex(self) -> str:
        """The id that users see."""
        return node_hex(self.number)

    def __repr__(self):
        return f"NodeRecord({self.number}, {'alive' if self.alive else 'dead'})"


class ConcurrencyGroup:
    """Calls of an actor that share one limit. queue: calls in order of submission; running: how many are in it now."""

    __slots__ = ("name", "limit", "queue", "running", "idle", "workers")

    def __init__(self, name: str, limit: int):
        self.name, self.limit = name, limit
        self.queue: deque[TaskRecord] = deque()
        self.running = 0
        self.idle: list[WorkerRecord] = []
        self.workers: list[WorkerRecord] = []


class ActorRecord:
    """One actor. creation: the task that runs its constructor. handle: the object that all its handles refer to; when nobody
    holds it the actor ends. in_order: one call at a time, in the order of submission. restarts: how often it was made anew."""

    __slots__ = (
        "number",
        "status",
        "class_name",
        "name",
        "namespace",
        "detached",
        "max_restarts",
        "restarts",
        "creation",
        "handle",
        "worker",
        "node",
        "groups",
        "is_async",
        "in_order",
        "owner",
        "failure",
        "calls",
        "out_of_scope",
        "repr_name",
        "gpu_ids",
        "t_created",
        "t_alive",
        "t_died",
        "meta",
        "tasks_done",
        "options",
        "lease",
        "lineage",
    )

    creation: Any
    handle: Any
    worker: Any
    node: Any
    failure: Any
    lease: Any

    def __init__(
        self,
        class_name: str,
        name: str = "",
        namespace: str = "",
        detached: bool = False,
        max_restarts: int = 0,
        groups: dict[str, int] | None = None,
        is_async: bool = False,
        owner: WorkerRecord | None = None,
        meta=None,
        options: dict | None = None,
        number: int = 0,
    ):
        self.number = number
        self.status = ActorStatus.DEPENDENCIES_UNREADY
        self.class_name, self.name, self.namespace, self.detached = class_name, name, namespace, detached
        self.max_restarts, self.restarts = max_restarts, 0
        self.groups = {key: ConcurrencyGroup(key, limit) for key, limit in (groups or {"": 1}).items()}
        self.is_async = is_async
        self.in_order = not is_async and len(self.groups) == 1 and self.groups[""].limit == 1
        self.owner, self.meta, self.options = owner, meta, options
        self.creation = self.handle = self.worker = self.node = self.failure = None
        self.calls: dict[int, TaskRecord] = {}  # every call that is not over, in order of submission
        self.lease = None  # what it holds for life
        self.gpu_ids: tuple[int, ...] = ()
        self.out_of_scope = False
        self.lineage = 0  # calls that ended and may be made again for values of theirs
        self.repr_name = ""
        self.tasks_done = 0
        self.t_created = self.t_alive = self.t_died = 0.0

    @property
    def hex(self) -> str:
        """The id that users see."""
        return actor_hex(self.number)

    def story(self) -> list[str]:
        """What happened to it, one line each, for people."""
        lines = _moments(self, t_created="asked for", t_alive="its constructor returned", t_died="died")
        lines.append(f"restarted {self.restarts} times; {len(self.calls)} calls are not over")
        if self.failure is not None:
            lines.append(f"it died: {self.failure!r}")
        return lines if self.creation is None else [*lines, "its constructor:", *self.creation.story()]

    def __repr__(self):
        return f"ActorRecord({self.number}, {self.class_name}, {self.status.name})"


class Bundle:
    """A set of resources reserved together on one node, and what of it is free."""

    __slots__ = ("index", "total", "available", "node", "selector")

    def __init__(self, index: int, total: dict[str, int], selector: tuple = ()):
        self.index, self.total, self.selector = index, total, selector
        self.available = dict(total)
        self.node: NodeRecord | None = None


class PlacementGroupRecord:
    """One placement group: bundles, how they are spread, and the object that is ready when all are reserved."""

    __slots__ = (
        "number",
        "name",
        "strategy",
        "bundles",
        "status",
        "detached",
        "owner",
        "ready",
        "t_created",
        "t_placed",
        "attempts",
    )

    ready: Any

    def __init__(
        self,
        bundles: list[dict[str, int]],
        strategy: str,
        name: str = "",
        detached: bool = False,
        owner: WorkerRecord | None = None,
        selectors: list[tuple] | None = None,
    ):
        self.number, self.strategy, self.name, self.detached, self.owner = 0, strategy, name, detached, owner
        self.bundles = [Bundle(i, b, selectors[i] if selectors else ()) for i, b in enumerate(bundles)]
        self.status = PlacementGroupStatus.PENDING
        self.ready = None
        self.t_created = self.t_placed = 0.0
        self.attempts = 0

    @property
    def hex(self) -> str:
        """The id that users see."""
        return placement_group_hex(self.number)

    def story(self) -> list[str]:
        """What happened to it, one line each, for people."""
        lines = _moments(self, t_created="asked for", t_placed="placed")
        return [*lines, f"tried {self.attempts} times; bundles on {[bundle.node for bundle in self.bundles]}"]

    def __repr__(self):
        return f"PlacementGroupRecord({self.number}, {self.status.name})"


class Waiter:
    """Somebody who waits for objects. need: how many more must come; fail_fast: one that failed is enough, as for `get`.
    token: the runtime's own, opaque: what to wake. fired: it has been woken or has given up. timed: it gives up some day. thread:
    the ident of the thread that waits, 0 for a callback."""

    __slots__ = ("need", "fail_fast", "token", "fired", "objects", "worker", "timed", "thread")

    def __init__(self, need: int, token, fail_fast: bool = False, objects: tuple = (), worker: WorkerRecord | None = None):
        self.need, self.token, self.fail_fast, self.objects, self.worker = need, token, fail_fast, objects, worker
        self.fired = self.timed = False
        self.thread = 0
