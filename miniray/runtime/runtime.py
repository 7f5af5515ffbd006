"""The runtime: everything that `threaded` and `local_mode` have in common. They add the verbs (see `verbs`).

Four classes, each on top of the one before: `CoreAccess` (the lock, events in, actions out), `Waiting` (how a thread
waits), `Getting` (how it gets values), and `Runtime` (which translates the API's calls into the core's events: tasks,
actors, values, nodes and placement groups).
"""

from __future__ import annotations

import os
from collections import deque

from ..core import actions as act
from ..core.cluster import Cluster
from ..core.object_store import INLINE_BYTES
from ..core.records import (
    READY,
    ActorRecord,
    NodeRecord,
    ObjectRecord,
    PlacementGroupRecord,
    SchedulingClass,
    StreamRecord,
    TaskRecord,
    TaskSpec,
    WorkerRecord,
    units,
)
from ..ids import task_hex
from ..process import accelerators
from ..process.context import current
from ..process.worker_process import any_started, caller
from ..process.signal_handlers import call_postponed, postponed
from ..process.trace_context import caller_of
from ..values import errors
from ..values.arguments import PLAIN, pack
from ..values.serialization import Serialized, serialize, size_of
from .collector import CHECK, CollectorPace, ForgottenFunctions
from .core_lock import writes_with_out
from .getting import Getting
from .spilling import make_room, spill
from .verbs import Verbs
from .waiting import refuse_dead_worker, session_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

DRIVER = task_hex(0)


