"""How a session starts and ends: `init`, `shutdown`, the nodes, and the hooks that are installed while a session runs.

The running session itself is in `process.context.session`, where the layers below this module can read it.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Mapping

from ._version import __ray_version__, __version__
from .exceptions import DeadlockError
from .core.records import amounts
from .object_ref import DynamicObjectRefGenerator, ObjectRef, dropped, is_ready
from .observe.logs import session as log_session
from .options.init_arguments import check_init, refuse_unknown
from .options.runtime_env_fields import normalised
from .process import accelerators, context, doorbell, environment, guards, imports, signal_handlers, trace_context
from .process.context import current, in_turn
from .process.held_signals import HeldSignals
from .process.worker_process import caller
from .runtime.waiting import session_over
from .runtime.runtime import Runtime
from .runtime.threaded import ThreadedRuntime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

MEMORY_SHARE, STORE_SHARE, STORE_MOST = 0.7, 0.3, 200 * 10**9  # Ray: ray_constants.py

SIMULATED_CPUS = 4  # a run must not depend on the machine
clusters: dict[str, Any] = {}  # each `cluster_utils.Cluster` by its address, until its shutdown
_starting = threading.RLock()  # held while a session starts or ends: guards every change of `context.session`


class RayContext(Mapping[str, "Any"]):
    """The result of `init`: a context manager that shuts the session down, and facts about it.

    `dashboard_url`, `python_version`, `ray_version`, `ray_commit` and `address_info` are attributes. As a mapping, it
    has the items of `address_info`. The keys are Ray's; nothing listens at the addresses.

    A copy that was sent to a task, or came from one, belongs to the session that runs where it arrives.
    """

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
        """Shut the session down, unless it has already ended."""
        if context.session is self._runtime:
            shutdown()

    def __reduce__(self) -> tuple[Any, ...]:
        # The runtime stays behind: it has locks and threads.
        return _arrived, (), {name: value for name, value in vars(self).items() if name != "_runtime"}

    def __enter__(self) -> "RayContext":
        return self

    def __exit__(self, *error: object) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        facts = ("dashboard_url", "python_version", "ray_version", "ray_commit")
        return f"RayContext({', '.join(f'{name}={getattr(self, name)!r}' for name in facts)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the versions, and what the session has."""
        from .observe import notebook  # only a notebook needs it

        shown: dict[str, str] = {
            "Python version": self.python_version,
            "Ray version": self.ray_version,
            "miniray": __version__,
        }
        with self._runtime.locked() as cluster:
            total: dict[str, float] = {}
            for node in cluster.scheduler.alive:
                for name, amount in amounts(node.total).items():
                    total[name] = total.get(name, 0.0) + amount
        running = context.session is self._runtime
        shown["session"] = ", ".join(f"{amount:g} {name}" for name, amount in total.items()) if running else "has ended"
        return notebook.facts(shown)


