"""The state of the running session as plain dicts with every column filled: `from miniray import state`.

The functions are those of `miniray.util.state`, which answers as Ray does. Here there is one row per task, there is no
limit unless one is given, and there is `explain`, which tells why something does not run.

    state.list_tasks(filters=[("state", "=", "FAILED")])
    print(state.explain(ref))

filters: (column, "=" or "!=", value) on any column; a row must pass all of them. Text is compared without regard to
case. Rows come in the order of their ids. A function that takes an id also takes the reference or handle itself. The
other arguments of Ray's functions (timeout, detail ...) are accepted and ignored.

Every function raises ConnectionError if no session runs, ValueError for filters and limits of the wrong shape, and
RayStateApiException for an unknown column.
"""

from __future__ import annotations

from typing import Any

from .observe.state import book
from .observe.explain.bottleneck import explain_run
from .observe.explain.explanation import explain as _explain
from .observe.explain.sentence import Explanation
from .observe.notebook import Rows
from .observe.state.lookup import id_text
from .observe.logs.reading import get_log, list_logs
from .observe.state.ray_rows import StateResource
from .util.state import running

Row = dict[str, Any]

__all__ = [
    "Explanation",
    "explain",
    "get_actor",
    "get_cluster_event",
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
    "stacks",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]


def _accept(as_in_ray: dict[str, Any]) -> None:
    """Accept and ignore the other arguments of Ray's functions. TypeError for an argument that Ray does not have."""
    for name in as_in_ray:
        if name not in ("address", "timeout", "detail", "raise_on_missing_output", "_explain"):
            raise TypeError(f"unexpected keyword argument {name!r}")


def _list(resource: StateResource, filters: Any, limit: int | None, as_in_ray: dict[str, Any]) -> list[Row]:
    _accept(as_in_ray)
    return Rows(book.book_rows(running(), resource, filters, limit))


def _get(resource: StateResource, id: Any, as_in_ray: dict[str, Any]) -> Row | None:
    _accept(as_in_ray)
    return book.book_row(running(), resource, id_text(id))


def explain(thing: Any = None) -> Explanation:
    """Why a task, actor, placement group or object does not go on: as a sentence (its `str()`), and as data.

    thing: an ObjectRef, an actor handle, a PlacementGroup, or an id as hexadecimal text. ValueError if there is no
    record with this id, TypeError for a thing without an id. Without a thing: what determined the time of the run up
    to now; the reason is a word of `observe.explain.bottleneck`, and the chain has all causes, the largest first.
    """
    return _explain(running(), thing) if thing is not None else explain_run(running())


def list_tasks(filters: Any = None, limit: int | None = None, **as_in_ray: Any) -> list[Row]:
    """Every task: state, duration_ms, num_attempts, where it ran, the time of each step, the error."""
    return _list(StateResource.TASKS, filters, limit, as_in_ray)


def list_actors(filters: Any = None, limit: int | None = None, **as_in_ray: Any) -> list[Row]:
    """Every actor: state, mailbox_backlog, calls_in_flight, num_restarts, death_cause."""
    return _list(StateResource.ACTORS, filters, limit, as_in_ray)


def list_objects(filters: Any = None, limit: int | None = None, **as_in_ray: Any) -> list[Row]:
    """Every object that somebody refers to: state, node_id, produced_by (the task's id), refs, object_size (bytes),
    call_site."""
    return _list(StateResource.OBJECTS, filters, limit, as_in_ray)


def list_nodes(filters: Any = None, limit: int | None = None, **as_in_ray: Any) -> list[Row]:
    """Every node: its resources, how much of them is free, the counters of its object store."""
    return _list(StateResource.NODES, filters, limit, as_in_ray)


def list_workers(filters: Any = None, limit: int | None = None, **as_in_ray: Any) -> list[Row]:
    """The driver and every worker thread: pid, thread_id, state, tasks_executed."""
    return _list(StateResource.WORKERS, filters, limit, as_in_ray)


def list_placement_groups(filters: Any = None, limit: int | None = None, **as_in_ray: Any) -> list[Row]:
    """Every placement group: state, strategy, bundles and their nodes."""
    return _list(StateResource.PLACEMENT_GROUPS, filters, limit, as_in_ray)


def list_jobs(filters: Any = None, limit: int | None = None, **as_in_ray: Any) -> list[Row]:
    """The driver's session, the only job."""
    return _list(StateResource.JOBS, filters, limit, as_in_ray)


