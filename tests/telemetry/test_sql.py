"""SQL on the running session, and on a file."""

import json
import os
import subprocess
import sys
import threading
import time

import pytest

import miniray as ray
from miniray.process import context
from miniray.telemetry import QueryError, schema
from miniray.telemetry import open as open_recording
from miniray.util.state import list_tasks

PUBLIC = [name for name in schema.BY_NAME if not name.startswith("_")]


@ray.remote
def f(x):
    return x


@ray.remote
class Counter:
    def __init__(self):
        self.n = 0

    def add(self, by):
        self.n += by
        return self.n

    def fail(self):
        raise ValueError("on purpose")

    def leave(self):
        ray.actor.exit_actor()


def failed(ref):
    try:
        ray.get(ref)
    except Exception:
        return
    raise AssertionError("it has not failed")


def eventful():
    """A program with a bit of everything."""
    ray.get([f.remote(i) for i in range(10)])
    counter = Counter.options(name="counter").remote()
    ray.get([counter.add.remote(i) for i in range(5)])
    failed(counter.fail.remote())
    killed, left, bad = Counter.remote(), Counter.remote(), Bad.remote()
    ray.get([killed.add.remote(1), left.add.remote(1)])
    ray.kill(killed)
    failed(left.leave.remote())
    failed(bad.add.remote(1))
    return counter, killed, left, bad


@ray.remote
class Bad:
    def __init__(self):
        raise RuntimeError("no such actor")

    def add(self, by):
        return by


# ------------------------------------------------------------ the running session


def test_a_query_sees_the_session_as_it_is_now(session):
    """Nothing is switched on. A second query sees what has happened since the first."""
    ray.get([f.remote(i) for i in range(10)])
    assert ray.sql("SELECT state, count(*) AS n FROM tasks GROUP BY state").rows == [{"state": "FINISHED", "n": 10}]
    ray.get([f.remote(i) for i in range(5)])
    result = ray.sql("SELECT name, count(*) AS n FROM tasks GROUP BY name")
    assert (result.columns, result.rows) == (["name", "n"], [{"name": "f", "n": 15}])
    assert result.complete and not result.truncated


def test_without_a_session_the_error_says_what_to_do():
    with pytest.raises(QueryError, match="No session is running: call init first"):
        ray.sql("SELECT 1")


def test_each_session_has_its_own_tables():
    for count in (3, 5):
        ray.init(num_cpus=2)
        ray.get([f.remote(i) for i in range(count)])
        assert ray.sql("SELECT count(*) AS n FROM tasks").rows == [{"n": count}]
        ray.shutdown()


def test_a_task_may_ask(session):
    """A query takes the core's lock only for short steps, so a task may ask, too."""

    @ray.remote
    def ask():
        return ray.sql("SELECT name, state FROM tasks").rows

    assert ray.get(ask.remote()) == [{"name": "ask", "state": "RUNNING"}]


def test_rows_say_what_the_state_api_says(session):
    """The columns with Ray's names hold Ray's values."""
    eventful()
    threaded = Counter.options(max_concurrency=3).remote()
    ray.get([threaded.add.remote(1) for _ in range(6)])
    rows = {(row["task_id"], row["attempt_number"]): row for row in ray.sql("SELECT * FROM task_attempts").rows}
    ours = list_tasks(detail=True, limit=1000)
    assert len(ours) == len(rows) > 15
    same = "name state job_id actor_id type func_or_class_name parent_task_id error_type error_message".split()
    for task in ours:
        row = rows[task.task_id, task.attempt_number]
        assert {name: row[name] for name in same} == {name: getattr(task, name) for name in same}
        if task.type != "ACTOR_CREATION_TASK":  # Ray's rows do not say where a constructor ran
            assert (row["node_id"], row["worker_id"]) == (task.node_id, task.worker_id)
        assert row["created_us"] // 1000 == task.creation_time_ms
        assert (row["finished_us"] or 0) // 1000 == (task.end_time_ms or 0)


