"""Faults, caused on purpose: a worker crashes, a node goes, a value is lost, spilling fails, a store is full.

    with faults.crash_worker("train", attempt=0) as crash:
        assert ray.get(train.remote()) == 42            # its second attempt succeeds
    assert crash.count == 1

Each is a context manager on the running session and gives a `Fault`: what it did, as lines of the session's event log (of the
kind "fault"). What stands in the core's way is put there with the first fault and taken away with the last, so that a session
without faults pays nothing for them. RuntimeError when no session runs.
"""

from __future__ import annotations

import inspect
import threading
from typing import Any, Callable, Generator

from ..cluster_utils import ClusterNode
from ..core.cluster import Cluster
from ..core.records import ACTOR_CREATION_TASK, READY, SPILLED, Failure, NodeRecord, ObjectRecord, TaskRecord
from ..core.task_events import Event
from ..core.transitions import TaskStatus
from ..object_ref import ObjectRef
from ..runtime import async_worker, local_mode, worker
from ..process import context
from ..runtime.runtime import Runtime
from ..runtime.waiting import WorkerExit
from ..process.context import Execution

Condition = Callable[[Cluster], bool]

_changing = threading.Lock()  # guards what is put in place and taken away: the lists below, and who is in them


class Fault:
    """A fault while it is active. hits: the lines of the event log that it wrote, one each time it struck."""

    def __init__(self, runtime: Runtime, what: str):
        self.runtime, self.what = runtime, what
        self.hits: list[Event] = []

    @property
    def count(self) -> int:
        """How often it struck."""
        return len(self.hits)

    def struck(self, now: float, text: str, about: object = None) -> None:
        """Write that it struck. The caller holds the runtime's lock."""
        log = self.runtime.cluster.events
        log.add(now, "fault", f"{self.what}: {text}", about)
        self.hits.append(log.events[-1])

    def __enter__(self) -> Fault:
        with _changing:
            self._begin()
        return self

    def __exit__(self, *error: object) -> None:
        with _changing:
            self._end()

    def __repr__(self) -> str:
        return f"Fault({self.what}, struck {self.count} times)"

    def _begin(self) -> None:
        """Put it in place."""

    def _end(self) -> None:
        """Take it away."""


# ---------------------------------------------------------------- workers that crash


def crash_worker(
    name: str | None = None, *, attempt: int | None = None, times: int | None = 1, after: bool = False
) -> Fault:
    """The worker of the next task of this name crashes, as if it had called `os._exit` in the task.

    name: what the task is called, "function" or "Class.method" ("Class.__init__" for a constructor); None: any task.
    attempt: only this attempt, counted from 0. times: how often it strikes, None for always. after: when the function has
    returned, before anybody is told; or else before its first line. A generator's worker crashes before its first item, or
    after its last.
    """
    return _Crash(context.running(), name, attempt, times, after)


class _Crash(Fault):
    active: list[_Crash] = []

    def __init__(self, runtime: Runtime, name: str | None, attempt: int | None, times: int | None, after: bool):
        super().__init__(runtime, "crash_worker")
        self.name, self.attempt, self.times, self.after = name, attempt, times, after

    def _begin(self) -> None:
        self.active.append(self)
        for module in _DOORS:
            module.call_of = _call_of  # type: ignore[attr-defined]

    def _end(self) -> None:
        self.active.remove(self)
        if not self.active:
            for module in _DOORS:
                module.call_of = _plain_call_of  # type: ignore[attr-defined]

    def takes(self, runtime: Runtime, task: TaskRecord) -> bool:
        """Whether this attempt's worker is to crash; then that is written down."""
        if (
            runtime is not self.runtime
            or self.name not in (None, task.spec.name, task.spec.func_name)
            or self.attempt not in (None, task.attempt)
        ):
            return False
        with runtime.lock:
            if self.times is not None and self.count >= self.times:
                return False
            self.struck(runtime.now(), f"the worker of {task.spec.name}, attempt {task.attempt}", task)
        return True


# Every attempt goes through `call_of`, which each kind of worker knows by this name.
_DOORS = (worker, async_worker, local_mode)
_plain_call_of = worker.call_of


def _call_of(runtime: Runtime, execution: Execution) -> tuple[Any, Any, dict]:
    task = execution.task
    for crash in tuple(_Crash.active):
        if crash.takes(runtime, task):
            if task.spec.kind == ACTOR_CREATION_TASK and task.actor.is_async and not crash.after:
                _exit()  # what is returned is only looked into there, not called
            function, args, kwargs = _plain_call_of(runtime, execution)
            return (_then_exit(function) if crash.after else _exit), args, kwargs
    return _plain_call_of(runtime, execution)


