"""The end of a session, in every runtime."""

from __future__ import annotations

from ..core.actions import KillWorker
from .runtime import Runtime

WORKERS_AT_A_TIME = 64  # thousands of awake threads would compete for the GIL


def end_session(runtime: Runtime) -> None:
    """Wake every waiter, end every worker, drop every value. Does nothing if the session has ended or is ending.

    Since the whole session ends, nothing is retried. The lock must not be held.
    """
    with runtime.lock:
        if runtime.closed:
            return
        runtime.closed = True
        # Threads remove their waiters from this table without the lock. Copying the table is one atomic operation.
        waiters = list(runtime.driver_waiters.copy())
        handles = [worker.handle for worker in runtime.cluster.workers.values() if worker.handle is not None]
        if runtime.local:  # the threaded runtime's kill_worker wakes these, with the exception that ends their tasks
            waiters += [handle.waiter for handle in handles if handle.waiter is not None]
        actions = runtime.cluster.session_ending(runtime.now(), waiters)
    killed = [action.worker for action in actions if type(action) is KillWorker]
    runtime.carry_out([action for action in actions if type(action) is not KillWorker])
    for first in range(0, len(killed), WORKERS_AT_A_TIME):
        runtime.end_workers(killed[first : first + WORKERS_AT_A_TIME])
    runtime.tell(runtime.cluster.session_ended)
    runtime.collector.restore()
    runtime.exported.clear()
    runtime.pinned.clear()
    runtime.spill.remove()
