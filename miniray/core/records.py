"""The records: what the core keeps about each task, object, stream, worker, node, actor and placement group.

Each entity has one record with its own timestamps, attempts and outcome. Every view (state rows, summaries, the
timeline, explanations) is computed from these records. The hot path only stores a number in a slot; the reader pays
for building a row.

How to read the classes below. Beside each slot stands its meaning. Some conventions hold for all of them:

- `t_...` is a time: seconds on the runtime's clock, 0.0 if it has not happened yet.
- *Opaque* means that the core stores it and never looks inside: functions, arguments, values, exceptions.
- Only the events of `cluster.Cluster` change a record. The exceptions are marked "runtime:" and listed in
  RUNTIME_SLOTS; a test holds the package to that list.
- `number` is unique among all tasks, actors, objects and placement groups of a session. `hex` is the id that users
  see.
- `story` returns the history of the entity for people, one line for each thing that happened. Errors about our own
  bugs, such as `transitions.IllegalMove`, print it.

Slots that hold None at first are declared as Any. The core reads such a slot only where its tables guarantee that the
slot is filled, and a check at every read would slow down the hot path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UNIT = 10_000  # resources are counted in ten-thousandths, so that sums of fractions are exact (Ray: FixedPoint)

NORMAL_TASK = "NORMAL_TASK"
ACTOR_CREATION_TASK = "ACTOR_CREATION_TASK"
ACTOR_TASK = "ACTOR_TASK"

# Short names for the states of an object. The hot path reads them, and a global is faster to read than an attribute of
# an Enum.
PENDING, READY, SPILLED, LOST, FAILED, RELEASED, ENDED = ObjectStatus

# The slots that a runtime writes. Only the events of `cluster.Cluster` change any other slot.
RUNTIME_SLOTS = {
    "TaskSpec": ("function",),  # set to None when the program no longer uses it
    "TaskRecord": ("t_started", "t_ended", "was_interrupted", "trace"),
    "ObjectRecord": ("value",),  # stored before the event that reports the value
    "WorkerRecord": ("handle",),
    "ActorRecord": ("repr_name",),
    "Waiter": ("fired", "timed", "thread"),
}


class Aside:
    """What a record held of the program's when the record itself was dropped.

    Functions, classes and exceptions of the program may have finalisers, and a record may lose its last reference in
    the middle of an event. So such a record hands over what it holds. The runtime sets `put`: if the lock is held, it
    keeps the things until that is no longer the case.
    """

    def __init__(self) -> None:
        self.put: Callable[[Any], None] = lambda things: None  # without a runtime they are dropped at once


aside = Aside()


class _Dropped:
    """The type of DROPPED, which stands in `ObjectRecord.value` after the value was dropped."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<dropped>"


DROPPED = _Dropped()

# Resources whose devices are also counted one by one, because a task is told which of them it may use. These are the
# accelerators that Ray knows (ray/_private/accelerators).
ACCELERATORS = ("GPU", "TPU", "NPU", "HPU", "neuron_cores", "RBLN", "FURIOSA", "MBLT", "TTNPU")

# Accelerator -> the indices of its devices that a worker was given. Read-only: NO_DEVICES is shared.
Devices = dict[str, tuple[int, ...]]
NO_DEVICES: Devices = {}


def units(resources: dict[str, float]) -> dict[str, int]:
    """Convert amounts as users write them (0.5) to the core's whole units (5000)."""
    return {name: round(amount * UNIT) for name, amount in resources.items()}


def amounts(resources: dict[str, int]) -> dict[str, float]:
    """Convert the core's whole units (5000) to amounts as users write them (0.5)."""
    return {name: amount / UNIT for name, amount in resources.items()}


def _moments(record: Any, **labels: str) -> list[str]:
    """One line for each of the record's times that is set, earliest first. labels: the text for each slot."""
    noted = [(getattr(record, slot), text) for slot, text in labels.items() if getattr(record, slot)]
    noted.sort(key=lambda moment: moment[0])  # equal times stay in the order of the labels
    return [f"at {at:.6f}: {text}" for at, text in noted]


