"""The state of the running session, as rows: tasks, actors, objects, nodes, workers ... Ray: ray.util.state.

Every list takes the same arguments, and returns its rows in the order of their ids.

    filters                   a list of (column, "=" or "!=", value); a row must pass all of them, and text is compared
                              without regard to case
    limit                     the largest number of rows to return
    detail                    whether to fill the columns of details too
    raise_on_missing_output   whether to raise RayStateApiException if records were dropped because their table was full
    address, timeout          ignored: the session of this process answers, at once

Every function raises ConnectionError if no session runs, ValueError for filters, limits and timeouts of the wrong
shape, and RayStateApiException for filters and ids that do not fit the table. `miniray.state` has the same functions
with plain dicts as rows.
"""

from __future__ import annotations

from typing import Any

from . import common as common, exception as exception  # Ray's package has both as attributes
from ...observe.state import ray_tables as answers
from ...observe.logs.reading import get_log, list_logs
from ...observe.state.query import GetApiOptions, ListApiOptions, SummaryApiOptions
from ...observe.state.ray_rows import (
    ActorState,
    ClusterEventState,
    JobState,
    NodeState,
    ObjectState,
    PlacementGroupState,
    RuntimeEnvState,
    StateResource,
    SummaryResource,
    TaskState,
    WorkerState,
)
from ...process import context

__all__ = [
    "StateApiClient",
    "get_actor",
    "get_job",
    "get_log",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
    "list_actors",
    "list_cluster_events",
    "list_jobs",
    "list_logs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_runtime_envs",
    "list_tasks",
    "list_workers",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]


def running() -> Any:
    """The running session. ConnectionError if there is none."""
    if context.session is None:
        raise context.not_found()
    return context.session


