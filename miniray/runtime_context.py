"""get_runtime_context: facts that a driver, a task or an actor can ask about itself. Ray: ray.runtime_context."""

from __future__ import annotations

from collections.abc import Callable

from .actor import ActorHandle, weak_handle
from .core.records import ACCELERATORS, amounts
from .ids import JOB_HEX, ActorID, JobID, NodeID, PlacementGroupID, TaskID, placement_group_hex, task_hex, worker_hex
from .process import accelerators, context
from .process.context import Execution
from .process.environment import env_of
from .process.worker_process import caller
from .runtime_env import RuntimeEnv
from .runtime.runtime import Runtime
from .session import session_or_start
from .calls.placement import captures, lease_in_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RuntimeContext:
    """Facts about the driver, task or actor that called `get_runtime_context()`.

    Methods that start with `get_` return ids as hex strings; the properties return ids as objects. A context belongs to
    the task that asked for it, so do not pass it on to others.
    """

    def __init__(self, runtime: Runtime, execution: Execution | None):
        self._runtime, self._execution = runtime, execution

    def get(self) -> dict[str, Any]:
        """Return a dict of job_id, node_id and namespace, in a task also task_id, in an actor also actor_id."""
        found: dict[str, Any] = {"job_id": self.job_id, "node_id": self.node_id, "namespace": self.namespace}
        if self._execution is not None:
            found["task_id"] = self.task_id
            if self._actor() is not None:
                found["actor_id"] = self.actor_id
        return found

    @property
    def namespace(self) -> str:
        """The session's namespace."""
        return str(self._runtime.options["namespace"])

    @property
    def gcs_address(self) -> str:
        """The address of the GCS, in Ray's form. Nothing listens there."""
        return "127.0.0.1:0"

    def get_session_name(self) -> str:
        """The session's name in Ray's form, with the time of its start and the process id. Its metrics have it too."""
        from .observe.metrics.system import session_name  # few programs ask

        self._check_running("session's name")
        return session_name(self._runtime)

    def get_temp_dir(self) -> str:
        """The folder for the files of sessions: `init(_temp_dir=...)`, or the system's folder for temporary files."""
        import tempfile  # takes milliseconds, which most programs need not spend

        return str(self._runtime.options.get("_temp_dir") or tempfile.gettempdir())

    def _check_running(self, fact: str) -> None:
        if self._runtime.closed:
            raise RuntimeError(f"the {fact} is not available: the session has been shut down")

    def get_job_id(self) -> str:
        """The id of the job, 8 hex digits. Raises RuntimeError if the session has ended."""
        self._check_running("job's id")
        return JOB_HEX

    def get_node_id(self) -> str:
        """The id of the node on which this runs, 56 hex digits. Raises RuntimeError if the session has ended."""
        self._check_running("node's id")
        return (self._execution.worker.node if self._execution is not None else self._runtime.head).hex

    def get_worker_id(self) -> str:
        """The id of the worker, 56 hex digits. Raises RuntimeError if the session has ended."""
        self._check_running("worker's id")
        return worker_hex(0) if self._execution is None else self._execution.worker.hex

    def get_task_id(self) -> str | None:
        """The id of the running task, 48 hex digits; None on the driver."""
        return None if self._execution is None else self._execution.hex

    def get_attempt_number(self) -> int:
        """The number of the running task's attempt: 0 for the first, and on the driver."""
        return 0 if self._execution is None else self._execution.task.attempt

    def get_task_name(self) -> str | None:
        """The name of the running task: its option `name`, or the name of its function; None on the driver."""
        return None if self._execution is None else self._execution.task.spec.name

    def get_task_function_name(self) -> str | None:
        """The function of the running task, as "module.function"; None on the driver."""
        if self._execution is None:
            return None
        spec, actor = self._execution.task.spec, self._execution.task.actor
        name = spec.func_name
        if actor is not None and actor.is_async:  # for async actors, Ray shows the qualified name of the class
            name = f"{actor.class_name}.{name.rpartition('.')[2]}"
        return f"{spec.module}.{name}" if spec.module else name

    def get_actor_id(self) -> str | None:
        """The id of the current actor, 32 hex digits; None outside an actor."""
        actor = self._actor()
        return None if actor is None else actor.hex

    def get_actor_name(self) -> str | None:
        """The name of the current actor, "" if it has none; None outside an actor."""
        actor = self._actor()
        return None if actor is None else actor.name

    def _actor(self) -> Any:
        return None if self._execution is None else self._execution.worker.actor

    @property
    def current_actor(self) -> ActorHandle[Any]:
        """A handle to the current actor, which does not keep it alive. Raises RuntimeError outside an actor."""
        actor = self._actor()
        if actor is None:
            raise RuntimeError("This method is only available in an actor.")
        return weak_handle(self._runtime, actor)

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether the current actor has been restarted.

        Raises AssertionError on the driver, AttributeError in a task, as in Ray.
        """
        assert self._execution is not None, "was_current_actor_reconstructed is for actors, not for the driver."
        actor = self._actor()
        if actor is None:
            raise AttributeError("was_current_actor_reconstructed is for actors, and this is a task")
        return bool(actor.restarts)

    def get_assigned_resources(self) -> dict[str, float]:
        """The resources that the running task or actor holds, by name. Raises AssertionError on the driver."""
        assert self._execution is not None, "get_assigned_resources is for tasks and actors, not for the driver."
        worker = self._execution.worker
        if worker.actor is not None:
            lease = worker.actor.lease
            return amounts(lease.hold) if lease is not None else {}
        return amounts(worker.lease.hold) if worker.lease is not None else {}

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """The ids, as strings, of the devices that this worker may use, for each of Ray's accelerators."""
        found = _device_ids()
        return {name: [str(one) for one in found.get(name, ())] for name in ACCELERATORS}

    def get_resource_ids(self) -> dict[str, list[str]]:
        """The same as `get_accelerator_ids`."""
        return self.get_accelerator_ids()

    def is_canceled(self) -> bool:
        """Whether `cancel` was called for the running task. A long computation can check this and stop.

        Raises RuntimeError on the driver and in an async actor: there a cancelled call gets a CancelledError at its
        next await.
        """
        if self._execution is None:
            raise RuntimeError("is_canceled is for tasks and actors, not for the driver.")
        actor = self._actor()
        if actor is not None and actor.is_async:
            raise RuntimeError("This method is not supported in an async actor.")
        return bool(self._execution.task.cancel_requested)

    def get_placement_group_id(self) -> str | None:
        """The id of the placement group in which this runs, 36 hex digits; None outside a group."""
        return current_placement_group_id()

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether tasks and actors that this one submits run in its placement group, too."""
        return captures(self._execution)

    def get_runtime_env_string(self) -> str:
        """The runtime environment of this task or actor, as JSON."""
        return self.runtime_env.serialize()

    @property
    def runtime_env(self) -> RuntimeEnv:
        """The runtime environment of this task or actor: its own settings, on top of those that it inherits."""
        own = self._runtime.options.get("runtime_env") if self._execution is None else env_of(self._execution)
        return RuntimeEnv(_validate=False, **(own or {}))

    def get_node_labels(self) -> dict[str, str]:
        """The labels of the node on which this runs."""
        return dict((self._execution.worker.node if self._execution is not None else self._runtime.head).labels)

    @property
    def worker(self) -> Worker:
        """The `global_worker`, for programs that read `worker.mode` or `worker.connected`."""
        return global_worker

    @property
    def job_id(self) -> JobID:
        """`get_job_id` as an object."""
        return JobID.from_hex(self.get_job_id())

    @property
    def node_id(self) -> NodeID:
        """`get_node_id` as an object."""
        return NodeID.from_hex(self.get_node_id())

    @property
    def task_id(self) -> TaskID:
        """`get_task_id` as an object. Raises AssertionError on the driver."""
        assert self._execution is not None, "task_id is for tasks and actors, not for the driver."
        return TaskID.from_hex(self._execution.hex)

    @property
    def actor_id(self) -> ActorID | None:
        """`get_actor_id` as an object; None outside an actor. Raises AssertionError on the driver."""
        assert self._execution is not None, "actor_id is for tasks and actors, not for the driver."
        actor = self._actor()
        return None if actor is None else ActorID.from_hex(actor.hex)

    @property
    def current_placement_group_id(self) -> PlacementGroupID:
        """`get_placement_group_id` as an object; the nil id outside a group."""
        found = self.get_placement_group_id()
        return PlacementGroupID.nil() if found is None else PlacementGroupID.from_hex(found)


def get_runtime_context() -> RuntimeContext:
    """Return the context of the calling driver, task or actor. Starts a session if none is running, as in Ray."""
    return RuntimeContext(session_or_start(), caller())


def gpu_ids() -> list[int] | list[str]:
    """The ids of the GPUs that this worker may use (see `process.accelerators`); [] on the driver."""
    return _device_ids().get("GPU", [])


def _device_ids() -> dict[str, list[int] | list[str]]:
    execution = caller()
    if execution is None:
        return {}
    return accelerators.ids_of(execution, (env_of(execution) or {}).get("env_vars"))


def current_placement_group_id() -> str | None:
    """The id of the placement group in which the running task or actor is, 36 hex digits; None outside a group.

    Starts a session if none is running, as in Ray.
    """
    session_or_start()
    lease = lease_in_group(caller())
    return None if lease is None else placement_group_hex(lease.strategy[1])


def get_node_ip_address() -> str:
    """Return the address of the caller's node, as `nodes()` shows it under "NodeManagerAddress". Needs no session."""
    execution = caller()
    return "127.0.0.1" if execution is None else execution.worker.node.name


