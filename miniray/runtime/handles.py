"""Worker handles: the runtime's side of a worker, and asynchronous exceptions in the worker's thread."""

from __future__ import annotations

from contextvars import Context

from ..core.records import TaskRecord, Waiter, WorkerRecord
from ..process.worker_process import WorkerProcess
from ..values.spaces import Space
from . import async_exceptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class WorkerHandle:
    """The runtime's side of a worker: everything that the core's record must not hold.

    Each slot is set by the worker's own thread, unless its comment says otherwise. `worker.handle` is None before the
    worker is started and after its thread has ended.
    """

    __slots__ = (
        "record",  # the core's record of the worker
        "ident",  # of the thread that runs the worker; 0 until the thread has started
        "waiter",  # of the wait that the thread is in, None outside of waits; guarded by the core's lock
        "waiting",  # the records that this wait is for
        "interrupted",  # an exception to raise when the wait is over; set by the interrupting thread, under the lock
        "user_task",  # the task whose user code runs; an interrupt is sent only while it is set
        "instance",  # the actor that lives in this worker; None when the worker has ended
        "methods",  # the functions of the actor's class by name, as they were when the actor was created
        "space",  # the worker's copies of classes and functions; None when the worker has ended
        "inbox",  # how tasks reach the thread; None in local_mode and until the thread is started
        "done",  # a lock that opens when the thread ends; None in local_mode
        "loop",  # the AsyncWorker of an async actor, otherwise None
        "sent",  # an asynchronous exception has been sent to the thread and may not have been raised yet
        "process",  # the worker's WorkerProcess; all threads of an actor share it
        "context",  # in which all calls of an actor run on this thread, as in Ray; None for a worker of plain tasks
        "plain_outcome",  # an `outcomes.Outcome` for its results that need no pickling; None before the first
        "environ",  # the actor's environment variables, as an Execution's; unset until somebody reads `os.environ`
    )

    def __init__(self, record: WorkerRecord, space: Space, process: WorkerProcess):
        self.record = record
        self.space: Any = space
        self.process = process
        self.context = Context() if record.actor is not None else None
        self.ident = 0
        self.waiter: Waiter | None = None
        self.waiting: Any = ()
        self.interrupted: BaseException | None = None
        self.user_task: TaskRecord | None = None
        self.instance: Any = None
        self.methods: dict[str, Any] = {}
        self.inbox: Any = None
        self.done: Any = None
        self.loop: Any = None
        self.sent = False
        self.plain_outcome: Any = None


def new_handle(worker: WorkerRecord) -> WorkerHandle:
    """A handle for a worker that is being started. All threads of one actor share one space and one WorkerProcess."""
    first = actor_handle(worker)
    if first is not None:
        return WorkerHandle(worker, first.space, first.process)
    return WorkerHandle(worker, Space(), WorkerProcess())


def actor_handle(worker: WorkerRecord) -> WorkerHandle | None:
    """The handle that holds the actor's instance: that of the worker which ran the constructor. For a worker without an
    actor, its own handle."""
    # Read actor.worker once: another thread sets it to None when the actor dies.
    first = worker.actor.worker if worker.actor is not None else None
    handle: WorkerHandle | None = first.handle if first is not None else worker.handle
    return handle


def settle_interrupt(handle: WorkerHandle) -> None:
    """The user's code has ended: no more interrupts are sent, and one that was sent but not raised yet is taken back,
    so that it does not hit our own code."""
    handle.user_task = None
    if handle.sent:
        clear_async_exception(handle)


def clear_async_exception(handle: WorkerHandle) -> None:
    """Take back an asynchronous exception that has not been raised yet."""
    handle.sent = False
    async_exceptions.take_back(handle.ident)
