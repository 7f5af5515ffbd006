"""The arguments of `init`: a table of what each does in miniray, and their checks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from .known_options import did_you_mean
from .runtime_env_fields import normalised
from .telling import tell_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Every keyword of Ray's `init`, and what it does in miniray. "" means that the keyword is accepted and has no effect,
# so that programs need not change; a value that asks for something is told once, by a warning.
INIT_PARAMETERS: dict[str, str] = {
    "address": 'None or "local" starts a session; the address of a running session connects to it',
    "num_cpus": "CPUs of the head node; by default those of the machine",
    "num_gpus": "GPUs of the head node; by default none",
    "resources": "custom resources of the head node",
    "labels": "labels of the head node",
    "object_store_memory": "capacity of the head node's object store, in bytes",
    "local_mode": "run every task on the caller's thread (deprecated in Ray)",
    "ignore_reinit_error": "do nothing if a session is running",
    "include_dashboard": "",
    "dashboard_host": "",
    "dashboard_port": "",
    "job_config": "its namespace, runtime environment and metadata",
    "configure_logging": "whether to set the level of the package's logger",
    "logging_level": "level of the package's logger",
    "logging_format": "",
    "logging_config": "if given, the driver does not print what tasks log",
    "log_to_driver": "whether the driver prints what tasks print",
    "namespace": "where the job's named actors are looked up",
    "runtime_env": "default runtime environment of the job's tasks and actors",
    "enable_resource_isolation": "",
    "cgroup_path": "",
    "system_reserved_cpu": "",
    "system_reserved_memory": "",
    "proxy_server_url": "",
    # Keywords that Ray accepts without listing them in its signature.
    "object_spilling_directory": "the folder to which objects are spilled",
    "_memory": "the memory that tasks and actors can ask for, in bytes",
    "_temp_dir": "where the session keeps its files; an absolute path",
    "_node_name": "",
    "_system_config": "",
    "_enable_object_reconstruction": "",
    "_plasma_directory": "",
    "_node_ip_address": "",
    "_driver_object_store_memory": "",
    "_redis_username": "",
    "_redis_password": "",
    "_metrics_export_port": "",
    "_tracing_startup_hook": "'module:function', called once before the session starts; then calls are spans",
    "_skip_env_hook": "",
    # Not in Ray.
    "runtime": '"threaded" or "simulated"',
    "seed": "decides every schedule and every random number of a simulated session",
    "num_nodes": "number of nodes in all, each with the resources of the head node",
    "on_deadlock": '"raise": a get that can never return raises DeadlockError; "log": it logs a warning and waits',
    "telemetry": "the file into which the session is recorded, or a TelemetryConfig",
}

_MOST_OF_A_RESOURCE = 1e14


def check_init(arguments: Mapping[str, Any]) -> None:
    """Check the arguments of `init` before anything is started, and raise what Ray's `init` raises.

    An argument that is None counts as not given, except logging_level, for which None is a TypeError. Raises:
    RuntimeError for an unknown keyword; TypeError for a namespace that is not a string, for a num_gpus or
    object_store_memory that is not a number, and for other wrong types; AssertionError for any other amount that is not
    a number, and for "CPU", "GPU", "memory" or "object_store_memory" among the custom resources; AttributeError for
    resources, labels or a runtime_env that is not a dict; ValueError for an empty namespace, a resource amount that is
    negative, above 1e14 or not a whole number (only requests may be fractions), an unknown logging level, and a
    relative _temp_dir.

    Ray also refuses an object store below 75 MiB. In miniray it may be as small as an example needs.
    """
    refuse_unknown(arguments)
    given = {name: value for name, value in arguments.items() if value is not None}
    if arguments.get("logging_level", "INFO") is None:
        raise TypeError("logging_level must be a level of the logging module, not None")
    _check_other_arguments(given)
    _check_amounts(given)
    for name, effect in INIT_PARAMETERS.items():
        if not effect and given.get(name):
            tell_once(f"the argument {name!r} of init")


def refuse_unknown(arguments: Iterable[str]) -> None:
    """Raise RuntimeError if there is no argument of one of these names."""
    unknown = [name for name in arguments if name not in INIT_PARAMETERS]
    if unknown:
        raise RuntimeError(
            f"init has no argument {', '.join(unknown)}. The arguments are: {', '.join(INIT_PARAMETERS)}."
            + did_you_mean(unknown[0], INIT_PARAMETERS)
        )


def _check_other_arguments(given: Mapping[str, Any]) -> None:
    namespace = given.get("namespace", "default")
    if not isinstance(namespace, str):
        raise TypeError(f"namespace must be a string or None, not {namespace!r}")
    if namespace == "":
        raise ValueError("a namespace cannot be an empty string; use None for a new one")
    runtime_env = given.get("runtime_env")
    if runtime_env and not isinstance(runtime_env, dict):
        raise AttributeError(f"runtime_env must be a dict, not {runtime_env!r}")
    normalised(runtime_env or {})
    level = given.get("logging_level")
    if isinstance(level, str):
        import logging  # only for its levels

        if not isinstance(logging.getLevelName(level.upper()), int):
            raise ValueError(f"logging_level must be a level of the logging module, not {level!r}")
    if not isinstance(given.get("logging_format", ""), str):
        raise TypeError(f"logging_format must be a string, not {given['logging_format']!r}")
    if not isinstance(given.get("_system_config", {}), dict):
        raise TypeError(f"_system_config must be a dict, not {given['_system_config']!r}")
    directory = given.get("_temp_dir", os.sep)
    if not isinstance(directory, (str, os.PathLike)):
        raise TypeError(f"_temp_dir must be a path, not {directory!r}")
    if not os.path.isabs(directory):
        raise ValueError(f"_temp_dir must be an absolute path, not {directory!r}")
    if given.get("runtime", "threaded") not in ("threaded", "simulated"):
        raise ValueError(f"runtime takes 'threaded' or 'simulated', not {given['runtime']!r}")
    seed = given.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"seed must be a whole number, not {seed!r}")
    if given.get("runtime", "threaded") != "simulated" and "seed" in given:
        raise ValueError(f"seed={seed!r} has no effect without runtime='simulated'")
    if given.get("runtime") == "simulated" and given.get("local_mode"):
        raise ValueError("runtime='simulated' and local_mode=True cannot be given together")
    if given.get("on_deadlock", "log") not in ("log", "raise"):
        raise ValueError(f"on_deadlock takes 'log' or 'raise', not {given['on_deadlock']!r}")
    if not isinstance(given.get("num_nodes", 1), int) or given.get("num_nodes", 1) < 1:
        raise ValueError(f"num_nodes must be a whole number, at least 1, not {given['num_nodes']!r}")


def _check_amounts(given: Mapping[str, Any]) -> None:
    custom = given.get("resources") or {}
    if not isinstance(custom, dict):
        raise AttributeError(f"resources must be a dict from each name to its amount, not {custom!r}")
    for name in "CPU", "GPU", "memory", "object_store_memory":
        assert name not in custom, f"{name!r} cannot be given in 'resources': init has an argument for it"
    if "node:__internal_head__" in custom:
        raise ValueError("'node:__internal_head__' is the head node's own resource and cannot be given")
    labels = given.get("labels") or {}
    if not isinstance(labels, dict):
        raise AttributeError(f"labels must be a dict of strings, not {labels!r}")
    for name in "num_gpus", "object_store_memory", "_memory":
        if not isinstance(given.get(name, 0), (int, float)):
            raise TypeError(f"{name} must be a number, not {given[name]!r}")
    amounts = {"num_cpus": given.get("num_cpus", 0), "num_gpus": given.get("num_gpus", 0), **custom}
    for name, amount in amounts.items():
        assert isinstance(amount, (int, float)), f"the amount of {name} must be a number, not {amount!r}"
        if isinstance(amount, float) and not amount.is_integer():
            raise ValueError(f"the amount of {name} on a node must be a whole number, not {amount}")
    for name, amount in [
        *amounts.items(),
        ("object_store_memory", given.get("object_store_memory", 0)),
        ("_memory", given.get("_memory", 0)),
    ]:
        if amount < 0:
            raise ValueError(f"the amount of {name} cannot be negative, but it is {amount}")
        if amount > _MOST_OF_A_RESOURCE:
            raise ValueError(f"the amount of {name} must be at most {_MOST_OF_A_RESOURCE:g}, not {amount}")