def stacks(all_frames: bool = False) -> list[Row]:
    """Where the driver, every running task, every actor method and every coroutine stands at this moment.

        for row in state.stacks():
            print(row["name"], row["state"], row["stack"][-1]["line"])

    all_frames: also the frames of miniray, of the test runner and of the standard library's threads, and the stacks
    that have no others: those of idle workers and of miniray's own threads. By default the program's frames only.

    Returns one row for each stack: the driver's first, then in the order of workers and tasks. Its columns:

    - kind: "driver", a thread of the driver; "task", a task or an actor's method, also one that is a coroutine;
      "coroutine", an asyncio task that the program has made itself; "thread", a thread that a task has started; "idle",
      only with all_frames.
    - name: of the task, of the coroutine with its asyncio task, or of the thread; "driver" for the main thread.
    - type, task_id, attempt_number, actor_id: of the task that runs there, or that has started the thread or the
      coroutine; None where that is not known, and for the driver. The attempt is the one that has started it.
    - node_id, worker_id: where it runs.
    - state: "WAITING" in get, wait, an await, or a sleep in a task; otherwise "RUNNING", also in other calls that wait.
    - thread_id, thread_name: None for a coroutine that is suspended.
    - start_time_ms, duration_ms: since when the task has been running; None if that is not known, and for the driver.
    - awaits: what a suspended coroutine awaits beyond its own calls, one sentence each: the asyncio tasks on the way
      with the places where they stand, and at the end the reference or the future.
    - stack: the calls, the outermost first, each as file, line, function and code (the text of the line). In local mode
      a thread that is inside of several tasks has a row for each.

    Takes no lock and stops nothing: it also answers while a thread hangs with the core's lock held. So two rows may be
    a moment apart. Raises ConnectionError if no session runs. In Ray: `ray stack`, which prints the stacks of all
    processes without saying whose they are.
    """
    from .observe.stacks.rows import stack_rows  # only a reader of stacks needs it

    return Rows(stack_rows(running(), all_frames))


def list_runtime_envs(filters: Any = None, limit: int | None = None, **as_in_ray: Any) -> list[Row]:
    """Every runtime environment that a task or actor was given."""
    return _list(StateResource.RUNTIME_ENVS, filters, limit, as_in_ray)


def list_cluster_events(filters: Any = None, limit: int | None = None, **as_in_ray: Any) -> list[Row]:
    """The events of the cluster: nodes that joined or died, deaths of workers and actors, spills that failed."""
    return _list(StateResource.CLUSTER_EVENTS, filters, limit, as_in_ray)


def get_task(id: Any, **as_in_ray: Any) -> Row | None:
    """The task with this id, or None."""
    return _get(StateResource.TASKS, id, as_in_ray)


def get_actor(id: Any, **as_in_ray: Any) -> Row | None:
    """The actor with this id, or None."""
    return _get(StateResource.ACTORS, id, as_in_ray)


def get_objects(id: Any, **as_in_ray: Any) -> list[Row]:
    """The object with this id, in a list as in Ray; an empty list if there is none."""
    row = _get(StateResource.OBJECTS, id, as_in_ray)
    return [row] if row is not None else []


def get_node(id: Any, **as_in_ray: Any) -> Row | None:
    """The node with this id, or None."""
    return _get(StateResource.NODES, id, as_in_ray)


def get_worker(id: Any, **as_in_ray: Any) -> Row | None:
    """The worker with this id, or None."""
    return _get(StateResource.WORKERS, id, as_in_ray)


def get_placement_group(id: Any, **as_in_ray: Any) -> Row | None:
    """The placement group with this id, or None."""
    return _get(StateResource.PLACEMENT_GROUPS, id, as_in_ray)


def get_job(id: Any, **as_in_ray: Any) -> Row | None:
    """The job with this id, or None."""
    return _get(StateResource.JOBS, id, as_in_ray)


def get_cluster_event(id: Any, **as_in_ray: Any) -> Row | None:
    """The event with this id, or None."""
    return _get(StateResource.CLUSTER_EVENTS, id, as_in_ray)


def summarize_tasks(**as_in_ray: Any) -> Row:
    """num_tasks, num_attempts, state_counts, and the same for each name under summary."""
    _accept(as_in_ray)
    return book.book_tasks(running())


def summarize_actors(**as_in_ray: Any) -> Row:
    """num_actors, state_counts, and the same for each class under summary, with its waiting and running calls."""
    _accept(as_in_ray)
    return book.book_actors(running())


def summarize_objects(**as_in_ray: Any) -> Row:
    """num_objects, used_bytes, capacity_bytes, counters (spilled, restored, evicted ...), num_reconstructions."""
    _accept(as_in_ray)
    return book.book_objects(running())


def __getattr__(name: str) -> Any:
    """`ray.state.nodes()`, `ray.state.actors()` ...: functions that older programs expect here, with Ray's old keys."""
    from ._private import state as old

    if name in old.__all__:
        return getattr(old, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