def test_an_actor_that_leaves_has_not_failed_when_its_work_is_over(session):
    """Its last call has failed for the caller. Once the actor is dead, the row says FINISHED, as in Ray."""

    @ray.remote(num_cpus=0, max_concurrency=2)
    class Gate:
        def __init__(self):
            self.opened = threading.Event()

        def wait(self):
            self.opened.wait(60)

        def open(self):
            self.opened.set()

    @ray.remote(num_cpus=0)
    def work(gate):
        ray.get(gate.wait.remote())

    @ray.remote(num_cpus=0)
    class Owner:
        def go(self, gate):
            self.ref = work.remote(gate)

        def leave(self):
            ray.actor.exit_actor()

    statement = (
        "SELECT t.state, t.error_type, a.state AS actor FROM tasks t JOIN actors a ON a.id = t.actor "
        "WHERE t.name LIKE '%leave'"
    )
    gate, owner = Gate.remote(), Owner.remote()
    ray.get(owner.go.remote(gate))
    failed(owner.leave.remote())
    assert ray.sql(statement).rows == [{"state": "FAILED", "error_type": "ACTOR_UNAVAILABLE", "actor": "ALIVE"}]
    ray.get(gate.open.remote())
    while ray.sql(statement).rows[0]["actor"] != "DEAD":
        ray.get(f.remote(1))
    assert ray.sql(statement).rows == [{"state": "FINISHED", "error_type": None, "actor": "DEAD"}]


def test_attempts_can_be_joined_with_events(session):
    eventful()
    result = ray.sql(
        "SELECT name, state, n FROM (SELECT a.name, e.state, row_number() OVER (PARTITION BY a.task_id, "
        "a.attempt_number ORDER BY e.timestamp_us) AS n FROM task_attempts a JOIN task_events e "
        "ON e.task_id = a.task_id AND e.attempt_number = a.attempt_number WHERE a.name = 'f') WHERE n = 1"
    )
    assert result.rows == [{"name": "f", "state": "PENDING_ARGS_AVAIL", "n": 1}] * 10


def test_who_holds_an_object(session):
    """The program's references, values that contain it, and tasks that wait for it."""
    ref = ray.put(b"x" * 200_000)
    outer = ray.put([ref])

    @ray.remote(num_cpus=2)
    def hold(xs):
        return ray.sql("SELECT holder_kind, count FROM object_references WHERE object_id = ? ORDER BY 1", xs).rows

    @ray.remote(num_cpus=2)
    def take(x, y):
        return len(x)

    id = ref.hex()
    answer = hold.remote([id])
    waiting = take.remote(ref, answer)
    assert ray.get(answer) == [
        {"holder_kind": "program", "count": 1},
        {"holder_kind": "task", "count": 1},
        {"holder_kind": "value", "count": 1},
    ]
    assert ray.get(waiting) == 200_000
    size, place = ray.sql("SELECT size_bytes, node_id FROM objects WHERE object_id = ?", [id]).rows[0].values()
    assert size >= 200_000 and place == ray.nodes()[0]["NodeID"]
    del outer


def test_every_view_can_be_read(session):
    """Each table of the catalogue, with all its columns, in the catalogue's order."""
    eventful()
    names = [row["table_name"] for row in ray.sql("SELECT table_name FROM information_schema.tables ORDER BY 1").rows]
    assert names == sorted(PUBLIC)
    for name in names:
        result = ray.sql(f"SELECT * FROM {name}")
        described = ray.sql(
            "SELECT column_name FROM information_schema.columns WHERE table_name = ? ORDER BY ordinal_position", [name]
        )
        assert result.columns == [row["column_name"] for row in described]


# ------------------------------------------------------------ Monarch's vocabulary

# The statements of Monarch's documentation (docs/source/distributed-telemetry.md), unchanged.
CHANGES = """
    SELECT a.full_name, s.new_status, s.reason, s.timestamp_us
    FROM actor_status_events AS s
    JOIN actors AS a ON a.id = s.actor_id
    ORDER BY s.timestamp_us DESC
    LIMIT 50
    """
COUNTS = """
SELECT new_status, COUNT(*) AS count
FROM actor_status_events
GROUP BY new_status
ORDER BY count DESC
"""
FAILURES = """
SELECT a.full_name, s.reason, s.timestamp_us
FROM actor_status_events AS s
JOIN actors AS a ON a.id = s.actor_id
WHERE s.new_status = 'Failed'
ORDER BY s.timestamp_us DESC
LIMIT 100
"""
DELIVERIES = """
SELECT status, COUNT(*) AS count
FROM message_status_events
GROUP BY status
ORDER BY count DESC
"""
CATALOGUE = """
SELECT table_name
FROM information_schema.tables
ORDER BY table_name
"""
LATEST_ACTORS = (  # of its dashboard (python/monarch/monarch_dashboard/server/db.py)
    "SELECT a.*, m.class AS mesh_class, m.given_name AS mesh_name, latest.new_status AS latest_status,"
    " latest.max_ts AS status_timestamp_us FROM actors a LEFT JOIN meshes m ON a.mesh_id = m.id LEFT JOIN ("
    "SELECT ase.actor_id, ase.new_status, sub.max_ts FROM actor_status_events ase INNER JOIN (   SELECT actor_id,"
    " MAX(timestamp_us) AS max_ts   FROM actor_status_events GROUP BY actor_id ) sub ON ase.actor_id = sub.actor_id"
    "   AND ase.timestamp_us = sub.max_ts) latest ON a.id = latest.actor_id ORDER BY a.id"
)


