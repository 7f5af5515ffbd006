"""How a session starts and ends: the arguments of `init`, the nodes, and what is put in place around them."""
from __future__ import annotations

import os
from typing import Any, Callable

from .options import checks as options
from .exceptions import DeadlockError
from .object_ref import ObjectRef, dropped, is_ready
from .observe.logs import session as log_session
from .process import context, environment, guards
from .runtime.runtime import Runtime
from .process.context import current
from .runtime.core_lock import CoreLock
from .runtime.threaded import ThreadedRuntime

MEMORY_SHARE, STORE_SHARE, STORE_MOST = 0.7, 0.3, 200 * 10**9       # Ray: ray_constants.py


def with_job_config(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `init`, with those that its `job_config` stands for where they are not given themselves."""
    config = given.get("job_config")
    if config is None:
        return given
    return {**given, "namespace": given["namespace"] or config.ray_namespace,
            "runtime_env": given.get("runtime_env") or config.runtime_env or None}


def check(address: str | None, given: dict[str, Any]) -> None:
    """Refuse bad arguments of `init` as Ray does, before anything is started."""
    options.check_init(given)
    if address is not None and not isinstance(address, str):
        raise TypeError(f"'address' must be a string, not {address!r}")
    if address not in (None, "local", "auto") and _cluster_at(address) is None:
        if ":" not in address:
            raise ValueError(f"'address' must be 'local', 'auto' or a host and a port, not {address!r}")
        raise ConnectionError(
            f"miniray runs in this process only, so there is nothing to connect to at {address!r}. To run the same program on "
            "a Ray cluster: `python -m miniray run --engine ray --address ADDRESS script.py`.")


def _cluster_at(address: str) -> Any:
    from . import cluster_utils
    return cluster_utils.clusters.get(address)


def node_resources(num_cpus: float | None = None, num_gpus: float | None = None, resources: dict[str, float] | None = None,
                   memory: float | None = None, object_store_memory: int | None = None) -> tuple[dict[str, float], int]:
    """What a node has, by name, and the capacity of its store in bytes. Defaults: this machine's CPUs and Ray's shares of its
    memory."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 * 2**30
    store = int(object_store_memory) if object_store_memory is not None else min(int(total * STORE_SHARE), STORE_MOST)
    found = {"CPU": float(num_cpus if num_cpus is not None else os.cpu_count() or 1), **(resources or {}),
             "memory": float(memory if memory is not None else int((total - store) * MEMORY_SHARE)),
             "object_store_memory": float(store)}
    if num_gpus:
        found["GPU"] = float(num_gpus)
    return {name: amount for name, amount in found.items() if amount or name == "CPU"}, store


def add_node(runtime: Runtime, resources: dict[str, float], store_bytes: int, labels: dict[str, str] | None,
             is_head: bool) -> Any:
    """A node joins the session, with the marks that Ray gives a node: its address, and which is the head."""
    number = runtime.last_node + 1
    marks = {f"node:127.0.0.{number}": 1.0}
    if is_head:
        marks["node:__internal_head__"] = 1.0
    own = {"ray.io/node-id": "", **(labels or {})}
    node = runtime.add_node({**resources, **marks}, own, store_bytes, is_head)
    own["ray.io/node-id"] = node.hex
    return node


def _random_namespace() -> str:
    """In the form of a UUID, as Ray's; the module uuid asks the platform for its name first, which takes longer than to start."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def start(address: str | None, given: dict[str, Any]) -> Runtime:
    """Make the session that these arguments ask for."""
    dropped.clear()
    settings = {**given, "namespace": given["namespace"] or _random_namespace()}
    kind: type[Runtime] = ThreadedRuntime
    if given["local_mode"]:
        from .runtime.local_mode import LocalRuntime as kind        # which imports asyncio
    runtime = kind(settings, dropped)
    runtime.ref_type = ObjectRef
    runtime.stuck = lambda objects: _stuck(runtime, objects)
    cluster = _cluster_at(address) if address else None
    if cluster is not None:
        cluster.attach(runtime)
    else:
        resources, store = node_resources(given["num_cpus"], given["num_gpus"], given["resources"],
                                          given.get("_memory"), given["object_store_memory"])
        for index in range(given["num_nodes"] or 1):
            add_node(runtime, resources, store, given["labels"], index == 0)
    guards.install()
    log_session.install(runtime)
    return runtime


before_end: list[Callable[[Runtime], None]] = []     # called with a session while its tables are still full; must not raise


def end(runtime: Runtime) -> None:
    """End a session and take down what was put in place around it."""
    for look in before_end:
        look(runtime)
    try:
        runtime.shutdown()
    finally:
        log_session.uninstall(runtime)
        for forget in context.at_end:
            forget()
        guards.uninstall()
        runtime.stuck = None


def abandon(runtime: Runtime) -> None:
    """In a forked child: the session is the parent's. What it has put in place is taken down, without its workers, which are not
    here, and without its locks, which threads that are not here either may have held. Whoever holds a reference or a function of it
    is told that it has ended; a task that forked goes on as a plain program, with its environment."""
    environment.keep_what_is_seen()
    current.set(None)
    runtime.closed = True
    runtime.lock = CoreLock()
    now = runtime.now()
    runtime.cluster.session_ending(now, ())             # also for the worker that forked: when its task returns, it takes no other
    runtime.cluster.session_ended(now)                  # the actions are not carried out: nobody waits and no thread runs here
    log_session.after_fork()
    for mend in context.in_forked_child:
        mend()
    guards.uninstall()


def _stuck(runtime: Runtime, objects: list) -> None:
    """A get has waited for a while: if it can never return, say so, or raise DeadlockError where that was asked for."""
    from .observe.explain.explanation import explain_object, find_deadlock
    if runtime.nobody_else():
        raise DeadlockError("in local_mode tasks run on the threads that wait for them, and there is no other that could go on: "
                            f"{explain_object(runtime, next(obj for obj in objects if not is_ready(obj)))}")
    found = find_deadlock(runtime, objects)
    if found is None:
        return
    if runtime.options["on_deadlock"] == "raise":
        raise DeadlockError(str(found))
    runtime.say("WARNING", f"This get can never return: {found}")
