"""How a session starts and ends: `init` and `shutdown`, the nodes, and what is put in place around them.

The running session itself is `process.context.session`: code below this module reads it there.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any, Callable, Iterator, Mapping

from ._version import __ray_version__, __version__
from .exceptions import DeadlockError
from .object_ref import DynamicObjectRefGenerator, ObjectRef, dropped, is_ready
from .observe.logs import session as log_session
from .options.init_arguments import check_init
from .process import context, environment, guards
from .process.context import current
from .process.exits import SessionEnded
from .runtime.core_lock import CoreLock
from .runtime.runtime import Runtime
from .runtime.threaded import ThreadedRuntime

MEMORY_SHARE, STORE_SHARE, STORE_MOST = 0.7, 0.3, 200 * 10**9  # Ray: ray_constants.py


clusters: dict[str, Any] = {}  # each `cluster_utils.Cluster` by its address, until it is shut down
_starting = threading.RLock()  # held while a session starts or ends, and so guards `context.session`


class RayContext(Mapping[str, Any]):
    """What `init` returns: facts about the session, as attributes and as a mapping, and a context manager that shuts it down."""

    def __init__(self, runtime: Runtime):
        self._runtime = runtime
        self.dashboard_url = ""
        self.python_version = ".".join(map(str, sys.version_info[:3]))
        self.ray_version, self.ray_commit = __ray_version__, f"miniray-{__version__}"
        self.address_info = {
            "node_ip_address": "127.0.0.1",
            "node_id": runtime.head.hex,
            "address": "127.0.0.1:0",
            "gcs_address": "127.0.0.1:0",
            "object_store_address": "",
            "raylet_socket_name": "",
            "session_dir": "",
            "webui_url": "",
            "raylet_ip_address": "127.0.0.1",
            "redis_address": None,
            "metrics_export_port": 0,
        }

    def __getitem__(self, key: str) -> Any:
        return self.address_info[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.address_info)

    def __len__(self) -> int:
        return len(self.address_info)

    def disconnect(self) -> None:
        """Shut the session down, if it is still the running one."""
        if context.session is self._runtime:
            shutdown()

    def __enter__(self) -> "RayContext":
        return self

    def __exit__(self, *error: object) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        facts = ("dashboard_url", "python_version", "ray_version", "ray_commit")
        return f"RayContext({', '.join(f'{name}={getattr(self, name)!r}' for name in facts)})"


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: int | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    log_to_driver: bool = True,
    namespace: str | None = None,
    num_nodes: int = 1,
    on_deadlock: str = "log",
    **kwargs: Any,
) -> RayContext:
    """Start a session. Usable as a context manager that shuts it down.

    address: None, "local" or "auto"; that of a `cluster_utils.Cluster` joins it. num_cpus, num_gpus, resources, labels,
    object_store_memory (bytes): of the head node, or of each of `num_nodes` nodes. local_mode: run every task at once on the
    thread that submits it. namespace: of named actors; a fresh one by default. on_deadlock: "log", or "raise" for DeadlockError
    from a get that can never return. Ray's other arguments are accepted where their effect could not be seen here.

    Raises RuntimeError when a session runs already (unless ignore_reinit_error) and for an unknown argument; TypeError and
    ValueError for bad values; ConnectionError for an address that nothing here answers. A refused call starts nothing.
    """
    given = {
        "num_cpus": num_cpus,
        "num_gpus": num_gpus,
        "resources": resources,
        "labels": labels,
        "object_store_memory": object_store_memory,
        "local_mode": local_mode,
        "log_to_driver": log_to_driver,
        "namespace": namespace,
        "num_nodes": num_nodes,
        "on_deadlock": on_deadlock,
        **kwargs,
    }
    with _starting:
        if context.session is not None:
            check_init(dict.fromkeys(kwargs))  # unknown names are refused before anything else, as in Ray
            if ignore_reinit_error:
                return RayContext(context.session)
            raise RuntimeError(
                "Maybe you called ray.init twice by accident? This error can be suppressed by passing in "
                "'ignore_reinit_error=True' or by calling 'ray.shutdown()' prior to 'ray.init()'."
            )
        given = with_job_config(given)
        check(address, given)
        context.session = start(address, given)
        return RayContext(context.session)


def is_initialized() -> bool:
    """Whether a session runs."""
    return context.session is not None


def session_or_start() -> Runtime:
    """The running session; the first use starts one."""
    runtime = context.session
    if runtime is None:
        if current.get() is not None:  # its session has ended under it
            raise SessionEnded
        ending = context.exit_of_the_program()
        if ending is not None:
            raise ending
        with _starting:
            if context.session is None:
                init()
            runtime = context.session
    return runtime


def shutdown(_exiting_interpreter: bool = False) -> None:
    """End the session: everything of it goes, its threads end. Without a session, and inside a task, it does nothing."""
    if current.get() is not None:
        return
    with _starting:
        runtime, context.session = context.session, None
        if runtime is not None:
            end(runtime)


atexit.register(shutdown)


def _after_fork() -> None:
    """In a forked child there are no worker threads: it starts without a session."""
    global _starting
    runtime, context.session, _starting = context.session, None, threading.RLock()
    dropped.clear()
    if runtime is not None:
        abandon(runtime)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ---------------------------------------------------------------- what init does


def with_job_config(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `init`, with those that its `job_config` stands for where they are not given themselves."""
    config = given.get("job_config")
    if config is None:
        return given
    return {
        **given,
        "namespace": given["namespace"] or config.ray_namespace,
        "runtime_env": given.get("runtime_env") or config.runtime_env or None,
    }