def test_the_queries_of_monarch_s_documentation_run_unchanged(session):
    kept = eventful()
    changes = ray.sql(CHANGES)
    assert changes.columns == ["full_name", "new_status", "reason", "timestamp_us"]
    assert {row["new_status"] for row in changes["rows"]} == {
        "Created",
        "Initializing",
        "Idle",
        "Processing",
        "Stopped",
        "Failed",
    }
    times = [row["timestamp_us"] for row in changes]
    assert times == sorted(times, reverse=True)
    counts = {row["new_status"]: row["count"] for row in ray.sql(COUNTS)}
    assert (counts["Created"], counts["Failed"], counts["Stopped"]) == (4, 1, 2)
    assert counts["Processing"] == 9  # five additions, a failure, one call each of two actors, and the one that left
    (failure,) = ray.sql(FAILURES)
    assert "Bad[" in failure["full_name"] and failure["reason"] == "its constructor failed"
    assert {row["status"]: row["count"] for row in ray.sql(DELIVERIES)} == {
        "queued": 10,
        "active": 9,
        "complete": 7,
        "failed": 3,
    }
    assert {"actors", "meshes", "messages", "spans"} <= {row["table_name"] for row in ray.sql(CATALOGUE)}
    latest = {row["id"]: row["latest_status"] for row in ray.sql(LATEST_ACTORS)}
    assert sorted(latest.values()) == ["Failed", "Idle", "Stopped", "Stopped"]
    del kept


def test_the_life_of_an_actor(session):
    """Restarts with their reasons. A constructor that crashes has not made its actor ALIVE."""

    @ray.remote(max_restarts=3)
    class Fragile:
        def __init__(self, counter):
            if ray.get(counter.add.remote(1)) == 1:
                os._exit(1)

        def die(self):
            os._exit(1)

        def live(self):
            return 1

    fragile = Fragile.remote(Counter.remote())
    assert ray.get(fragile.live.remote()) == 1
    failed(fragile.die.remote())
    assert ray.get(fragile.live.options(max_task_retries=-1).remote()) == 1
    ray.kill(fragile)
    events = ray.sql(
        "SELECT e.state, e.reason, e.intended FROM actor_events e JOIN actors a ON a.id = e.actor "
        "WHERE a.class_name LIKE '%Fragile' ORDER BY e.seq"
    ).rows
    assert [row["state"] for row in events] == [
        "DEPENDENCIES_UNREADY",
        "PENDING_CREATION",
        "RESTARTING",
        "ALIVE",
        "RESTARTING",
        "ALIVE",
        "DEAD",
    ]
    assert "os._exit(1)" in events[2]["reason"] and "ray.kill" in events[6]["reason"] and events[6]["intended"]
    attempts = ray.sql(
        "SELECT attempt_number, state, error_type FROM task_attempts WHERE name LIKE '%Fragile.__init__' ORDER BY 1"
    ).rows
    assert [(row["state"], row["error_type"]) for row in attempts] == [
        ("FAILED", "WORKER_DIED"),
        ("FINISHED", None),
        ("FINISHED", None),
    ]


def test_messages_are_counted_by_endpoint(session):
    """A call between actors names both; the driver and plain tasks are actor 0."""
    eventful()

    @ray.remote
    class Front:
        def ask(self, counter):
            return ray.get(counter.add.remote(5))

    assert ray.get(Front.remote().ask.remote(Counter.remote())) == 5
    found = ray.sql("SELECT endpoint, count(*) AS n FROM messages GROUP BY endpoint ORDER BY n DESC, endpoint").rows
    assert found == [
        {"endpoint": "add", "n": 9},
        {"endpoint": "ask", "n": 1},
        {"endpoint": "fail", "n": 1},
        {"endpoint": "leave", "n": 1},
    ]
    between = ray.sql(
        "SELECT x.display_name AS sender, y.display_name AS receiver, m.endpoint FROM messages m "
        "JOIN actors x ON x.id = m.from_actor_id JOIN actors y ON y.id = m.to_actor_id"
    )
    assert between.rows == [{"sender": "Front", "receiver": "Counter", "endpoint": "add"}]


