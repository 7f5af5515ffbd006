"""Tools built on tasks and actors: pools, queues, placement groups, and helpers for serialization. Ray: ray.util.

Submodules that import more than that, such as asyncio or multiprocessing, are imported on first use.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from miniray.api import init, list_named_actors
from miniray.runtime_context import get_node_ip_address
from miniray.values.inspect_serializability import inspect_serializability
from miniray.values.serialization import deregister_serializer, register_serializer

from .actor_pool import ActorPool
from .helpers import as_completed, map_unordered

# As in Ray, the function hides the module of the same name. `from miniray.util.placement_group import ...` still finds
# the module. Since the module is imported by now, no later import sets this name to the module again.
from .placement_group import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

__all__ = [
    "ActorPool",
    "as_completed",
    "deregister_serializer",
    "get_current_placement_group",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "map_unordered",
    "placement_group",
    "placement_group_table",
    "register_serializer",
    "remove_placement_group",
]

del annotations  # left behind by `from __future__ import annotations`: here it is the name of a submodule
_ON_FIRST_USE = frozenset(
    {
        "accelerators",
        "annotations",
        "check_serialize",
        "client",
        "debug",
        "metrics",
        "multiprocessing",
        "queue",
        "rpdb",
        "scheduling_strategies",
        "serialization",
        "state",
        "tracing",
    }
)
# On Ray these need an import statement of their own. Under the alias they need one here, too.
_IMPORTED_FIRST = frozenset({"metrics", "multiprocessing", "queue", "state"})


def get_node_instance_id() -> str:
    """Return the id that a cloud gives to this machine; "" outside of one."""
    return os.environ.get("RAY_CLOUD_INSTANCE_ID", "")


def connect(conn_str: str, **kwargs: Any) -> Any:
    """An older way to write `init("ray://HOST:PORT")`. Raises the ConnectionError of `init`."""
    return init(f"ray://{conn_str}")


def disconnect() -> None:
    """Do nothing: `connect` never connects to a cluster."""


def __getattr__(name: str) -> Any:
    if name in ("log_once", "disable_log_once_globally", "enable_periodic_logging"):
        return getattr(importlib.import_module(f"{__name__}.debug"), name)
    if name == "pdb":
        name = "rpdb"
    if name in _IMPORTED_FIRST and sys.modules.get("ray") is sys.modules["miniray"]:
        raise AttributeError(f"module 'ray.util' has no attribute {name!r} before `import ray.util.{name}`")
    if name in _ON_FIRST_USE:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