class Failure:
    """The reason why an object holds an error in place of a value, or why an actor is dead."""

    __slots__ = (
        "error_type",  # Ray's name for the kind of error (common.proto, ErrorType)
        "message",  # one sentence for people
        "error",  # the exception that user code raised, opaque; None if there is none
        "cause",  # the Failure of the argument, actor or worker that led to this one; None if there is none
        "about",  # the record of the entity that failed, or None
    )

    def __init__(
        self,
        error_type: str,
        message: str = "",
        error: Any = None,
        cause: Failure | None = None,
        about: Any = None,
    ):
        self.error_type, self.message, self.error, self.cause, self.about = error_type, message, error, cause, about

    def __repr__(self) -> str:
        return f"Failure({self.error_type}, {self.message!r})"


class SchedulingClass:
    """All tasks that make the same demands on a node. They share one queue: if its head cannot be placed, no other can.

    There is one SchedulingClass for each distinct demand (`Scheduler.scheduling_class`). Ray: SchedulingClass.
    """

    __slots__ = (
        "need",  # units by resource name that a node must have free
        "hold",  # units that a lease takes: `need`, or nothing for a default actor, which needs a CPU only to be placed
        "devices",  # the part of `hold` that is counted by device: units by accelerator
        "strategy",  # where a task may run; see the forms in __init__
        "selector",  # labels that the node must have: (key, operator, values), see scheduler.labels_match
        "queue",  # tasks that wait for a node, oldest first; also cancelled tasks, which are skipped at the head
        "group",  # the PlacementGroupRecord of a PLACEMENT_GROUP strategy, otherwise None
        "spread_at",  # for SPREAD: the index in Scheduler.alive at which the next search for a node starts
        "ranking",  # the NodeRanking of the nodes for this demand; the scheduler makes it when there are several nodes
        "plain",  # whether any node with room will do: the default strategy and no selector
    )

    group: Any  # PlacementGroupRecord
    ranking: Any  # NodeRanking

    def __init__(
        self,
        need: dict[str, int],
        hold: dict[str, int],
        strategy: tuple[Any, ...] = ("DEFAULT",),
        selector: tuple[Any, ...] = (),
    ):
        """strategy: ("DEFAULT",), ("SPREAD",), ("NODE_AFFINITY", node's hex, soft), ("NODE_LABEL", hard, soft), or
        ("PLACEMENT_GROUP", group's number, bundle index or -1 for any)."""
        self.need, self.hold, self.strategy, self.selector = need, hold, strategy, selector
        self.devices = {name: amount for name, amount in hold.items() if name in ACCELERATORS}
        self.queue: deque[TaskRecord] = deque()
        self.group = None
        self.spread_at = 0
        self.plain = strategy == ("DEFAULT",) and not selector
        self.ranking = None

    def __repr__(self) -> str:
        return f"SchedulingClass({amounts(self.need)}, {self.strategy})"


class TaskSpec:
    """What all calls of one remote function, or of one method, with the same options have in common."""

    __slots__ = (
        "kind",  # NORMAL_TASK, ACTOR_CREATION_TASK or ACTOR_TASK
        "name",  # the task's name: `options(name=...)`, or else func_name
        "func_name",  # the function's own name; "Class.method" for a method
        "module",  # the module that defines the function, "" if unknown
        "function",  # opaque; runtime: set to None when the program no longer uses the function
        "scheduling_class",  # None for a method: it runs where its actor is
        "resources",  # what the user asked for, as amounts (not units)
        "num_returns",  # a number, "streaming" or "dynamic"
        "max_retries",  # of a method: max_task_retries; -1 for no limit
        "retry_exceptions",  # opaque: the runtime decides whether an exception may be retried
        "group",  # the concurrency group of a method, "" for the default one
        "runtime_env",  # opaque: the runtime environment, or None
        "capture_child_tasks",  # whether tasks that it submits run in its placement group
        "backpressure",  # how many items of its stream may wait for the consumer; -1 for no limit
        "streams",  # whether num_returns is "streaming"
        "max_calls",  # a worker ends after this many calls of the function; 0 for no limit
        "options",  # opaque: the options as the user gave them; of a method, also the method's name
    )

    scheduling_class: Any

    def __init__(
        self,
        kind: str,
        name: str,
        func_name: str,
        module: str = "",
        function: Any = None,
        scheduling_class: SchedulingClass | None = None,
        resources: dict[str, float] | None = None,
        num_returns: Any = 1,
        max_retries: int = 0,
        retry_exceptions: Any = False,
        group: str = "",
        runtime_env: Any = None,
        capture_child_tasks: bool = False,
        backpressure: int = -1,
        options: dict[str, Any] | None = None,
        max_calls: int = 0,
    ):
        self.kind, self.name, self.func_name, self.module, self.function = kind, name, func_name, module, function
        self.scheduling_class, self.resources, self.num_returns = scheduling_class, resources or {}, num_returns
        self.max_retries, self.retry_exceptions, self.group = max_retries, retry_exceptions, group
        self.runtime_env, self.capture_child_tasks, self.backpressure = runtime_env, capture_child_tasks, backpressure
        self.streams = num_returns == "streaming"
        self.max_calls, self.options = max_calls, options or {}

    def __del__(self, aside: Aside = aside) -> None:
        aside.put((self.function, self.retry_exceptions, self.runtime_env, self.options))