def test_the_tree_of_monarch_s_admin(session):
    """Root, host, processes and actors; every child but the root has a parent."""
    kept = eventful()
    kinds = ray.sql("SELECT node_kind, count(*) AS n FROM monarch_nodes GROUP BY node_kind").rows
    assert {row["node_kind"]: row["n"] for row in kinds}["actor"] == 4
    orphans = ray.sql(
        "SELECT node_id FROM monarch_nodes WHERE node_kind <> 'root' AND node_id NOT IN (SELECT child_id FROM children)"
    )
    assert orphans.rows == []
    nodes = ray.sql("SELECT actor_type, actor_status, messages_processed, last_message_handler FROM actor_nodes").rows
    assert nodes[0] == {
        "actor_type": "Counter",
        "actor_status": "Idle",
        "messages_processed": 6,
        "last_message_handler": "fail",
    }
    (failure,) = ray.sql("SELECT failure_error_message, failure_is_propagated FROM actor_failures").rows
    assert "no such actor" in failure["failure_error_message"]
    del kept


def test_metrics_are_points_and_deltas(session):
    """A look adds a point for each series that has changed; Monarch's views have what it has grown by."""
    from miniray.util.metrics import Counter as Count, Gauge, Histogram

    count, gauge = Count("requests", "how many", ("path",)), Gauge("depth")
    histogram = Histogram("latency", boundaries=[1.0, 10.0])
    for by in (2, 3):
        count.inc(by, {"path": "/a"})
        gauge.set(by)
        histogram.observe(by)
        ray.sql("SELECT 1 FROM metric_points")
    assert [row["value"] for row in ray.sql("SELECT value FROM metric_points WHERE name = 'requests'")] == [2.0, 5.0]
    sums = ray.sql("SELECT sum_f64, is_monotonic, attributes_json FROM metric_sums").rows
    assert [row["sum_f64"] for row in sums] == [2.0, 3.0]
    assert json.loads(sums[0]["attributes_json"]) == {"path": "/a"}
    assert [row["value_f64"] for row in ray.sql("SELECT value_f64 FROM metric_gauges")] == [2.0, 3.0]
    points = ray.sql("SELECT count, sum_f64, bounds_json, bucket_counts_json FROM metric_histograms").rows
    assert points == [
        {"count": 1, "sum_f64": value, "bounds_json": "[1.0, 10.0]", "bucket_counts_json": "[0, 1, 0]"}
        for value in (2.0, 3.0)
    ]


# ------------------------------------------------------------ results


def test_a_result_shows_itself(session):
    ray.get([f.remote(i) for i in range(3)])
    result = ray.sql("SELECT name, number - number + 1.5 AS x, NULL AS none FROM tasks", limit=2)
    assert repr(result) == (
        "name    x  none\n----  ---  ----\nf     1.5\nf     1.5\nThere are more rows than the limit."
    )
    assert repr(ray.sql("SELECT 1 AS one WHERE 0")) == "one\n---\n(no rows)"
    assert len(result) == 2 and list(result) == result.rows == result["rows"]
    with pytest.raises(KeyError):
        result["row"]


def test_names_are_text_in_a_repr_and_in_a_notebook(session):
    """A task may be called </script>, or by what clears a terminal."""
    hostile = "</script><b>\x1b[2J\u202e"
    ray.get(f.options(name=hostile).remote(1))
    result = ray.sql("SELECT name, '<i>' AS \"<u>\" FROM tasks")
    assert result.rows[0]["name"] == hostile
    assert "\x1b" not in repr(result) and "\u202e" not in repr(result)
    html = result._repr_html_()
    assert "<b>" not in html and "<i>" not in html and "<u>" not in html and "\x1b" not in html
    assert "&lt;/script&gt;&lt;b&gt;" in html


# ------------------------------------------------------------ a file


