"""The functions of `ray` where older programs look for them, and the type of what `init` returns. Ray: ray._private.worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from miniray.api import (
    RayContext,
    available_resources,
    cancel,
    cluster_resources,
    get,
    get_actor,
    get_gpu_ids,
    init,
    is_initialized,
    kill,
    nodes,
    put,
    remote,
    shutdown,
    wait,
)
from miniray.ids import ActorID, JobID, NodeID, TaskID, task_hex
from miniray.process import context
from miniray.process.context import current
from miniray.runtime_context import RuntimeContext, get_runtime_context
from miniray.util import get_node_ip_address

BaseContext = RayContext  # Ray has a second kind, for clients of a cluster elsewhere
SCRIPT_MODE, WORKER_MODE, LOCAL_MODE, SPILL_WORKER_MODE, RESTORE_WORKER_MODE = range(5)

__all__ = [
    "BaseContext",
    "LOCAL_MODE",
    "RESTORE_WORKER_MODE",
    "RayContext",
    "SCRIPT_MODE",
    "SPILL_WORKER_MODE",
    "WORKER_MODE",
    "global_worker",
    "available_resources",
    "cancel",
    "cluster_resources",
    "get",
    "get_actor",
    "get_gpu_ids",
    "init",
    "is_initialized",
    "kill",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "wait",
]


class Worker:
    """What programs ask `global_worker`: whether a session runs, and who is asking. Ray's has the whole worker in it."""

    @property
    def connected(self) -> bool:
        """Whether a session runs."""
        return is_initialized()

    @property
    def mode(self) -> int | None:
        """WORKER_MODE in a task, SCRIPT_MODE in the driver, None without a session."""
        if not is_initialized():
            return None
        return SCRIPT_MODE if current.get() is None else WORKER_MODE

    def check_connected(self) -> None:
        """RaySystemError when no session runs."""
        if not is_initialized():
            raise context.not_connected()

    def __getattr__(self, name: str) -> Any:
        """Ids, names and addresses, as the runtime context tells them: TaskID and the like; worker_id in bytes."""
        if name not in _ASKED:
            raise AttributeError(
                f"global_worker has no {name!r} here: get_runtime_context() and miniray.util.state are the public "
                "ways to ask"
            )
        self.check_connected()
        return _ASKED[name](get_runtime_context())


_ASKED: dict[str, Callable[[RuntimeContext], Any]] = {
    "actor_id": lambda c: ActorID.from_hex(c.get_actor_id() or ActorID.nil().hex()),
    "current_job_id": lambda c: JobID.from_hex(c.get_job_id()),
    "current_node_id": lambda c: NodeID.from_hex(c.get_node_id()),
    "current_task_id": lambda c: TaskID.from_hex(c.get_task_id() or task_hex(0)),
    "namespace": lambda c: c.namespace,
    "node_ip_address": lambda c: get_node_ip_address(),
    "runtime_env": lambda c: c.get_runtime_env_string(),
    "worker_id": lambda c: bytes.fromhex(c.get_worker_id()),
}
global_worker = Worker()
