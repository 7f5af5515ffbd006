"""The views in Monarch's vocabulary, for the queries of its documentation and of its dashboard.

What Monarch calls a message is a call of an actor's method here. A mesh is a group of hosts, processes or actors: every
node is a host, every worker that stands for a process of Ray is a process, and every actor is a mesh of one. What is
no actor (the driver, a task) is the actor 0, which has no row.

Monarch stores a snapshot of its tree every few seconds. Here the tables of a snapshot always show the tree as it is in
the other tables, under one snapshot_id. Its table `nodes` is called `monarch_nodes`, since `nodes` has Ray's rows.
"""

from __future__ import annotations

from .ddl import NUMBER, View, columns, of

_HOST, _PROC = 1 << 40, 1 << 41  # added to the numbers of nodes and workers, so that the ids of meshes differ
_NUMBER = NUMBER.replace("key", "a.key")
_METHOD = (
    "(SELECT replace(x.func_name, rtrim(x.func_name, replace(x.func_name, '.', '')), '') FROM _specs x "
    "WHERE x.id = a.spec)"
)
_FROM = f"coalesce({of('_callers', 'actor', 'id', 'a.caller')}, 0)"
_ONE = """'{"labels":["actors"],"slice":{"offset":0,"sizes":[1],"strides":[1]}}'"""
_NOW = (
    "coalesce((SELECT CAST(x.value AS INTEGER) FROM session x WHERE x.name = 'written_us'), "
    "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER))"
)
_STATUS = "CASE e.state WHEN 'DEPENDENCIES_UNREADY' THEN 'Created' WHEN 'PENDING_CREATION' THEN 'Initializing' " + (
    "WHEN 'ALIVE' THEN 'Idle' WHEN 'RESTARTING' THEN 'Failed' ELSE CASE WHEN e.intended THEN 'Stopped' "
    "ELSE 'Failed' END END"
)
_LATEST = (
    "CASE o.state WHEN 'DEPENDENCIES_UNREADY' THEN 'Created' WHEN 'DEAD' THEN CASE WHEN (SELECT x.intended FROM "
    "actor_events x WHERE x.actor = o.id ORDER BY x.seq DESC LIMIT 1) THEN 'Stopped' ELSE 'Failed' END "
    "WHEN 'ALIVE' THEN CASE WHEN o.num_running_calls THEN 'Processing' ELSE 'Idle' END ELSE 'Initializing' END"
)
_FRAMES = """'["' || replace(replace(replace(k.stack, '\\', '\\\\'), '"', '\\"'), ';', '","') || '"]'"""
_SNAPSHOT = "snapshot_id TEXT | 'now' | The snapshot: there is one."
_SERIES = "OVER (PARTITION BY p.name, p.kind, p.worker_id, p.tags_json ORDER BY p.id)"
_POINT = """
name TEXT | p.name | The metric's name.
timestamp_us INTEGER us | p.timestamp_us | When it was read.
start_timestamp_us INTEGER us | {start} | {says}
scope_name TEXT | 'miniray' | The instrumentation scope.
unit TEXT | p.unit | The unit, if the program named one.
attributes_json TEXT json | p.tags_json | The tags.
resource_attributes_json TEXT json | json_object('worker_id', p.worker_id) | The worker that recorded it.
"""
_INTERVAL = {
    "start": f"coalesce(lag(p.timestamp_us) {_SERIES}, p.start_us)",
    "says": "The interval of the row began.",
}