def _exit(*args: object, **kwargs: object) -> None:
    raise WorkerExit("SYSTEM_ERROR: a fault made it crash")


def _then_exit(function: Callable) -> Callable:
    if inspect.iscoroutinefunction(function):

        async def await_then_exit(*args: Any, **kwargs: Any) -> None:
            await function(*args, **kwargs)
            _exit()

        return await_then_exit

    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if inspect.isgenerator(result):
            return _yield_then_exit(result)
        return _exit()

    return call


def _yield_then_exit(result: Generator[Any, Any, Any]) -> Generator[Any, Any, None]:
    yield from result
    _exit()


def kill_worker(of: Any) -> Fault:
    """The worker that runs the task of this reference, or in which this actor lives, dies at once; what it ran is retried as its
    options say. Nothing happens when there is no such worker."""
    record = of._record
    return _KillWorker(context.running(), record)


class _KillWorker(Fault):
    def __init__(self, runtime: Runtime, record: ObjectRecord):
        super().__init__(runtime, "kill_worker")
        self.record = record

    def _begin(self) -> None:
        self.runtime.tell(self._kill)

    def _kill(self, now: float) -> list:
        task, actor = self.record.task, self.record.actor
        victim = task.worker if task is not None else actor.worker if actor is not None else None
        if victim is None or task is not None and victim.task is not task and task.number not in victim.running:
            return []
        self.struck(now, f"worker {victim.hex}", victim)
        return self.runtime.cluster.worker_died(
            now, victim, Failure("WORKER_DIED", "SYSTEM_ERROR: a fault killed it", about=victim)
        )


# ---------------------------------------------------------------- at once, or when a condition holds


class _When(Fault):
    """A fault that strikes once, at the end of the event after which its condition holds.

    The condition is called with the core's tables, under the runtime's lock: it may look at them and do nothing else.
    """

    def __init__(self, runtime: Runtime, what: str, when: Condition | None):
        super().__init__(runtime, what)
        self.when = when
        self.over = False
        self.problem: Exception | None = None  # raised by the condition; raised again at the end of the `with`

    def _begin(self) -> None:
        with self.runtime.lock:
            self.runtime.cluster.after_event.append(self.look)
        self.runtime.tell(self.runtime.cluster.settled)  # the condition may hold already

    def _end(self) -> None:
        with self.runtime.lock:
            self.runtime.cluster.after_event.remove(self.look)
        if self.problem is not None:
            raise self.problem

    def look(self, now: float) -> list:
        """Strike when the time has come. Returns the core's actions."""
        if self.over:
            return []
        try:
            holds = self.when is None or self.when(self.runtime.cluster)
        except Exception as problem:
            self.problem, self.over = problem, True
            return []
        if not holds:
            return []
        self.over = True
        return self.strike(now)

    def strike(self, now: float) -> list:
        """Do it. Returns the core's actions."""
        raise NotImplementedError


def started(name: str, count: int = 1) -> Condition:
    """A condition: the code of so many tasks of this name has been entered, counting every attempt."""

    def holds(cluster: Cluster) -> bool:
        found = 0
        for task in list(cluster.tasks.values()):  # a copy: a test may ask without the lock
            if name in (task.spec.name, task.spec.func_name):
                found += bool(task.t_started) + sum(bool(attempt.t_started) for attempt in task.history or ())
        return found >= count

    return holds


def finished(name: str, count: int = 1) -> Condition:
    """A condition: so many tasks of this name have finished."""

    def holds(cluster: Cluster) -> bool:
        return (
            sum(
                task.status is TaskStatus.FINISHED and name in (task.spec.name, task.spec.func_name)
                for task in list(cluster.tasks.values())
            )
            >= count
        )  # as above

    return holds


def remove_node(node: ClusterNode | str, when: Condition | None = None) -> Fault:
    """A node dies with everything on it: at once, or as soon as the condition holds (`started`, `finished`, or any function of
    the core's tables that only looks).

    node: from `Cluster.add_node`, or a node's id. ValueError for one that does not live here, and for the head node.
    """
    runtime = context.running()
    name = node if isinstance(node, str) else node.node_id
    record = runtime.cluster.scheduler.by_hex.get(name)
    if record is None:
        raise ValueError(f"no living node of this session has the id {name!r}")
    if record is runtime.head:
        raise ValueError("the driver is on this node: it goes with the session only")
    return _RemoveNode(runtime, record, when)