SCRIPT_MODE, WORKER_MODE = 0, 1


def _connected() -> bool:
    return context.session is not None


class Worker:
    """The class of `global_worker`: whether a session is running, and facts about the calling task or driver."""

    @property
    def connected(self) -> bool:
        """Whether a session is running."""
        return _connected()

    @property
    def mode(self) -> int | None:
        """WORKER_MODE in a task, SCRIPT_MODE on the driver, None without a session."""
        if not _connected():
            return None
        return SCRIPT_MODE if caller() is None else WORKER_MODE

    def check_connected(self) -> None:
        """Raise RaySystemError if no session is running."""
        if not _connected():
            raise context.not_connected()

    def __getattr__(self, name: str) -> Any:
        """A fact from the runtime context: an id as an object (worker_id: bytes), the namespace, and so on."""
        if name not in _FACTS:
            raise AttributeError(
                f"miniray's global_worker has no {name!r}: use the public get_runtime_context() or miniray.util.state"
            )
        self.check_connected()
        return _FACTS[name](get_runtime_context())


_FACTS: dict[str, Callable[[RuntimeContext], Any]] = {
    "actor_id": lambda c: ActorID.from_hex(c.get_actor_id() or ActorID.nil().hex()),
    "current_job_id": lambda c: JobID.from_hex(c.get_job_id()),
    "current_node_id": lambda c: NodeID.from_hex(c.get_node_id()),
    "current_task_id": lambda c: TaskID.from_hex(c.get_task_id() or task_hex(0)),
    "namespace": lambda c: c.namespace,
    "node_ip_address": lambda c: get_node_ip_address(),
    "placement_group_id": lambda c: c.current_placement_group_id,
    "runtime_env": lambda c: c.get_runtime_env_string(),
    "should_capture_child_tasks_in_placement_group": lambda c: c.should_capture_child_tasks_in_placement_group,
    "worker_id": lambda c: bytes.fromhex(c.get_worker_id()),
}


global_worker = Worker()
