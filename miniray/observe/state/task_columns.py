"""One function per column of Ray's TaskState; each reads one attempt of a task.

A column is read only when a row is built or a filter names it. There may be very many tasks, so their table is copied
under the lock and read after the lock is released: the copy holds a record itself if the record cannot change any
longer, and a TaskView of every other record.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Union

from ...core.cluster import Cluster
from ...core.records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    NORMAL_TASK,
    ActorRecord,
    Attempt,
    Failure,
    NodeRecord,
    SchedulingClass,
    TaskRecord,
    TaskSpec,
    WorkerRecord,
    amounts,
)
from ...core.transitions import TaskStatus
from ...ids import JOB_HEX, task_hex
from ...options.runtime_env_fields import CONFIG
from ...process.context import shown_pid
from ..logs.files import log_name

PATHS = (pathlib.PosixPath, pathlib.PurePosixPath, pathlib.WindowsPath, pathlib.PureWindowsPath)
FINISHED, FAILED = TaskStatus.FINISHED, TaskStatus.FAILED
SUBMITTED = TaskStatus.SUBMITTED_TO_WORKER
NORMAL_TAIL = task_hex(1)[16:]  # the last digits of the id of every task that belongs to no actor
BEYOND_ALL = 1 << 64  # the ids of creation tasks begin with sixteen f, so they sort after all others


class TaskView(NamedTuple):
    """A copy of a TaskRecord at one moment, or of one of its earlier attempts. The field names are TaskRecord's."""

    number: int
    spec: TaskSpec
    parent: str
    owner: WorkerRecord | None
    actor: ActorRecord | None
    hex: str
    status: TaskStatus
    attempt: int
    worker: WorkerRecord | None
    node: NodeRecord | None
    failure: Failure | None
    t_created: float
    t_ready: float
    t_leased: float
    t_started: float
    t_ended: float
    t_finished: float
    earlier: int = 0  # how many attempts came before this one


Task = Union[TaskRecord, TaskView]


class Memo(dict[Any, Any]):
    """A dict that computes missing values: most tasks share their specification, their worker and their node."""

    def __init__(self, make: Callable[[Any], Any]):
        super().__init__({None: None})
        self.make = make

    def __missing__(self, key: Any) -> Any:
        made = self[key] = self.make(key)
        return made


class Look:
    """What all readers share during one look at a session: its constants, and memos of values that many rows share.

    hex: the id of a record as text; None for None. process: the id of the worker that Ray would name for a worker.
    resources, group, env_of: the resources, the placement group and the runtime environment of a task's specification.
    job_status, job_ended: the status of the job, and when it ended, 0.0 while it runs. A session that was read from a
    recording may have ended.
    """

    __slots__ = (
        "epoch",
        "now",
        "pid",
        "error_text",
        "driver_node",
        "runtime_env",
        "metadata",
        "job_status",
        "job_ended",
        "cluster",
        "hex",
        "process",
        "resources",
        "group",
        "env_of",
    )

    def __init__(self, runtime: Any):
        self.epoch, self.now, self.pid = runtime.epoch, runtime.now(), shown_pid()
        self.error_text: Callable[[Failure], str] = runtime.error_text
        self.cluster: Cluster = runtime.cluster
        self.driver_node: NodeRecord | None = next(iter(runtime.cluster.nodes.values()), None)
        self.runtime_env: dict[str, Any] = runtime.options.get("runtime_env") or {}
        self.metadata: dict[str, Any] = getattr(runtime.options.get("job_config"), "metadata", {})
        self.job_status: str = getattr(runtime, "job_status", "RUNNING")
        self.job_ended: float = getattr(runtime, "job_ended", 0.0)
        self.hex: dict[Any, str | None] = Memo(lambda record: record.hex)
        self.process = Memo(lambda worker: process_of(worker).hex)
        self.resources = Memo(lambda spec: required_resources(spec.scheduling_class))
        self.group = Memo(lambda spec: group_id(spec.scheduling_class))
        self.env_of = Memo(lambda spec: env_text(spec.runtime_env or {}))

    def ms(self, at: float) -> int | None:
        """A time on the runtime's clock as whole milliseconds since the epoch; None for a moment that has not come."""
        return int((at + self.epoch) * 1000) if at else None


