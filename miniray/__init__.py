"""miniray: Ray Core's programming model and its observability in one Python process, on the standard library alone.

    import miniray as ray

The names are Ray's. A name of Ray that is missing here is missing from miniray. Each name is imported on its first use,
so a program that imports miniray without using it pays next to nothing.
"""

import importlib as _importlib

from ._version import (
    __ray_commit__ as __commit__,  # noqa: F401
    __ray_version__ as __ray_version__,
    __version__ as __version__,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any

    from . import actor, cloudpickle, exceptions, ids, runtime_env, telemetry, types, util
    from ._raylet import Language
    from .actor import method
    from .api import (
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
    from .ids import (
        ActorClassID,
        ActorID,
        ClusterID,
        FunctionID,
        JobID,
        NodeID,
        PlacementGroupID,
        TaskID,
        UniqueID,
        WorkerID,
    )
    from .object_ref import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator
    from .observe.timeline.profile import profile
    from .observe.timeline.chrome import timeline
    from .runtime_context import get_runtime_context
    from .telemetry.sql.sources import sql

    ObjectID, logger = ObjectRef, logging.getLogger("ray")

# Ray: ray._private.worker. miniray spills and restores without workers of their own; those two modes are names only.
SCRIPT_MODE, WORKER_MODE, LOCAL_MODE, SPILL_WORKER_MODE, RESTORE_WORKER_MODE = range(5)

__all__ = [
    "ActorClassID",
    "ActorID",
    "ClusterID",
    "DynamicObjectRefGenerator",
    "FunctionID",
    "JobID",
    "LOCAL_MODE",
    "Language",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "RESTORE_WORKER_MODE",
    "SCRIPT_MODE",
    "SPILL_WORKER_MODE",
    "TaskID",
    "UniqueID",
    "WORKER_MODE",
    "WorkerID",
    "actor",
    "available_resources",
    "cancel",
    "cloudpickle",
    "cluster_resources",
    "exceptions",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "ids",
    "init",
    "is_initialized",
    "kill",
    "logger",
    "method",
    "nodes",
    "profile",
    "put",
    "remote",
    "runtime_env",
    "shutdown",
    "sql",
    "telemetry",
    "timeline",
    "types",
    "util",
    "wait",
]

_HOMES = {  # each module, with the public names that it defines
    "_private": "worker",  # older programs write ray.worker.global_worker
    "_raylet": "Language ObjectID",
    "actor": "method",
    "api": "available_resources cancel cluster_resources get get_actor get_gpu_ids init is_initialized kill nodes put "
    "remote shutdown wait",
    "client_builder": "ClientBuilder client",
    "ids": "ActorClassID ActorID ClusterID FunctionID JobID NodeID PlacementGroupID TaskID UniqueID WorkerID",
    "object_ref": "DynamicObjectRefGenerator ObjectRef ObjectRefGenerator",
    "observe.timeline.profile": "profile",
    "observe.timeline.chrome": "timeline",
    "runtime_context": "get_runtime_context",
    "telemetry.sql.sources": "sql",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
# Submodules that are found as `ray.x` without an import statement of their own.
_MODULES = frozenset(
    "_common _private _raylet actor api autoscaler client_builder cloudpickle dag exceptions experimental ids "
    "job_config object_ref remote_function runtime_context runtime_env state telemetry types util".split()
)


def __getattr__(name: str) -> "Any":
    if name == "logger":  # under Ray's name, which programs also pass to getLogger; it has no handler here
        return _importlib.import_module("logging").getLogger("ray")
    if name in _MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(_importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_MODULES, "logger"})