_STEP = (
    "CASE s.step WHEN 0 THEN 'queued' WHEN 1 THEN 'active' ELSE "
    "CASE WHEN a.failure IS NULL THEN 'complete' ELSE 'failed' END END"
)
_STARTED = "(SELECT CAST(x.value AS INTEGER) FROM session x WHERE x.name = 'started_us')"
_LIVING = "(SELECT count(*) FROM actors x WHERE x.worker_id = w.worker_id AND x.state <> 'DEAD')"
_DEAD = "(SELECT count(*) FROM actors x WHERE x.worker_id = w.worker_id AND x.state = 'DEAD')"
_LAST_METHOD = (
    f"(SELECT {_METHOD} FROM _attempts a WHERE a.actor = o.id AND a.actor > 0 AND a.started_us IS NOT NULL "
    "ORDER BY a.started_us DESC LIMIT 1)"
)
_TIME = "coalesce((SELECT sum(a.ended_us - a.started_us) FROM _attempts a WHERE a.actor = o.id AND a.actor > 0), 0)"
_ROOT = (
    "coalesce((SELECT c.about_id FROM _failures f JOIN _failures c ON c.id = f.cause WHERE f.id = o.failure "
    "AND c.about_kind = 'actor'), o.actor_id)"
)
_PROPAGATED = (
    "EXISTS (SELECT 1 FROM _failures f JOIN _failures c ON c.id = f.cause WHERE f.id = o.failure "
    "AND c.about_kind <> 'task')"
)
_RELEASED = (
    "(SELECT max(b.key) FROM _attempts b WHERE b.actor = a.actor AND b.actor > 0 AND b.caller = a.caller "
    "AND b.leased_us IS NOT NULL)"
)


def _typed(name: str, value: str, text: str) -> str:
    """The three typed columns of a number. All numbers of metrics are floats here."""
    return f"""
{name}_f64 REAL | {value} | {text}
{name}_i64 INTEGER | NULL | NULL: every number is a float.
{name}_u64 INTEGER | NULL | NULL.
"""


