"""get_runtime_context: what a driver, a task or an actor can ask about itself. Ray: ray.runtime_context."""

from __future__ import annotations

import tempfile
from typing import Any

from .actor import ActorHandle, new_handle
from .core.records import amounts
from .ids import JOB_HEX, ActorID, JobID, NodeID, PlacementGroupID, TaskID, placement_group_hex, worker_hex
from .process.context import Execution, current
from .process.environment import env_of
from .runtime_env import RuntimeEnv
from .runtime.runtime import Runtime
from .session import session_or_start
from .calls.placement import captures, lease_in_group

# The families of accelerators that Ray asks about.
ACCELERATORS = ("GPU", "TPU", "NPU", "HPU", "neuron_cores", "RBLN", "FURIOSA", "MBLT", "TTNPU")


class RuntimeContext:
    """The view from where it was asked for."""

    def __init__(self, runtime: Runtime, execution: Execution | None):
        self._runtime, self._execution = runtime, execution

    def get(self) -> dict[str, Any]:
        """The ids as objects, in one dict: job_id, node_id, namespace, in a task task_id, in an actor actor_id."""
        found: dict[str, Any] = {"job_id": self.job_id, "node_id": self.node_id, "namespace": self.namespace}
        if self._execution is not None:
            found["task_id"] = self.task_id
            if self._actor() is not None:
                found["actor_id"] = self.actor_id
        return found

    @property
    def namespace(self) -> str:
        """The session's namespace."""
        return self._runtime.options["namespace"]

    @property
    def gcs_address(self) -> str:
        """Where the cluster would be reached: there is nothing to reach."""
        return "127.0.0.1:0"

    def get_session_name(self) -> str:
        """What this session is called: it has no folder whose name would tell it from others."""
        self._live("session's name")
        return "session"

    def get_temp_dir(self) -> str:
        """The folder for files of sessions."""
        return str(self._runtime.options.get("_temp_dir") or tempfile.gettempdir())

    def _live(self, what: str) -> None:
        if self._runtime.closed:
            raise RuntimeError(f"the {what} is not available: the session has been shut down")

    def get_job_id(self) -> str:
        """8 hex digits. This, and the ids of the node and the worker, raise RuntimeError when the session has ended."""
        self._live("job's id")
        return JOB_HEX

    def get_node_id(self) -> str:
        """56 hex digits of the node this runs on."""
        self._live("node's id")
        return (self._execution.worker.node if self._execution is not None else self._runtime.head).hex

    def get_worker_id(self) -> str:
        """56 hex digits."""
        self._live("worker's id")
        return worker_hex(0) if self._execution is None else self._execution.worker.hex

    def get_task_id(self) -> str | None:
        """48 hex digits of the running task; None on the driver."""
        return None if self._execution is None else self._execution.hex

    def get_attempt_number(self) -> int:
        """0 for the first attempt of the running task."""
        return 0 if self._execution is None else self._execution.task.attempt

    def get_task_name(self) -> str | None:
        """The running task's name, with its `options(name=)`; None on the driver."""
        return None if self._execution is None else self._execution.task.spec.name

    def get_task_function_name(self) -> str | None:
        """The running task's function as module.function; None on the driver."""
        if self._execution is None:
            return None
        spec, actor = self._execution.task.spec, self._execution.task.actor
        name = spec.func_name
        if actor is not None and actor.is_async:  # there Ray spells the class's qualified name
            name = f"{actor.class_name}.{name.rpartition('.')[2]}"
        return f"{spec.module}.{name}" if spec.module else name

    def get_actor_id(self) -> str | None:
        """32 hex digits of the actor this runs in; None elsewhere."""
        actor = self._actor()
        return None if actor is None else actor.hex

    def get_actor_name(self) -> str | None:
        """The actor's name, "" when it has none; None outside of an actor."""
        actor = self._actor()
        return None if actor is None else actor.name

    def _actor(self) -> Any:
        return None if self._execution is None else self._execution.worker.actor

    @property
    def current_actor(self) -> ActorHandle:
        """A handle to the actor this runs in. RuntimeError outside of one."""
        actor = self._actor()
        if actor is None:
            raise RuntimeError("This method is only available in an actor.")
        return new_handle(self._runtime, actor.handle)

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether the actor was made anew after a death. AssertionError on the driver, AttributeError in a task, as in Ray."""
        assert self._execution is not None, "was_current_actor_reconstructed is for actors, not for the driver."
        actor = self._actor()
        if actor is None:
            raise AttributeError("was_current_actor_reconstructed is for actors, and this is a task")
        return actor.restarts > 0

    def get_assigned_resources(self) -> dict[str, float]:
        """What the running task or actor holds, by name. AssertionError on the driver."""
        assert self._execution is not None, "get_assigned_resources is for tasks and actors, not for the driver."
        worker = self._execution.worker
        if worker.actor is not None:
            lease = worker.actor.lease
            return amounts(lease.hold) if lease is not None else {}
        return amounts(worker.lease.hold) if worker.lease is not None else {}

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """The accelerators given to this worker, by resource name."""
        return {name: [str(index) for index in gpu_ids()] if name == "GPU" else [] for name in ACCELERATORS}

    def get_resource_ids(self) -> dict[str, list[str]]:
        """As get_accelerator_ids."""
        return self.get_accelerator_ids()

    def is_canceled(self) -> bool:
        """Whether this task was asked to stop. RuntimeError on the driver, and in an async actor, whose calls get a
        CancelledError at their next await."""
        if self._execution is None:
            raise RuntimeError("is_canceled is for tasks and actors, not for the driver.")
        actor = self._actor()
        if actor is not None and actor.is_async:
            raise RuntimeError("is_canceled is not for async actors: catch asyncio.CancelledError.")
        return bool(self._execution.task.cancel_requested)

    def get_placement_group_id(self) -> str | None:
        """36 hex digits of the placement group this runs in; None outside of one."""
        return current_placement_group_id()

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether what this submits goes into its placement group too."""
        return captures(self._execution)

    def get_runtime_env_string(self) -> str:
        """The runtime environment as JSON."""
        return self.runtime_env.serialize()

    @property
    def runtime_env(self) -> RuntimeEnv:
        """The runtime environment of the task or actor: what it was given on top of what it inherits."""
        own = self._runtime.options.get("runtime_env") if self._execution is None else env_of(self._execution)
        return RuntimeEnv(_validate=False, **(own or {}))

    def get_node_labels(self) -> dict[str, str]:
        """The labels of the node this runs on."""
        return dict((self._execution.worker.node if self._execution is not None else self._runtime.head).labels)

    @property
    def worker(self) -> Any:
        """The worker's record; None on the driver."""
        return None if self._execution is None else self._execution.worker

    @property
    def job_id(self) -> JobID:
        """As get_job_id, as an object."""
        return JobID.from_hex(self.get_job_id())

    @property
    def node_id(self) -> NodeID:
        """As get_node_id, as an object."""
        return NodeID.from_hex(self.get_node_id())

    @property
    def task_id(self) -> TaskID:
        """As get_task_id, as an object. AssertionError on the driver."""
        assert self._execution is not None, "task_id is for tasks and actors, not for the driver."
        return TaskID.from_hex(self._execution.hex)

    @property
    def actor_id(self) -> ActorID | None:
        """As get_actor_id, as an object. AssertionError on the driver."""
        assert self._execution is not None, "actor_id is for tasks and actors, not for the driver."
        actor = self._actor()
        return None if actor is None else ActorID.from_hex(actor.hex)

    @property
    def current_placement_group_id(self) -> PlacementGroupID:
        """As get_placement_group_id, as an object; the nil one outside of a group."""
        found = self.get_placement_group_id()
        return PlacementGroupID.nil() if found is None else PlacementGroupID.from_hex(found)


def get_runtime_context() -> RuntimeContext:
    """The context of the driver, task or actor that asks; starts a session when there is none, as in Ray."""
    return RuntimeContext(session_or_start(), current.get())


def gpu_ids() -> list[int]:
    """The GPUs given to this worker; none on the driver."""
    execution = current.get()
    if execution is None:
        return []
    actor = execution.worker.actor
    return list(actor.gpu_ids if actor is not None else execution.worker.gpu_ids)


def current_placement_group_id() -> str | None:
    """36 hex digits of the placement group that the running task or actor is in; starts a session when there is none, as in
    Ray."""
    session_or_start()
    lease = lease_in_group(current.get())
    return None if lease is None else placement_group_hex(lease.strategy[1])
