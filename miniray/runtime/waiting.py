"""Waiting: how a thread waits. Every place where user code can block ends up in this module.

Theory of operation. A thread that needs something it does not have yet makes a *waiter* and *parks*.

The waiter. `wait_for` makes a lock, takes it, and makes a `Waiter` whose token is that lock's `release`. It then
reports `Cluster.wait_for` to the core, which attaches the waiter to every object or stream that it waits for. When
enough of them are ready the core returns a Wake action. Some other thread carries the action out: it calls the token,
and the lock opens. A waiter fires at most once, because a lock may be released only once: each thread that wakes a
waiter sets `waiter.fired` first, under the core's lock. A wait that is over reports `stop_waiting`, which detaches the
waiter and sets `fired` too.

Parking. `park` acquires the waiter's lock a second time, and so sleeps until the lock is released. No other function of
miniray sleeps while user code waits. A runtime with one thread overrides `park`: local_mode runs tasks there instead.

Lending a CPU. A normal task that waits lends its CPU, since the task that it waits for may need it. Lending costs time
and lets the core start another worker, so it should happen only when it is useful. If an awaited value comes from a
task without a worker, the CPU is lent at once: that task may need this CPU. Otherwise the thread first parks for
`LEND_AFTER_S`, since most waits for running tasks are short, and only then reports `blocked`. The core gives the CPU
back when it wakes the waiter, or at `stop_waiting`. An actor lends nothing.

Interrupts during a wait. A worker's handle shows the waiter of its thread (`handle.waiter`). To interrupt the thread,
`Interrupts.raise_in` stores the exception in `handle.interrupted`, marks the waiter as fired and calls its token, all
but the last under the core's lock. The thread returns from `park`, clears `handle.waiter` under the same lock, and
raises the stored exception itself. So nothing is ever raised asynchronously in a thread that waits. As in Ray, a task
that goes on after its cancellation waits for nothing more: each further `get` or `wait` that would block raises
KeyboardInterrupt. A call of a plain actor is interrupted in no other way. The end of the session wakes the driver's
waiters through `driver_waiters`; each of their threads then finds `closed` set and raises `session_over()`.

The stuck check. A wait without a timeout that has lasted for `stuck_after_s` calls `self.stuck` once. This function of
the session asks `find_deadlock` whether the wait can ever end; if it cannot, the function logs the reason or raises
DeadlockError. A wait with a timeout is not checked: it ends anyway.
"""

from __future__ import annotations

import _thread
from collections import deque

from ..core.records import ACTOR_TASK, NORMAL_TASK, ObjectRecord, TaskRecord, Waiter, WorkerRecord
from ..core.transitions import WorkerStatus
from ..exceptions import RaySystemError
from ..process.context import Execution, current, exit_of_the_program
from ..process.exits import SessionEnded, TaskInterrupt, WorkerExit
from ..process.our_code import parks_here
from ..process.worker_process import caller
from .core_access import CoreAccess
from .core_lock import writes_with_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

DEAD = WorkerStatus.DEAD
LEND_AFTER_S = 0.01  # how long a task keeps its CPU while it waits for a task that already runs
get_ident = _thread.get_ident


def session_over() -> BaseException:
    """The exception for a call whose session was shut down while it waited: SessionEnded in a task, which ends the
    task; SystemExit in a thread that a task has started, which ends the thread without a word; RaySystemError in a
    thread of the driver."""
    if caller() is not None:
        return SessionEnded() if current.get() is not None else SystemExit()
    return exit_of_the_program() or RaySystemError("the session was shut down by another thread")


def of_an_ended_session(obj: ObjectRecord) -> BaseException:
    """The exception for the use of a reference from an earlier session."""
    return exit_of_the_program() or ValueError(f"the object {obj.hex} belongs to a session that has been shut down")


def refuse_dead_worker(worker: WorkerRecord) -> None:
    """Raise WorkerExit if the worker was declared dead while its thread goes on. A dead worker must not come to own
    anything: nobody would ever end a task or an actor that it owns. A thread that its task has started gets SystemExit,
    which ends the thread without a word: on Ray its process is gone."""
    if worker.status is DEAD:
        raise WorkerExit("SYSTEM_ERROR: the worker is dead") if current.get() is not None else SystemExit