class StateApiClient:
    """Answers questions about a resource, given as a StateResource. Ray: util/state/api.py.

    Creating one raises ConnectionError if no session runs.
    """

    def __init__(self, address: str | None = None, cookies: Any = None, headers: Any = None):
        self._runtime = running()

    def list(
        self,
        resource: StateResource,
        options: ListApiOptions,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> list[Any]:
        """The rows of a resource."""
        return answers.list_rows(self._runtime, resource, options, raise_on_missing_output, _explain)

    def get(
        self, resource: StateResource, id: str, options: GetApiOptions | None = None, _explain: bool = False
    ) -> Any:
        """The row with this id, or None; a list of rows for an object, and for a task with several attempts."""
        return answers.get_rows(self._runtime, resource, id)

    def summary(
        self,
        resource: SummaryResource,
        *,
        options: SummaryApiOptions | None = None,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> dict[str, Any]:
        """Counts of a resource under "cluster"."""
        return answers.summary(self._runtime, resource, raise_on_missing_output, _explain)


def _list(
    resource: StateResource,
    filters: Any,
    limit: Any,
    timeout: Any,
    detail: Any,
    raise_on_missing_output: bool,
    explain: bool,
) -> list[Any]:
    runtime = running()
    options = ListApiOptions(limit=limit, timeout=timeout, detail=detail, filters=filters)
    return answers.list_rows(runtime, resource, options, raise_on_missing_output, explain)


def _get(resource: StateResource, id: str, timeout: Any) -> Any:
    runtime = running()
    GetApiOptions(timeout=timeout)
    return answers.get_rows(runtime, resource, id)


def _summarize(resource: SummaryResource, timeout: Any, raise_on_missing_output: bool, explain: bool) -> dict[str, Any]:
    runtime = running()
    SummaryApiOptions(timeout=timeout)
    return answers.summary(runtime, resource, raise_on_missing_output, explain)


def list_actors(
    address: str | None = None,
    filters: Any = None,
    limit: int = 100,
    timeout: int = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ActorState]:
    """Every actor, including dead ones."""
    return _list(StateResource.ACTORS, filters, limit, timeout, detail, raise_on_missing_output, _explain)


def list_placement_groups(
    address: str | None = None,
    filters: Any = None,
    limit: int = 100,
    timeout: int = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[PlacementGroupState]:
    """Every placement group, including removed ones."""
    return _list(StateResource.PLACEMENT_GROUPS, filters, limit, timeout, detail, raise_on_missing_output, _explain)


def list_nodes(
    address: str | None = None,
    filters: Any = None,
    limit: int = 100,
    timeout: int = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[NodeState]:
    """Every node, including dead ones."""
    return _list(StateResource.NODES, filters, limit, timeout, detail, raise_on_missing_output, _explain)


def list_jobs(
    address: str | None = None,
    filters: Any = None,
    limit: int = 100,
    timeout: int = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[JobState]:
    """The driver's session, the only job."""
    return _list(StateResource.JOBS, filters, limit, timeout, detail, raise_on_missing_output, _explain)


def list_workers(
    address: str | None = None,
    filters: Any = None,
    limit: int = 100,
    timeout: int = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[WorkerState]:
    """The driver and every worker, including dead ones."""
    return _list(StateResource.WORKERS, filters, limit, timeout, detail, raise_on_missing_output, _explain)


def list_tasks(
    address: str | None = None,
    filters: Any = None,
    limit: int = 100,
    timeout: int = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[TaskState]:
    """Every attempt of every task."""
    return _list(StateResource.TASKS, filters, limit, timeout, detail, raise_on_missing_output, _explain)


def list_objects(
    address: str | None = None,
    filters: Any = None,
    limit: int = 100,
    timeout: int = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ObjectState]:
    """Every object that somebody refers to."""
    return _list(StateResource.OBJECTS, filters, limit, timeout, detail, raise_on_missing_output, _explain)


def list_runtime_envs(
    address: str | None = None,
    filters: Any = None,
    limit: int = 100,
    timeout: int = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[RuntimeEnvState]:
    """Every runtime environment that a task or actor was given."""
    return _list(StateResource.RUNTIME_ENVS, filters, limit, timeout, detail, raise_on_missing_output, _explain)


def list_cluster_events(
    address: str | None = None,
    filters: Any = None,
    limit: int = 100,
    timeout: int = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ClusterEventState]:
    """The events of the cluster."""
    return _list(StateResource.CLUSTER_EVENTS, filters, limit, timeout, detail, raise_on_missing_output, _explain)


def get_actor(id: str, address: str | None = None, timeout: int = 30, _explain: bool = False) -> ActorState | None:
    """The actor with this id with all details, or None."""
    row: ActorState | None = _get(StateResource.ACTORS, id, timeout)
    return row


def get_job(id: str, address: str | None = None, timeout: int = 30, _explain: bool = False) -> JobState | None:
    """Always None: no job was submitted here and, as in Ray, a submission id never finds the driver's own job."""
    row: JobState | None = _get(StateResource.JOBS, id, timeout)
    return row


def get_placement_group(
    id: str, address: str | None = None, timeout: int = 30, _explain: bool = False
) -> PlacementGroupState | None:
    """The placement group with this id with all details, or None."""
    row: PlacementGroupState | None = _get(StateResource.PLACEMENT_GROUPS, id, timeout)
    return row


def get_node(id: str, address: str | None = None, timeout: int = 30, _explain: bool = False) -> NodeState | None:
    """The node with this id with all details, or None."""
    row: NodeState | None = _get(StateResource.NODES, id, timeout)
    return row


def get_worker(id: str, address: str | None = None, timeout: int = 30, _explain: bool = False) -> WorkerState | None:
    """The worker with this id with all details, or None."""
    row: WorkerState | None = _get(StateResource.WORKERS, id, timeout)
    return row


def get_task(
    id: str, address: str | None = None, timeout: int = 30, _explain: bool = False
) -> TaskState | list[TaskState] | None:
    """The task with this id with all details, or None; a list of one row per attempt if there were several."""
    row: TaskState | list[TaskState] | None = _get(StateResource.TASKS, id, timeout)
    return row


def get_objects(
    id: str, address: str | None = None, timeout: int = 30, _explain: bool = False
) -> list[ObjectState] | None:
    """The rows of the object with this id; None if there is no such object."""
    row: list[ObjectState] | None = _get(StateResource.OBJECTS, id, timeout)
    return row


def summarize_tasks(
    address: str | None = None, timeout: int = 30, raise_on_missing_output: bool = True, _explain: bool = False
) -> dict[str, Any]:
    """The number of attempts by name and state."""
    return _summarize(SummaryResource.TASKS, timeout, raise_on_missing_output, _explain)


def summarize_actors(
    address: str | None = None, timeout: int = 30, raise_on_missing_output: bool = True, _explain: bool = False
) -> dict[str, Any]:
    """The number of actors by class and state."""
    return _summarize(SummaryResource.ACTORS, timeout, raise_on_missing_output, _explain)


def summarize_objects(
    address: str | None = None, timeout: int = 30, raise_on_missing_output: bool = True, _explain: bool = False
) -> dict[str, Any]:
    """The number of objects, their sizes, and what kinds of references hold them."""
    return _summarize(SummaryResource.OBJECTS, timeout, raise_on_missing_output, _explain)
