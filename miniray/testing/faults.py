"""Faults on purpose: a worker crashes, a node dies, a value is lost, spilling fails, an object store is full.

    with faults.crash_worker("train", attempt=0) as crash:
        assert ray.get(train.remote()) == 42            # its second attempt succeeds
    assert crash.count == 1

Each function returns a `Fault`, a context manager that acts on the running session while its block lasts. Every time a
fault strikes, it writes a line of kind "fault" to the session's event log. All of them raise RuntimeError if no session
runs.

The first fault puts its hooks into the runtime, and the last one removes them. A session without faults pays nothing.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from typing import Any, Callable, Generator

from ..cluster_utils import ClusterNode
from ..core.actions import Action
from ..core.cluster import Cluster
from ..core.records import ACTOR_CREATION_TASK, READY, SPILLED, Failure, NodeRecord, ObjectRecord, TaskRecord
from ..core.task_events import Event
from ..core.transitions import TaskStatus
from ..object_ref import ObjectRef
from ..process import context
from ..process.context import Execution, in_turn
from ..process.exits import WorkerExit
from ..runtime import async_worker, local_mode, worker
from ..runtime.runtime import Runtime

Condition = Callable[[Cluster], bool]

_changing = threading.RLock()  # guards the lists of active faults and the hooks: faults may begin and end on any thread


class FaultNeverStruckWarning(UserWarning):
    """The block of a fault has ended, and the fault has not struck: the test has not tested what it seems to test."""


class Fault:
    """A fault, active while its `with` block lasts. hits: the events that it wrote, one for each time it struck.

    If the block ends in order and the fault has not struck, there is a FaultNeverStruckWarning.
    """

    def __init__(self, runtime: Runtime, what: str):
        self.runtime, self.what = runtime, what
        self.hits: list[Event] = []

    @property
    def count(self) -> int:
        """How often the fault has struck."""
        return len(self.hits)

    def struck(self, now: float, text: str, about: object = None) -> None:
        """Write an event: the fault has struck.

        The caller holds the runtime's lock. about: the record that it struck.
        """
        log = self.runtime.cluster.events
        log.add(now, "fault", f"{self.what}: {text}", about)
        self.hits.append(log.events[-1])

    def __enter__(self) -> Fault:
        with in_turn(_changing), _changing:
            self._begin()
        return self

    def __exit__(self, *error: object) -> None:
        with in_turn(_changing), _changing:
            self._end()
        if not self.hits and error[:1] == (None,):
            text = f"{self.what} has not struck: {self._why_not()}"
            warnings.warn(FaultNeverStruckWarning(text), stacklevel=2)

    def _why_not(self) -> str:
        """Why the fault has not struck, as far as it is known."""
        return "what it waits for has not happened in its block"

    def __repr__(self) -> str:
        return f"Fault({self.what}, struck {self.count} time{'' if self.count == 1 else 's'})"

    def _begin(self) -> None:
        """Activate the fault. The caller holds `_changing`."""

    def _end(self) -> None:
        """Deactivate the fault. The caller holds `_changing`."""


# ---------------------------------------------------------------- workers that crash


def crash_worker(
    name: str | None = None, *, attempt: int | None = None, times: int | None = 1, after: bool = False
) -> Fault:
    """Crash the worker of the next task with this name, as if the task had called `os._exit`.

    name: the task's name, "function" or "Class.method" ("Class.__init__" for a constructor); None matches every task.
    attempt: strike only this attempt, counted from 0. times: how often to strike; None for every time.
    after: crash after the function has returned, before the worker reports it, instead of before its first line. The
    worker of a generator crashes before the first item or after the last one.
    """
    return _Crash(context.running(), name, attempt, times, after)


class _Crash(Fault):
    active: list[_Crash] = []

    def __init__(self, runtime: Runtime, name: str | None, attempt: int | None, times: int | None, after: bool):
        super().__init__(runtime, "crash_worker")
        self.name, self.attempt, self.times, self.after = name, attempt, times, after

    def _begin(self) -> None:
        self.active.append(self)
        for module in _CALLERS:
            module.call_of = _call_of  # type: ignore[attr-defined]

    def _end(self) -> None:
        self.active.remove(self)
        if not self.active:
            for module in _CALLERS:
                module.call_of = _original_call_of  # type: ignore[attr-defined]

    def _why_not(self) -> str:
        with self.runtime.lock:
            specs = [task.spec for task in self.runtime.cluster.tasks.values()]
        names = list(dict.fromkeys(spec.name for spec in specs))
        if self.name is None or any(self.name in (spec.name, spec.func_name) for spec in specs):
            attempt = "" if self.attempt is None else f" {self.attempt}"
            return f"no attempt{attempt} of {'a task' if self.name is None else self.name} began in its block"
        return f"the session has no task {self.name!r}; it has {', '.join(names[:8]) or 'none'}"

    def strikes(self, runtime: Runtime, task: TaskRecord) -> bool:
        """Decide whether the worker of the task's current attempt crashes. If so, count it and write the event."""
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


