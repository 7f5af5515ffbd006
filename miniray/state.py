"""The state of the running session as plain dicts, every field filled: `from miniray import state`.

The same functions as `miniray.util.state`, which answers as Ray does; here is one row per task, everything unless a
limit is given, and `explain`, which says why something does not run.

    state.list_tasks(filters=[("state", "=", "FAILED")])
    print(state.explain(ref))

filters: (column, "=" or "!=", value) that must all hold, on any column; text is compared without regard to case. Rows
come in the order of their ids. All raise ConnectionError when no session runs, ValueError for filters and limits of a
wrong shape, RayStateApiException for an unknown column.
"""
from __future__ import annotations

from typing import Any

from .observe import state_book as book
from .observe.explain import Explanation
from .observe.explain import explain as _explain
from .observe.logs import get_log, list_logs
from .observe.state_rows import StateResource
from .util.state import running

Row = dict[str, Any]

__all__ = ["Explanation", "explain", "get_actor", "get_cluster_event", "get_job", "get_log", "get_node", "get_objects",
           "get_placement_group", "get_task", "get_worker", "list_actors", "list_cluster_events", "list_jobs",
           "list_logs",
           "list_nodes", "list_objects", "list_placement_groups", "list_runtime_envs", "list_tasks", "list_workers",
           "summarize_actors", "summarize_objects", "summarize_tasks"]


def explain(thing: Any) -> Explanation:
    """Why a task, actor, placement group or object does not go on: a sentence (`str()`), and the same as data.

    thing: an ObjectRef, an actor handle, a PlacementGroup, or an id as hexadecimal text. ValueError when nothing has
    this id, TypeError for what can have none.
    """
    return _explain(running(), thing)


def list_tasks(filters: Any = None, limit: int | None = None) -> list[Row]:
    """Every task: state, duration_ms, num_attempts, where it ran, the time of each step, the error."""
    return book.book_rows(running(), StateResource.TASKS, filters, limit)


def list_actors(filters: Any = None, limit: int | None = None) -> list[Row]:
    """Every actor: state, mailbox_backlog, calls_in_flight, num_restarts, death_cause."""
    return book.book_rows(running(), StateResource.ACTORS, filters, limit)


def list_objects(filters: Any = None, limit: int | None = None) -> list[Row]:
    """Every object that somebody refers to: state, node_id, produced_by (the task's id), refs, object_size (bytes),
    call_site."""
    return book.book_rows(running(), StateResource.OBJECTS, filters, limit)


def list_nodes(filters: Any = None, limit: int | None = None) -> list[Row]:
    """Every node: what it has, what of it is free, its object store's counts."""
    return book.book_rows(running(), StateResource.NODES, filters, limit)


def list_workers(filters: Any = None, limit: int | None = None) -> list[Row]:
    """The driver and every worker thread: pid, thread_id, state, tasks_executed."""
    return book.book_rows(running(), StateResource.WORKERS, filters, limit)


def list_placement_groups(filters: Any = None, limit: int | None = None) -> list[Row]:
    """Every placement group: state, strategy, bundles and where they are."""
    return book.book_rows(running(), StateResource.PLACEMENT_GROUPS, filters, limit)


def list_jobs(filters: Any = None, limit: int | None = None) -> list[Row]:
    """The driver's session, the only job."""
    return book.book_rows(running(), StateResource.JOBS, filters, limit)


def list_runtime_envs(filters: Any = None, limit: int | None = None) -> list[Row]:
    """Every runtime environment that was used."""
    return book.book_rows(running(), StateResource.RUNTIME_ENVS, filters, limit)


def list_cluster_events(filters: Any = None, limit: int | None = None) -> list[Row]:
    """What happened to the cluster: nodes that came and went, deaths, spills that failed."""
    return book.book_rows(running(), StateResource.CLUSTER_EVENTS, filters, limit)


def get_task(id: str) -> Row | None:
    """The task with this id, or None."""
    return book.book_row(running(), StateResource.TASKS, id)


def get_actor(id: str) -> Row | None:
    """The actor with this id, or None."""
    return book.book_row(running(), StateResource.ACTORS, id)


def get_objects(id: str) -> list[Row]:
    """The object with this id, in a list as in Ray; an empty one when there is none."""
    row = book.book_row(running(), StateResource.OBJECTS, id)
    return [row] if row is not None else []


def get_node(id: str) -> Row | None:
    """The node with this id, or None."""
    return book.book_row(running(), StateResource.NODES, id)


def get_worker(id: str) -> Row | None:
    """The worker with this id, or None."""
    return book.book_row(running(), StateResource.WORKERS, id)


def get_placement_group(id: str) -> Row | None:
    """The placement group with this id, or None."""
    return book.book_row(running(), StateResource.PLACEMENT_GROUPS, id)


def get_job(id: str) -> Row | None:
    """The job with this id, or None."""
    return book.book_row(running(), StateResource.JOBS, id)


def get_cluster_event(id: str) -> Row | None:
    """The event with this id, or None."""
    return book.book_row(running(), StateResource.CLUSTER_EVENTS, id)


def summarize_tasks() -> Row:
    """num_tasks, num_attempts, state_counts, and the same for each name under summary."""
    return book.book_tasks(running())


def summarize_actors() -> Row:
    """num_actors, state_counts, and for each class under summary also its waiting and running calls."""
    return book.book_actors(running())


def summarize_objects() -> Row:
    """num_objects, used_bytes, capacity_bytes, counters (spilled, restored, evicted ...), num_reconstructions."""
    return book.book_objects(running())
