"""Waiting: how a thread waits. Every place where user code can block comes here.

A task that waits lends its CPU; it can be interrupted while it waits.
"""

from __future__ import annotations

import _thread
from collections import deque
from typing import Any, Callable

from ..core.records import NORMAL_TASK, ObjectRecord, Waiter, WorkerRecord
from ..core.transitions import WorkerStatus
from ..exceptions import RaySystemError
from ..process.context import Execution, current, exit_of_the_program
from ..process.exits import SessionEnded, WorkerExit
from ..process.our_code import parks_here
from .core_access import CoreAccess

DEAD = WorkerStatus.DEAD
LEND_AFTER_S = 0.01  # a task that waits for what already runs keeps its CPU for so long: most such waits are short
get_ident = _thread.get_ident


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


class Waiting(CoreAccess):
    """How threads wait. `park` is the only function in which one sleeps."""

    allocate_lock = staticmethod(_thread.allocate_lock)  # what a waiter sleeps on, see `park`
    stuck_after_s = 1.0  # a get without a timeout asks once, after so long, whether it can ever return

    def __init__(self, options: dict[str, Any], dropped: deque):
        super().__init__(options, dropped)
        self.driver_waiters: dict[Waiter, list] = {}  # those on threads that are no worker's, with what they wait for
        self.waits: deque = deque(
            maxlen=20_000
        )  # (worker or None, task number, from, to): who was in get or wait, and when
        self.stuck: Callable[[list], None] | None = None  # called with the objects of a get that has waited for a while

    @parks_here
    def park(self, lock: Any, timeout: float | None) -> bool:
        """Wait until `lock` is released. Returns False when `timeout` seconds passed first."""
        if timeout is None:
            return lock.acquire()
        return lock.acquire(True, min(timeout, _thread.TIMEOUT_MAX)) if timeout > 0 else lock.acquire(False)

    def wait_for(self, objects: list, need: int, fail_fast: bool, timeout: float | None) -> bool:
        """Wait until `need` more of these pending objects and streams are there; fail_fast: or until one has failed.

        timeout: seconds, None for as long as it takes. Returns False when it ran out. A task that waits lends its CPU.
        Raises what interrupts the wait: KeyboardInterrupt when the task is cancelled, SessionEnded at shutdown.
        """
        lock = self.allocate_lock()
        lock.acquire()
        waiter = Waiter(need, lock.release, fail_fast)
        waiter.timed, waiter.thread = timeout is not None, get_ident()
        execution = current.get()
        handle = worker = None
        if execution is not None and execution.thread == get_ident():
            handle = execution.worker.handle
            if execution.worker.actor is None:
                worker = execution.worker
        cluster, core_lock = self.cluster, self.lock
        if not core_lock.try_enter(False):  # `with core_lock`, written out
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
            if handle is None or execution is None:  # both, or neither
                self.waits.append((None, 0, now, ended))
                self.driver_waiters.pop(waiter, None)
            else:
                self.waits.append((handle.record, execution.task.number, now, ended))
            if handle is not None or waiter.need > 0 or need != len(objects):  # else nothing of the wait is left
                with self.lock:  # under which an interrupt looks at the handle's waiter
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
            self.drain()  # what the program has dropped ends now, and not only after the sleep
        if execution is None:
            return False
        handle = execution.worker.handle
        if (
            execution.thread != get_ident()
            or handle is None
            or type(seconds) not in (int, float)
            or not 0 < seconds < 1e8
        ):
            return False
        lock = self.allocate_lock()
        lock.acquire()
        waiter = Waiter(1, lock.release)
        with self.lock:
            if self.closed:  # those who end the session have looked for waiters already
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

    def waits_forever(self, ident: int) -> bool:
        """Whether a thread that is no worker's waits here, without a timeout."""
        return any(waiter.thread == ident and not waiter.timed for waiter in self.driver_waiters.copy())

    def take_interrupt(self, handle: Any) -> BaseException:
        """The exception that was to be raised in a worker's thread, once."""
        error, handle.interrupted = handle.interrupted, None
        return error

    def waiting_for(self, worker: WorkerRecord) -> list:
        """The records that a worker's thread waits for in get or wait."""
        return list(worker.handle.waiting) if worker.handle is not None else []

    def subscribe(self, obj: Any, callback: Callable[[], None]) -> Waiter:
        """Have `callback()` called once, from any thread, when the object (or a stream's next item) is there. It must not block."""
        waiter = Waiter(1, callback)
        with self.lock:
            now = self.now()
            if self.dropped:
                self.cluster.references_dropped(now, self.dropped)
            actions = self.cluster.wait_for(now, waiter, (obj,)) if not self.closed else None
        if actions is None:
            callback()  # which finds the object ended, as everything is
        else:
            self.carry_out(actions)
        return waiter

    def unsubscribe(self, obj: Any, waiter: Waiter) -> None:
        """The callback is not wanted any more."""
        self.tell(self.cluster.stop_waiting, waiter, (obj,))