class Attempt:
    """An earlier attempt of a task, kept for its state row. The task's record holds the current attempt."""

    __slots__ = (
        "number",  # 0 for the first attempt
        "worker",  # the WorkerRecord that ran it; None if it never reached a worker
        "node",  # the worker's NodeRecord
        "t_created",  # this and the other times are the task's, as they were when the attempt ended
        "t_ready",  # see TaskRecord
        "t_leased",  # see TaskRecord
        "t_started",  # see TaskRecord
        "t_ended",  # see TaskRecord
        "t_finished",  # see TaskRecord
        "failure",  # the Failure that ended it; None if it succeeded and the task runs again to rebuild a value
    )

    def __init__(self, task: TaskRecord, failure: Failure | None):
        self.number, self.worker, self.node, self.failure = task.attempt, task.worker, task.node, failure
        self.t_created, self.t_ready, self.t_leased = task.t_created, task.t_ready, task.t_leased
        self.t_started, self.t_ended, self.t_finished = task.t_started, task.t_ended, task.t_finished

    def story(self) -> list[str]:
        """What happened in this attempt, one line for each thing, for people."""
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
    """One task: the call, and the state of its current attempt. Ray: TaskEntry (core_worker/task_manager.h)."""

    __slots__ = (
        "number",  # given at submission
        "spec",  # its TaskSpec
        "args",  # opaque; None once no attempt can need the arguments again
        "deps",  # ObjectRecords that are arguments themselves, one entry per occurrence; emptied together with args
        "contained",  # ObjectRecords inside other arguments, which the task keeps alive; emptied together with args
        "producers",  # numbers of the tasks that made the deps; kept after deps is emptied
        "parent",  # hex id of the task that called `.remote()`
        "owner",  # the WorkerRecord that called `.remote()`, None for the driver; if it dies, the task fails
        "pending",  # how many deps have no value yet (the task is in their `dependents`)
        "status",  # a TaskStatus; only transitions.move writes it
        "attempt",  # number of the current attempt, 0 for the first
        "retries_left",  # below zero: no limit
        "worker",  # the WorkerRecord that was told to run the current attempt, or None
        "node",  # that worker's NodeRecord
        "returns",  # its ObjectRecords: a tuple, or a list for a generator; () when nobody can need them
        "actor",  # the ActorRecord of a method call or a constructor, otherwise None
        "trace",  # opaque; runtime: in which span the call was made; None if the driver made it outside of any span
        "stream",  # the StreamRecord of a streaming generator, otherwise None
        "failure",  # why the task FAILED, otherwise None
        "history",  # a list of the earlier Attempts; None as long as there is only one attempt
        "cancel_requested",  # somebody called `cancel` while a worker had the task
        "was_interrupted",  # runtime: the task's code has received the interrupt that `cancel` caused
        "t_created",  # `.remote()` was called; of a retry: the attempt before it ended
        "t_ready",  # all arguments had a value
        "t_leased",  # a worker was told to run it
        "t_started",  # runtime: the worker entered the user's function
        "t_ended",  # runtime: the user's function returned or raised
        "t_finished",  # the attempt's values, or its error, are stored; 0.0 as long as the task is unfinished
    )

    worker: Any
    node: Any
    stream: Any
    failure: Any
    history: Any
    actor: Any
    returns: Any

    def __init__(
        self,
        spec: TaskSpec,
        args: Any = None,
        deps: tuple[ObjectRecord, ...] = (),
        contained: tuple[ObjectRecord, ...] = (),
        parent: str = "",
        owner: WorkerRecord | None = None,
        actor: ActorRecord | None = None,
        trace: Any = None,
        number: int = 0,
    ):
        self.number = number
        # At most three values in one assignment: four would make a tuple.
        self.spec, self.args = spec, args
        self.deps, self.contained = deps, contained
        self.producers: tuple[int, ...] = ()
        self.parent, self.owner, self.actor = parent, owner, actor
        self.trace = trace
        self.pending = self.attempt = 0
        self.status = TaskStatus.PENDING_ARGS_AVAIL
        self.retries_left = spec.max_retries
        self.worker = self.node = self.stream = self.failure = self.history = None
        self.returns = ()
        self.cancel_requested = self.was_interrupted = False
        self.t_created = self.t_ready = self.t_leased = self.t_started = self.t_ended = self.t_finished = 0.0

    @property
    def hex(self) -> str:
        """The id that users see, in hexadecimal digits."""
        if self.spec.kind == ACTOR_CREATION_TASK:
            return creation_task_hex(self.actor.number)
        return task_hex(self.number, self.actor.number if self.actor is not None else None)

    def story(self) -> list[str]:
        """What happened in every attempt so far, one line for each thing, for people."""
        lines = [line for attempt in self.history or () for line in attempt.story()]
        lines += Attempt(self, self.failure).story()
        if self.cancel_requested:
            lines.append("its code was interrupted" if self.was_interrupted else "somebody asked to cancel it")
        return lines

    def __repr__(self) -> str:
        return f"TaskRecord({self.number}, {self.spec.name}, {self.status.name}, attempt {self.attempt})"