# Every kind of worker calls `call_of` before each attempt, under this name in its own module.
_CALLERS = (worker, async_worker, local_mode)
_original_call_of = worker.call_of


def _call_of(runtime: Runtime, execution: Execution) -> tuple[Any, Any, dict[str, Any]]:
    """Replaces the runtime's `call_of` while a `_Crash` is active: returns a function that crashes the worker."""
    task = execution.task
    for crash in tuple(_Crash.active):
        if crash.strikes(runtime, task):
            if task.spec.kind == ACTOR_CREATION_TASK and task.actor.is_async and not crash.after:
                _exit()  # the constructor of an async actor takes the class from the arguments and ignores `function`
            function, args, kwargs = _original_call_of(runtime, execution)
            return (_then_exit(function) if crash.after else _exit), args, kwargs
    return _original_call_of(runtime, execution)


def _exit(*args: object, **kwargs: object) -> None:
    raise WorkerExit("SYSTEM_ERROR: a fault made it crash")


def _then_exit(function: Callable[..., Any]) -> Callable[..., Any]:
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
    """Kill the worker that runs the task of this reference, or that hosts this actor. It dies when the block begins.

    Its tasks are retried as their options allow. The fault does not strike if no worker runs the task or the actor.
    """
    return _KillWorker(context.running(), of._record)


class _KillWorker(Fault):
    def __init__(self, runtime: Runtime, record: ObjectRecord):
        super().__init__(runtime, "kill_worker")
        self.record = record

    def _begin(self) -> None:
        self.runtime.tell(self._kill)

    def _why_not(self) -> str:
        return "no worker ran the task, or hosted the actor, when the block began"

    def _kill(self, now: float) -> list[Action]:
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
    """A fault that strikes once: at once, or at the end of the first event of the core after which its condition holds.

    The condition is called with the core's tables, under the runtime's lock. It may read them and must do nothing else.
    """

    def __init__(self, runtime: Runtime, what: str, when: Condition | None):
        super().__init__(runtime, what)
        self.when = when
        self.over = False  # it has struck, or its condition has raised
        self.problem: Exception | None = None  # the condition raised it; it is raised again at the end of the `with`

    def _begin(self) -> None:
        with self.runtime.lock:
            self.runtime.cluster.after_event.append(self.look)
        self.runtime.tell(self.runtime.cluster.settled)  # an event without effect: the condition may hold already

    def _end(self) -> None:
        with self.runtime.lock:
            self.runtime.cluster.after_event.remove(self.look)
        if self.problem is not None:
            raise self.problem

    def _why_not(self) -> str:
        return "its condition has not held, or what it strikes was gone" if self.when is not None else "it was gone"

    def look(self, now: float) -> list[Action]:
        """Strike if the condition holds. The core calls this at the end of each event. Returns further actions."""
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

    def strike(self, now: float) -> list[Action]:
        """Report the fault to the core, as an event of its own. Returns the core's actions."""
        raise NotImplementedError


def started(name: str, count: int = 1) -> Condition:
    """A condition: at least `count` attempts of tasks with this name have entered the user's function."""

    def holds(cluster: Cluster) -> bool:
        attempts = 0
        for task in _named(cluster, name):
            attempts += bool(task.t_started) + sum(bool(attempt.t_started) for attempt in task.history or ())
        return attempts >= count

    return holds


def finished(name: str, count: int = 1) -> Condition:
    """A condition: at least `count` tasks with this name have finished."""

    def holds(cluster: Cluster) -> bool:
        return sum(task.status is TaskStatus.FINISHED for task in _named(cluster, name)) >= count

    return holds