class Runtime(Getting, Verbs):
    """One session: the core's tables behind their lock, and the values.

    local: whether this is local_mode. ref_type, dynamic_type: the classes ObjectRef and DynamicObjectRefGenerator,
    which this module may not import. exported: remote functions and actor classes that were pickled, by number; a
    pickle holds only the number. pinned: references that live as long as the session (see `object_ref.pin`). spans: the
    profiling spans that the program has recorded, for the timeline.
    asks_caller: whether the options of a call may depend on the task that makes it, because some placement group
    captures child tasks or some runtime environment is passed on to child tasks; until then no call needs to look. say:
    how to log a line of text; takes its level first. tracing: the `telemetry.tracing` of a session whose program has
    opened a span, or uses OpenTelemetry; None otherwise. It replaces `prepare`, so that a session without it need not
    look. call_spans: makes a span of OpenTelemetry for each call; None
    without Ray's tracing hook. trace_seed: 128 bits, from which the ids of spans are computed
    (see `process.trace_context`). visible_devices: the ids in variables such as
    CUDA_VISIBLE_DEVICES when the session started, by accelerator.

    recorders: what records the session into files (`telemetry.recording.recorder.Recorder`); each is told when the
    session ends.
    before_look: called before the program looks at something that another thread may change: with "what is ready" and
    the records of a `wait`, and whether it does not wait; or with "names". None except in a simulation.

    Set by the logs. unfinished_lines: lines that tasks have begun to print. end_lines: called with an execution at the
    end of its task, if there are such lines. worker_ended: called by a worker's thread before it ends.
    """

    local = False

    def __init__(self, options: dict[str, Any], dropped: deque[Any]):
        super().__init__(options, dropped)
        self.cluster.references.plain_types = PLAIN | {Serialized}
        self.spans: deque[Any] = deque(maxlen=100_000)
        self.collector = CollectorPace()
        self.forgotten = ForgottenFunctions()
        self.asks_caller = False
        self.ref_type: Any = object
        self.dynamic_type: Any = object
        self.exported: dict[int, Any] = {}
        self.pinned: dict[int, Any] = {}
        self.recorders: list[Any] = []
        self.tracing: Any = None
        self.call_spans: Any = None
        self.trace_seed = int.from_bytes(os.urandom(16), "big")
        self.say: Callable[[str, str], None] = lambda level, text: None
        self.unfinished_lines: Any = {}
        self.end_lines: Callable[[Any], None] = lambda execution: None
        self.worker_ended: Callable[[WorkerRecord], None] = lambda worker: None
        self.last_node = 0
        self.before_look: Callable[..., None] | None = None
        self.visible_devices = accelerators.visible(os.environ)
        self.carriers.update(
            {
                act.RunTask: lambda a: self.run_task(a.worker, a.task),
                act.StartWorker: lambda a: self.start_worker(a.worker),
                act.StopWorker: lambda a: self.stop_worker(a.worker),
                act.KillWorker: lambda a: self.kill_worker(a.worker),
                act.InterruptTask: lambda a: self.interrupt(a.worker, a.task),
                act.InterruptWait: lambda a: self.interrupt_wait(a.worker, a.task),
                act.SpillObject: lambda a: spill(self, a.object),
                act.CallLater: lambda a: self.call_later(a.at),
                act.Say: lambda a: self.say(a.level, a.text),
            }
        )

    # ------------------------------------------------------------ what a runtime may override

    def end_workers(self, workers: list[WorkerRecord]) -> None:
        """Kill some of the workers of a session that is ending."""
        for worker in workers:
            self.kill_worker(worker)

    def nobody_else(self) -> bool:
        """Whether no other thread could end this thread's wait. Part of the stuck check (see `waiting`)."""
        return False  # a worker's thread could

    def timer(self) -> None:
        """The time has come that the core asked for with CallLater."""
        self.tell(self.cluster.timer)

    def _owned(self, now: float, owner: WorkerRecord | None, event: Callable[..., list[Any]], *args: Any) -> list[Any]:
        """Report an event through which `owner` (None: the driver) comes to own something. Raises SessionEnded or
        RaySystemError if the session has ended, and WorkerExit if the owner is dead. The caller holds the lock."""
        if self.closed:
            raise session_over()
        if owner is not None:
            refuse_dead_worker(owner)
        return event(now, *args)

    # ------------------------------------------------------------ nodes

    def add_node(
        self,
        resources: dict[str, float],
        labels: dict[str, str] | None = None,
        store_bytes: int = 1 << 62,
        is_head: bool = False,
    ) -> NodeRecord:
        """Add a node to the cluster. resources: amounts by name. store_bytes: the capacity of its object store."""
        total = units(resources)
        with self.lock:
            self.last_node += 1
            node, actions = self.cluster.add_node(self.now(), self.last_node, total, labels, store_bytes, is_head)
        self.carry_out(actions)
        return node

    def remove_node(self, node: NodeRecord, why: str = "it was removed") -> None:
        """Remove a node, as if it had died. why: for the event log and the errors."""
        self.tell(self.cluster.remove_node, node, why)

    def scheduling_class(
        self,
        need: dict[str, float],
        hold: dict[str, float],
        strategy: tuple[Any, ...] = ("DEFAULT",),
        selector: tuple[Any, ...] = (),
    ) -> SchedulingClass:
        """The scheduling class of all tasks with these demands. need: amounts by name that a node must have to be
        chosen. hold: the amounts that are taken while the task runs or the actor lives."""
        needed, held = units(need), units(hold)  # the amounts may be objects of the program's own classes
        with self.lock:
            found: SchedulingClass = self.cluster.scheduler.scheduling_class(needed, held, strategy, selector)
        return found

    # ------------------------------------------------------------ tasks and actors

    def prepare(
        self, spec: TaskSpec, args: tuple[Any, ...], kwargs: dict[str, Any], actor: ActorRecord | None = None
    ) -> TaskRecord:
        """Make a call's record, with a snapshot of the arguments. Raises TypeError if one cannot be sent."""
        stored: Any
        if kwargs:
            stored, deps, contained = pack(args, kwargs, self.ref_type, spec.func_name)
        else:
            stored, deps, contained = args, (), ()
            for value in args:
                if type(value) not in PLAIN:
                    stored, deps, contained = pack(args, kwargs, self.ref_type, spec.func_name)
                    break
        execution = current.get()
        if execution is None and any_started:
            execution = caller()
        if execution is None:
            return TaskRecord(spec, stored, deps, contained, DRIVER, None, actor)
        trace = execution.trace or caller_of(execution)
        return TaskRecord(spec, stored, deps, contained, execution.hex, execution.worker, actor, trace)

    @writes_with_out
    def submit(
        self, spec: TaskSpec, args: tuple[Any, ...], kwargs: dict[str, Any], actor: ActorRecord | None = None
    ) -> TaskRecord:
        """`.remote()` of a function, or of a method of `actor`. The caller owns one reference to each of the task's
        `returns`.

        Raises TypeError for an argument that cannot be sent, and what `_owned` raises.
        """
        if postponed:
            call_postponed()
        task = self.prepare(spec, args, kwargs, actor)
        cluster, lock = self.cluster, self.lock
        try:  # `with lock`, written out (see CoreLock)
            next(lock.enter)
        except IndexError:
            lock.wait()
        try:
            if self.closed:
                raise session_over()
            if task.owner is not None:
                refuse_dead_worker(task.owner)
            now = self.now()
            if self.dropped:
                cluster.references_dropped(now, self.dropped)
            actions = cluster.submit_task(now, task) if actor is None else cluster.submit_actor_task(now, task)
            if not cluster.number & CHECK:
                self.collector.adjust(len(cluster.tasks))
        finally:
            next(lock.leave)
            if lock.line:
                lock.wake_one()
        if actions or cluster.references.freed:
            self.carry_out(actions)
        return task

    def release_forgotten(self) -> None:
        """Release the functions and classes that the program has dropped, if there are enough of them to search for."""
        if self.forgotten.worth_a_search():
            with self.lock:
                released = self.forgotten.release(self.cluster)
            del released  # their finalisers run here, without the lock

    def create_actor(self, actor: ActorRecord, spec: TaskSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """`.remote()` of an actor class. The caller owns one reference to the actor.

        Raises actor_manager.NameTaken if another actor has the name, and what `submit` raises.
        """
        creation = self.prepare(spec, args, kwargs, actor)
        self.tell(self._owned, creation.owner, self.cluster.create_actor, actor, creation)
        if not self.cluster.number & CHECK:
            with self.lock:
                self.collector.adjust(len(self.cluster.tasks))

    # ------------------------------------------------------------ objects

    @writes_with_out
    def put(self, value: Any) -> ObjectRecord:
        """Store a snapshot of a value. The caller owns one reference to the returned record.

        Raises TypeError for a value that cannot be sent, and for a large value ObjectStoreFullError or OutOfDiskError
        if there is no room for it.
        """
        if postponed:
            call_postponed()
        kind, node = type(value), None
        if kind is bytes or kind is str:  # `serialize` and `size_of`, written out
            stored, size = value, len(value)
        else:
            stored = serialize(value, "the put value")
            size = size_of(stored)
        execution = current.get()
        if execution is None and any_started:
            execution = caller()
        owner = execution.worker if execution is not None else None
        contained = stored.contained if type(stored) is Serialized else ()
        obj = ObjectRecord(0, None, owner, None, 1, READY, stored, contained)
        if size > INLINE_BYTES:
            node = execution.worker.node if execution is not None and execution.worker.node.alive else self.head
            make_room(self, node, size)
        cluster, lock = self.cluster, self.lock
        try:  # `with lock`, written out (see CoreLock)
            next(lock.enter)
        except IndexError:
            lock.wait()
        try:
            if self.closed:
                raise session_over()
            if execution is not None:
                refuse_dead_worker(execution.worker)
            now = self.now()
            if self.dropped:
                cluster.references_dropped(now, self.dropped)
            actions = cluster.put(now, obj, size, node)
        finally:
            next(lock.leave)
            if lock.line:
                lock.wake_one()
        if actions or cluster.references.freed:
            self.carry_out(actions)
        return obj

    def add_reference(self, record: ObjectRecord) -> None:
        """Count one more ObjectRef or handle for the record."""
        with self.lock:
            now = self.now()  # an asynchronous interrupt is raised here, in the first call, before anything has changed
            self.cluster.add_reference(now, record)

    def find_and_hold(self, find: Callable[[Cluster], ObjectRecord | None]) -> ObjectRecord | None:
        """Call `find` and count one more reference to the object that it returns, in one step under the lock. Otherwise
        another thread could drop the last reference in between, and the object would be gone."""
        with self.lock:
            now = self.now()  # for the same reason as in add_reference
            record = find(self.cluster)
            if record is not None:
                self.cluster.add_reference(now, record)
        return record

    def find_and_hold_actor(
        self, find: Callable[[Cluster], ActorRecord | None], weak: bool = False
    ) -> ObjectRecord | None:
        """As `find_and_hold`, for a handle to the actor that `find` returns. weak: a handle that does not keep the
        actor alive."""
        with self.lock:
            now = self.now()  # for the same reason as in add_reference
            actor = find(self.cluster)
            if actor is None:
                return None
            if weak:
                return self.cluster.add_weak_reference(now, actor)
            record: ObjectRecord = actor.handle
            self.cluster.add_reference(now, record)
            return record

    def take_item(self, stream: StreamRecord) -> ObjectRecord | None:
        """Take the next item of a stream; None if there is none yet. The caller owns one reference to the item."""
        with self.lock:
            item, actions = self.cluster.take_item(self.now(), stream)
        self.carry_out(actions)
        return item

    # ------------------------------------------------------------ placement groups

    def create_placement_group(self, group: PlacementGroupRecord) -> None:
        """Ask the core for a placement group. The caller owns one reference to `group.ready`.

        Raises actor_manager.NameTaken if another group has the name, and what `_owned` raises.
        """
        self.tell(self._owned, group.owner, self.cluster.create_placement_group, group)

    def placement_group_ready(self, group: PlacementGroupRecord, value: Any) -> ObjectRecord:
        """The object that becomes ready when the group is placed. value: its value then, already serialised. The caller
        owns one reference to it."""
        with self.lock:
            obj, actions = self.cluster.placement_group_ready(self.now(), group, value)
        self.carry_out(actions)
        return obj

    def error_text(self, failure: Any) -> str:
        """The text that a state row shows for a Failure."""
        return errors.text_of(failure)