class ObjectRecord:
    """One object: its value, where the value is, and who needs it.

    The value is dropped when refs, uses and held are all zero. The record, and the arguments of the task that made the
    value, stay as lineage until `lineage` is zero, too. See `reference_counter`.
    """

    __slots__ = (
        "number",  # `task number << 32 | index`; negative for an id that no object of this session has (see ids)
        "task",  # the TaskRecord that makes it; None for a put value, an actor's handle and a placement group's `ready`
        "status",  # an ObjectStatus; only transitions.move writes it
        "value",  # opaque; runtime: set before the event. FAILED: a Failure; SPILLED: the file; later: DROPPED
        "size",  # bytes of the serialized value, -1 while unknown
        "refs",  # ObjectRefs (or actor handles) that the program holds; a stream holds one to each item not taken yet
        "uses",  # tasks that take it as an argument and are unfinished, and constructors that may run again
        "held",  # stored values, and arguments of tasks, that contain a reference to it
        "lineage",  # finished tasks that keep it as an argument, because they may run again to rebuild their values
        "contained",  # the ObjectRecords inside its value; each counts one in its `held`
        "waiters",  # Waiters to wake when it has a value; None if there are none
        "dependents",  # TaskRecords that wait for it as an argument; None if there are none
        "locations",  # node number -> NodeRecord of each copy, the primary first; None for a small value
        "owner",  # the WorkerRecord that put it; None for the driver. The owner of a return is that of its task
        "actor",  # the ActorRecord whose `handle` or `weak_handle` this is, otherwise None
        "t_created",  # it was put; 0.0 for a return, which is created with its task
        "t_ready",  # its value, or its error, was stored
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
        owner: WorkerRecord | None = None,
        actor: ActorRecord | None = None,
        refs: int = 1,
        status: ObjectStatus = PENDING,
        value: Any = None,
        contained: tuple[ObjectRecord, ...] = (),
    ):
        self.number, self.task, self.owner = number, task, owner  # at most three, as in TaskRecord
        self.actor, self.refs, self.status = actor, refs, status
        self.value, self.size, self.contained = value, -1, contained
        self.uses = self.held = self.lineage = 0
        self.waiters = self.dependents = self.locations = None
        self.t_created = self.t_ready = 0.0

    @property
    def hex(self) -> str:
        """The id that users see, in hexadecimal digits."""
        if self.number < 0:
            return foreign_hex(self.number)
        number, index = self.number >> INDEX_BITS, self.number & (1 << INDEX_BITS) - 1
        if self.task is not None:
            return object_hex(task_hex(number, self.task.actor.number if self.task.actor is not None else None), index)
        return object_hex(task_hex(number, self.actor.number if self.actor is not None else None), index)

    def story(self) -> list[str]:
        """What happened to it, one line for each thing, for people."""
        lines = _moments(self, t_created="put", t_ready="its value was stored")
        lines.append(
            f"needed by {self.refs} references, {self.uses} tasks, {self.held} values; lineage of {self.lineage} tasks"
        )
        return lines if self.task is None else [*lines, f"made by {self.task!r}:", *self.task.story()]

    def __repr__(self) -> str:
        return f"ObjectRecord({self.number >> INDEX_BITS}.{self.number & (1 << INDEX_BITS) - 1}, {self.status.name})"