def _arrived() -> RayContext:
    """An empty RayContext of the running session, if there is one. Pickle sets its attributes."""
    made = RayContext.__new__(RayContext)
    made._runtime = context.session
    return made


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
    runtime: str = "threaded",
    seed: int | None = None,
    telemetry: Any = None,
    **kwargs: Any,
) -> RayContext:
    """Start a session.

        ray.init(num_cpus=4)

        with ray.init(num_cpus=4, on_deadlock="raise"):
            ...                 # shut down at the end of the block

    Without it, the first `.remote()`, `put` or `get` starts a session with the defaults. Only one session can run at a
    time. It ends with `shutdown`, or with the program.

    Args:
        address: None, "local" or "auto" start a session in this process. The address of a `cluster_utils.Cluster`
            connects to it.
        num_cpus: CPUs of each node; by default those of this machine. They limit how many tasks run at the same time.
        num_gpus: GPUs of each node. Whether they exist is not checked; a task that asks for one is told its index.
        resources: amounts of further resources of each node, by name.
        labels: labels of each node.
        object_store_memory: bytes that each node's object store holds before it spills to files.
        local_mode: run each task at once, on the thread that submits it.
        ignore_reinit_error: if a session is running, return its context instead of raising.
        log_to_driver: print the output of tasks and actors, with a prefix that names its source.
        namespace: the namespace of named actors; by default a new one for each session.
        num_nodes: how many identical nodes to start. The first is the head. (Not in Ray.)
        on_deadlock: when a `get` can never return, "log" a warning, or "raise" DeadlockError from it. (Not in Ray.)
        runtime: "threaded", or "simulated": one thread runs at a time, the seed decides which, and the clock is
            virtual (see `miniray.testing.simulate`). (Not in Ray.)
        seed: of a simulated session, 0 by default. A session that starts inside `simulate` or `explore` has the seed
            of its run. (Not in Ray.)
        telemetry: the name of a file into which the session is recorded, or a `telemetry.TelemetryConfig`, which may
            also export it. None asks the environment variables MINIRAY_TELEMETRY and MINIRAY_OTLP; False does
            neither. (Not in Ray.)
        **kwargs: Ray's other arguments, such as runtime_env. Those that can have no effect here are accepted and
            checked.

    Returns:
        A RayContext: a context manager that shuts the session down, with facts about the session.

    Raises:
        RuntimeError: a session is running already and `ignore_reinit_error` is False, or an argument is unknown.
        TypeError, ValueError: an argument has a bad value.
        ConnectionError: `address` names a cluster outside this process.

    A call that raises starts nothing.
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
        "runtime": runtime,
        "seed": seed,
        "telemetry": telemetry,
        **kwargs,
    }
    if address is not None and not isinstance(address, str):
        raise TypeError(f"'address' must be a string, not {address!r}")
    simulation = context.simulation  # it may end meanwhile, if this thread takes no part in it
    if simulation is not None:
        simulation.must_take_part()
    with in_turn(_starting), _starting:
        if context.session is not None:
            refuse_unknown(kwargs)  # before anything else, as in Ray, which does not look at the values
            if ignore_reinit_error:
                return RayContext(context.session)
            raise RuntimeError(
                "Maybe you called ray.init twice by accident? This error can be suppressed by passing in "
                "'ignore_reinit_error=True' or by calling 'ray.shutdown()' prior to 'ray.init()'."
            )
        given = with_job_config(given)
        check(address, given)
        given["runtime_env"] = normalised(given.get("runtime_env") or {}) or None
        recording = _recording(given)
        exporting = _exporting(recording)
        _configure(given)
        signals = HeldSignals()
        try:
            signals.hold()  # they could come while the core's lock is taken, before ours is in front of their handlers
            context.session = start(address, given)
        finally:
            signals.release()
        if recording is not None:
            _record(context.session, recording, exporting)
        for started in after_start:
            started(context.session)
        return RayContext(context.session)


def is_initialized() -> bool:
    """Whether a session is running."""
    return context.session is not None


def session_or_start() -> Runtime:
    """The running session. If there is none, it starts one with the defaults of `init`.

    A task whose session has ended does not start another: this raises what `session_over` returns.
    """
    runtime: Runtime | None = context.session
    if runtime is None:
        if caller() is not None:
            raise session_over()
        ending = context.exit_of_the_program()
        if ending is not None:
            raise ending
        with in_turn(_starting), _starting:
            if context.session is None:
                init()
            runtime = context.session
    return runtime


def shutdown(_exiting_interpreter: bool = False) -> None:
    """End the session: its tasks, actors and objects are gone, and its threads end.

    References and handles of the session become invalid: using one raises an error that says so. Does nothing if no
    session is running, and inside a task. A program that ends calls it automatically. `_exiting_interpreter` is
    accepted as in Ray.
    """
    if caller() is not None:
        return
    simulation = context.simulation
    if simulation is not None and context.session is not None:
        simulation.must_take_part_to_end()
    with in_turn(_starting), _starting:
        runtime, context.session = context.session, None
        if runtime is not None:
            end(runtime)


atexit.register(shutdown)


def _after_fork() -> None:
    """Runs in a forked child. A fork copies no worker threads, so the child starts without a session."""
    global _starting
    imports.after_fork_in_child()
    runtime, context.session, _starting = context.session, None, threading.RLock()
    dropped.clear()
    if runtime is not None:
        abandon(runtime)
    signal_handlers.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=imports.before_fork, after_in_child=_after_fork)


# ---------------------------------------------------------------- the steps of init


def with_job_config(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `init`, completed from its `job_config` where they were not given themselves."""
    config = given.get("job_config")
    if config is None:
        return given
    return {
        **given,
        "namespace": given["namespace"] or config.ray_namespace,
        "runtime_env": given.get("runtime_env") or config.runtime_env or None,
    }


def check(address: str | None, given: dict[str, Any]) -> None:
    """Raise Ray's errors for bad arguments of `init`. Nothing has been started yet."""
    check_init(given)
    accelerators.check_visible({**(given["resources"] or {}), "GPU": given["num_gpus"]}, os.environ)
    if address not in (None, "local", "auto") and clusters.get(address) is None:
        if ":" not in address:
            raise ValueError(f"'address' must be 'local', 'auto' or a host and a port, not {address!r}")
        raise ConnectionError(
            f"miniray runs in this process only, so there is nothing to connect to at {address!r}. To run the same "
            "program on a Ray cluster: `python -m miniray run --engine ray --address ADDRESS script.py`."
        )
    if clusters.get(address or "") is not None and given.get("_system_config"):
        raise ValueError("When connecting to a cluster, _system_config must not be given: pass it to its head node.")