Readers = dict[str, Callable[[Any, Look], Any]]  # a function for each column: the cell of an entry


def env_text(runtime_env: dict[str, Any]) -> str:
    """A runtime environment as JSON. A value without a JSON form is shown as its class, not as its `__str__`: the
    caller holds the core's lock, and no code of the program may run under it."""
    return json.dumps(
        runtime_env,
        sort_keys=True,
        default=lambda value: str(value) if type(value) in PATHS else f"<{type(value).__name__}>",
    )


# ------------------------------------------------------------ tasks


def view_of(task: TaskRecord, past: Attempt) -> TaskView:
    """The view of an earlier attempt. Without a failure it succeeded, and its value was lost later."""
    return TaskView(
        task.number,
        task.spec,
        task.parent,
        task.owner,
        task.actor,
        task.hex,
        FAILED if past.failure is not None else FINISHED,
        past.number,
        past.worker,
        past.node,
        past.failure,
        past.t_created,
        past.t_ready,
        past.t_leased,
        past.t_started,
        past.t_ended,
        past.t_finished,
    )


def views(task: TaskRecord, earlier: bool = True) -> Iterator[Task]:
    """The attempts of a task, first to last; only the last if `earlier` is False. The caller holds the lock.

    As in Ray, a restarted actor has only one creation.
    """
    history: Sequence[Attempt] = task.history or ()
    once = earlier and task.spec.kind == ACTOR_CREATION_TASK
    if earlier and not once:
        for past in history:
            yield view_of(task, past)
    yield TaskView(
        task.number,
        task.spec,
        task.parent,
        task.owner,
        task.actor,
        task.hex,
        task.status,
        0 if once else task.attempt,
        task.worker,
        task.node,
        task.failure,
        task.t_created,
        task.t_ready,
        task.t_leased,
        task.t_started,
        task.t_ended,
        task.t_finished,
        len(history),
    )


def task_entries(cluster: Cluster, earlier: bool = True) -> list[Task]:
    """Every attempt, or only the last one of each task, in a form that no longer changes. The caller holds the lock."""
    entries: list[Task] = []
    add, extend = entries.append, entries.extend
    for task in cluster.tasks.values():
        if task.t_finished and task.args is None and task.history is None:
            add(task)  # it has finished, and without its arguments it cannot run again
        else:
            extend(views(task, earlier))
    return entries


def first_task_entries(cluster: Cluster, limit: int) -> list[Task] | None:
    """The first `limit` attempts in the order of `task_order`, without a look at the others; None if there may be fewer
    or the table is not in order. The caller holds the lock."""
    if not cluster.history.in_order:
        return None
    entries: list[Task] = []
    for task in cluster.tasks.values():
        if task.spec.kind != ACTOR_CREATION_TASK:  # the constructors come last
            entries.extend(views(task))
            if len(entries) >= limit:
                return entries[:limit]
    return None


def task_order(task: Task) -> int:
    """The sort key of a task: sorts tasks in the order of their ids."""
    actor = task.actor
    return task.number if actor is None or task.spec.kind != ACTOR_CREATION_TASK else BEYOND_ALL + actor.number


def task_state(task: Task) -> str:
    """The name of the task's state. It is RUNNING from the moment when a worker enters the user's function. As in Ray,
    an actor's creation is never SUBMITTED_TO_WORKER."""
    status = task.status
    if status is FINISHED:
        return "FINISHED"
    if status is SUBMITTED:
        if task.t_started:
            return "RUNNING"
        return "SUBMITTED_TO_WORKER" if task.spec.kind != ACTOR_CREATION_TASK else "PENDING_NODE_ASSIGNMENT"
    if status is FAILED:
        if ended_for_ray(task):
            return "FINISHED"
        if orphaned(task):
            return "PENDING_NODE_ASSIGNMENT" if task.t_ready else "PENDING_ARGS_AVAIL"
    return status.name


