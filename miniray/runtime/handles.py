"""Worker handles: the runtime's side of a worker, and asynchronous exceptions in its thread."""

from __future__ import annotations

import _thread
from typing import Any

from ..core.records import TaskRecord, Waiter, WorkerRecord
from ..values.spaces import Space


class WorkerHandle:
    """The runtime's side of a worker: what cannot be in the core's record.

    ident: the thread that runs it. waiter, waiting: what its thread waits for in get or wait. interrupted: an exception to be
    raised when that wait is over. user_task: the task whose user code is being run; guarded by the runtime's lock.
    instance: the actor that lives in it. space: its copies of classes and functions; both None when the worker has ended.
    environ: as an Execution's, for the actor.
    """

    __slots__ = (
        "record",
        "ident",
        "waiter",
        "waiting",
        "interrupted",
        "user_task",
        "instance",
        "space",
        "inbox",
        "done",
        "loop",
        "sent",
        "environ",
    )

    def __init__(self, record: WorkerRecord, space: Space):
        self.record = record
        self.space: Any = space
        self.ident = 0
        self.waiter: Waiter | None = None
        self.waiting: Any = ()
        self.interrupted: BaseException | None = None
        self.user_task: TaskRecord | None = None
        self.instance: Any = None
        self.inbox: Any = None
        self.done: Any = None
        self.loop: Any = None
        self.sent = False  # an asynchronous exception is on its way to the thread


def actor_handle(worker: WorkerRecord) -> WorkerHandle | None:
    """The handle that holds the actor's instance: that of the worker which ran its constructor."""
    first = worker.actor.worker if worker.actor is not None else None  # read once: an actor that dies has none any more
    return first.handle if first is not None else worker.handle


def settle_interrupt(handle: WorkerHandle) -> None:
    """The user's code has ended: an interrupt that is still on its way to this thread must not hit anything else."""
    handle.user_task = None
    if handle.sent:
        clear_async_exception(handle)


class _Absorbed(BaseException):
    """Raised and caught in one place: see `clear_async_exception`."""


def clear_async_exception(handle: WorkerHandle) -> None:
    """Take back an asynchronous exception that has not been raised yet."""
    import ctypes

    handle.sent = False
    send = ctypes.pythonapi.PyThreadState_SetAsyncExc
    send(ctypes.c_ulong(handle.ident), None)
    # Before 3.13 the interpreter then goes on looking for it, at every call and every turn of every loop in every thread, until
    # one is raised anywhere. So one is raised here: it replaces what was on its way, and comes out of the call that sent it.
    try:
        send(ctypes.c_ulong(_thread.get_ident()), ctypes.py_object(_Absorbed))
        send(ctypes.c_ulong(_thread.get_ident()), None)
    except _Absorbed:
        return