def _configure(given: dict[str, Any]) -> None:
    """Set the level of the package's logger, and call the program's tracing hook, which may raise anything.

    Raises what `telemetry.tracing.startup.run_hook` raises.
    """
    level = given.get("logging_level")
    if level is not None and given.get("configure_logging", True):
        import logging  # only for its level

        logging.getLogger(__package__).setLevel(level.upper() if isinstance(level, str) else level)
    if given.get("_tracing_startup_hook"):
        from .telemetry.tracing.startup import run_hook

        run_hook(given["_tracing_startup_hook"])


def _recording(given: dict[str, Any]) -> Any:
    """What to record and export, as a TelemetryConfig; None for nothing. Raises TypeError and ValueError for bad
    settings.

    The environment's variables do not concern the sessions of a simulation: a search through schedules runs thousands
    of them.
    """
    telemetry = given.get("telemetry")
    asked = os.environ.get("MINIRAY_TELEMETRY") or os.environ.get("MINIRAY_OTLP")
    if telemetry is None and (not asked or context.simulation is not None):
        return None
    from .telemetry.config import config_of

    return config_of(telemetry, os.environ)


def _exporting(recording: Any) -> Any:
    """Where to export to, as the exporter's Settings; None for nowhere. Raises ValueError for a bad endpoint."""
    if recording is None or not recording.otlp:
        return None
    from .telemetry.export.settings import settings_of

    return settings_of(os.environ, recording.otlp if isinstance(recording.otlp, str) else None)


def _record(runtime: Runtime, recording: Any, exporting: Any) -> None:
    """Begin to record and to export a session. Imports only what it needs."""
    if recording.path is not None:
        try:
            from .telemetry.recording import recorder
        except ImportError as problem:  # a Python that was built without SQLite
            import logging  # only for a warning

            logging.getLogger(__package__).warning("This session is not recorded: %s.", problem)
        else:
            recorder.start(runtime, recording)
    if exporting is not None:
        from .telemetry.export import exporter

        exporter.start(runtime, exporting)


def node_resources(
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    memory: float | None = None,
    object_store_memory: int | None = None,
) -> tuple[dict[str, float], int]:
    """The resources of a node by name, and the capacity of its object store in bytes.

    memory, object_store_memory: bytes. The defaults are this machine's CPUs, and Ray's shares of its memory.
    """
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
    """Add a node to the session and return its record.

    As in Ray, a node also gets resources that only mark it, one with its address and one for the head, and its id as a
    label.
    """
    number = runtime.last_node + 1
    marks = {f"node:127.0.0.{number}": 1.0}
    if is_head:
        marks["node:__internal_head__"] = 1.0
    own = {"ray.io/node-id": "", **(labels or {})}
    node = runtime.add_node({**resources, **marks}, own, store_bytes, is_head)
    own["ray.io/node-id"] = node.hex
    return node


def _random_namespace() -> str:
    """A namespace in the form of a UUID, as in Ray.

    Importing the module uuid would take longer than starting a session.
    """
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def start(address: str | None, given: dict[str, Any]) -> Runtime:
    """Create the runtime, the nodes and the hooks for these arguments of `init`. `_starting` is held."""
    dropped.clear()
    settings = {**given, "namespace": given["namespace"] or _random_namespace()}
    kind: type[Runtime] = ThreadedRuntime
    if given["local_mode"]:
        from .runtime.local_mode import LocalRuntime as kind  # not at the top, since it imports asyncio
    if given["runtime"] == "simulated" or context.simulation is not None and not given["local_mode"]:
        runtime = _simulated(settings)
    else:
        runtime = kind(settings, dropped)
    runtime.ref_type, runtime.dynamic_type = ObjectRef, DynamicObjectRefGenerator
    runtime.stuck = lambda objects: _stuck(runtime, objects)
    cluster = clusters.get(address) if address else None
    if cluster is not None:
        cluster.attach(runtime)
    else:
        cpus = given["num_cpus"]
        if cpus is None and context.simulation is not None:
            cpus = SIMULATED_CPUS
        resources, store = node_resources(
            cpus, given["num_gpus"], given["resources"], given.get("_memory"), given["object_store_memory"]
        )
        for index in range(given["num_nodes"] or 1):
            add_node(runtime, resources, store, given["labels"], index == 0)
    guards.install(runtime.lock)
    doorbell.install(_answer)
    log_session.install(runtime)
    _trace(runtime, bool(given.get("_tracing_startup_hook")))
    return runtime