class StreamRecord:
    """What a generator task has yielded. Ray: ObjectRefStream (core_worker/task_manager.h)."""

    __slots__ = (
        "task",  # the generator's TaskRecord
        "items",  # an ObjectRecord for each yield, in order; None in place of an item that was taken or is not wanted
        "taken",  # how many items the program has taken
        "produced",  # how many items the current attempt has yielded; a retry starts at zero
        "ended",  # no more items will come
        "waiters",  # Waiters to wake at the next item or at the end; None if there are none
        "refs",  # how many generator objects of the program refer to it; at zero nobody can take an item
        "producer_waiter",  # the Waiter of the generator itself, while back-pressure holds it back; otherwise None
        "num_released",  # how many of task.returns were released and are still listed there
    )

    producer_waiter: Any

    def __init__(self, task: TaskRecord):
        self.task = task
        self.items: list[Any] = []
        self.taken = self.produced = self.num_released = 0
        self.ended = False
        self.waiters: list[Waiter] | None = None
        self.refs = 1
        self.producer_waiter = None


class WorkerRecord:
    """One worker: a thread here, a process in Ray. A concurrent actor has several."""

    __slots__ = (
        "number",  # unique among workers
        "node",  # its NodeRecord
        "status",  # a WorkerStatus; only transitions.move writes it
        "handle",  # opaque; runtime: its own object for the worker's thread
        "lease",  # the SchedulingClass whose `hold` it has taken, or None
        "lent",  # CPU units of the lease that it has lent to others while its task is blocked
        "bundle",  # the Bundle that the lease is taken from; None if it is taken from the node
        "task",  # the TaskRecord that it runs or is to run next, or None; of an async actor's worker: the constructor
        "running",  # only of an async actor's worker: its unfinished calls by number
        "actor",  # the ActorRecord that lives in it, or None
        "group",  # the ConcurrencyGroup that it serves, or None
        "devices",  # the accelerators' devices that it was given
        "owns",  # whether it ever submitted a task, created an actor or a placement group, or put a value
        "unfinished",  # how many of the tasks and calls that it submitted are not over; constructors do not count
        "drain",  # the Drain in which it waits for them; None if it has not ended, or has nothing to wait for
        "calls",  # (module, name) -> number of calls, of functions with max_calls; None if there are none
        "tasks_done",  # attempts that it has reported, failed ones included
        "t_created",  # its start was ordered
        "t_started",  # its thread answered
        "t_died",  # it was declared dead
        "exit_type",  # Ray's name for the reason of its end (common.proto, WorkerExitType); None while it lives
        "exit_detail",  # one sentence about its end
    )

    actor: Any
    handle: Any
    lease: Any
    bundle: Any
    task: Any
    group: Any
    drain: Any
    exit_type: Any

    def __init__(self, number: int, node: NodeRecord, actor: ActorRecord | None = None):
        self.number, self.node, self.actor = number, node, actor
        self.status = WorkerStatus.STARTING
        self.handle = self.lease = self.bundle = self.task = self.group = self.drain = self.exit_type = None
        self.owns = False
        self.running: dict[int, TaskRecord] = {}
        self.devices = NO_DEVICES
        self.lent = self.tasks_done = self.unfinished = 0
        self.calls: dict[tuple[str, str], int] | None = None
        self.t_created = self.t_started = self.t_died = 0.0
        self.exit_detail = ""

    @property
    def hex(self) -> str:
        """The id that users see, in hexadecimal digits."""
        return worker_hex(self.number)

    key = hex

    def story(self) -> list[str]:
        """What happened to it, one line for each thing, for people."""
        lines = _moments(self, t_created="ordered", t_started="started", t_died="died")
        lines.append(f"it ran {self.tasks_done} tasks; now {self.task!r}")
        return lines if not self.exit_type else [*lines, f"{self.exit_type}: {self.exit_detail}"]

    def __repr__(self) -> str:
        return f"WorkerRecord({self.number}, {self.status.name})"


