"""What every runtime has in common: it tells the core what happened, and carries out what the core asks for.

A runtime owes the rest five verbs: `now`, `start_worker`, `park`, `unpark` (a waiter's token) and `call_later`. `threaded` does
them with worker threads; `local_mode` runs a task at once on the caller's thread.
"""
from __future__ import annotations

import gc
import time
from collections import deque
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from ..core import actions as act
from ..core.cluster import NOTHING, Cluster
from ..core.object_store import INLINE_BYTES
from ..core.records import (READY, ActorRecord, NodeRecord, ObjectRecord, PlacementGroupRecord, SchedulingClass, StreamRecord,
                            TaskRecord, TaskSpec, Waiter, WorkerRecord, units)
from ..core.transitions import WorkerStatus
from ..ids import task_hex
from ..values import errors
from ..values.arguments import PLAIN, pack
from ..process.context import current
from .core_lock import CoreLock
from ..values.serialization import Serialized, serialize, size_of
from .spilling import SpilledFile, SpillFolder, make_room, spill
from .waiting import Waiting, refuse_the_dead, the_end

DRIVER = task_hex(0)
DEAD = WorkerStatus.DEAD
FORGOTTEN_BYTES = 1 << 20
GC_CHECK, GC_MANY, GC_PACE = 0xff, 500, (50_000, 10, 10)     # every so many submissions; from so many objects; thresholds