def orphaned(task: Task) -> bool:
    """Whether the owner of the task crashed before the task was given to a worker. In Ray nobody is left to report its
    end, and its row shows forever the state in which it was."""
    failure = task.failure
    return failure is not None and failure.error_type == "OWNER_DIED" and failure.cause is None and not task.t_leased


def ended_for_ray(task: Task) -> bool:
    """Whether Ray's state API calls this failed task FINISHED, and gives no error: its code ended without raising an
    exception that Ray counts as the task's."""
    return left_by_itself(task) or interrupted(task)


def interrupted(task: Task) -> bool:
    """Whether a KeyboardInterrupt, by `cancel` or its own, ended the task while its code was running."""
    return cancelled_while_running(task) and not (task.actor is not None and task.actor.is_async)


def cancelled_while_running(task: Task) -> bool:
    """Whether the task's failure is a cancellation that came out of its code as an exception."""
    failure = task.failure
    if failure is not None and failure.cause is not None and task.spec.kind == ACTOR_CREATION_TASK:
        failure = failure.cause
    return failure is not None and failure.error_type == "TASK_CANCELLED" and failure.error is not None


def left_by_itself(task: Task) -> bool:
    """Whether this is the call in which an actor ended itself."""
    actor, worker = task.actor, task.worker
    return (
        actor is not None
        and worker is not None
        and task.spec.kind == ACTOR_TASK
        and task.t_started > 0
        and worker.exit_type == "INTENDED_USER_EXIT"
        and task.failure is not None
        and actor.failure in (task.failure, task.failure.cause)
    )


def failure_of(task: Task) -> Failure | None:
    """Why the attempt failed. A constructor that raised failed because of its own error, not because of the death of
    its actor, which followed."""
    failure = task.failure
    if failure is None or ended_for_ray(task):
        return None
    if (
        task.spec.kind == ACTOR_CREATION_TASK
        and failure.cause is not None
        and failure.cause.error_type == "TASK_EXECUTION_EXCEPTION"
    ):
        return failure.cause
    return failure


def error_type(task: Task, look: Look) -> str | None:
    """Ray's name for the failure; None if the task has not failed."""
    failure = failure_of(task)
    if failure is None:
        return None
    if task.spec.kind == ACTOR_CREATION_TASK and failure.error_type == "ACTOR_DIED":
        return "WORKER_DIED"  # the actor was killed before its constructor returned
    if failure.error_type == "OWNER_DIED" and failure.cause is None and task.t_leased:
        return "WORKER_DIED"  # it was running when its owner crashed, and its worker was ended
    if failed_for_argument(task) or cancelled_while_running(task):
        return "TASK_EXECUTION_EXCEPTION"  # an exception that the worker reported: that is all Ray's state API says
    return failure.error_type


def error_message(task: Task, look: Look) -> str | None:
    """The failure as text, with the user's traceback if there is one."""
    failure = failure_of(task)
    if failure is None:
        return None
    if error_type(task, look) == "TASK_EXECUTION_EXCEPTION":
        return "User exception:\n" + look.error_text(failure).strip()
    return look.error_text(failure)


def failed_for_argument(task: Task) -> bool:
    """Whether the task never ran because an argument failed. In Ray the worker finds the failed argument and raises its
    error, so the row has a RUNNING event."""
    failure, actor = task.failure, task.actor
    cause = failure.cause if failure is not None else None
    return (
        failure is not None
        and cause is not None
        and task.spec.kind != ACTOR_CREATION_TASK
        and not task.t_started
        and cause.error_type == failure.error_type != "OWNER_DIED"
        and (actor is None or failure is not actor.failure)
    )


