"""The views in Ray's vocabulary: tasks, attempts, events, references and jobs."""

from __future__ import annotations

from ...ids import JOB_HEX
from .ddl import NUMBER, View, actor_id, columns, hex_of, of


def _spec(column: str) -> str:
    return f"(SELECT x.{column} FROM _specs x WHERE x.id = a.spec)"


_A_NUMBER = NUMBER.replace("key", "a.key")
_A_MESSAGE = (
    "(SELECT CASE WHEN a.error_type = 'TASK_EXECUTION_EXCEPTION' THEN 'User exception:' || char(10) || "
    "trim(x.text, ' ' || char(10)) ELSE x.text END FROM _failures x WHERE x.id = a.error)"
)
_WORKER = (
    f"coalesce((SELECT printf('%056x', x.process) FROM workers x WHERE x.number = a.worker), {hex_of(56, 'a.worker')})"
)
_ATTEMPT_COLUMNS = columns(f"""
task_id TEXT | a.task_id | The task's id.
attempt_number INTEGER | a.attempt | The number of the attempt, 0 for the first.
name TEXT | {_spec("name")} | The task's name.
state TEXT | a.state | Ray's name of its state.
job_id TEXT | '{JOB_HEX}' | The job.
actor_id TEXT | {actor_id("abs(a.actor)")} | The actor of a method or a constructor.
type TEXT | {_spec("kind")} | NORMAL_TASK, ACTOR_CREATION_TASK or ACTOR_TASK.
func_or_class_name TEXT | {_spec("func_name")} | The function's own name; Class.method for a method.
module TEXT | {_spec("module")} | The module that defines the function.
parent_task_id TEXT | {of("_callers", "parent_task_id", "id", "a.caller")} | The task that submitted it.
node_id TEXT | {of("workers", "node_id", "number", "a.worker")} | The node that ran it.
worker_id TEXT | {_WORKER} | The worker that ran it; of an actor's threads, the one that stands for its process.
error_type TEXT | a.error_type | Ray's name of its error; NULL if it has not failed.
error_message TEXT | {_A_MESSAGE} | The error, with the traceback of the program's code.
created_us INTEGER us | a.created_us | `.remote()` was called; of a retry: the attempt before it ended.
ready_us INTEGER us | a.ready_us | All arguments had a value.
leased_us INTEGER us | a.leased_us | A worker was told to run it.
started_us INTEGER us | a.started_us | The worker entered the function.
ended_us INTEGER us | a.ended_us | The function returned or raised.
finished_us INTEGER us | a.finished_us | The values, or the error, were stored.
duration_us INTEGER us | coalesce(a.ended_us, a.finished_us) - a.started_us | How long the function ran.
required_resources_json TEXT json | {_spec("resources_json")} | The amounts that the program asked for.
runtime_env_json TEXT json | {_spec("runtime_env_json")} | Its runtime environment, with every value masked.
producers_json TEXT json | a.producers | The numbers of the tasks whose values it takes.
actor INTEGER | abs(a.actor) | The actor's number.
worker INTEGER | a.worker | The worker's number.
owner INTEGER | {of("_callers", "owner", "id", "a.caller")} | The worker that submitted it; NULL for the driver.
""")

_AT = (
    "CASE s.step WHEN 0 THEN a.created_us WHEN 1 THEN a.ready_us WHEN 2 THEN a.leased_us "
    "WHEN 3 THEN a.started_us ELSE a.finished_us END"
)

RAY_VIEWS: tuple[View, ...] = (
    View(
        "tasks",
        "One row for each task: its current attempt.",
        (*_ATTEMPT_COLUMNS, *columns("number INTEGER | a.key | The task's number: a key for joins.")),
        "_attempts a WHERE a.key > 0",
    ),
    View("task_attempts", "One row for each attempt of a task.", _ATTEMPT_COLUMNS, "_attempts a"),
    View(
        "task_events",
        "One row for each state that an attempt has reached.",
        columns(f"""
task_id TEXT | a.task_id | The task's id.
attempt_number INTEGER | a.attempt | The number of the attempt.
state TEXT | coalesce(s.name, a.state) | The state that it reached.
timestamp_us INTEGER us | {_AT} | When.
"""),
        f"_attempts a CROSS JOIN _states s WHERE {_AT} IS NOT NULL",
    ),
    View(
        "object_references",
        "Who holds an object: one row for each holder.",
        columns("""
object_id TEXT | h.object_id | The object.
object INTEGER | h.object | Its number.
holder_kind TEXT | h.kind | program, task (an unfinished one takes it), or value (a stored one contains it).
holder_id TEXT | h.holder_id | The id of the task or of the object; NULL for the program.
holder INTEGER | h.holder | Its number.
count INTEGER | h.count | How many references.
"""),
        "(SELECT o.object_id, o.number AS object, 'program' AS kind, NULL AS holder_id, NULL AS holder, "
        "o.refs AS count FROM objects o WHERE o.refs > 0 UNION ALL "
        "SELECT o.object_id, o.number, 'value', x.object_id, x.number, 1 FROM objects x, "
        "json_each(x.contained_json) e, objects o WHERE o.number = e.value UNION ALL "
        f"SELECT o.object_id, o.number, 'task', a.task_id, {_A_NUMBER}, 1 FROM _attempts a, "
        "json_each(a.details, '$.deps') e, objects o WHERE a.finished_us IS NULL AND o.number = e.value) h",
    ),
    View(
        "jobs",
        "One row: the program that called `init`.",
        columns(f"""
job_id TEXT | '{JOB_HEX}' | The job.
type TEXT | 'DRIVER' | DRIVER.
status TEXT | coalesce({of("session", "value", "name", "'status'")}, 'RUNNING') | RUNNING, SUCCEEDED, FAILED or UNKNOWN.
entrypoint TEXT | {of("session", "value", "name", "'entrypoint'")} | The program's command line.
pid INTEGER | CAST({of("session", "value", "name", "'pid'")} AS INTEGER) | Its process.
start_us INTEGER us | CAST({of("session", "value", "name", "'started_us'")} AS INTEGER) | The session started.
end_us INTEGER us | CAST({of("session", "value", "name", "'ended_us'")} AS INTEGER) | It ended; NULL while it runs.
"""),
        "_states one WHERE one.step = 0",
    ),
)
