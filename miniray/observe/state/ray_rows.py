"""The rows of Ray's state API: one class per resource, with its columns in Ray's order.

The metadata of each column tells whether it is filled only when details are requested, whether a filter may name it,
and how the command line prints it. Ray: python/ray/util/state/common.py.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any, Callable

from ..amounts import binary_size

DEFAULT_LIMIT = 100
DEFAULT_RPC_TIMEOUT = 30


class StateResource(Enum):
    """The resources that can be listed."""

    ACTORS = "actors"
    JOBS = "jobs"
    PLACEMENT_GROUPS = "placement_groups"
    NODES = "nodes"
    WORKERS = "workers"
    TASKS = "tasks"
    OBJECTS = "objects"
    RUNTIME_ENVS = "runtime_envs"
    CLUSTER_EVENTS = "cluster_events"


class SummaryResource(Enum):
    """The resources that can be summarized."""

    ACTORS = "actors"
    TASKS = "tasks"
    OBJECTS = "objects"


# ------------------------------------------------------------ values as the command line prints them


def timestamp(ms: float) -> str:
    """Milliseconds since the epoch as local time."""
    return str(datetime.datetime.fromtimestamp(ms / 1000))


def memory(size_bytes: float) -> str:
    """A number of bytes as Ray prints it: `1.500 MiB`."""
    number, unit = binary_size(size_bytes, largest="GiB")
    return f"{number:.3f} {unit}"


def duration(ms: float) -> str:
    """Milliseconds as Ray prints them: hours, minutes and seconds."""
    return str(datetime.timedelta(milliseconds=ms))


def _events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**event, "created_ms": timestamp(event["created_ms"])} for event in events]


def _resources(resources: dict[str, float]) -> dict[str, Any]:
    return {name: memory(amount) if "memory" in name else amount for name, amount in resources.items()}


def _launch_time(ms: float) -> str:
    return "" if ms == -1 else timestamp(ms)


# ------------------------------------------------------------ columns and rows


def plain(filterable: bool = True, shown: Callable[[Any], Any] | None = None) -> Any:
    """A column that is always filled. shown: makes the form of a value that the command line prints."""
    return field(metadata={"detail": False, "filterable": filterable, "format_fn": shown})


def detail(filterable: bool = False, shown: Callable[[Any], Any] | None = None) -> Any:
    """A column that is None unless details were requested."""
    return field(default=None, metadata={"detail": True, "filterable": filterable, "format_fn": shown})


class StateSchema:
    """The base of all rows: `row["name"]`, `row.name`, `row.get("name")`, comparison by value. A row is not a dict."""

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from .. import notebook  # only a notebook needs it

        return notebook.facts({key: value for key, value in vars(self).items() if value not in (None, "", {}, [])})

    @classmethod
    def list_columns(cls, detail: bool = True) -> list[str]:
        """The names of the columns, in order."""
        return [f.name for f in fields(cls) if detail or not f.metadata["detail"]]  # type: ignore[arg-type]

    @classmethod
    def columns(cls) -> set[str]:
        """All columns."""
        return set(cls.list_columns())

    @classmethod
    def filterable_columns(cls) -> set[str]:
        """The columns that a filter may name."""
        return {f.name for f in fields(cls) if f.metadata["filterable"]}  # type: ignore[arg-type]

    @classmethod
    def base_columns(cls) -> set[str]:
        """The columns that are filled without details."""
        return set(cls.list_columns(detail=False))

    @classmethod
    def detail_columns(cls) -> set[str]:
        """The columns that are filled with details: all of them, as in Ray."""
        return cls.columns()

    @classmethod
    def humanify(cls, state: dict[str, Any]) -> dict[str, Any]:
        """The row as a dict, with times and sizes as the command line prints them."""
        shown = {f.name: f.metadata["format_fn"] for f in fields(cls)}  # type: ignore[arg-type]
        return {
            name: shown[name](value) if value is not None and shown.get(name) else value
            for name, value in state.items()
        }

    def asdict(self) -> dict[str, Any]:
        """All columns in order. Those of details are None unless details were requested."""
        row: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return row

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def get(self, key: str, default: Any = None) -> Any:
        """The column's value, or the default if there is no such column."""
        return getattr(self, key, default)