class _RemoveNode(_When):
    def __init__(self, runtime: Runtime, node: NodeRecord, when: Condition | None):
        super().__init__(runtime, "remove_node", when)
        self.node = node

    def strike(self, now: float) -> list:
        if not self.node.alive:
            return []
        self.struck(now, f"node {self.node.hex}", self.node)
        return self.runtime.cluster.remove_node(now, self.node, "a fault removed it")


def lose_object(ref: ObjectRef, when: Condition | None = None) -> Fault:
    """Every copy of a value vanishes: as soon as there is one, or as soon after that as the condition holds.

    A value below 100 KiB stays with its owner, in no store; it cannot be lost, and nothing happens.
    """
    return _LoseObject(context.running(), ref._record, when)


class _LoseObject(_When):
    def __init__(self, runtime: Runtime, obj: ObjectRecord, when: Condition | None):
        super().__init__(
            runtime, "lose_object", lambda cluster: obj.status in (READY, SPILLED) and (when is None or when(cluster))
        )
        self.obj = obj

    def strike(self, now: float) -> list:
        if self.obj.locations is None:
            return []
        self.struck(now, f"object {self.obj.hex}", self.obj)
        return self.runtime.cluster.lose_object(now, self.obj)


# ---------------------------------------------------------------- spilling


def fail_spill(times: int | None = 1, error: OSError | None = None) -> Fault:
    """The next writes of spilled values fail; the values stay in memory. times: how many, None for all.

    error: what the write raises; OSError(errno.ENOSPC, ...) is a full disk, and then storing more than fits is OutOfDiskError.
    """
    return _Spill(context.running(), "fail_spill", times, 0.0, error or OSError("a fault let the write fail"))


def delay_spill(seconds: float, times: int | None = None) -> Fault:
    """Each write of a spilled value takes so much longer. times: how many of them, None for all."""
    return _Spill(context.running(), "delay_spill", times, seconds, None)


class _Spill(Fault):
    active: list[_Spill] = []

    def __init__(self, runtime: Runtime, what: str, times: int | None, seconds: float, error: OSError | None):
        super().__init__(runtime, what)
        self.times, self.seconds, self.error = times, seconds, error

    def _begin(self) -> None:
        self.active.append(self)
        runtime = self.runtime
        runtime.spill.before_write = lambda number: _before_write(runtime, number)

    def _end(self) -> None:
        self.active.remove(self)
        if not any(other.runtime is self.runtime for other in self.active):
            self.runtime.spill.before_write = None

    def before_write(self, number: int) -> None:
        """The value of the object with this number is about to be written."""
        with self.runtime.lock:
            if self.times is not None and self.count >= self.times:
                return
            obj = self.runtime.cluster.objects.get(number)
            self.struck(self.runtime.now(), f"object {obj.hex if obj is not None else number}", obj)
        if self.seconds:
            never = threading.Lock()
            never.acquire()
            self.runtime.park(never, self.seconds)
        if self.error is not None:
            raise self.error


def _before_write(runtime: Runtime, number: int) -> None:
    for fault in tuple(_Spill.active):
        if fault.runtime is runtime:
            fault.before_write(number)


def full_store(node: ClusterNode | str | None = None) -> Fault:
    """The object store of a node (None: of every node there is) takes no more large values: `put` raises ObjectStoreFullError, and
    a task that returns one fails with it. What is in the store stays, and can be read."""
    runtime = context.running()
    name = node if isinstance(node, str) or node is None else node.node_id
    nodes = [record for key, record in runtime.cluster.scheduler.by_hex.items() if name in (None, key)]
    if not nodes:
        raise ValueError(f"no living node of this session has the id {name!r}")
    return _FullStore(runtime, nodes)


class _FullStore(Fault):
    def __init__(self, runtime: Runtime, nodes: list[NodeRecord]):
        super().__init__(runtime, "full_store")
        self.nodes = nodes

    def _begin(self) -> None:
        with self.runtime.lock:
            for node in self.nodes:
                node.store.full += 1
                self.struck(self.runtime.now(), f"node {node.hex}", node)

    def _end(self) -> None:
        with self.runtime.lock:
            for node in self.nodes:
                node.store.full -= 1
