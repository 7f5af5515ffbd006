"""The functions of `ray` where older programs look for them, and the type of what `init` returns. Ray: ray._private.worker."""
from __future__ import annotations

from miniray.api import (RayContext, available_resources, cancel, cluster_resources, get, get_actor, get_gpu_ids, init,
                         is_initialized, kill, nodes, put, remote, shutdown, wait)

BaseContext = RayContext                # Ray has a second kind, for clients of a cluster elsewhere
SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2

__all__ = ["BaseContext", "LOCAL_MODE", "RayContext", "SCRIPT_MODE", "WORKER_MODE", "available_resources", "cancel",
           "cluster_resources", "get", "get_actor", "get_gpu_ids", "init", "is_initialized", "kill", "nodes", "put", "remote",
           "shutdown", "wait"]
