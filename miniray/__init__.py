"""miniray: Ray Core's programming model and its observability in one Python process, on the standard library alone.

    import miniray as ray

The names are those of `ray`; what is not here is not in miniray.
"""
from . import actor, cloudpickle, exceptions, ids
from .actor import method
from .api import (available_resources, cancel, cluster_resources, get, get_actor, get_gpu_ids, init, is_initialized, kill, nodes,
                  put, remote, shutdown, wait)
from .ids import ActorID, JobID, NodeID, PlacementGroupID, TaskID, WorkerID
from .observe.profile import profile
from .observe.timeline import timeline
from .object_ref import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator
from .runtime_context import get_runtime_context

from . import _private as _private, _raylet as _raylet, runtime_env, types, util        # last: they are made of the names above

__version__ = "0.1.0"
__ray_version__ = "2.60.0"          # the Ray whose answers are the specification

ObjectID = ObjectRef
SCRIPT_MODE, WORKER_MODE, LOCAL_MODE = 0, 1, 2      # Ray: ray._private.worker

__all__ = [
    "ActorID", "DynamicObjectRefGenerator", "JobID", "LOCAL_MODE", "NodeID", "ObjectID", "ObjectRef", "ObjectRefGenerator",
    "PlacementGroupID", "SCRIPT_MODE", "TaskID", "WORKER_MODE", "WorkerID", "actor", "available_resources", "cancel",
    "cloudpickle", "cluster_resources", "exceptions", "get", "get_actor", "get_gpu_ids", "get_runtime_context", "ids", "init",
    "is_initialized", "kill", "method", "nodes", "profile", "put", "remote", "runtime_env", "shutdown", "timeline", "types", "util",
    "wait",
]
