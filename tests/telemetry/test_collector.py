"""What the collector finds out, event by event. A live source over a session in which nothing happens by itself."""

from collections import deque

import pytest

from miniray.core.records import Failure, Waiter
from miniray.telemetry.sql import sources
from miniray.telemetry.collecting.collector import EVERYTHING, FINISHED_COLUMNS, Collector
from miniray.telemetry.sql.sources import LiveSource
from tests.observe.still_session import StillSession


class NoLock:
    """In place of the core's lock: there is one thread."""

    def __enter__(self):
        return None

    def __exit__(self, *error):
        return None


class Session(StillSession):
    """What the collector needs of a runtime besides."""

    def __init__(self, record_limit=100_000, **resources):
        super().__init__(record_limit, **resources)
        self.lock, self.spans, self.waits, self.tracing = NoLock(), deque(), deque(), None
        self.trace_seed, self.local = 7, False

    def drain(self):
        return None

    def drop(self, obj):
        """The program drops its reference."""
        self.cluster.references_dropped(self.tick(), deque([obj]))
        self.cluster.settled(self.time)


@pytest.fixture
def ask():
    """Make a session with resources, and a function that asks it."""
    opened = []

    def make(record_limit=100_000, **resources):
        session = Session(record_limit, **resources)
        opened.append(LiveSource(session))
        return session, lambda statement, *params: opened[-1].query(statement, params).rows

    yield make
    for source in opened:
        source.close()


def states(query):
    return {row["name"]: row["state"] for row in query("SELECT name, state FROM tasks")}


def test_the_states_of_a_task_in_turn(ask):
    """Each query finds what has changed since the one before, also the times that a worker notes without the lock."""
    session, query = ask(CPU=1)
    first, second = session.task("first"), session.task("second")
    session.task("third", second.returns[0])
    assert states(query) == {
        "first": "SUBMITTED_TO_WORKER",
        "second": "PENDING_NODE_ASSIGNMENT",
        "third": "PENDING_ARGS_AVAIL",
    }
    session.start(first)
    assert states(query)["first"] == "RUNNING"
    session.finish(first)
    assert states(query)["first"] == "FINISHED"
    session.start(second)
    session.fail(second)
    assert states(query) == {"first": "FINISHED", "second": "FAILED", "third": "FAILED"}


def test_every_step_of_an_attempt_is_an_event(ask):
    session, query = ask(CPU=1)
    task = session.task("work")
    session.start(task)
    session.finish(task)
    events = query("SELECT state, timestamp_us FROM task_events")
    assert [row["state"] for row in events] == [
        "PENDING_ARGS_AVAIL",
        "PENDING_NODE_ASSIGNMENT",
        "SUBMITTED_TO_WORKER",
        "RUNNING",
        "FINISHED",
    ]
    assert [row["timestamp_us"] for row in events] == [
        round((session.epoch + at) * 1e6)
        for at in (task.t_created, task.t_ready, task.t_leased, task.t_started, task.t_finished)
    ]


def test_each_attempt_has_a_row_and_the_task_has_its_last(ask):
    """A query between two attempts, and one after both, find the same rows."""
    session, query = ask(CPU=1)
    task = session.task("flaky", retries=2)
    session.start(task)
    session.cluster.worker_died(session.tick(), task.worker, Failure("WORKER_CRASHED", "its thread ended"))
    between = query("SELECT attempt_number, state, error_type FROM task_attempts ORDER BY attempt_number")
    assert between[0] == {"attempt_number": 0, "state": "FAILED", "error_type": "WORKER_CRASHED"}
    assert len(between) == 2
    session.cluster.worker_started(session.tick(), task.worker)
    session.start(task)
    session.finish(task)
    assert query("SELECT attempt_number, state, error_message FROM task_attempts ORDER BY attempt_number") == [
        {"attempt_number": 0, "state": "FAILED", "error_message": "its thread ended"},
        {"attempt_number": 1, "state": "FINISHED", "error_message": None},
    ]
    assert query("SELECT attempt_number, state FROM tasks") == [{"attempt_number": 1, "state": "FINISHED"}]
    assert query("SELECT count(DISTINCT task_id) AS n FROM task_attempts") == [{"n": 1}]


def test_a_table_tells_only_what_the_session_still_has(ask):
    """The session drops the oldest finished tasks. So does the database of the live source; the result says so."""
    session, query = ask(record_limit=3, CPU=1)
    source = LiveSource(session)
    for number in range(10):
        task = session.task(f"t{number}")
        session.start(task)
        session.finish(task)
        session.drop(task.returns[0])
        if number % 2:
            source.query("SELECT count(*) FROM tasks")
    result = source.query("SELECT name FROM tasks ORDER BY number")
    assert [row["name"] for row in result.rows] == ["t7", "t8", "t9"]
    assert (result.complete, result.reason) == (False, "The session has dropped 7 older tasks from its records.")
    assert source.query("SELECT count(*) AS n FROM nodes").complete
    source.close()
    assert [row["name"] for row in query("SELECT name FROM tasks ORDER BY number")] == ["t7", "t8", "t9"]