def moments(task: Task) -> list[tuple[str, float]]:
    """(state, time on the runtime's clock) for every state that the attempt has reached, in Ray's order."""
    t_ready, t_leased, t_started = task.t_ready, task.t_leased, task.t_started
    if failed_for_argument(task):
        t_ready = t_leased = t_started = task.t_finished
    came = [("PENDING_ARGS_AVAIL", task.t_created), ("PENDING_NODE_ASSIGNMENT", t_ready)]
    kind = task.spec.kind
    if kind == ACTOR_TASK:
        alive = task.actor.t_alive if task.actor is not None else 0.0
        sent = max(t_ready, alive) if t_ready and alive else t_leased
        came += [
            ("SUBMITTED_TO_WORKER", min(sent, t_leased) if t_leased else sent),
            ("PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY", t_leased),
        ]
    elif kind != ACTOR_CREATION_TASK:
        came.append(("SUBMITTED_TO_WORKER", t_leased))
    came.append(("RUNNING", t_started))
    if task.t_finished and not orphaned(task):
        came.append((task_state(task), task.t_finished))
    return [(state, at) for state, at in came if at]


def process_of(worker: WorkerRecord) -> WorkerRecord:
    """The worker that stands for a worker's process in Ray: of an actor's threads, the one that ran its constructor."""
    creation: TaskRecord | None = worker.actor.creation if worker.actor is not None else None
    if creation is None:
        return worker
    last: WorkerRecord | None = creation.worker
    if last is not None and last.number <= worker.number:
        return last
    made: list[WorkerRecord] = [
        past.worker
        for past in creation.history or ()
        if past.worker is not None and past.worker.number <= worker.number
    ]
    return made[-1] if made else worker


def task_id(task: Task, look: Look) -> str:
    """The id as text. For a normal task it is built here, which is faster than `hex`."""
    return f"{task.number:016x}{NORMAL_TAIL}" if task.actor is None else task.hex


def task_name(task: Task, look: Look) -> str:
    """The name that the program gave the task, or the function's. If the actor has a repr of its own, the name of its
    call begins with the repr."""
    spec, actor = task.spec, task.actor
    if (
        actor is not None
        and actor.repr_name
        and task.t_started
        and spec.name == spec.func_name
        and spec.kind == ACTOR_TASK
    ):
        return f"{actor.repr_name}.{spec.name.rpartition('.')[2]}"
    return spec.name


def _events(task: Task, look: Look) -> list[dict[str, Any]]:
    return [{"state": state, "created_ms": float(look.ms(at) or 0)} for state, at in moments(task)]


def _start_ms(task: Task, look: Look) -> int | None:
    return look.ms(task.t_finished if failed_for_argument(task) else task.t_started)


def _end_ms(task: Task, look: Look) -> int | None:
    return look.ms(task.t_finished)


def _profile(task: Task, look: Look) -> dict[str, Any]:
    """The spans that a worker of Ray measures itself; {} for an attempt that has not run to its end."""
    if not task.t_started or not task.t_finished or task.worker is None:
        return {}
    spec, ended = task.spec, task.t_ended or task.t_finished
    spans: list[tuple[str, float, float, dict[str, str]]] = [
        ("task:deserialize_arguments", task.t_leased, task.t_started, {}),
        ("task:execute", task.t_started, ended, {}),
    ]
    if task.failure is None:
        spans.append(("task:store_outputs", ended, task.t_finished, {}))
    name = spec.func_name.rpartition(".")[2] if spec.kind != NORMAL_TASK else f"{spec.module}.{spec.func_name}"
    spans.append((f"task::{spec.name}", task.t_leased, task.t_finished, {"name": name, "task_id": task.hex}))
    return {
        "component_type": "worker",
        "component_id": process_of(task.worker).hex,
        "node_ip_address": task.worker.node.name,
        "events": [
            {
                "start_time": (start + look.epoch) * 1000,
                "end_time": (end + look.epoch) * 1000,
                "extra_data": extra,
                "event_name": event,
            }
            for event, start, end, extra in spans
        ],
    }


