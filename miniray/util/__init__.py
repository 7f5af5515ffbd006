"""What is built on tasks and actors: pools, queues, placement groups, and help with values. Ray: ray.util.

Submodules that need more than that (asyncio, multiprocessing) are imported when they are first asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

from miniray.api import init, list_named_actors
from miniray.process.context import current
from miniray.values.inspect_serializability import inspect_serializability
from miniray.values.serialization import deregister_serializer, register_serializer

from .actor_pool import ActorPool
from .helpers import as_completed, map_unordered

# The function takes the name of its module, as in Ray. `from miniray.util.placement_group import ...` finds the module
# all the same, and as that is imported by now, nobody will set the name to the module again.
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

del annotations  # what the first line has left behind: here the name is a submodule's
_WHEN_ASKED_FOR = frozenset(
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
    }
)


def get_node_ip_address() -> str:
    """The address of the node that the caller runs on: the "NodeManagerAddress" of that node in `nodes()`."""
    execution = current.get()
    return "127.0.0.1" if execution is None else execution.worker.node.name


def connect(conn_str: str, **kwargs: Any) -> Any:
    """Ray Client's older spelling of `init("ray://HOST:PORT")`: a ConnectionError that says how to run on a cluster."""
    return init(f"ray://{conn_str}")


def disconnect() -> None:
    """Part from the cluster that `connect` has found, of which there is none."""


def __getattr__(name: str) -> Any:
    if name in ("log_once", "disable_log_once_globally", "enable_periodic_logging"):
        return getattr(importlib.import_module(f"{__name__}.debug"), name)
    if name == "pdb":
        name = "rpdb"
    if name in _WHEN_ASKED_FOR:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
