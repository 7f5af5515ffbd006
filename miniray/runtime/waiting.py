"""Waiting: how a thread waits for objects, and gets their values. Every place where user code can block comes here.

A task that waits lends its CPU; it can be interrupted while it waits. Part of `base.Runtime`, whose lock and tables these
methods use.
"""
from __future__ import annotations

import _thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Callable, overload

from ..core.records import (DROPPED, ENDED, FAILED, NORMAL_TASK, PENDING, READY, RELEASED, SPILLED, Failure, ObjectRecord, Waiter,
                            WorkerRecord)
from ..core.transitions import WorkerStatus
from ..exceptions import ObjectLostError, RaySystemError, ReferenceCountingAssertionError
from ..values import errors
from ..process.context import Execution, current, exit_of_the_program
from ..values.serialization import Serialized
from .spilling import SpilledFile, read_back

if TYPE_CHECKING:
    from ..core.cluster import Cluster

DEAD = WorkerStatus.DEAD
LEND_AFTER_S = 0.01             # a task that waits for what already runs keeps its CPU for so long: most such waits are short
get_ident = _thread.get_ident


class WorkerExit(BaseException):
    """Ends the worker that raises it: what `os._exit`, a signal to oneself or a kill is turned into inside a task."""


class SessionEnded(BaseException):
    """Raised in a task that waits while its session is shut down. Not an Exception: user code should not stop it."""


def the_end() -> BaseException:
    """What a call is answered with whose session was shut down meanwhile: a task is ended, a thread of the driver gets an error."""
    if current.get() is not None:
        return SessionEnded()
    return exit_of_the_program() or RaySystemError("the session was shut down by another thread")


def of_an_ended_session(obj: ObjectRecord) -> BaseException:
    """What a reference is answered with that was made in a session which is over."""
    return exit_of_the_program() or ValueError(f"the object {obj.hex} belongs to a session that has been shut down")


def refuse_the_dead(worker: WorkerRecord) -> None:
    """WorkerExit for a worker that was declared dead while its thread goes on: what it would own, nobody would ever end."""
    if worker.status is DEAD:
        raise WorkerExit("SYSTEM_ERROR: the worker is dead")


def waits_for_a_cpu(objects: list) -> bool:
    """Whether one of the awaited values comes from a task that no worker has yet: it may need the CPU of the one that waits."""
    for obj in objects:
        task = obj.task
        if task is not None and task.worker is None and task.spec.kind == NORMAL_TASK:
            return True
    return False


class ArgumentLost(Exception):
    """An argument of a task is not there any more, although the task was given to a worker."""