def _trace(runtime: Runtime, hooked: bool) -> None:
    """Trace a new session if the program has used tracing before. hooked: it was started with a tracing hook."""
    if hooked or "opentelemetry.trace" in sys.modules:
        from .telemetry.tracing.bridge import connect

        connect(runtime, hooked)
    elif trace_context.in_use:
        from .telemetry.tracing.own_spans import tracing_of

        tracing_of(runtime)


def _answer() -> None:
    """On a thread of its own: answer a question about the session from outside, as `miniray stack PID` does."""
    from .telemetry import stack_socket

    stack_socket.answer()


def _simulated(settings: dict[str, Any]) -> Runtime:
    """A runtime of the simulation that runs; of a new one, which ends with the session, if none runs."""
    from .runtime.simulated import schedules
    from .runtime.simulated.runtime import SimulatedRuntime
    from .runtime.simulated.simulation import Simulation

    own = context.simulation is None
    seed = settings["seed"] or 0
    simulation = context.simulation or Simulation(seed, schedules.RandomWalk(seed))
    runtime: Any = SimulatedRuntime(settings, dropped, simulation)
    runtime.ends_simulation = own
    runtime.why_stuck = lambda objects: _why(runtime, objects)
    started: Runtime = runtime
    return started


def _why(runtime: Runtime, objects: list[Any]) -> str:
    """Why these objects will never be ready, for a DeadlockError; "" if that is not known."""
    from .observe.explain.explanation import find_deadlock

    found = find_deadlock(runtime, objects)
    return "" if found is None else str(found)


before_end: list[
    Callable[[Runtime], None]
] = []  # called with a session that is about to end, while its tables are still full; must not raise


after_start: list[
    Callable[[Runtime], None]
] = []  # called with a new session, on the thread that has called `init`; must not raise
on_stuck: list[
    Callable[[Runtime], None]
] = []  # called by a thread whose `get` can never return, before it is logged or raised; must not raise


def end(runtime: Runtime) -> None:
    """End a session and remove its hooks. `_starting` is held."""
    for look in before_end:
        look(runtime)
    try:
        for recorder in runtime.recorders:
            recorder.finish()  # while the tables are still full
    finally:
        _shut_down(runtime)


def _shut_down(runtime: Runtime) -> None:
    try:
        runtime.shutdown()
    finally:
        log_session.uninstall(runtime)
        for forget in context.at_end:
            forget()
        doorbell.uninstall()
        guards.uninstall(runtime.lock)
        runtime.stuck = None
        simulation = context.simulation
        if simulation is not None and getattr(runtime, "ends_simulation", False):
            simulation.close()


def abandon(runtime: Runtime) -> None:
    """In a forked child, mark the parent's session as ended and remove its hooks.

    The child has neither the session's workers nor the other threads that may have held its locks. So nothing is waited
    for, and the core's lock has been replaced already (see `core_lock`). References and functions of the session report
    that it has ended. If a task called fork, the child continues as a plain program with the task's environment.
    """
    environment.keep_what_is_seen()
    current.set(None)
    runtime.closed = True
    now = runtime.now()
    runtime.cluster.session_ending(now, ())  # also stops the worker that forked: after its task, it takes no other
    runtime.cluster.session_ended(now)  # its actions are not carried out: no thread is left that waits or runs
    log_session.after_fork()
    for repair in context.in_forked_child:
        repair()
    doorbell.uninstall()
    guards.uninstall(runtime.lock)


def _stuck(runtime: Runtime, objects: list[Any]) -> None:
    """Called when a `get` of these objects has waited for a while. If it can never return, log a warning, or raise
    DeadlockError if the session was started with on_deadlock="raise"."""
    from .observe.explain.explanation import explain_object, find_deadlock

    if runtime.nobody_else():
        raise DeadlockError(
            "in local_mode a task runs on the thread that waits for it, and no other thread is left to make progress: "
            f"{explain_object(runtime, next(obj for obj in objects if not is_ready(obj)))}"
        )
    found = find_deadlock(runtime, objects)
    if found is None:
        return
    for told in on_stuck:
        told(runtime)
    if runtime.options["on_deadlock"] == "raise":
        raise DeadlockError(str(found))
    runtime.say("WARNING", f"This get can never return: {found}")
