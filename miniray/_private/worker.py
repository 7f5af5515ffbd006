"""The functions of `ray` under their older module name, and `global_worker`. Ray: ray._private.worker."""

from __future__ import annotations

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
from miniray.runtime_context import SCRIPT_MODE, WORKER_MODE, Worker, global_worker

BaseContext = RayContext  # Ray has a second subclass, for clients of a remote cluster
LOCAL_MODE, SPILL_WORKER_MODE, RESTORE_WORKER_MODE = 2, 3, 4

__all__ = [
    "BaseContext",
    "LOCAL_MODE",
    "RESTORE_WORKER_MODE",
    "RayContext",
    "SCRIPT_MODE",
    "SPILL_WORKER_MODE",
    "WORKER_MODE",
    "Worker",
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