@dataclass
class ActorState(StateSchema):
    """One actor. pid is 0 until the actor is placed; name is "" if the actor has none."""

    actor_id: str = plain()
    class_name: str = plain()
    state: str = plain()
    job_id: str = plain()
    name: str | None = plain()
    node_id: str | None = plain()
    pid: int | None = plain()
    ray_namespace: str | None = plain()
    serialized_runtime_env: str | None = detail()
    required_resources: dict[str, Any] | None = detail()
    death_cause: dict[str, Any] | None = detail()
    is_detached: bool | None = detail()
    placement_group_id: str | None = detail(filterable=True)
    repr_name: str | None = detail(filterable=True)
    num_restarts: int = detail()
    num_restarts_due_to_lineage_reconstruction: int = detail()
    num_restarts_due_to_node_preemption: int = detail()
    call_site: str | None = detail()
    label_selector: dict[str, Any] | None = detail()
    fallback_strategy: dict[str, Any] | None = detail()


@dataclass
class PlacementGroupState(StateSchema):
    """One placement group."""

    placement_group_id: str = plain()
    name: str = plain()
    creator_job_id: str = plain()
    state: str = plain()
    bundles: list[Any] | None = detail()
    is_detached: bool | None = detail(filterable=True)
    stats: dict[str, Any] | None = detail()
    topology_strategy: dict[str, Any] | None = detail()
    topology_assignments: dict[str, Any] | None = detail()


@dataclass
class NodeState(StateSchema):
    """One node. end_time_ms is 0 while the node is alive."""

    node_id: str = plain()
    node_ip: str = plain()
    is_head_node: bool = plain()
    state: str = plain()
    state_message: str | None = plain(filterable=False)
    node_name: str = plain()
    resources_total: dict[str, Any] = plain(filterable=False, shown=_resources)
    labels: dict[str, Any] = plain(filterable=False)
    start_time_ms: int | None = detail(shown=timestamp)
    end_time_ms: int | None = detail(shown=timestamp)


@dataclass
class WorkerState(StateSchema):
    """One worker: a thread here, a process in Ray. The driver has a row too."""

    worker_id: str = plain()
    is_alive: bool = plain()
    worker_type: str = plain()
    exit_type: str | None = plain()
    node_id: str = plain()
    ip: str = plain()
    pid: int = plain()
    exit_detail: str | None = detail()
    worker_launch_time_ms: int | None = detail(shown=_launch_time)
    worker_launched_time_ms: int | None = detail(shown=_launch_time)
    start_time_ms: int | None = detail(shown=timestamp)
    end_time_ms: int | None = detail(shown=timestamp)
    debugger_port: int | None = detail(filterable=True)
    num_paused_threads: int | None = detail(filterable=True)


@dataclass
class ClusterEventState(StateSchema):
    """One event of the cluster: a node joined or died, an actor died, a value was spilled."""

    severity: str = plain()
    time: str = plain(filterable=False)
    source_type: str = plain()
    message: str = plain(filterable=False)
    event_id: str = plain()
    custom_fields: dict[str, Any] | None = detail()