def waits_no_more(handle: Any, task: TaskRecord) -> bool:
    """Whether a cancelled task's thread is interrupted at once if it waits. In a plain task this holds only after the
    interrupt that `cancel` sent has arrived; otherwise there would be two. When the task's code is over it does not
    hold: finalisers that run then are not the task's.
    """
    if handle.loop is not None or handle.user_task is not task:
        return False
    return task.was_interrupted or bool(task.spec.kind == ACTOR_TASK)


def waits_for_a_cpu(objects: list[Any]) -> bool:
    """Whether one of the awaited values comes from a task without a worker, which may need the waiting task's CPU."""
    for obj in objects:
        task = obj.task
        if task is not None and task.worker is None and task.spec.kind == NORMAL_TASK:
            return True
    return False


class Waiting(CoreAccess):
    """How threads wait. `park` is the only function in which a thread sleeps.

    driver_waiters: the waiters of the driver's threads, each with the list of records it waits for. A thread removes
    its own entry without the lock when its wait is over. waits: who was in get or wait, and when, for the timeline:
    tuples of (worker or None, task number, start, end). stuck: see the stuck check above; called with the awaited
    records. postponed: interrupts that are still to be raised (see `interrupts`); empty in local_mode.
    """

    allocate_lock = staticmethod(_thread.allocate_lock)  # the kind of lock that `park` sleeps on
    stuck_after_s = 1.0  # how long a wait without a timeout lasts before the stuck check

    def __init__(self, options: dict[str, Any], dropped: deque[Any]):
        super().__init__(options, dropped)
        self.driver_waiters: dict[Waiter, list[Any]] = {}
        self.waits: deque[tuple[WorkerRecord | None, int, float, float]] = deque(maxlen=20_000)
        self.stuck: Callable[[list[Any]], None] | None = None
        self.postponed: Any = ()

    @parks_here
    def park(self, lock: Any, timeout: float | None) -> bool:
        """Wait until `lock` is released. Returns False if `timeout` seconds passed first; None waits forever.

        The core's lock must not be held.
        """
        opened: bool
        if timeout is None:
            opened = lock.acquire()
        elif timeout > 0:
            opened = lock.acquire(True, min(timeout, _thread.TIMEOUT_MAX))
        else:
            opened = lock.acquire(False)
        return opened

    @writes_with_out
    def wait_for(self, objects: list[Any], need: int, fail_fast: bool, timeout: float | None) -> bool:
        """Wait until `need` more of these pending objects and streams are ready; with fail_fast, or until one has
        failed.

        timeout: seconds; None waits forever. Returns False if the time ran out. The core's lock must not be held.
        Raises the exception that interrupts the wait: KeyboardInterrupt if the task is cancelled, WorkerExit if its
        worker is killed, and at shutdown the exception that `session_over` returns.
        """
        lock = self.allocate_lock()
        lock.acquire()
        waiter = Waiter(need, lock.release, fail_fast)
        waiter.timed = timeout is not None
        thread = waiter.thread = get_ident()
        execution = current.get()
        handle = worker = None
        if execution is not None and execution.thread == thread:
            handle = execution.worker.handle
            if execution.worker.actor is None:
                worker = execution.worker
        cluster, core_lock = self.cluster, self.lock
        try:  # `with core_lock`, written out (see CoreLock)
            next(core_lock.enter)
        except IndexError:
            core_lock.wait()
        try:
            if self.closed:
                raise session_over()
            # In the same step as the look at `closed`: the end of the session finds the waiter here, or we find
            # `closed` set.
            if handle is not None and execution is not None:  # both are None, or neither
                if execution.task.cancel_requested and timeout != 0 and waits_no_more(handle, execution.task):
                    raise TaskInterrupt
                handle.waiter, handle.waiting = waiter, objects
            else:
                self.driver_waiters[waiter] = objects
            at_once = worker is not None and waits_for_a_cpu(objects)
            now = self.now()
            if self.dropped:
                cluster.references_dropped(now, self.dropped)
            actions = cluster.wait_for(now, waiter, objects, worker if at_once else None)
        finally:
            next(core_lock.leave)
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
            if handle is None or execution is None:  # both are None, or neither
                self.waits.append((None, 0, now, ended))
                self.driver_waiters.pop(waiter, None)
            else:
                self.waits.append((handle.record, execution.task.number, now, ended))
            # When all of the objects are ready the core has already detached the waiter from each of them.
            if handle is not None or waiter.need > 0 or need != len(objects):
                with self.lock:  # an interrupt looks at handle.waiter under this lock
                    if handle is not None:
                        handle.waiter, handle.waiting = None, ()
                    woken = woken or waiter.fired
                    actions = cluster.stop_waiting(ended, waiter, objects, worker)
                if actions or cluster.references.freed:
                    self.carry_out(actions)
        if handle is not None and handle.interrupted is not None:
            raise self.take_interrupt(handle)
        if self.closed:
            raise session_over()
        return woken

    def sleep(self, execution: Execution | None, seconds: float) -> bool:
        """Sleep in a task so that the sleep can be interrupted. Stands in for `time.sleep` (see `process.guards`).

        execution: the attempt that the caller runs, None on the driver. Returns False without sleeping if this is not
        the task's own thread or `seconds` is not a usable number: the caller then calls the real `time.sleep`. Raises
        what interrupts the sleep, as `wait_for` does.
        """
        if self.dropped and not self.closed:
            self.drain()  # release what the program has dropped now, not only after the sleep
        if execution is None:
            return False
        handle = execution.worker.handle
        if execution.thread != get_ident() or handle is None:
            return False
        # A loop that does little else than sleep(0) is inside a call of ours nearly every time that `raise_in` looks.
        late = self.take_postponed(handle) if self.postponed else None
        if late is not None:
            raise late
        if type(seconds) not in (int, float) or not 0 < seconds < 1e8:
            return False
        lock = self.allocate_lock()
        lock.acquire()
        waiter = Waiter(1, lock.release)
        with self.lock:
            if self.closed:  # the end of the session has already looked for waiters and would not find this one
                raise session_over()
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
            raise session_over()
        return True

    def waits_forever(self, ident: int) -> bool:
        """Whether this thread of the driver is in `wait_for` without a timeout."""
        return any(waiter.thread == ident and not waiter.timed for waiter in self.driver_waiters.copy())

    def take_postponed(self, handle: Any) -> BaseException | None:
        """Remove and return the exception in `postponed` that is meant for this worker, or None. Called by the worker's
        own thread, which raises it. Never called in local_mode, where `postponed` is empty."""
        raise NotImplementedError

    def raise_postponed(self) -> None:
        """Raise the postponed interrupt of the task that calls. Called before the error of a cancelled child is raised:
        the interrupt was sent first, while its task was on its way into the `get`."""
        execution = caller()
        if execution is not None and execution.thread == get_ident():  # not in a thread that the task has started
            late = self.take_postponed(execution.worker.handle)
            if late is not None:
                raise late

    def take_interrupt(self, handle: Any) -> BaseException:
        """Remove and return the exception that is to be raised in a worker's thread. Only that thread calls this."""
        error: BaseException = handle.interrupted
        handle.interrupted = None
        return error

    def waiting_for(self, worker: WorkerRecord) -> list[Any]:
        """The records that a worker's thread waits for in get or wait; empty if it does not wait."""
        return list(worker.handle.waiting) if worker.handle is not None else []

    def subscribe(self, obj: Any, callback: Callable[[], None]) -> Waiter:
        """Have `callback()` called once, on any thread, when the object or the stream's next item is ready.

        The callback must not block. It is called before this method returns if the session has ended.
        """
        waiter = Waiter(1, callback)
        with self.lock:
            now = self.now()
            if self.dropped:
                self.cluster.references_dropped(now, self.dropped)
            actions = self.cluster.wait_for(now, waiter, (obj,)) if not self.closed else None
        if actions is None:
            callback()  # it will find that the object has ended, as every object of the session has
        else:
            self.carry_out(actions)
        return waiter

    def call_program(self, obj: ObjectRecord, callback: Callable[[], None]) -> None:
        """The same, for the value of an object. `callback()` calls a function of the program."""
        self.subscribe(obj, callback)

    def unsubscribe(self, obj: Any, waiter: Waiter) -> None:
        """Cancel a subscription. The callback may still be running on another thread."""
        self.tell(self.cluster.stop_waiting, waiter, (obj,))
