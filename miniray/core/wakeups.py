"""Wake-ups: who waits for an object, and who is told when the object has a value.

An object has two lists of those who wait for it. A `Waiter` is a thread or a callback outside the core: a Wake action
wakes it, once. A dependent is a task with the object as an argument: its count of missing arguments (`pending`) goes
down by one.

An object that gets a value, or an error, is appended to the worklist `ready`. Its waiters and dependents are told at
the end of the event (`settle`), not at once: a task that becomes ready may fail, its failure gives more objects an
error, and so on. The worklist turns this recursion, which can be as deep as a chain of tasks is long, into a loop.
"""

from __future__ import annotations

from .actions import Wake
from .records import FAILED, LOST, READY, SPILLED, StreamRecord, Waiter, WorkerRecord
from .tables import Tables
from .transitions import WorkerStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable


class Wakeups:
    """Attaches waiters to objects and streams, and wakes them."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.ready = cluster.ready

    def settle(self, now: float) -> None:
        """Tell all waiters and dependents of the objects in `ready`, until the worklist is empty."""
        ready = self.ready
        while ready:
            obj = ready.popleft()
            waiters, obj.waiters = obj.waiters, None
            if waiters:
                failed = obj.status is FAILED
                for waiter in waiters:
                    if not waiter.fired:  # satisfy(), inlined: this is the hot path
                        waiter.need -= 1
                        if waiter.need <= 0 or failed and waiter.fail_fast:
                            self.wake(waiter)
            dependents, obj.dependents = obj.dependents, None
            if dependents:
                for task in dependents:
                    task.pending -= 1
                    if not task.pending:
                        self.cluster.task_manager.arguments_ready(now, task)
            if not (obj.refs or obj.uses or obj.held):
                self.cluster.references.check(now, obj)

    def satisfy(self, waiter: Waiter, failed: bool) -> None:
        """One of the things that a waiter waits for has arrived. failed: as an error."""
        if not waiter.fired:
            waiter.need -= 1
            if waiter.need <= 0 or failed and waiter.fail_fast:
                self.wake(waiter)

    def wake(self, waiter: Waiter) -> None:
        """Wake a waiter, unless it was woken before or has given up. Its worker takes back the CPU that it has lent."""
        if not waiter.fired:
            waiter.fired = True
            if waiter.worker is not None and waiter.worker.lent:
                self.cluster.scheduler.take_back(waiter.worker)
            self.cluster.actions.append(Wake(waiter))

    def attach(self, now: float, waiter: Waiter, objects: Iterable[Any], worker: WorkerRecord | None) -> None:
        """Let a waiter wait for objects and streams, and wake it at once if enough of them are available already.

        A lost object is rebuilt. worker: the worker whose task waits, if it lends its CPU, otherwise None.
        """
        for obj in objects:
            if type(obj) is StreamRecord:
                if obj.taken < len(obj.items) or obj.ended:
                    self.satisfy(waiter, False)
                elif obj.waiters is None:
                    obj.waiters = [waiter]
                else:
                    obj.waiters.append(waiter)
                continue
            status = obj.status
            if status is READY or status is FAILED or status is SPILLED:
                self.satisfy(waiter, status is FAILED)
                continue
            if obj.waiters is None:
                obj.waiters = [waiter]
            else:
                obj.waiters.append(waiter)
            if status is LOST:
                self.cluster.task_manager.rebuild(now, obj)
        if worker is not None and not waiter.fired and worker.status is WorkerStatus.LEASED:
            if self.cluster.resumes_at_wake:
                waiter.worker = worker
            self.cluster.scheduler.worker_blocked(now, worker, objects)

    def detach(self, now: float, waiter: Waiter, objects: Iterable[Any], worker: WorkerRecord | None) -> None:
        """A waiter was woken or has given up: detach it from its objects. Its worker takes back a lent CPU."""
        if not waiter.fired:
            waiter.fired = True
        for obj in objects:
            if obj.waiters is not None and waiter in obj.waiters:
                obj.waiters.remove(waiter)
                if not obj.waiters:
                    obj.waiters = None
        if worker is not None and worker.status is WorkerStatus.BLOCKED:
            self.cluster.scheduler.worker_unblocked(now, worker)

    def wake_all(self) -> None:
        """The session has ended: wake every waiter that is still attached to an object or a stream."""
        streams = [task.stream for task in self.cluster.tasks.values() if task.stream is not None]
        for awaited in [*self.cluster.objects.values(), *streams]:
            for waiter in awaited.waiters or ():
                self.wake(waiter)
