"""The end of a session, for every runtime."""

from __future__ import annotations

from ..core.actions import KillWorker
from .runtime import Runtime

ENDING_AT_A_TIME = 64  # workers: thousands of threads that are awake at once would compete for the GIL


def end_session(runtime: Runtime) -> None:
    """Wake every waiter, end every worker, drop every value: the whole session ends, so nothing is retried and nobody is told."""
    with runtime.lock:
        if runtime.closed:
            return
        runtime.closed = True
        # A waiter whose wait is over leaves this table without the lock, so one copy is made of it.
        waiters = list(runtime.driver_waiters.copy())
        handles = [worker.handle for worker in runtime.cluster.workers.values() if worker.handle is not None]
        if runtime.local:  # elsewhere kill_worker wakes these, with the exception that ends their tasks
            waiters += [handle.waiter for handle in handles if handle.waiter is not None]
        actions = runtime.cluster.session_ending(runtime.now(), waiters)
    killed = [action.worker for action in actions if type(action) is KillWorker]
    runtime.carry_out([action for action in actions if type(action) is not KillWorker])
    for first in range(0, len(killed), ENDING_AT_A_TIME):
        runtime.end_workers(killed[first : first + ENDING_AT_A_TIME])
    runtime.tell(runtime.cluster.session_ended)
    runtime.collector.restore()
    runtime.exported.clear()
    runtime.spill.remove()