def _named(cluster: Cluster, name: str) -> list[TaskRecord]:
    tasks = list(cluster.tasks.values())  # a copy: a test may call a condition without the lock
    return [task for task in tasks if name in (task.spec.name, task.spec.func_name)]


def remove_node(node: ClusterNode | str, when: Condition | None = None) -> Fault:
    """Kill a node and everything on it.

    node: returned by `Cluster.add_node`, or a node's id. when: `started(...)`, `finished(...)`, or any function that
    takes the core's tables and only reads them; by default the node dies at once. Raises ValueError for a node that is
    not alive in this session, and for the head node.
    """
    runtime = context.running()
    name = node if isinstance(node, str) else node.node_id
    record = runtime.cluster.scheduler.by_hex.get(name)
    if record is None:
        raise ValueError(f"no living node of this session has the id {name!r}")
    if record is runtime.head:
        raise ValueError("the driver runs on this node, the head node: only the end of the session removes it")
    return _RemoveNode(runtime, record, when)


class _RemoveNode(_When):
    def __init__(self, runtime: Runtime, node: NodeRecord, when: Condition | None):
        super().__init__(runtime, "remove_node", when)
        self.node = node

    def strike(self, now: float) -> list[Action]:
        if not self.node.alive:
            return []
        self.struck(now, f"node {self.node.hex}", self.node)
        return self.runtime.cluster.remove_node(now, self.node, "a fault removed it")


def lose_object(ref: ObjectRef[Any], when: Condition | None = None) -> Fault:
    """Lose every copy of a value, as soon as the value exists and the condition holds. when: as for `remove_node`.

    The fault does not strike a value below 100 KiB: that stays with its owner, in no object store, and cannot be lost.
    """
    return _LoseObject(context.running(), ref._record, when)


class _LoseObject(_When):
    def __init__(self, runtime: Runtime, obj: ObjectRecord, when: Condition | None):
        super().__init__(
            runtime, "lose_object", lambda cluster: obj.status in (READY, SPILLED) and (when is None or when(cluster))
        )
        self.obj = obj

    def _why_not(self) -> str:
        if self.obj.status is READY and self.obj.locations is None:
            return "the value is small: it stays with its owner, in no object store, and cannot be lost"
        return "the value did not exist while its condition held"

    def strike(self, now: float) -> list[Action]:
        if self.obj.locations is None:
            return []
        self.struck(now, f"object {self.obj.hex}", self.obj)
        return self.runtime.cluster.lose_object(now, self.obj)


# ---------------------------------------------------------------- spilling


def fail_spill(times: int | None = 1, error: OSError | None = None) -> Fault:
    """Let the next writes of spilled values fail, so that the values stay in memory. times: how many; None for all.

    error: the exception that the write raises. With OSError(errno.ENOSPC, ...), a full disk, storing a value that does
    not fit raises OutOfDiskError.
    """
    return _Spill(context.running(), "fail_spill", times, 0.0, error or OSError("a fault made the write fail"))


def delay_spill(seconds: float, times: int | None = None) -> Fault:
    """Delay the writes of spilled values, each by this many seconds. times: how many of them; None for all."""
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

    def _why_not(self) -> str:
        return "no value was written to a file in its block"

    def before_write(self, number: int) -> None:
        """Delay or fail the write of an object's value. Called by the thread that writes, without the lock."""
        with self.runtime.lock:
            if self.times is not None and self.count >= self.times:
                return
            obj = self.runtime.cluster.objects.get(number)
            self.struck(self.runtime.now(), f"object {obj.hex if obj is not None else number}", obj)
        if self.seconds:
            nobody_releases = threading.Lock()
            nobody_releases.acquire()
            self.runtime.park(nobody_releases, self.seconds)
        if self.error is not None:
            raise self.error


def _before_write(runtime: Runtime, number: int) -> None:
    for fault in tuple(_Spill.active):
        if fault.runtime is runtime:
            fault.before_write(number)


def full_store(node: ClusterNode | str | None = None) -> Fault:
    """Let the object store of a node refuse new values. node: as for `remove_node`; None for all current nodes.

    `put` of a large value raises ObjectStoreFullError, and a task that returns one fails with it. Values that are
    already in the store stay readable.
    """
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