@dataclass
class TaskState(StateSchema):
    """One attempt of a task; the first has attempt_number 0. Times are milliseconds since the epoch."""

    task_id: str = plain()
    attempt_number: int = plain()
    name: str = plain()
    state: str = plain()
    job_id: str = plain()
    actor_id: str | None = plain()
    type: str = plain()
    func_or_class_name: str = plain()
    parent_task_id: str = plain()
    node_id: str | None = plain()
    worker_id: str | None = plain()
    worker_pid: int | None = plain()
    error_type: str | None = plain()
    language: str | None = detail(filterable=True)
    required_resources: dict[str, Any] | None = detail()
    runtime_env_info: dict[str, Any] | None = detail()
    placement_group_id: str | None = detail(filterable=True)
    events: list[Any] | None = detail(shown=_events)
    profiling_data: dict[str, Any] | None = detail()
    creation_time_ms: int | None = detail(shown=timestamp)
    start_time_ms: int | None = detail(shown=timestamp)
    end_time_ms: int | None = detail(shown=timestamp)
    task_log_info: dict[str, Any] | None = detail()
    error_message: str | None = detail()
    is_debugger_paused: bool | None = detail(filterable=True)
    call_site: str | None = detail()
    label_selector: dict[str, Any] | None = detail()
    fallback_strategy: dict[str, Any] | None = detail()


@dataclass
class ObjectState(StateSchema):
    """One object that somebody refers to. object_size: bytes, -1 while unknown. attempt_number starts at 1 here."""

    object_id: str = plain()
    object_size: int = plain(shown=memory)
    task_status: str = plain()
    attempt_number: int = plain()
    reference_type: str = plain()
    call_site: str = plain()
    type: str = plain()
    pid: int = plain()
    ip: str = plain()


@dataclass
class RuntimeEnvState(StateSchema):
    """One runtime environment that a task or actor was given."""

    runtime_env: dict[str, Any] = plain()
    success: bool = plain()
    creation_time_ms: float | None = plain(filterable=False, shown=duration)
    node_id: str = plain()
    ref_cnt: int | None = detail()
    error: str | None = detail(filterable=True)


class _Text(str, Enum):
    def __str__(self) -> str:
        return str(self.value)


class JobType(_Text):
    """How a job was started. Each member equals its text."""

    SUBMISSION = "SUBMISSION"
    DRIVER = "DRIVER"


class JobStatus(_Text):
    """The state of a job. Each member equals its text."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class DriverInfo:
    """The driver of a job. As in Ray, pid is text."""

    id: str
    node_ip_address: str
    pid: str

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Pairs of name and value, so that `dict(info)` works as on Ray's."""
        return iter(vars(self).items())


@dataclass
class JobState(StateSchema):
    """The driver's session, the only job here."""

    type: JobType = plain()
    job_id: str | None = plain()
    submission_id: str | None = plain()
    driver_info: DriverInfo | None = plain(filterable=False)
    status: JobStatus = plain()
    entrypoint: str = plain(filterable=False)
    message: str | None = plain(filterable=False)
    error_type: str | None = plain(filterable=False)
    start_time: int | None = detail()
    end_time: int | None = detail()
    metadata: dict[str, Any] | None = detail()
    runtime_env: dict[str, Any] | None = detail()
    driver_agent_http_address: str | None = detail()
    driver_node_id: str | None = detail()
    driver_exit_code: int | None = detail()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from .. import notebook  # only a notebook needs it

        return notebook.facts({key: value for key, value in vars(self).items() if value not in (None, "", {}, [])})

    @classmethod
    def list_columns(cls, detail: bool = True) -> list[str]:
        """The names of the columns. Without details they are in the order of Ray's printed table."""
        if detail:
            return super().list_columns()
        return ["job_id", "submission_id", "entrypoint", "type", "status", "message", "error_type", "driver_info"]


SCHEMAS: dict[StateResource, type[StateSchema]] = {
    StateResource.ACTORS: ActorState,
    StateResource.JOBS: JobState,
    StateResource.PLACEMENT_GROUPS: PlacementGroupState,
    StateResource.NODES: NodeState,
    StateResource.WORKERS: WorkerState,
    StateResource.TASKS: TaskState,
    StateResource.OBJECTS: ObjectState,
    StateResource.RUNTIME_ENVS: RuntimeEnvState,
    StateResource.CLUSTER_EVENTS: ClusterEventState,
}