def check(address: str | None, given: dict[str, Any]) -> None:
    """Refuse bad arguments of `init` as Ray does, before anything is started."""
    check_init(given)
    if address is not None and not isinstance(address, str):
        raise TypeError(f"'address' must be a string, not {address!r}")
    if address not in (None, "local", "auto") and clusters.get(address) is None:
        if ":" not in address:
            raise ValueError(f"'address' must be 'local', 'auto' or a host and a port, not {address!r}")
        raise ConnectionError(
            f"miniray runs in this process only, so there is nothing to connect to at {address!r}. To run the same program on "
            "a Ray cluster: `python -m miniray run --engine ray --address ADDRESS script.py`."
        )


def node_resources(
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    memory: float | None = None,
    object_store_memory: int | None = None,
) -> tuple[dict[str, float], int]:
    """What a node has, by name, and the capacity of its store in bytes. Defaults: this machine's CPUs and Ray's shares of its
    memory."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 * 2**30
    store = int(object_store_memory) if object_store_memory is not None else min(int(total * STORE_SHARE), STORE_MOST)
    found = {
        "CPU": float(num_cpus if num_cpus is not None else os.cpu_count() or 1),
        **(resources or {}),
        "memory": float(memory if memory is not None else int((total - store) * MEMORY_SHARE)),
        "object_store_memory": float(store),
    }
    if num_gpus:
        found["GPU"] = float(num_gpus)
    return {name: amount for name, amount in found.items() if amount or name == "CPU"}, store


def add_node(
    runtime: Runtime, resources: dict[str, float], store_bytes: int, labels: dict[str, str] | None, is_head: bool
) -> Any:
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
        from .runtime.local_mode import LocalRuntime as kind  # which imports asyncio
    runtime = kind(settings, dropped)
    runtime.ref_type, runtime.dynamic_type = ObjectRef, DynamicObjectRefGenerator
    runtime.stuck = lambda objects: _stuck(runtime, objects)
    cluster = clusters.get(address) if address else None
    if cluster is not None:
        cluster.attach(runtime)
    else:
        resources, store = node_resources(
            given["num_cpus"], given["num_gpus"], given["resources"], given.get("_memory"), given["object_store_memory"]
        )
        for index in range(given["num_nodes"] or 1):
            add_node(runtime, resources, store, given["labels"], index == 0)
    guards.install()
    log_session.install(runtime)
    return runtime


before_end: list[
    Callable[[Runtime], None]
] = []  # called with a session while its tables are still full; must not raise


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
    runtime.cluster.session_ending(now, ())  # also for the worker that forked: when its task returns, it takes no other
    runtime.cluster.session_ended(now)  # the actions are not carried out: nobody waits and no thread runs here
    log_session.after_fork()
    for mend in context.in_forked_child:
        mend()
    guards.uninstall()


def _stuck(runtime: Runtime, objects: list) -> None:
    """A get has waited for a while: if it can never return, say so, or raise DeadlockError where that was asked for."""
    from .observe.explain.explanation import explain_object, find_deadlock

    if runtime.nobody_else():
        raise DeadlockError(
            "in local_mode tasks run on the threads that wait for them, and there is no other that could go on: "
            f"{explain_object(runtime, next(obj for obj in objects if not is_ready(obj)))}"
        )
    found = find_deadlock(runtime, objects)
    if found is None:
        return
    if runtime.options["on_deadlock"] == "raise":
        raise DeadlockError(str(found))
    runtime.say("WARNING", f"This get can never return: {found}")
