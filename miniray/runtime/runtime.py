"""The runtime: what `threaded` and `local_mode` have in common. They add the verbs (see `verbs`).

Four classes, each on top of the one before: `CoreAccess` (the lock, events in, actions out), `Waiting` (how a thread waits),
`Getting` (how it gets values), and `Runtime` (calls, actors, values and nodes, from the API's terms to the core's events).
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable

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
from ..process.context import current
from ..values import errors
from ..values.arguments import PLAIN, pack
from ..values.serialization import Serialized, serialize, size_of
from .collector import CHECK, CollectorPace, ForgottenFunctions
from .getting import Getting
from .spilling import make_room, spill
from .verbs import Verbs
from .waiting import refuse_the_dead, the_end

DRIVER = task_hex(0)


class Runtime(Getting, Verbs):
    """One session: the core's tables behind their lock, and the values.

    ref_type, dynamic_type: the classes of references and of dynamic generators, which are above this module. exported: remote
    functions and actor classes that were pickled; they are sent by number. spans: what the program has profiled.
    """

    local = False

    def __init__(self, options: dict[str, Any], dropped: deque):
        super().__init__(options, dropped)
        self.cluster.references.plain_types = PLAIN | {Serialized}
        self.spans: deque = deque(maxlen=100_000)
        self.collector = CollectorPace()
        self.forgotten = ForgottenFunctions()
        # Whether what a call asks for may depend on the task that makes it: a placement group captures child tasks, or a runtime
        # environment is handed down.
        self.asks_caller = False
        self.ref_type: Any = object
        self.dynamic_type: Any = object
        self.exported: dict[int, Any] = {}
        self.say: Callable[[str, str], None] = lambda level, text: None
        self.postponed: Any = ()  # interrupts that are to be tried again
        # Set by the logs: lines that tasks have begun and not ended, what to do with them at a task's end, and at a worker's.
        self.unfinished_lines: Any = {}
        self.end_lines: Callable[[Any], None] = lambda execution: None
        self.worker_ended: Callable[[WorkerRecord], None] = lambda worker: None
        self.last_node = 0
        self.carriers.update(
            {
                act.RunTask: lambda a: self.run_task(a.worker, a.task),
                act.StartWorker: lambda a: self.start_worker(a.worker),
                act.StopWorker: lambda a: self.stop_worker(a.worker),
                act.KillWorker: lambda a: self.kill_worker(a.worker),
                act.InterruptTask: lambda a: self.interrupt(a.worker, a.task),
                act.SpillObject: lambda a: spill(self, a.object),
                act.CallLater: lambda a: self.call_later(a.at),
                act.Say: lambda a: self.say(a.level, a.text),
            }
        )

    # ------------------------------------------------------------ what a runtime may do in its own way

    def end_workers(self, workers: list[WorkerRecord]) -> None:
        """Kill some of the workers of a session that ends."""
        for worker in workers:
            self.kill_worker(worker)

    def take_postponed(self, handle: Any) -> BaseException | None:
        """What is among `postponed` for this worker: its thread asks, in order to raise it."""
        raise NotImplementedError

    def nobody_else(self) -> bool:
        """Whether nothing could bring what this thread waits for. Asked when it has waited for a while."""
        return False  # a worker may yet

    def _owned(self, now: float, owner: WorkerRecord | None, event: Callable[..., list], *args: Any) -> list:
        """An event by which the owner comes to own something."""
        if self.closed:
            raise the_end()
        if owner is not None:
            refuse_the_dead(owner)
        return event(now, *args)

    def timer(self) -> None:
        """A time that the core asked for has come."""
        self.tell(self.cluster.timer)

    # ------------------------------------------------------------ nodes

    def add_node(
        self,
        resources: dict[str, float],
        labels: dict[str, str] | None = None,
        store_bytes: int = 1 << 62,
        is_head: bool = False,
    ) -> NodeRecord:
        """A node joins. resources: amounts by name."""
        with self.lock:
            self.last_node += 1
            node, actions = self.cluster.add_node(
                self.now(), self.last_node, units(resources), labels, store_bytes, is_head
            )
        self.carry_out(actions)
        return node

    def remove_node(self, node: NodeRecord, why: str = "it was removed") -> None:
        """A node dies."""
        self.tell(self.cluster.remove_node, node, why)

    def scheduling_class(
        self, need: dict[str, float], hold: dict[str, float], strategy: tuple = ("DEFAULT",), selector: tuple = ()
    ) -> SchedulingClass:
        """The class of tasks that ask for this."""
        with self.lock:
            return self.cluster.scheduler.scheduling_class(units(need), units(hold), strategy, selector)

    # ------------------------------------------------------------ tasks and actors

    def prepare(
        self, spec: TaskSpec, args: tuple, kwargs: dict[str, Any], actor: ActorRecord | None = None
    ) -> TaskRecord:
        """A record for a call, with a snapshot of its arguments. Raises TypeError for an argument that cannot be sent."""
        if kwargs:
            stored, deps, contained = pack(args, kwargs, self.ref_type, spec.func_name)
        else:
            stored, deps, contained = args, (), ()
            for value in args:
                if type(value) not in PLAIN:
                    stored, deps, contained = pack(args, kwargs, self.ref_type, spec.func_name)
                    break
        execution = current.get()
        if execution is None:
            return TaskRecord(spec, stored, deps, contained, DRIVER, None, actor)
        return TaskRecord(spec, stored, deps, contained, execution.hex, execution.worker, actor)

    def submit(
        self, spec: TaskSpec, args: tuple, kwargs: dict[str, Any], actor: ActorRecord | None = None
    ) -> TaskRecord:
        """`.remote()` of a function, or of a method of the actor. Each of the returned task's `returns` carries one reference,
        which is the caller's."""
        task = self.prepare(spec, args, kwargs, actor)
        cluster, lock = self.cluster, self.lock
        if not lock.try_enter(False):  # `with lock`, written out
            lock.wait()
        try:
            now = self.now()
            if self.dropped:
                cluster.references_dropped(now, self.dropped)
            if self.closed:
                raise the_end()
            if task.owner is not None:
                refuse_the_dead(task.owner)
            actions = cluster.submit_task(now, task) if actor is None else cluster.submit_actor_task(now, task)
            if not cluster.number & CHECK:
                self.collector.adjust(len(cluster.tasks))
        finally:
            lock.release()
            if lock.line:
                lock.wake_one()
        if actions or cluster.references.freed:
            self.carry_out(actions)
        return task

    def release_forgotten(self) -> None:
        """Release the functions and classes that the program has dropped, if that is worth the search."""
        if self.forgotten.worth_a_search():
            with self.lock:
                released = self.forgotten.release(self.cluster)
            del released  # their finalisers run here, without the lock

    def create_actor(self, actor: ActorRecord, spec: TaskSpec, args: tuple, kwargs: dict[str, Any]) -> None:
        """`.remote()` of an actor class. The handle's one reference is the caller's. Raises actor_manager.NameTaken."""
        creation = self.prepare(spec, args, kwargs, actor)
        self.tell(self._owned, creation.owner, self.cluster.create_actor, actor, creation)
        if not self.cluster.number & CHECK:
            with self.lock:
                self.collector.adjust(len(self.cluster.tasks))

    # ------------------------------------------------------------ objects

    def put(self, value: Any) -> ObjectRecord:
        """Store a snapshot of a value; the record's one reference is the caller's. Raises TypeError for what cannot be sent."""
        stored = serialize(value, "the put value")
        execution = current.get()
        obj = ObjectRecord(
            0,
            owner=execution.worker if execution is not None else None,
            status=READY,
            value=stored,
            contained=stored.contained if type(stored) is Serialized else (),
        )
        node = execution.worker.node if execution is not None and execution.worker.node.alive else self.head
        size = size_of(stored)
        if size > INLINE_BYTES:
            make_room(self, node, size)
        cluster, lock = self.cluster, self.lock
        if not lock.try_enter(False):  # `with lock`, written out
            lock.wait()
        try:
            now = self.now()
            if self.dropped:
                cluster.references_dropped(now, self.dropped)
            actions = self._owned(now, obj.owner, cluster.put, obj, size, node)
        finally:
            lock.release()
            if lock.line:
                lock.wake_one()
        if actions or cluster.references.freed:
            self.carry_out(actions)
        return obj

    def add_reference(self, record: ObjectRecord) -> None:
        """One more ObjectRef or handle refers to the record."""
        with self.lock:
            now = self.now()  # an interrupt that is on its way is raised here, before anything has changed
            self.cluster.add_reference(now, record)

    def find_and_hold(self, find: Callable[[Cluster], ObjectRecord | None]) -> ObjectRecord | None:
        """The object that `find` returns, with one more reference. Both happen in one step: in between, another thread could
        drop the last reference, and the object would be gone."""
        with self.lock:
            now = self.now()  # as in add_reference
            record = find(self.cluster)
            if record is not None:
                self.cluster.add_reference(now, record)
        return record

    def take_item(self, stream: StreamRecord) -> ObjectRecord | None:
        """The next item of a stream, with one reference, which is the caller's; None when it has not been yielded yet."""
        with self.lock:
            item, actions = self.cluster.take_item(self.now(), stream)
        self.carry_out(actions)
        return item

    # ------------------------------------------------------------ placement groups

    def create_placement_group(self, group: PlacementGroupRecord) -> None:
        """Ask for a placement group; its `ready` object's one reference is the caller's."""
        self.tell(self._owned, group.owner, self.cluster.create_placement_group, group)

    def placement_group_ready(self, group: PlacementGroupRecord, value: Any) -> ObjectRecord:
        """The object that becomes ready with the group and then has this (stored) value; its one reference is the caller's."""
        with self.lock:
            obj, actions = self.cluster.placement_group_ready(self.now(), group, value)
        self.carry_out(actions)
        return obj

    def error_text(self, failure: Any) -> str:
        """What a state row shows as the error."""
        return errors.text_of(failure)