def _required(task: Task, look: Look) -> dict[str, float]:
    """The resources that the attempt holds. As in Ray, a call holds nothing, except on an actor without resources of
    its own: its call shows the CPU that a node must have free to place the actor."""
    actor = task.actor
    if task.spec.kind == ACTOR_TASK and actor is not None:
        wanted = actor.creation.spec.scheduling_class
        return {"CPU": 1.0} if wanted is not None and "CPU" in wanted.need and "CPU" not in wanted.hold else {}
    return dict(look.resources[task.spec])


def required_resources(wanted: SchedulingClass | None) -> dict[str, float]:
    """The resources that a task or actor holds, in Ray's names: those of a bundle contain its placement group's id."""
    if wanted is None:
        return {}
    held = {name: amount for name, amount in amounts(wanted.hold).items() if amount}
    if wanted.group is None:
        return held
    group, index = wanted.group.hex, wanted.strategy[2]
    of_group = {"bundle": 0.001, **held}
    named = {f"{name}_group_{group}": amount for name, amount in of_group.items()}
    if index >= 0:
        named |= {f"{name}_group_{index}_{group}": amount for name, amount in of_group.items()}
    return named


def _runtime_env_info(task: Task, look: Look) -> dict[str, Any]:
    return {
        "serialized_runtime_env": look.env_of[task.spec],
        "runtime_env_config": dict((task.spec.runtime_env or {}).get("config") or CONFIG),
    }


def _log_info(task: Task, look: Look) -> dict[str, Any] | None:
    """The files with the attempt's output. As in Ray, None for an actor's calls."""
    if task.spec.kind != NORMAL_TASK or task.worker is None:
        return None
    base = log_name(task.worker)
    return {"stdout_file": base + ".out", "stderr_file": base + ".err"}


def group_id(wanted: SchedulingClass | None) -> str | None:
    """The id of the placement group that a scheduling class belongs to, or None."""
    return wanted.group.hex if wanted is not None and wanted.group is not None else None


TASKS: Readers = {
    "task_id": task_id,
    "attempt_number": lambda t, look: t.attempt,
    "name": task_name,
    "state": lambda t, look: "FINISHED" if t.status is FINISHED else task_state(t),
    "job_id": lambda t, look: JOB_HEX,
    "actor_id": lambda t, look: look.hex[t.actor],
    "type": lambda t, look: t.spec.kind,
    "func_or_class_name": lambda t, look: t.spec.func_name,
    "parent_task_id": lambda t, look: t.parent,
    "node_id": lambda t, look: look.hex[t.node] if t.spec.kind != ACTOR_CREATION_TASK else None,
    "worker_id": lambda t, look: look.process[t.worker] if t.spec.kind != ACTOR_CREATION_TASK else None,
    "worker_pid": lambda t, look: look.pid if t.worker is not None else None,
    "error_type": lambda t, look: error_type(t, look) if t.failure is not None and not orphaned(t) else None,
    "language": lambda t, look: "PYTHON",
    "required_resources": _required,
    "runtime_env_info": _runtime_env_info,
    "placement_group_id": lambda t, look: look.group[t.spec],
    "events": _events,
    "profiling_data": _profile,
    "creation_time_ms": lambda t, look: look.ms(t.t_created),
    "start_time_ms": _start_ms,
    "end_time_ms": _end_ms,
    "task_log_info": _log_info,
    "error_message": lambda t, look: error_message(t, look) if t.failure is not None and not orphaned(t) else None,
    "is_debugger_paused": lambda t, look: None,
    "call_site": lambda t, look: None,
    "label_selector": lambda t, look: dict(t.spec.options.get("label_selector") or {}),
    "fallback_strategy": lambda t, look: {"options": list(t.spec.options.get("fallback_strategy") or [])},
}
