"""The functions of `ray` under their older module name, and `global_worker`. Ray: ray._private.worker."""

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

BaseContext = RayContext  # Ray has a second subclass, for clients of a remote cluster
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
    """The class of `global_worker`: whether a session is running, and facts about the caller."""

    @property
    def connected(self) -> bool:
        """Whether a session is running."""
        return is_initialized()

    @property
    def mode(self) -> int | None:
        """WORKER_MODE in a task, SCRIPT_MODE on the driver, None without a session."""
        if not is_initialized():
            return None
        return SCRIPT_MODE if current.get() is None else WORKER_MODE

    def check_connected(self) -> None:
        """Raise RaySystemError if no session is running."""
        if not is_initialized():
            raise context.not_connected()

    def __getattr__(self, name: str) -> Any:
        """A fact from the runtime context: an id as an object (worker_id: bytes), the namespace, and so on."""
        if name not in _FACTS:
            raise AttributeError(
                f"miniray's global_worker has no {name!r}: use the public get_runtime_context() or miniray.util.state"
            )
        self.check_connected()
        return _FACTS[name](get_runtime_context())


_FACTS: dict[str, Callable[[RuntimeContext], Any]] = {
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