MONARCH_VIEWS: tuple[View, ...] = (
    View(
        "actor_status_events",
        "Monarch: one row for each change of an actor's status.",
        columns("""
id INTEGER | u.id | The row's key.
timestamp_us INTEGER us | u.timestamp_us | When.
actor_id INTEGER | u.actor_id | The actor: `actors.id`.
new_status TEXT | u.new_status | Created, Initializing, Idle, Processing, Stopped or Failed.
reason TEXT | u.reason | Why, of Stopped and Failed.
"""),
        f"(SELECT (e.actor << 20 | e.seq) * 4 AS id, e.timestamp_us, e.actor AS actor_id, {_STATUS} AS new_status, "
        "e.reason FROM actor_events e UNION ALL "
        "SELECT abs(a.key) * 4 + CASE WHEN a.key > 0 THEN 1 ELSE 3 END, a.started_us, a.actor, 'Processing', NULL "
        "FROM _attempts a WHERE a.actor > 0 AND a.started_us IS NOT NULL UNION ALL "
        "SELECT abs(a.key) * 4 + CASE WHEN a.key > 0 THEN 2 ELSE 3 END, a.ended_us, a.actor, 'Idle', NULL "
        "FROM _attempts a WHERE a.actor > 0 AND a.ended_us IS NOT NULL) u",
    ),
    View(
        "meshes",
        "Monarch: one row for each host, process and actor.",
        columns("""
id INTEGER | u.id | The row's key.
timestamp_us INTEGER us | u.timestamp_us | It was created.
class TEXT | u.class | Host, Proc, or the actor's class.
given_name TEXT | u.given_name | Its name.
full_name TEXT | u.full_name | A unique name.
shape_json TEXT json | u.shape_json | One member.
parent_mesh_id INTEGER | u.parent_mesh_id | The mesh that it is on; NULL for a host.
parent_view_json TEXT json | u.parent_view_json | One member of that.
"""),
        f"(SELECT n.number + {_HOST} AS id, n.start_us AS timestamp_us, 'Host' AS class, n.node_name AS given_name, "
        f"n.node_id AS full_name, {_ONE} AS shape_json, NULL AS parent_mesh_id, NULL AS parent_view_json FROM nodes n "
        f"UNION ALL SELECT w.number + {_PROC}, w.created_us, 'Proc', w.worker_id, w.node_id || '/' || w.worker_id, "
        f"{_ONE}, w.node + {_HOST}, {_ONE} FROM workers w WHERE w.process = w.number "
        f"UNION ALL SELECT o.id, o.timestamp_us, o.class_name, o.display_name, o.full_name, {_ONE}, "
        f"(SELECT x.process + {_PROC} FROM workers x WHERE x.worker_id = o.worker_id), {_ONE} FROM actors o) u",
    ),
    View(
        "messages",
        "Monarch: one row for each call of an actor's method.",
        columns(f"""
id INTEGER | a.key | The task's number: the key of joins.
timestamp_us INTEGER us | a.created_us | The call was made.
from_actor_id INTEGER | {_FROM} | The actor that called; 0 for the driver and for tasks.
to_actor_id INTEGER | a.actor | The actor that was called: `actors.id`.
endpoint TEXT | {_METHOD} | The method.
port_index INTEGER | NULL | NULL.
"""),
        "_attempts a WHERE a.key > 0 AND a.actor > 0",
    ),
    View(
        "message_status_events",
        "Monarch: one row for each step of a call.",
        columns(f"""
id INTEGER | abs(a.key) * 4 + s.step + CASE WHEN a.key < 0 THEN 1 << 62 ELSE 0 END | The row's key.
timestamp_us INTEGER us | CASE s.step WHEN 0 THEN a.created_us WHEN 1 THEN a.started_us ELSE a.finished_us END | When.
message_id INTEGER | {_NUMBER} | The call: `messages.id`.
status TEXT | {_STEP} | queued, active, complete or failed.
"""),
        "_attempts a CROSS JOIN _states s WHERE a.actor > 0 AND s.step < 3 AND "
        "CASE s.step WHEN 0 THEN a.created_us WHEN 1 THEN a.started_us ELSE a.finished_us END IS NOT NULL",
    ),
    View(
        "sent_messages",
        "Monarch: one row for each send. Every call here goes to one actor.",
        columns(f"""
id INTEGER | a.key | The row's key.
timestamp_us INTEGER us | a.created_us | When.
sender_actor_id INTEGER | {_FROM} | The actor that called; 0 for the driver and for tasks.
actor_mesh_id INTEGER | a.actor | The mesh that it went to: `meshes.id`.
view_json TEXT json | {_ONE} | One member.
shape_json TEXT json | {_ONE} | One member.
"""),
        "_attempts a WHERE a.key > 0 AND a.actor > 0",
    ),
    View(
        "span_events",
        "Monarch: one row for each step of a span.",
        columns("""
id INTEGER | s.id | The span.
timestamp_us INTEGER us | CASE p.step WHEN 0 THEN s.timestamp_us ELSE s.end_ns / 1000 END | When.
event_type TEXT | CASE p.step WHEN 0 THEN 'enter' WHEN 1 THEN 'exit' ELSE 'close' END | enter, exit or close.
"""),
        "spans s CROSS JOIN _states p WHERE p.step < 1 OR p.step < 3 AND s.end_ns IS NOT NULL",
    ),
    View(
        "events",
        "Monarch: the event log and the lines that were printed, as structured records.",
        columns("""
name TEXT | u.name | The kind of the event; line for a line.
target TEXT | u.target | miniray, or the stream.
level TEXT | u.level | INFO, WARN or ERROR.
fields_json TEXT json | u.fields_json | The message, and what it is about.
timestamp_us INTEGER us | u.timestamp_us | When.
parent_span INTEGER | NULL | NULL.
thread_id TEXT | u.worker | The worker that printed the line.
thread_name TEXT | u.worker | The same.
module_path TEXT | NULL | NULL.
file TEXT | u.file | The log of the line.
line INTEGER | NULL | NULL.
"""),
        "(SELECT e.kind AS name, 'miniray' AS target, replace(e.severity, 'WARNING', 'WARN') AS level, "
        "json_object('message', e.message, 'about_kind', e.about_kind, 'about_id', e.about_id) AS fields_json, "
        "e.timestamp_us, NULL AS worker, NULL AS file FROM cluster_events e UNION ALL "
        "SELECT 'line', l.stream, 'INFO', json_object('message', l.line, 'task_id', l.task_id), l.timestamp_us, "
        "l.worker_id, l.log FROM log_lines l) u",
    ),
    View(
        "metric_gauges",
        "Monarch: one row for each new value of a gauge.",
        columns(_POINT.format(start="p.start_us", says="Its series began.") + _typed("value", "p.value", "The value.")),
        "metric_points p WHERE p.kind = 'gauge'",
    ),
    View(
        "metric_sums",
        "Monarch: what a counter has grown by, one row for each interval.",
        columns(
            _POINT.format(**_INTERVAL)
            + "temporality TEXT | 'delta' | Always delta.\nis_monotonic INTEGER | 1 | Whether it only grows."
            + _typed("sum", "p.delta", "What it has grown by.")
        ),
        "metric_points p WHERE p.kind = 'counter'",
    ),
    View(
        "metric_histograms",
        "Monarch: what a histogram has seen, one row for each interval.",
        columns(
            _POINT.format(**_INTERVAL)
            + "temporality TEXT | 'delta' | Always delta.\ncount INTEGER | p.delta_count | How many values."
            + _typed("sum", "p.delta", "Their sum.")
            + _typed("min", "NULL", "Not known: always NULL.")
            + _typed("max", "NULL", "Not known: always NULL.")
            + "bounds_json TEXT json | p.bounds_json | The upper boundaries of the buckets.\n"
            "bucket_counts_json TEXT json | p.delta_buckets_json | How many values each bucket has seen."
        ),
        "metric_points p WHERE p.kind = 'histogram'",
    ),
    # -------------------------------------------------------- the tree
    View(
        "snapshots",
        "Monarch: one row, the tree as it is now.",
        columns(f"{_SNAPSHOT}\nsnapshot_ts INTEGER us | {_NOW} | When."),
        "_states one WHERE one.step = 0",
    ),
    View(
        "monarch_nodes",
        "Monarch's `nodes`: every member of the tree.",
        columns(f"""
{_SNAPSHOT}
node_id TEXT | u.id | Its id: root, or the id of a node, worker or actor.
node_kind TEXT | u.kind | root, host, proc or actor.
as_of INTEGER us | {_NOW} | When.
"""),
        "(SELECT 'root' AS id, 'root' AS kind UNION ALL SELECT node_id, 'host' FROM nodes UNION ALL "
        "SELECT worker_id, 'proc' FROM workers WHERE process = number UNION ALL SELECT actor_id, 'actor' FROM actors) "
        "u",
    ),
    View(
        "children",
        "Monarch: the edges of the tree.",
        columns(f"""
{_SNAPSHOT}
parent_id TEXT | u.parent | The upper end.
child_id TEXT | u.child | The lower end.
child_sort_key TEXT | u.place | The order of the children.
is_system INTEGER | 0 | Always 0.
is_stopped INTEGER | u.stopped | Whether the child has ended.
"""),
        "(SELECT 'root' AS parent, node_id AS child, node_id AS place, state = 'DEAD' AS stopped FROM nodes UNION ALL "
        "SELECT node_id, worker_id, worker_id, NOT is_alive FROM workers WHERE process = number UNION ALL "
        "SELECT worker_id, actor_id, actor_id, state = 'DEAD' FROM actors WHERE worker_id IS NOT NULL) u",
    ),
    View(
        "root_nodes",
        "Monarch: the root of the tree.",
        columns(f"""
{_SNAPSHOT}
node_id TEXT | 'root' | root.
num_hosts INTEGER | (SELECT count(*) FROM nodes x WHERE x.state = 'ALIVE') | The living nodes.
started_at INTEGER us | {_STARTED} | The session started.
started_by TEXT | {of("session", "value", "name", "'entrypoint'")} | The program.
"""),
        "_states one WHERE one.step = 0",
    ),
    View(
        "host_nodes",
        "Monarch: the hosts.",
        columns(f"""
{_SNAPSHOT}
node_id TEXT | n.node_id | The node.
addr TEXT | n.node_ip | Its address.
host_num_procs INTEGER | n.num_workers | Its living workers.
"""),
        "nodes n",
    ),
    View(
        "proc_nodes",
        "Monarch: the processes.",
        columns(f"""
{_SNAPSHOT}
node_id TEXT | w.worker_id | The worker.
proc_name TEXT | w.worker_type | DRIVER or WORKER.
num_actors INTEGER | {_LIVING} | Its living actors.
stopped_retention_cap INTEGER | NULL | NULL.
is_poisoned INTEGER | w.exit_type IS NOT NULL AND w.exit_type NOT LIKE 'INTENDED%' | Whether it crashed.
failed_actor_count INTEGER | {_DEAD} | Its dead actors.
"""),
        "workers w WHERE w.process = w.number",
    ),
    View(
        "actor_nodes",
        "Monarch: the actors of the tree.",
        columns(f"""
{_SNAPSHOT}
node_id TEXT | o.actor_id | The actor.
actor_status TEXT | {_LATEST} | Its status.
actor_type TEXT | o.class_name | Its class.
instance_id TEXT | o.full_name | Its unique name.
messages_processed INTEGER | o.num_executed_calls | Its calls that have ended.
created_at INTEGER us | o.timestamp_us | It was created.
last_message_handler TEXT | {_LAST_METHOD} | The method that started last.
total_processing_time_us INTEGER us | {_TIME} | How long its methods have run.
queue_depth INTEGER | o.num_pending_calls - o.num_running_calls | Its calls that wait.
is_system INTEGER | 0 | Always 0.
"""),
        "actors o",
    ),
    View(
        "actor_failures",
        "Monarch: why actors died, if nobody asked them to.",
        columns(f"""
{_SNAPSHOT}
node_id TEXT | o.actor_id | The actor.
failure_error_message TEXT | o.death_reason | The error.
failure_root_cause_actor TEXT | {_ROOT} | The actor with which it began.
failure_root_cause_name TEXT | o.display_name | Its name.
failure_occurred_at INTEGER us | o.dead_us | When.
failure_is_propagated INTEGER | {_PROPAGATED} | Whether something else failed first: an owner, a node.
"""),
        "actors o WHERE o.state = 'DEAD' AND NOT coalesce((SELECT x.intended FROM actor_events x "
        "WHERE x.actor = o.id ORDER BY x.seq DESC LIMIT 1), 0)",
    ),
    View(
        "actor_executions",
        "Monarch: how many methods each actor runs now.",
        columns(f"""
{_SNAPSHOT}
node_id TEXT | o.actor_id | The actor.
active_count INTEGER | o.num_running_calls | Its calls that run.
complete INTEGER | 1 | Whether active_handlers lists all of them.
truncated INTEGER | 0 | Whether it lacks some.
"""),
        "actors o WHERE o.state <> 'DEAD'",
    ),
    View(
        "active_handlers",
        "Monarch: the methods that run now.",
        columns(f"""
{_SNAPSHOT}
node_id TEXT | o.actor_id | The actor.
name TEXT | {_METHOD} | The method.
active_count INTEGER | count(*) | How many of its calls run.
oldest_since INTEGER us | min(a.started_us) | When the oldest of them started.
"""),
        "_attempts a JOIN actors o ON o.id = a.actor WHERE a.key > 0 AND a.started_us IS NOT NULL "
        "AND a.finished_us IS NULL GROUP BY o.actor_id, a.spec",
    ),
    View(
        "actor_inbound_orderings",
        "Monarch: the queue of each actor that keeps the order of its callers.",
        columns(f"""
{_SNAPSHOT}
node_id TEXT | o.actor_id | The actor.
enabled INTEGER | NOT o.is_async | Whether it keeps the order.
snapshot_complete INTEGER | 1 | Whether ordering_sessions lists all callers.
skipped_session_count INTEGER | 0 | Callers that it lacks.
known_session_count INTEGER | count(DISTINCT a.caller) | Callers with a call in the queue.
returned_buffered_session_count INTEGER | count(DISTINCT a.caller) | The same.
returned_buffered_message_count INTEGER | count(a.key) | Calls in the queue.
returned_max_buffered_count INTEGER | count(a.key) | The same.
"""),
        "actors o LEFT JOIN _attempts a ON a.actor = o.id AND a.key > 0 AND a.leased_us IS NULL "
        "AND a.finished_us IS NULL WHERE o.state <> 'DEAD' GROUP BY o.actor_id",
    ),
    View(
        "ordering_sessions",
        "Monarch: the calls in the queue of an actor, by caller. Sequence numbers are the numbers of tasks.",
        columns(f"""
{_SNAPSHOT}
node_id TEXT | o.actor_id | The actor.
session_id INTEGER | a.caller | The caller.
sender TEXT | {of("_callers", "parent_task_id", "id", "a.caller")} | The task that calls.
last_released_seq INTEGER | {_RELEASED} | The last call that was started.
expected_next_seq INTEGER | min(a.key) | The next one.
buffered_count INTEGER | count(*) | Calls in the queue.
oldest_buffered_seq INTEGER | min(a.key) | The oldest of them.
newest_buffered_seq INTEGER | max(a.key) | The newest of them.
"""),
        "_attempts a JOIN actors o ON o.id = a.actor WHERE a.key > 0 AND a.leased_us IS NULL "
        "AND a.finished_us IS NULL GROUP BY o.actor_id, a.caller",
    ),
    View(
        "resolution_errors",
        "Monarch: members of the tree that did not answer. All are in this process, so there is none.",
        columns(f"""
{_SNAPSHOT}
node_id TEXT | NULL | The member.
error_code TEXT | NULL | A code.
error_message TEXT | NULL | A sentence.
"""),
        "_states one WHERE one.step < 0",
    ),
    # -------------------------------------------------------- stacks
    View(
        "pyspy_dumps",
        "Monarch: what the sampler found, as one dump for each stack.",
        columns(f"""
dump_id INTEGER | k.id | The stack: `stack_samples.id`.
timestamp_us INTEGER us | k.timestamp_us | When it was last seen.
pid INTEGER | CAST({of("session", "value", "name", "'pid'")} AS INTEGER) | The process.
binary TEXT | 'miniray' | miniray.
proc_ref TEXT | k.worker_id | The worker.
"""),
        "stack_samples k",
    ),
    View(
        "pyspy_stack_traces",
        "Monarch: the threads of the dumps.",
        columns(f"""
dump_id INTEGER | k.id | The dump.
pid INTEGER | CAST({of("session", "value", "name", "'pid'")} AS INTEGER) | The process.
thread_id TEXT | k.worker_id | The worker.
thread_name TEXT | k.name | The name of its task.
os_thread_id INTEGER | NULL | NULL.
active INTEGER | k.state = 'running' | Whether it ran.
owns_gil INTEGER | NULL | NULL.
"""),
        "stack_samples k",
    ),
    View(
        "pyspy_frames",
        "Monarch: the frames of the dumps, innermost first.",
        columns("""
dump_id INTEGER | k.id | The dump.
thread_id TEXT | k.worker_id | The worker.
frame_depth INTEGER | length(k.stack) - length(replace(k.stack, ';', '')) - e.key | 0 for the innermost.
name TEXT | e.value | The frame.
filename TEXT | NULL | NULL.
module TEXT | NULL | NULL.
short_filename TEXT | NULL | NULL.
line INTEGER | NULL | NULL.
is_entry INTEGER | e.key = 0 | Whether it is the outermost.
"""),
        f"stack_samples k, json_each({_FRAMES}) e",
    ),
    View(
        "pyspy_local_variables",
        "Monarch: the variables of the frames. Values are never recorded, so there is none.",
        columns("""
dump_id INTEGER | NULL | The dump.
thread_id TEXT | NULL | The thread.
frame_depth INTEGER | NULL | The frame.
name TEXT | NULL | The name.
addr INTEGER | NULL | NULL.
arg INTEGER | NULL | NULL.
repr TEXT | NULL | NULL.
"""),
        "_states one WHERE one.step < 0",
    ),
)
