"""The stored tables: those that the rows of a collector go into.

Stored tables whose names begin with an underscore are written once for each task, so they are narrow: they hold numbers
in place of ids. Programs read the views.
"""

from __future__ import annotations

from .ddl import TASK_ID, Table, columns

TABLES: tuple[Table, ...] = (
    Table(
        "_attempts",
        "One row for each attempt of a task.",
        columns(f"""
key INTEGER!~ | The task's number, for its current attempt; -(number * 2^20 + attempt) for an earlier one.
spec INTEGER! | What it calls: `_specs.id`.
caller INTEGER! | Who called `.remote()`: `_callers.id`.
actor INTEGER~ | The number of its actor; negative for the actor's constructor.
worker INTEGER | The number of the worker that was told to run it.
created_us INTEGER clock | `.remote()` was called; of a retry: the attempt before it ended.
ready_us INTEGER clock | All arguments had a value.
leased_us INTEGER clock | A worker was told to run it.
started_us INTEGER clock | The worker entered the function.
ended_us INTEGER clock | The function returned or raised.
finished_us INTEGER clock | The values, or the error, were stored.
producers TEXT json:numbers | The numbers of the tasks whose values it takes; NULL if there are none.
attempt INTEGER! | The number of the attempt, 0 for the first.
state TEXT! | Ray's name of its state.
failure INTEGER | Why it failed: `_failures.id`.
error INTEGER | The failure that its row shows: `_failures.id`.
error_type TEXT | Ray's name of the error that its row shows.
details TEXT json:details | Of a task that may change again: what its record holds besides, see `rows.details`.
task_id TEXT | {TASK_ID} | Ray's id.
"""),
        ("key",),
        "finished_us",
        (
            "CREATE INDEX _attempts_id ON _attempts (task_id)",
            "CREATE INDEX _attempts_state ON _attempts (state) WHERE key > 0",
            "CREATE INDEX _attempts_actor ON _attempts (actor) WHERE actor > 0",
        ),
    ),
    Table(
        "_specs",
        "What all calls of one function with the same options have in common.",
        columns("""
id INTEGER! | A number.
kind TEXT! | NORMAL_TASK, ACTOR_CREATION_TASK or ACTOR_TASK.
name TEXT! | The name that rows show.
given_name TEXT! | The name without the actor's repr.
func_name TEXT! | The function's own name; Class.method for a method.
module TEXT! | The module that defines the function.
class INTEGER | Its demand: `_classes.id`; NULL for a method.
resources_json TEXT json:amounts | The amounts that the program asked for.
num_returns TEXT! | A number, streaming or dynamic.
max_retries INTEGER! | -1 for no limit.
retry_exceptions TEXT | true, false, or the names of the exceptions.
concurrency_group TEXT! | Of a method; "" for the default group.
runtime_env_json TEXT json:fields | Its runtime environment, with every value masked.
capture_child_tasks INTEGER | Whether tasks that it submits run in its placement group.
backpressure INTEGER! | How many items of its stream may wait for the consumer; -1 for no limit.
max_calls INTEGER! | A worker ends after this many calls; 0 for no limit.
label_selector_json TEXT json:texts | The labels that its node must have.
fallback_json TEXT json:list | What to try when no node has them.
"""),
        ("id",),
    ),
    Table(
        "_callers",
        "Who submitted tasks.",
        columns("""
id INTEGER! | A number.
parent_task_id TEXT! | The task that called `.remote()`.
owner INTEGER | The number of its worker; NULL for the driver.
trace_id TEXT | The trace of the calls; NULL if each begins one.
parent_span INTEGER~ | The span in which the calls were made; NULL if there was none.
call_span INTEGER~ | The span of the call itself, if OpenTelemetry has made it.
trace_state TEXT | The trace's state, a W3C header.
actor INTEGER | The number of the actor in which it runs; NULL if it runs in none.
"""),
        ("id",),
    ),
    Table(
        "_failures",
        "Why tasks failed and actors died.",
        columns("""
id INTEGER! | A number.
error_type TEXT! | Ray's name of the kind of error.
message TEXT! | A sentence.
text TEXT! | What rows show: the traceback of the program's code, or the sentence.
cause INTEGER | The failure that led to this one: `_failures.id`.
about_kind TEXT | What failed: task, actor, object, node, worker or placement_group.
about_id TEXT | Its id.
about_number INTEGER | Its number.
user_error TEXT | The class of the exception that the program's code raised; NULL if there is none.
"""),
        ("id",),
    ),
    Table(
        "_classes",
        "Demands: all tasks of one demand share a queue.",
        columns("""
id INTEGER! | A number.
need_json TEXT! json:amounts | The amounts that a node must have free.
hold_json TEXT! json:amounts | The amounts that are taken while it runs.
strategy_json TEXT! json:strategy | Where it may run.
selector_json TEXT json:selector | The labels that the node must have.
placement_group INTEGER | The number of its placement group.
queue TEXT | waiting, infeasible, or "" if nothing waits.
queue_length INTEGER | How many tasks wait for a node.
"""),
        ("id",),
    ),
    Table(
        "_states",
        "The steps of an attempt, in order.",
        columns("""
step INTEGER | 0 to 4.
name TEXT | Ray's name of the state that begins with it; NULL for the end.
"""),
        ("step",),
    ),
    Table(
        "actors",
        "One row for each actor, in Ray's vocabulary and in Monarch's.",
        columns("""
id INTEGER! | Its number. In Monarch: the key of joins.
timestamp_us INTEGER clock | It was created.
mesh_id INTEGER | Monarch: its mesh (`meshes.id`).
rank INTEGER | Monarch: its place in the mesh, always 0.
full_name TEXT | Namespace, name or class, and number: unique.
display_name TEXT | Its name, its repr, or its class.
actor_id TEXT | Ray's id.
class_name TEXT! | The name of its class.
state TEXT! | DEPENDENCIES_UNREADY, PENDING_CREATION, ALIVE, RESTARTING or DEAD.
job_id TEXT | The job.
name TEXT! | The name under which `get_actor` finds it; "" for none.
ray_namespace TEXT! | Where the name is valid.
node_id TEXT | The node that it lives on, or lived on last.
pid INTEGER | The process; 0 if it was never placed.
worker_id TEXT | The worker that it lives in.
num_restarts INTEGER! | How often it was restarted.
max_restarts INTEGER! | -1 for no limit.
is_detached INTEGER | Whether it lives on when nobody holds a handle.
is_async INTEGER | Whether its calls are coroutines.
repr_name TEXT! | `repr` of the instance, if its class defines one.
placement_group_id TEXT | Its placement group.
num_pending_calls INTEGER | Its unfinished calls.
num_running_calls INTEGER | Its calls that run now.
num_executed_calls INTEGER! | Its calls that have ended.
alive_us INTEGER clock | Its constructor last returned.
dead_us INTEGER clock | It became DEAD.
death_reason TEXT | Why it is dead; NULL while it lives.
death_cause_json TEXT json | Ray's death cause.
required_resources_json TEXT json | What its worker holds.
runtime_env_json TEXT json | Its runtime environment, with every value masked.
creation_task INTEGER | The number of its constructor's task.
worker INTEGER | The number of the worker.
node INTEGER | The number of the node.
owner INTEGER | The number of the worker that created it; NULL for the driver.
failure INTEGER | Why it is DEAD: `_failures.id`.
out_of_scope INTEGER | The program dropped its last handle.
groups_json TEXT! json:groups | Its concurrency groups: name, limit, running calls, numbers of the calls in the queue.
devices_json TEXT json | The devices that its worker was given.
lineage INTEGER! | Its finished calls that may run again.
class INTEGER | What its worker holds: `_classes.id`.
"""),
        ("id",),
    ),
    Table(
        "actor_events",
        "One row for each change of an actor's state.",
        columns("""
actor INTEGER | The actor's number.
seq INTEGER | The place of the change in the actor's life.
actor_id TEXT | The actor's id.
state TEXT | The new state.
timestamp_us INTEGER clock | When it changed.
reason TEXT | Why, if it died or is being restarted.
intended INTEGER | Of DEAD: whether somebody wanted it: it was killed, it ended itself, or nobody held it.
"""),
        ("actor", "seq"),
    ),
    Table(
        "objects",
        "One row for each object that a look at the session found: values and errors, sizes, and who needs them.",
        columns("""
number INTEGER! | Its number: the task's, or the actor's, times 2^32, and an index.
object_id TEXT | Ray's id.
state TEXT! | PENDING, READY, SPILLED, LOST, FAILED, RELEASED or ENDED.
size_bytes INTEGER! | Of the serialized value; -1 while unknown.
task INTEGER | The number of the task that makes it; NULL for a value that was put.
refs INTEGER! | References that the program holds.
uses INTEGER! | Unfinished tasks that take it.
held INTEGER! | Stored values and arguments of tasks that contain a reference to it.
lineage INTEGER! | Finished tasks that keep it, because they may run again.
reference_type TEXT | The kind of reference that Ray names first.
call_site TEXT | What made it.
node_id TEXT | The node with its primary copy; NULL for a small value.
locations_json TEXT json:numbers | The numbers of the nodes with a copy, the primary first.
contained_json TEXT json:numbers | The numbers of the objects inside its value.
waiters INTEGER | How many threads wait for it.
owner INTEGER | The number of the worker that owns it; NULL for the driver.
actor INTEGER | The number of the actor whose handle it is.
failure INTEGER | Of a FAILED object: `_failures.id`.
created_us INTEGER clock | It was put; of a return, its task was submitted.
ready_us INTEGER clock | Its value, or its error, was stored.
released_us INTEGER clock | A look first found it released.
"""),
        ("number",),
        "released_us",
    ),
    Table(
        "nodes",
        "One row for each node.",
        columns("""
number INTEGER! | 1 for the head node.
node_id TEXT | Ray's id.
node_ip TEXT | Its address.
node_name TEXT | Its name.
is_head_node INTEGER | Whether it is the head node.
state TEXT! | ALIVE or DEAD.
state_message TEXT | Why it died; NULL while it lives.
resources_total_json TEXT! json:amounts | Amounts by name.
resources_available_json TEXT! json:amounts | What no worker and no bundle holds.
labels_json TEXT! json:texts | Its labels.
start_us INTEGER clock | It joined.
end_us INTEGER clock | It died.
num_workers INTEGER | Its living workers.
num_idle_workers INTEGER | Those that wait for work.
starting INTEGER! | Workers that were ordered for tasks and have not answered.
store_used_bytes INTEGER! bytes | What its object store holds in memory.
store_capacity_bytes INTEGER! bytes | What it may hold before it spills.
store_spilled_bytes INTEGER! bytes | What is only in files.
store_json TEXT! json:amounts | All numbers of its object store.
free_devices_json TEXT json:devices | Units of each device that are free.
"""),
        ("number",),
    ),
    Table(
        "node_resources",
        "The resources of each node over time: a row whenever a look found a change.",
        columns("""
node INTEGER | The node's number.
resource TEXT | The name of the resource.
timestamp_us INTEGER clock | When.
node_id TEXT | The node's id.
total REAL units | The amount that the node has.
available REAL units | The amount that is free.
"""),
        ("node", "resource", "timestamp_us"),
        "timestamp_us",
    ),
    Table(
        "workers",
        "One row for each worker, which is a thread here and a process in Ray.",
        columns("""
number INTEGER! | 0 for the driver.
worker_id TEXT | Ray's id.
worker_type TEXT | DRIVER or WORKER.
state TEXT! | STARTING, IDLE, LEASED, BLOCKED or DEAD.
is_alive INTEGER | Whether it lives.
node_id TEXT | Its node.
pid INTEGER | The process.
thread_id INTEGER | The ident of its thread; 0 when the thread has ended.
actor_id TEXT | The actor that lives in it.
exit_type TEXT | Ray's name of the reason of its end.
exit_detail TEXT | A sentence about its end.
created_us INTEGER clock | Its start was ordered.
start_us INTEGER clock | Its thread answered.
end_us INTEGER clock | It was declared dead.
tasks_done INTEGER! | The attempts that it has reported.
node INTEGER | The number of its node.
process INTEGER | The number of the worker that stands for its process in Ray.
actor INTEGER | The number of the actor.
concurrency_group TEXT | The group of the actor that it serves.
class INTEGER | What it holds: `_classes.id`.
lent INTEGER | CPU units that it has lent while its task is blocked.
bundle_group INTEGER | The placement group from whose bundle it has its lease.
bundle_index INTEGER | The bundle.
task INTEGER | The number of the task that it runs.
running_json TEXT json:numbers | The numbers of the calls that an event loop runs.
devices_json TEXT json | The devices that it was given.
owns INTEGER | Whether it ever owned anything.
unfinished INTEGER | How many tasks that it submitted are not over.
"""),
        ("number",),
        "end_us",
    ),
    Table(
        "placement_groups",
        "One row for each placement group.",
        columns("""
number INTEGER! | Its number.
placement_group_id TEXT | Ray's id.
name TEXT! | Its name; "" for none.
strategy TEXT! | PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
state TEXT! | PENDING, CREATED, RESCHEDULING or REMOVED.
is_detached INTEGER | Whether it outlives its owner.
creator_job_id TEXT | The job.
scheduling_state TEXT | Ray's name for what it waits for.
created_us INTEGER clock | It was created.
placed_us INTEGER clock | All its bundles were last reserved.
attempts INTEGER! | How often the core has looked for nodes for it.
owner INTEGER | The number of the worker that created it; NULL for the driver.
ready INTEGER | The number of the object that its `ready()` returns.
"""),
        ("number",),
    ),
    Table(
        "bundles",
        "One row for each bundle of a placement group.",
        columns("""
placement_group INTEGER! | The group's number.
bundle_index INTEGER! | Its place in the group.
placement_group_id TEXT | The group's id.
resources_json TEXT! json:amounts | Amounts by name.
available_json TEXT! json:amounts | What no worker in the bundle holds.
node_id TEXT | The node on which it is reserved; NULL while it is on none.
node INTEGER | The node's number.
selector_json TEXT json:selector | The labels that the node must have.
"""),
        ("placement_group", "bundle_index"),
    ),
    Table(
        "cluster_events",
        "The event log: what belongs to no single task.",
        columns("""
seq INTEGER! | Its number in the session.
timestamp_us INTEGER clock | When.
kind TEXT! | A short word, such as node_died.
severity TEXT | INFO, WARNING or ERROR.
source_type TEXT | GCS or RAYLET.
message TEXT! | A sentence.
about_kind TEXT | What it is about: task, actor, object, node, worker or placement_group.
about_id TEXT | The id of that.
about_number INTEGER | The number of that.
"""),
        ("seq",),
        "timestamp_us",
    ),
    Table(
        "log_lines",
        "The lines that tasks and actors printed.",
        columns("""
id INTEGER! | A number; in each log, later lines have larger ones.
timestamp_us INTEGER us | When the line was collected: at a query, or at the recorder's next look after it ended.
worker_id TEXT | The worker whose log it is in.
node_id TEXT | The worker's node.
task_id TEXT | The task that printed it; NULL if that is not known.
actor_id TEXT | The actor.
attempt_number INTEGER | The attempt.
stream TEXT! | stdout or stderr.
log TEXT! | The name of the log.
line TEXT! | The line.
worker INTEGER | The number of the worker.
task INTEGER | The number of the task.
"""),
        ("id",),
        "timestamp_us",
    ),
    Table(
        "profile_events",
        "The spans of `miniray.profile`.",
        columns("""
id INTEGER! | Its number in the session.
name TEXT! | Its name.
start_us INTEGER clock | It began.
end_us INTEGER clock | It ended.
worker INTEGER | The number of the worker; NULL for the driver.
task INTEGER | The number of the task that it ran in; 0 for none.
extra_json TEXT json:fields | The texts that it carries.
"""),
        ("id",),
        "end_us",
    ),
    Table(
        "waits",
        "The times that threads spent in get and wait.",
        columns("""
id INTEGER! | A number.
worker INTEGER | The number of the worker; NULL for the driver.
task INTEGER | The number of its task; 0 for the driver.
start_us INTEGER clock | It began to wait.
end_us INTEGER clock | It went on.
"""),
        ("id",),
        "end_us",
    ),
    Table(
        "store_samples",
        "How full the object store of each node was.",
        columns("""
node INTEGER! | The node's number.
timestamp_us INTEGER! clock | When.
used_bytes INTEGER! bytes | What it held in memory.
spilled_bytes INTEGER! bytes | What was only in files.
"""),
        ("node", "timestamp_us"),
        "timestamp_us",
    ),
    Table(
        "metric_points",
        "The values of metrics over time: a row whenever a look found a change.",
        columns("""
id INTEGER! | A number.
timestamp_us INTEGER! us | When it was read.
start_us INTEGER! us | When the metric's series began.
name TEXT! | The name, without Ray's prefix.
kind TEXT! | counter, gauge or histogram.
unit TEXT | The unit, if the program named one.
description TEXT! | What it measures.
worker_id TEXT! | driver, or the worker's id.
tags_json TEXT! json:texts | The tags.
value REAL | Of a counter: the sum so far; of a gauge: the value.
count INTEGER | Of a histogram: how many values it has seen.
sum REAL | Of a histogram: their sum.
bounds_json TEXT json:bounds | Of a histogram: the upper boundaries of its buckets.
bucket_counts_json TEXT json:numbers | Of a histogram: how many values each bucket has; the last is above all bounds.
delta REAL | What `value` (of a histogram: `sum`) has grown by since the row before.
delta_count INTEGER~ | Of a histogram: what `count` has grown by.
delta_buckets_json TEXT json | Of a histogram: what `bucket_counts_json` has grown by.
"""),
        ("id",),
        "timestamp_us",
        rules=(
            ("kind IN ('counter', 'gauge', 'histogram')", "its kind is unknown"),
            (
                "kind != 'histogram' OR count IS NOT NULL AND delta_count IS NOT NULL AND bounds_json IS NOT NULL AND "
                "bucket_counts_json IS NOT NULL",
                "it is a histogram without its buckets",
            ),
        ),
    ),
    Table(
        "_own_spans",
        "The spans that the program has opened itself: see the view `spans`.",
        columns("""
id INTEGER~ | The span's id as a number.
timestamp_us INTEGER us | It began.
trace_id TEXT | Of the trace: 32 hexadecimal digits.
parent_id INTEGER~ | The id of the span around it; NULL for the first one of a trace.
name TEXT | Its name.
start_ns INTEGER ns | It began; nanoseconds since the epoch.
end_ns INTEGER ns | It ended.
status TEXT | UNSET or ERROR.
description TEXT | Of the error.
attributes TEXT json | Its attributes.
events TEXT json | Its events; NULL if there are none.
task_id TEXT | The task that opened it; NULL for the driver.
attempt INTEGER | Its attempt.
"""),
        ("id",),
        "timestamp_us",
    ),
    Table(
        "stack_samples",
        "What `miniray.telemetry.profile` saw: a row for each stack and state.",
        columns("""
id INTEGER | A number.
timestamp_us INTEGER us | When the stack was last seen.
task_id TEXT | The task; NULL for the driver.
actor_id TEXT | The actor.
worker_id TEXT | The worker.
name TEXT | The name of the task, or of the thread.
state TEXT | running or waiting.
stack TEXT | The functions, the outermost first, with semicolons between them.
samples INTEGER | How often it was seen.
"""),
        ("id",),
        "timestamp_us",
    ),
    Table(
        "session",
        "Facts about the session, one row for each.",
        columns("""
name TEXT! | Such as schema_version, started_us, ended_us, how_it_ended, written_us, argv_json.
value TEXT! | The fact.
"""),
        ("name",),
    ),
    Table(
        "dropped",
        "What is missing, and why.",
        columns("""
table_name TEXT! | The table in which rows are missing.
reason TEXT! | Why.
count INTEGER! | How many rows.
last_us INTEGER us | When this last happened.
"""),
        ("table_name", "reason"),
    ),
)

SEARCH = Table(
    "log_search",
    "The words of `log_lines`, where SQLite has FTS5: `WHERE log_search MATCH 'timeout OR refused'`; its `rowid` is "
    "`log_lines.id`.",
    columns("line TEXT | The words of the line."),
    ("rowid",),
)
SEARCH_DDL = (
    "CREATE VIRTUAL TABLE log_search USING fts5 (line, content = 'log_lines', content_rowid = 'id')",
    "CREATE TRIGGER _log_search_new AFTER INSERT ON log_lines BEGIN "
    "INSERT INTO log_search (rowid, line) VALUES (new.id, new.line); END",
    "CREATE TRIGGER _log_search_old AFTER DELETE ON log_lines BEGIN "
    "INSERT INTO log_search (log_search, rowid, line) VALUES ('delete', old.id, old.line); END",
)
SHADOWS = frozenset(f"log_search_{name}" for name in ("data", "idx", "docsize", "config", "content"))
"""The tables in which FTS5 keeps the words. SQLite asks for the permission to read them, too."""