def run(session, count):
    for _ in range(count):
        task = session.task("t")
        session.start(task)
        session.finish(task)
        session.drop(task.returns[0])


def finished(batch):
    return len(batch.finished) // FINISHED_COLUMNS


def test_tasks_that_were_dropped_between_two_collections_are_counted():
    """The table keeps three finished tasks. Ten end between two looks: seven are missed, and that is said."""
    session = Session(3, CPU=1)
    collector = Collector(session)
    run(session, 10)
    batch = collector.collect(EVERYTHING)
    assert (finished(batch), batch.dropped) == (3, {"tasks": 7})
    run(session, 2)
    batch = collector.collect(EVERYTHING)
    assert (finished(batch), batch.dropped) == (2, {})


def test_tasks_that_are_taken_in_time_are_not_missed():
    """The writer of a large batch calls `take` in between; the rows come with the next batch."""
    session = Session(3, CPU=1)
    collector = Collector(session)
    for _ in range(5):
        run(session, 2)
        collector.take()
    batch = collector.collect(EVERYTHING)
    assert (finished(batch), batch.dropped) == (10, {})


def test_nothing_is_told_twice():
    session = Session(CPU=1)
    collector = Collector(session)
    run(session, 5)
    session.task("waits")
    assert len(collector.collect(EVERYTHING)) > 5
    assert not collector.collect(EVERYTHING)


def test_a_task_that_runs_again_to_rebuild_a_value_is_found(ask):
    """It had finished; the core counts such tasks, and the collector looks again."""
    session, query = ask(CPU=1)
    node = session.node(CPU=1)
    task = session.task("made", retries=3, strategy=("NODE_AFFINITY", node.hex, True))
    session.start(task)
    session.finish(task, size=1 << 20)
    assert query("SELECT state, attempt_number FROM tasks") == [{"state": "FINISHED", "attempt_number": 0}]
    session.cluster.remove_node(session.tick(), node)
    assert query("SELECT state FROM objects WHERE task IS NOT NULL") == [{"state": "LOST"}]
    session.cluster.wait_for(session.tick(), Waiter(1, None), [task.returns[0]])
    rows = query("SELECT state, attempt_number FROM task_attempts ORDER BY attempt_number")
    assert [row["attempt_number"] for row in rows] == [0, 1]
    assert rows[0]["state"] == "FINISHED" and rows[1]["state"] != "FINISHED"


def test_what_grows_is_kept_within_bounds(ask, monkeypatch):
    """The database of a session that is asked again and again keeps the last rows, and says what it has dropped."""
    monkeypatch.setattr(sources, "MOST_ROWS", 20)
    session, _ = ask(record_limit=5, CPU=1)
    source = LiveSource(session)
    for _ in range(30):
        session.waits.append((None, 0, session.tick(), session.tick()))
        run(session, 3)
        source.query(
            "SELECT (SELECT count(*) FROM waits), (SELECT count(*) FROM tasks), (SELECT count(*) FROM objects)"
        )
    result = source.query("SELECT count(*) AS n, max(id) AS last FROM waits")
    assert result.rows[0]["last"] == 29 and 20 <= result.rows[0]["n"] <= 22
    assert "rows of waits are missing: SQL on the running session keeps only the last rows" in result.reason
    assert source.query("SELECT count(*) AS n FROM objects").rows == [{"n": 0}]
    for table in ("_specs", "_callers", "_attempts"):
        assert source._connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] <= 25
    source.close()


def test_runtime_environments_are_masked():
    """Names stay, values do not."""
    from miniray.telemetry.collecting.numbers import masked

    assert masked({"env_vars": {"TOKEN": "secret"}, "pip": ["a", "b"], "n": 5}) == {
        "env_vars": {"TOKEN": "***"},
        "pip": ["***", "***"],
        "n": "***",
    }


def test_texts_are_cut_and_can_be_stored():
    from miniray.telemetry.collecting.numbers import MOST_TEXT, cut

    assert cut("x" * (MOST_TEXT + 5)).endswith("x [5 more characters]")
    assert cut("\ud800") == "\\ud800"


def test_every_table_has_a_part(ask):
    """A query brings only the tables up to date that it reads; each belongs to a part of a collection."""
    assert {part for parts in sources.PARTS.values() for part in parts} <= EVERYTHING
    session, query = ask(CPU=1)
    session.task("t")
    for name in ("actors", "objects", "nodes", "workers", "cluster_events", "placement_groups", "waits"):
        query(f"SELECT count(*) AS n FROM {name}")
    assert query("SELECT state FROM nodes") == [{"state": "ALIVE"}]