class Drain:
    """The end in good order of one owner, which waits for its work. See `ownership`."""

    __slots__ = (
        "workers",  # the owner: a worker, or all workers of an actor
        "failure",  # the Failure that says why they end
        "exit_type",  # of the workers, when they are gone
        "actor",  # the ActorRecord that ended itself and is ALIVE until the drain is over; otherwise None
        "may_restart",  # whether that actor may restart then
        "until",  # when the drain is cut; 0.0 for no limit
    )

    def __init__(
        self,
        workers: list[WorkerRecord],
        failure: Failure,
        exit_type: str,
        actor: Any = None,
        may_restart: bool = False,
    ):
        self.workers, self.failure, self.exit_type = workers, failure, exit_type
        self.actor, self.may_restart, self.until = actor, may_restart, 0.0

    def __repr__(self) -> str:
        return f"Drain({self.workers}, {self.failure!r})"


def node_name(number: int) -> str:
    """The name and address of the node with this number."""
    return f"127.0.0.{number}"


class NodeRecord:
    """One node of the cluster."""

    __slots__ = (
        "number",  # 1 for the head node
        "name",  # Ray's node name and IP address: 127.0.0.<number>
        "alive",  # False forever after the node was removed
        "is_head",  # whether it is the head node, where the driver is
        "total",  # units of each resource
        "available",  # units of each resource that no worker and no bundle holds
        "labels",  # its labels
        "idle",  # its idle workers; the one that became idle last is last and is used first
        "workers",  # its living workers by number
        "starting",  # how many workers were ordered for tasks (not for actors) and have not answered yet
        "store",  # its ObjectStore
        "free_devices",  # accelerator -> index of a device -> units of this device that are free
        "t_started",  # it joined
        "t_died",  # it died
        "death_message",  # why it died, "" while it lives
    )

    def __init__(
        self, number: int, total: dict[str, int], labels: dict[str, str], is_head: bool, store: Any, now: float
    ):
        self.number, self.total, self.labels, self.is_head, self.store = number, total, labels, is_head, store
        self.name = node_name(number)
        self.alive = True
        self.available = dict(total)
        self.idle: list[WorkerRecord] = []
        self.workers: dict[int, WorkerRecord] = {}
        self.starting = 0
        self.free_devices = {
            name: dict.fromkeys(range(amount // UNIT), UNIT) for name, amount in total.items() if name in ACCELERATORS
        }
        self.t_started, self.t_died, self.death_message = now, 0.0, ""

    @property
    def hex(self) -> str:
        """The id that users see, in hexadecimal digits."""
        return node_hex(self.number)

    def __repr__(self) -> str:
        return f"NodeRecord({self.number}, {'alive' if self.alive else 'dead'})"


class ConcurrencyGroup:
    """The calls of one actor that share one limit. Every actor has the group "", for calls that name no other."""

    __slots__ = (
        "name",  # as the class defines it, "" for the default group
        "limit",  # how many of its calls may run at once
        "queue",  # calls that wait for their turn, oldest first; if order is kept, also calls that wait for arguments
        "running",  # how many of its calls run now
        "idle",  # workers of the group without a call; empty for an async actor
        "workers",  # its workers; added when calls need them, up to the limit, but only one for an async actor
    )

    def __init__(self, name: str, limit: int):
        self.name, self.limit = name, limit
        self.queue: deque[TaskRecord] = deque()
        self.running = 0
        self.idle: list[WorkerRecord] = []
        self.workers: list[WorkerRecord] = []


class ActorRecord:
    """One actor. How it lives and dies is told in `actor_manager`. Ray: gcs.proto, ActorTableData."""

    __slots__ = (
        "number",  # given when the actor is created
        "status",  # an ActorStatus; only transitions.move writes it
        "class_name",  # the name of its class
        "name",  # the name under which `get_actor` finds it, "" for none
        "namespace",  # where the name is valid
        "detached",  # whether it lives on when nobody holds a handle and when its owner dies
        "max_restarts",  # below zero: no limit
        "restarts",  # how often it was restarted
        "failed_starts",  # how often in a row its worker has died before the constructor was over
        "creation",  # the TaskRecord of its constructor; each restart is a new attempt of it
        "handle",  # the ObjectRecord that its handles refer to; the actor ends when nobody holds it
        "weak_handle",  # that of the handles which do not keep it alive, such as those by name; None if there are none
        "worker",  # the WorkerRecord in which its constructor runs or ran; None while it has none
        "node",  # that worker's NodeRecord
        "groups",  # its ConcurrencyGroups by name
        "is_async",  # whether its calls are coroutines; those of one group run in one worker
        "in_order",  # whether it runs one call at a time, and each caller's calls in order of submission
        "owner",  # the WorkerRecord that created it, None for the driver; if it dies, the actor dies, unless detached
        "failure",  # why it is DEAD, otherwise None
        "drain",  # the Drain in which it waits since it ended itself; it starts no call any longer. Otherwise None
        "calls",  # its unfinished calls by number, in order of submission
        "out_of_scope",  # the program dropped its last handle; the actor ends after its last call
        "repr_name",  # runtime: `repr` of the instance, if its class defines __repr__
        "devices",  # the accelerators' devices that its worker was given
        "t_created",  # `.remote()` of the class was called
        "t_alive",  # its constructor last returned
        "t_died",  # it became DEAD
        "meta",  # opaque: its class and methods; None when nobody can call it again
        "tasks_done",  # how many of its calls have ended
        "options",  # opaque: the options as the user gave them
        "lease",  # the SchedulingClass that its worker holds for the actor's whole life; None while it has no worker
        "lineage",  # its finished calls that may run again to rebuild their values
    )

    creation: Any
    handle: Any
    weak_handle: Any
    worker: Any
    node: Any
    failure: Any
    lease: Any
    drain: Any

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
        meta: Any = None,
        options: dict[str, Any] | None = None,
        number: int = 0,
    ):
        self.number = number
        self.status = ActorStatus.DEPENDENCIES_UNREADY
        self.class_name, self.name, self.namespace, self.detached = class_name, name, namespace, detached
        self.max_restarts, self.restarts, self.failed_starts = max_restarts, 0, 0
        self.groups = {key: ConcurrencyGroup(key, limit) for key, limit in (groups or {"": 1}).items()}
        self.is_async = is_async
        self.in_order = not is_async and len(self.groups) == 1 and self.groups[""].limit == 1
        self.owner, self.meta, self.options = owner, meta, options
        self.creation = self.handle = self.weak_handle = self.worker = self.node = self.failure = self.drain = None
        self.calls: dict[int, TaskRecord] = {}
        self.lease = None
        self.devices = NO_DEVICES
        self.out_of_scope = False
        self.lineage = 0
        self.repr_name = ""
        self.tasks_done = 0
        self.t_created = self.t_alive = self.t_died = 0.0

    def __del__(self, aside: Aside = aside) -> None:
        aside.put((self.meta, self.options))

    @property
    def hex(self) -> str:
        """The id that users see, in hexadecimal digits."""
        return actor_hex(self.number)

    def story(self) -> list[str]:
        """What happened to it, one line for each thing, for people."""
        lines = _moments(self, t_created="created", t_alive="its constructor returned", t_died="died")
        lines.append(
            f"restarted {self.restarts} time{'' if self.restarts == 1 else 's'}; "
            + ("1 call is unfinished" if len(self.calls) == 1 else f"{len(self.calls)} calls are unfinished")
        )
        if self.failure is not None:
            lines.append(f"it died: {self.failure!r}")
        return lines if self.creation is None else [*lines, "its constructor:", *self.creation.story()]

    def __repr__(self) -> str:
        return f"ActorRecord({self.number}, {self.class_name}, {self.status.name})"


class Bundle:
    """Resources that a placement group reserves together on one node."""

    __slots__ = (
        "index",  # its place in the group's list of bundles
        "total",  # units of each resource
        "available",  # units of each resource that no worker in the bundle holds
        "node",  # the NodeRecord on which it is reserved; None while it is on no node
        "selector",  # labels that the node must have, as in SchedulingClass
    )

    def __init__(self, index: int, total: dict[str, int], selector: tuple[Any, ...] = ()):
        self.index, self.total, self.selector = index, total, selector
        self.available = dict(total)
        self.node: NodeRecord | None = None


class PlacementGroupRecord:
    """One placement group."""

    __slots__ = (
        "number",  # given when the group is created
        "name",  # the name under which `get_placement_group` finds it, "" for none
        "strategy",  # PACK, SPREAD, STRICT_PACK or STRICT_SPREAD
        "bundles",  # its Bundles in the user's order
        "status",  # a PlacementGroupStatus; only transitions.move writes it
        "detached",  # whether it was created with lifetime="detached"
        "owner",  # the WorkerRecord that created it, None for the driver
        "ready",  # the ObjectRecord that has a value once all bundles are reserved; `ready()` returns it
        "t_created",  # it was created
        "t_placed",  # all its bundles were last reserved
        "attempts",  # how often the core has looked for nodes for it
    )

    ready: Any

    def __init__(
        self,
        bundles: list[dict[str, int]],
        strategy: str,
        name: str = "",
        detached: bool = False,
        owner: WorkerRecord | None = None,
        selectors: list[tuple[Any, ...]] | None = None,
    ):
        self.number, self.strategy, self.name, self.detached, self.owner = 0, strategy, name, detached, owner
        self.bundles = [Bundle(i, b, selectors[i] if selectors else ()) for i, b in enumerate(bundles)]
        self.status = PlacementGroupStatus.PENDING
        self.ready = None
        self.t_created = self.t_placed = 0.0
        self.attempts = 0

    @property
    def hex(self) -> str:
        """The id that users see, in hexadecimal digits."""
        return placement_group_hex(self.number)

    def story(self) -> list[str]:
        """What happened to it, one line for each thing, for people."""
        lines = _moments(self, t_created="created", t_placed="placed")
        return [*lines, f"tried {self.attempts} times; bundles on {[bundle.node for bundle in self.bundles]}"]

    def __repr__(self) -> str:
        return f"PlacementGroupRecord({self.number}, {self.status.name})"


class Waiter:
    """A thread or a callback that waits for objects or streams. It is woken once; see `wakeups`."""

    __slots__ = (
        "need",  # how many more objects must have a value before it is woken
        "token",  # opaque: what the runtime calls to wake it
        "fail_fast",  # whether one object with an error is enough to wake it, as in `get`
        "fired",  # it was woken or has given up; runtime: also set when an interrupt ends the wait
        "worker",  # the WorkerRecord that has lent its CPU for this wait and takes it back when woken; otherwise None
        "timed",  # runtime: whether it gives up after a timeout
        "thread",  # runtime: the ident of the waiting thread, 0 for a callback
    )

    def __init__(self, need: int, token: Any, fail_fast: bool = False):
        self.need, self.token, self.fail_fast = need, token, fail_fast
        self.fired = self.timed = False
        self.worker: WorkerRecord | None = None
        self.thread = 0