class Runtime(Waiting):
    """One session: the core's tables, the lock that guards them, and the values.

    The lock guards everything in `cluster`, and the value and done slots of its objects. Between taking and releasing it there
    is no user code, pickle, `__del__`, callback or log call.
    """

    local = False

    def __init__(self, options: dict[str, Any], dropped: deque):
        self.options = options
        self.lock = CoreLock()
        self.cluster = Cluster()
        self.cluster.references.harmless = PLAIN | {Serialized}
        self.now: Callable[[], float] = time.perf_counter
        self.epoch = time.time() - time.perf_counter()
        self.dropped = dropped                  # records whose refs were let go; filled by finalisers, drained at every entry
        self.spill = SpillFolder(options.get("object_spilling_directory"))
        self.spans: deque = deque(maxlen=100_000)
        self.waits: deque = deque(maxlen=20_000)   # (worker or None, task number, from, to): who stood in get or wait
        self.closed = False
        self._collector: tuple | None = None    # the cyclic collector's thresholds, while they are raised
        # Whether what a call asks for may depend on the task that makes it: a placement group captures children, or a runtime
        # environment is handed down.
        self.asks_caller = False
        self.ref_type: type = object            # the class of references, which is above this module
        self.forgotten: deque = deque()         # captured functions and classes that the program let go of; filled by finalisers
        self._still_needed = 0                  # bytes of those that were looked at in vain
        self.exported: dict[int, Any] = {}      # remote functions and actor classes that travelled: they are sent by number
        self.say: Callable[[str, str], None] = lambda level, text: None
        self.stuck: Callable[[list], None] | None = None
        self.postponed: Any = ()                # interrupts that are to be tried again
        # What observes: lines that tasks have begun and not ended, what to do with them at a task's end, and at a worker's.
        self.unfinished_lines: Any = {}
        self.end_lines: Callable[[Any], None] = lambda execution: None
        self.worker_ended: Callable[[WorkerRecord], None] = lambda worker: None
        self.last_node = 0
        self.driver_waiters: dict[Waiter, list] = {}    # those who wait on threads that are no worker's
        self._carry: dict[type, Callable[[Any], None]] = {
            act.Wake: self._wake, act.RunTask: self._run_task,
            act.StartWorker: lambda a: self.start_worker(a.worker), act.StopWorker: lambda a: self.stop_worker(a.worker),
            act.KillWorker: lambda a: self.kill_worker(a.worker), act.DropValues: self._drop_values,
            act.InterruptTask: lambda a: self.interrupt(a.worker, a.task), act.SpillObject: lambda a: spill(self, a.object),
            act.CallLater: lambda a: self.call_later(a.at), act.Say: lambda a: self.say(a.level, a.text)}

    # ------------------------------------------------------------ the verbs that a runtime defines

    def start_worker(self, worker: WorkerRecord) -> None:
        """Start a worker; it calls `worker_main`, or does what that does."""
        raise NotImplementedError

    def run_task(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Give a task to a worker that waits for one."""
        raise NotImplementedError

    def stop_worker(self, worker: WorkerRecord) -> None:
        """Let an idle worker end."""
        raise NotImplementedError

    def kill_worker(self, worker: WorkerRecord) -> None:
        """End what a worker runs as soon as that can be done."""
        raise NotImplementedError

    def end_workers(self, workers: list[WorkerRecord]) -> None:
        """Kill some of the workers of a session that ends."""
        for worker in workers:
            self.kill_worker(worker)

    def interrupt(self, worker: WorkerRecord, task: TaskRecord) -> None:
        """Raise KeyboardInterrupt in a running task."""
        raise NotImplementedError

    def call_later(self, at: float) -> None:
        """Call `timer` at this time."""
        raise NotImplementedError

    def take_postponed(self, handle: Any) -> BaseException | None:
        """What is among `postponed` for this worker: its thread asks, in order to raise it."""
        raise NotImplementedError

    def nobody_else(self) -> bool:
        """Whether nothing could bring what this thread waits for. Asked when it has waited for a while."""
        return False                        # a worker may yet

    # ------------------------------------------------------------ events in, actions out

    @contextmanager
    def locked(self) -> Iterator[Cluster]:
        """The lock, for a reader: what the program let go of is taken into account first, also when the reader raises."""
        actions = NOTHING
        try:
            with self.lock:
                if self.dropped:
                    now = self.now()
                    self.cluster.references_dropped(now, self.dropped)
                    actions = self.cluster.settled(now)
                yield self.cluster
        finally:
            self.carry_out(actions)

    def drain(self) -> None:
        """Take into account what the program has dropped. Every call of `tell` does so, too."""
        with self.locked():
            return

    def tell(self, event: Callable[..., list], *args: Any) -> None:
        """Tell the core an event, as `self.tell(cluster.kill_actor, actor)`, and carry out what follows."""
        with self.lock:
            now = self.now()
            if self.dropped:
                self.cluster.references_dropped(now, self.dropped)
            actions = event(now, *args)
        self.carry_out(actions)

    def carry_out(self, actions: list) -> None:
        """Do what the core asked for, in order, without the lock; then let go of values that nobody can reach."""
        for action in actions:
            self._carry[type(action)](action)
        if self.cluster.references.freed:
            with self.lock:
                freed = self.cluster.references.take_freed()
            self._let_go(freed)

    @staticmethod
    def _let_go(values: list) -> None:
        for value in values:
            if type(value) is SpilledFile:
                value.delete()

    def _drop_values(self, action: act.DropValues) -> None:
        self._let_go(action.values)

    def _run_task(self, action: act.RunTask) -> None:
        self.run_task(action.worker, action.task)

    @staticmethod
    def _wake(action: act.Wake) -> None:
        action.waiter.token()

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

    def add_node(self, resources: dict[str, float], labels: dict[str, str] | None = None, store_bytes: int = 1 << 62,
                 is_head: bool = False) -> NodeRecord:
        """A node joins. resources: amounts by name."""
        with self.lock:
            self.last_node += 1
            node, actions = self.cluster.add_node(self.now(), self.last_node, units(resources), labels, store_bytes, is_head)
        self.carry_out(actions)
        return node

    def remove_node(self, node: NodeRecord, why: str = "it was removed") -> None:
        """A node dies."""
        self.tell(self.cluster.remove_node, node, why)

    @property
    def head(self) -> NodeRecord:
        """The node that the driver is on: the first that lives."""
        return self.cluster.scheduler.alive[0]

    def scheduling_class(self, need: dict[str, float], hold: dict[str, float], strategy: tuple = ("DEFAULT",),
                         selector: tuple = ()) -> SchedulingClass:
        """The class of tasks that ask for this."""
        with self.lock:
            return self.cluster.scheduler.scheduling_class(units(need), units(hold), strategy, selector)

    # ------------------------------------------------------------ tasks and actors

    def prepare(self, spec: TaskSpec, args: tuple, kwargs: dict[str, Any], actor: ActorRecord | None = None) -> TaskRecord:
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

    def submit(self, spec: TaskSpec, args: tuple, kwargs: dict[str, Any], actor: ActorRecord | None = None) -> TaskRecord:
        """`.remote()` of a function, or of a method of the actor. Each of the returned task's `returns` carries one reference,
        which is the caller's."""
        task = self.prepare(spec, args, kwargs, actor)
        cluster, lock = self.cluster, self.lock
        if not lock.try_enter(False):           # `with lock`, written out
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
            if not cluster.number & GC_CHECK:
                self.pace_collector()
        finally:
            lock.release()
            if lock.line:
                lock.wake_one()
        if actions or cluster.references.freed:
            self.carry_out(actions)
        return task

    def pace_collector(self) -> None:
        """Let the cyclic collector look less often while many records are alive: they hold no cycles, and it would walk through
        all of them again and again. Called every so many submissions; what it was set to comes back when they are few."""
        many = len(self.cluster.tasks) > GC_MANY
        if many and self._collector is None and gc.isenabled():
            self._collector = gc.get_threshold()
            gc.set_threshold(*map(max, GC_PACE, self._collector))
        elif not many:
            self.give_collector_back()

    def give_collector_back(self) -> None:
        """The session ends: the cyclic collector's thresholds are what they were."""
        if self._collector is not None:
            gc.set_threshold(*self._collector)
            self._collector = None

    def drop_functions(self) -> None:
        """Let go of the functions and classes that the program has let go of, unless a task may call them once more: the records of
        the tasks stay, and would keep what their functions had captured. Called when another one is captured, so that a notebook
        whose cells are run again and again does not grow; done when it is worth a walk through the tables."""
        if sum(captured.size for captured in list(self.forgotten)) < FORGOTTEN_BYTES + 2 * self._still_needed:
            return
        dropped = []
        with self.lock:
            cluster = self.cluster
            tasks = [*cluster.tasks.values(), *(actor.creation for actor in cluster.actors.values() if actor.creation),
                     *(obj.task for obj in cluster.objects.values() if obj.task is not None)]
            needed = {id(task.spec.function) for task in tasks if task.args is not None}
            found = {id(captured): captured for captured in (self.forgotten.popleft() for _ in range(len(self.forgotten)))}
            kept = [captured for number, captured in found.items() if number in needed]
            for task in tasks:
                function = task.spec.function
                if function is not None and id(function) in found and id(function) not in needed:
                    dropped.append(function)            # goes when the lock is free
                    task.spec.function = None
            self.forgotten.extend(kept)
            self._still_needed = sum(captured.size for captured in kept)

    def create_actor(self, actor: ActorRecord, spec: TaskSpec, args: tuple, kwargs: dict[str, Any]) -> None:
        """`.remote()` of an actor class. The handle's one reference is the caller's. Raises actor_manager.NameTaken."""
        creation = self.prepare(spec, args, kwargs, actor)
        self.tell(self._owned, creation.owner, self.cluster.create_actor, actor, creation)
        if not self.cluster.number & GC_CHECK:
            with self.lock:
                self.pace_collector()

    # ------------------------------------------------------------ objects

    def put(self, value: Any) -> ObjectRecord:
        """Store a snapshot of a value; the record's one reference is the caller's. Raises TypeError for what cannot be sent."""
        stored = serialize(value, "the put value")
        execution = current.get()
        obj = ObjectRecord(0, owner=execution.worker if execution is not None else None, status=READY, value=stored,
                           contained=stored.contained if type(stored) is Serialized else ())
        node = execution.worker.node if execution is not None and execution.worker.node.alive else self.head
        size = size_of(stored)
        if size > INLINE_BYTES:
            make_room(self, node, size)
        cluster, lock = self.cluster, self.lock
        if not lock.try_enter(False):           # `with lock`, written out
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
            now = self.now()            # an interrupt that is on its way is raised here, before anything has changed
            self.cluster.add_reference(now, record)

    def find_and_hold(self, find: Callable[[Cluster], ObjectRecord | None]) -> ObjectRecord | None:
        """The object that `find` returns, with one more reference. Both happen in one step: in between, another thread could
        drop the last reference, and the object would be gone."""
        with self.lock:
            now = self.now()            # as in add_reference
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

    # ------------------------------------------------------------ the end

    def shutdown(self) -> None:
        """End the session: every worker stops, every waiter is woken, every value and file goes."""
        raise NotImplementedError

    def error_text(self, failure: Any) -> str:
        """What a state row shows as the error."""
        return errors.text_of(failure)