class Waiting:
    """What of a runtime has to do with waiting. The attributes are those of `base.Runtime`."""

    allocate_lock = staticmethod(_thread.allocate_lock)     # what a waiter sleeps on, see `park`
    stuck_after_s = 1.0             # a get without a timeout asks once, after so long, whether it can ever return

    if TYPE_CHECKING:
        cluster: Cluster
        lock: Any
        dropped: Any
        spill: Any
        waits: Any
        driver_waiters: dict[Waiter, list]
        now: Callable[[], float]
        stuck: Callable[[list], None] | None
        closed: bool
        head: Any
        tell: Callable[..., None]
        locked: Callable[[], Any]
        carry_out: Callable[[list], None]

    def park(self, lock: Any, timeout: float | None) -> bool:
        """Wait until `lock` is released. Returns False when `timeout` seconds passed first."""
        if timeout is None:
            return lock.acquire()
        return lock.acquire(True, min(timeout, _thread.TIMEOUT_MAX)) if timeout > 0 else lock.acquire(False)

    def wait_for(self, objects: list, need: int, hasty: bool, timeout: float | None) -> bool:
        """Wait until `need` more of these pending objects and streams are there; hasty: or until one has failed.

        timeout: seconds, None for as long as it takes. Returns False when it ran out. A task that waits lends its CPU.
        Raises what interrupts the wait: KeyboardInterrupt when the task is cancelled, SessionEnded at shutdown.
        """
        lock = self.allocate_lock()
        lock.acquire()
        waiter = Waiter(need, lock.release, hasty)
        waiter.timed = timeout is not None
        execution = current.get()
        handle = worker = None
        if execution is not None and execution.thread == get_ident():
            handle = execution.worker.handle
            if execution.worker.actor is None:
                worker = execution.worker
        cluster, core_lock = self.cluster, self.lock
        if not core_lock.try_enter(False):      # `with core_lock`, written out
            core_lock.wait()
        try:
            if self.closed:
                raise the_end()
            now = self.now()
            if self.dropped:
                cluster.references_dropped(now, self.dropped)
            if handle is not None:
                handle.waiter, handle.waiting = waiter, objects
            else:
                self.driver_waiters[waiter] = objects
            at_once = worker is not None and waits_for_a_cpu(objects)
            actions = cluster.wait_for(now, waiter, objects, worker if at_once else None)
        finally:
            core_lock.release()
            if core_lock.line:
                core_lock.wake_one()
        woken = False
        try:
            if actions or cluster.references.freed:
                self.carry_out(actions)
            if worker is not None and not at_once and (timeout is None or timeout > LEND_AFTER_S):
                woken = self.park(lock, LEND_AFTER_S)
                if not woken:
                    self.tell(self.cluster.blocked, worker)
                    timeout = None if timeout is None else timeout - LEND_AFTER_S
            stuck = self.stuck
            if timeout is None and stuck is not None and not woken:
                woken = self.park(lock, self.stuck_after_s)
                if not woken:
                    stuck(objects)
            woken = woken or self.park(lock, timeout)
        finally:
            ended = self.now()
            if handle is None or execution is None:         # both, or neither
                self.waits.append((None, 0, now, ended))
                self.driver_waiters.pop(waiter, None)
            else:
                self.waits.append((handle.record, execution.task.number, now, ended))
            if handle is not None or waiter.need > 0 or need != len(objects):   # else nothing of the wait is left
                with self.lock:             # under which an interrupt looks at the handle's waiter
                    if handle is not None:
                        handle.waiter, handle.waiting = None, ()
                    woken = woken or waiter.fired
                    actions = cluster.stop_waiting(ended, waiter, objects, worker)
                if actions or cluster.references.freed:
                    self.carry_out(actions)
        if handle is not None and handle.interrupted is not None:
            raise self.take_interrupt(handle)
        if self.closed:
            raise the_end()
        return woken

    def sleep(self, execution: Execution | None, seconds: float) -> bool:
        """A task sleeps, in a way that can be interrupted. Returns False when this is not the task's own thread, or the number is
        none that can be slept: then the real sleep is to be called."""
        if self.dropped and not self.closed:
            self.drain()                        # what the program has dropped ends now, and not only after the sleep
        if execution is None:
            return False
        handle = execution.worker.handle
        if execution.thread != get_ident() or handle is None or type(seconds) not in (int, float) or not 0 < seconds < 1e8:
            return False
        lock = self.allocate_lock()
        lock.acquire()
        waiter = Waiter(1, lock.release)
        with self.lock:
            if self.closed:                     # those who end the session have looked for waiters already
                raise the_end()
            if handle.interrupted is None and handle.waiter is None:
                handle.waiter = waiter
        try:
            self.park(lock, seconds)
        finally:
            with self.lock:
                waiter.fired = True
                if handle.waiter is waiter:
                    handle.waiter = None
        if handle.interrupted is not None:
            raise self.take_interrupt(handle)
        if self.closed:
            raise the_end()
        return True

    def take_interrupt(self, handle: Any) -> BaseException:
        """The exception that was to be raised in a worker's thread, once."""
        error, handle.interrupted = handle.interrupted, None
        return error

    def waiting_for(self, worker: WorkerRecord) -> list:
        """The records that a worker's thread waits for in get or wait."""
        return list(worker.handle.waiting) if worker.handle is not None else []

    def wait_values(self, objects: list[ObjectRecord], timeout: float | None) -> bool:
        """Wait until all are there, or one has failed. Returns False when the time ran out."""
        deadline = None if timeout is None else self.now() + timeout
        while True:
            pending = [obj for obj in objects if obj.status is not READY and obj.status is not SPILLED]
            if not pending:
                return True
            for obj in pending:
                if obj.status is FAILED:
                    return True
                if timeout is None:
                    self._refuse_foreign(obj)
                if obj.status is ENDED:
                    raise of_an_ended_session(obj)
                if obj.status is RELEASED:
                    self._it_went(obj)
            left = None if deadline is None else max(0.0, deadline - self.now())
            if not self.wait_for(pending, len(pending), True, left):
                return False

    @staticmethod
    def _refuse_foreign(obj: ObjectRecord) -> None:
        """ObjectLostError for an id that nothing here has: who waits for it without a timeout would wait for ever, as on Ray."""
        if obj.number < 0 and obj.status is not ENDED:
            raise ObjectLostError(obj.hex, None, "")

    def get_one(self, obj: ObjectRecord) -> tuple | None:
        """The value in a tuple, when it is there or comes soon enough for nobody to ask why; None when `get` has to see to it."""
        if obj.status is PENDING:
            self._refuse_foreign(obj)
            self.wait_for([obj], 1, True, None)
        value = obj.value
        if obj.status is not READY or obj.locations is not None:
            return None
        kind = type(value)
        if kind is Serialized:
            return (errors.loaded(value),)
        return None if kind is SpilledFile or value is DROPPED else (value,)

    @overload
    def get(self, objects: list[ObjectRecord], timeout: None = None) -> list: ...

    @overload
    def get(self, objects: list[ObjectRecord], timeout: float | None) -> list | None: ...

    def get(self, objects: list[ObjectRecord], timeout: float | None = None) -> list | None:
        """The values, in order, or None when the time ran out. Raises the error of the first that has one."""
        while True:
            for obj in objects:
                if obj.status is not READY and obj.status is not SPILLED:
                    break
            else:
                values = self._load(objects)
                if values is not None:
                    return values
            if not self.wait_values(objects, timeout):
                return None
            for obj in objects:
                if obj.status is FAILED:
                    raise errors.to_exception(obj.value, obj)

    def _load(self, objects: list[ObjectRecord]) -> list | None:
        values = []
        for obj in objects:
            value = obj.value
            kind = type(value)
            while kind is SpilledFile:
                value = read_back(self, obj, value)
                kind = type(value)
            if kind is Serialized:
                value = errors.loaded(value)
            elif value is DROPPED or kind is Failure:
                self._it_went(obj)
                return None
            if obj.locations is not None:
                self._used_here(obj)
            values.append(value)
        return values

    def _it_went(self, obj: ObjectRecord) -> None:
        """A value went meanwhile: it is to be waited for again, or has failed. For the thread of a dead worker it may have gone
        for good, with the arguments of its task. ReferenceCountingAssertionError for one that will not come again."""
        execution = current.get()
        if execution is not None:
            refuse_the_dead(execution.worker)
        with self.lock:
            gone = obj.status is RELEASED and self.cluster.objects.get(obj.number) is not obj
        if gone:                                # a mistake of ours, which is not to be waited for as long as there is a processor
            raise ReferenceCountingAssertionError(obj.hex)

    def _used_here(self, obj: ObjectRecord) -> None:
        """A large value was fetched: a copy of it is on this node now."""
        execution = current.get()
        with self.lock:
            node = execution.worker.node if execution is not None else self.head
            actions = self.cluster.object_used(self.now(), obj, node)
        self.carry_out(actions)

    def value_of(self, obj: ObjectRecord) -> Any:
        """One value, waited for as long as it takes."""
        return self.get([obj])[0]

    def argument_of(self, obj: ObjectRecord) -> Any:
        """The value of an argument, which was there when the task was given to its worker. ArgumentLost when it is not."""
        while True:
            if obj.status is READY or obj.status is SPILLED:
                values = self._load([obj])
                if values is not None:
                    return values[0]
            elif obj.status is FAILED:
                raise errors.to_exception(obj.value, obj)
            else:
                self._it_went(obj)
                raise ArgumentLost

    def subscribe(self, obj: Any, callback: Callable[[], None]) -> Waiter:
        """Have `callback()` called once, from any thread, when the object (or a stream's next item) is there. It must not block."""
        waiter = Waiter(1, callback)
        with self.lock:
            now = self.now()
            if self.dropped:
                self.cluster.references_dropped(now, self.dropped)
            actions = self.cluster.wait_for(now, waiter, (obj,)) if not self.closed else None
        if actions is None:
            callback()                          # which finds the object ended, as everything is
        else:
            self.carry_out(actions)
        return waiter

    def unsubscribe(self, obj: Any, waiter: Waiter) -> None:
        """The callback is not wanted any more."""
        self.tell(self.cluster.stop_waiting, waiter, (obj,))


def waits_for_ever(frame: FrameType | None) -> bool:
    """Whether the thread that is in this frame waits for values, without a timeout."""
    while frame is not None:
        if frame.f_code is Waiting.wait_for.__code__:
            return frame.f_locals["timeout"] is None
        frame = frame.f_back
    return False
