"""Row classes and options of the state API. Ray: ray.util.state.common."""

from ...observe.state.query import GetApiOptions, ListApiOptions, SummaryApiOptions
from ...observe.state.ray_rows import (
    DEFAULT_LIMIT,
    DEFAULT_RPC_TIMEOUT,
    ActorState,
    ClusterEventState,
    JobState,
    NodeState,
    ObjectState,
    PlacementGroupState,
    RuntimeEnvState,
    StateResource,
    StateSchema,
    SummaryResource,
    TaskState,
    WorkerState,
)

DEFAULT_LOG_LIMIT = 1000  # lines of `get_log`

__all__ = [
    "DEFAULT_LIMIT",
    "DEFAULT_LOG_LIMIT",
    "DEFAULT_RPC_TIMEOUT",
    "ActorState",
    "ClusterEventState",
    "GetApiOptions",
    "JobState",
    "ListApiOptions",
    "NodeState",
    "ObjectState",
    "PlacementGroupState",
    "RuntimeEnvState",
    "StateResource",
    "StateSchema",
    "SummaryApiOptions",
    "SummaryResource",
    "TaskState",
    "WorkerState",
]