def test_a_recording_answers_as_the_session_did(tmp_path):
    """The same statements on the file, after the session has ended."""
    path = tmp_path / "run.db"
    statements = [
        "SELECT task_id, name, state, error_type, error_message, created_us, finished_us FROM task_attempts ORDER BY 1",
        "SELECT task_id, state, timestamp_us FROM task_events ORDER BY 1, 3, 2",
        "SELECT full_name, state, num_executed_calls, death_reason FROM actors ORDER BY id",
        "SELECT endpoint, count(*) AS n FROM messages GROUP BY 1 ORDER BY 1",
        "SELECT trace_id, span_id, parent_span_id, name, kind, status FROM spans ORDER BY span_id",
        CHANGES,
        COUNTS,
        FAILURES,
        DELIVERIES,
        CATALOGUE,
    ]
    ray.init(num_cpus=2, telemetry=str(path))
    kept = eventful()
    live = [ray.sql(statement).rows for statement in statements]
    ray.shutdown()
    del kept
    with open_recording(path) as recording:
        assert recording.query("SELECT 1 AS one").complete
        for statement, rows in zip(statements, live):
            found = recording.query(statement).rows
            if "new_status" in statement or "full_name" in statement:
                continue  # the actors end with the session
            assert found == rows, statement


def test_a_file_that_is_no_recording_is_refused(tmp_path):
    path = tmp_path / "other"
    with pytest.raises(FileNotFoundError):
        open_recording(path)
    path.write_text("no database")
    with pytest.raises(QueryError, match="is no recording of miniray"):
        open_recording(path)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    """SQLite would wait for somebody to open the other end of a FIFO."""
    fifo, link = tmp_path / "fifo.db", tmp_path / "link.db"
    os.mkfifo(fifo)
    link.symlink_to(tmp_path / "nowhere.db")
    with pytest.raises(QueryError, match="not a regular file"):
        open_recording(fifo)
    with pytest.raises(QueryError, match="it is a folder"):
        open_recording(tmp_path)
    with pytest.raises(FileNotFoundError, match="a link to .*nowhere.db', which is not there"):
        open_recording(link)


def test_a_session_that_nobody_asks_imports_no_sqlite():
    program = (
        "import sys, miniray as ray; ray.init(num_cpus=1); ray.get(ray.put(1)); "
        "assert not {'sqlite3', 'miniray.telemetry.sql.sources', 'miniray.telemetry.collecting.collector'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_the_runtime_is_the_session(session):
    """A source of another session than the running one is not used."""
    from miniray.telemetry.sql.sources import live

    assert live().runtime is context.session


def test_a_profile_fills_the_samples(session):
    """A profile that has stopped is a row for each stack; Monarch's views have its frames."""
    from miniray.telemetry import profile

    @ray.remote
    def spin():
        began = time.perf_counter()
        while time.perf_counter() - began < 0.2:
            sum(range(1000))

    assert ray.sql("SELECT count(*) AS n FROM stack_samples").rows == [{"n": 0}]
    with profile():
        ray.get(spin.remote())
    found = ray.sql("SELECT name, stack FROM stack_samples WHERE task_id IS NOT NULL").rows
    assert {(row["name"], row["stack"].rpartition(".")[2]) for row in found} == {("spin", "spin")}
    assert ray.sql("SELECT DISTINCT thread_name AS n FROM pyspy_stack_traces WHERE thread_name = 'spin'").rows
    assert ray.sql("SELECT count(*) > 0 AS some FROM pyspy_frames WHERE frame_depth = 0").rows == [{"some": 1}]


def test_lines_are_found_by_their_words(session):
    """Where SQLite has FTS5."""

    @ray.remote
    def say(text):
        print(text)

    ray.get([say.remote(text) for text in ("the disk is full", "all is well", "the disk was replaced")])
    statement = "SELECT l.line FROM log_search s JOIN log_lines l ON l.id = s.rowid WHERE log_search MATCH ? ORDER BY 1"
    try:
        found = ray.sql(statement, ["disk NOT replaced"])
    except QueryError as error:
        pytest.skip(f"this SQLite has no FTS5: {error}")
    assert [row["line"] for row in found] == ["the disk is full"]
    ray.get(say.remote("another disk"))
    assert len(ray.sql(statement, ["disk"])) == 3
    shown = ray.sql("SELECT highlight(log_search, 0, '[', ']') AS x FROM log_search WHERE log_search MATCH 'well'")
    assert shown.rows == [{"x": "all is [well]"}]
    for wrong in ("INSERT INTO log_search (log_search) VALUES ('optimize')", "SELECT * FROM log_search_nothing"):
        with pytest.raises(QueryError):
            ray.sql(wrong)
