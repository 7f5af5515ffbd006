"""miniray: Ray Core's programming model and its observability in one Python process, on the standard library alone.

    import miniray as ray

The names are those of `ray`; what is not here is not in miniray. What few programs use is imported when it is asked for.
"""
import importlib as _importlib
import logging as _logging
import typing as _typing

from . import actor, cloudpickle, exceptions, ids
from .actor import method
from .api import (available_resources, cancel, cluster_resources, get, get_actor, get_gpu_ids, init, is_initialized, kill, nodes,
                  put, remote, shutdown, wait)
from .ids import (ActorClassID, ActorID, ClusterID, FunctionID, JobID, NodeID, PlacementGroupID, TaskID, UniqueID, WorkerID)
from .observe.profile import profile
from .observe.timeline import timeline
from .object_ref import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator
from .runtime_context import get_runtime_context

from ._raylet import Language
from . import _private as _private, _raylet as _raylet, runtime_env, types, util        # last: they are made of the names above

__version__ = "0.1.0"
__ray_version__ = "2.60.0"          # the Ray whose answers are the specification

ObjectID = ObjectRef
logger = _logging.getLogger("ray")          # by Ray's own name, which programs pass to getLogger as well; it has no handler here
# Ray: ray._private.worker. What spills and restores is no worker of its own here.
SCRIPT_MODE, WORKER_MODE, LOCAL_MODE, SPILL_WORKER_MODE, RESTORE_WORKER_MODE = range(5)
_LATER = {"client": "client_builder", "ClientBuilder": "client_builder"}           # a name and the module that has it
_LATER |= dict.fromkeys(("autoscaler", "client_builder", "dag", "experimental", "job_config", "remote_function"), "")

__all__ = [
    "ActorClassID", "ActorID", "ClusterID", "DynamicObjectRefGenerator", "FunctionID", "JobID", "LOCAL_MODE", "Language", "NodeID",
    "ObjectID", "ObjectRef", "ObjectRefGenerator", "PlacementGroupID", "RESTORE_WORKER_MODE", "SCRIPT_MODE", "SPILL_WORKER_MODE",
    "TaskID", "UniqueID", "WORKER_MODE", "WorkerID", "actor", "available_resources", "cancel",
    "cloudpickle", "cluster_resources", "exceptions", "get", "get_actor", "get_gpu_ids", "get_runtime_context", "ids", "init",
    "is_initialized", "kill", "logger", "method", "nodes", "profile", "put", "remote", "runtime_env", "shutdown", "timeline",
    "types", "util", "wait",
]


def __getattr__(name: str) -> _typing.Any:
    if name == "worker":                # as older programs write it: ray.worker.global_worker
        return _private.worker
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = _importlib.import_module(f"{__name__}.{module or name}")
    return getattr(found, name) if module else found
