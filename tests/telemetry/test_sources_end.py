"""Sources that end, or are forked, while a statement runs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings

import pytest

import miniray as ray
from miniray import cli, telemetry
from miniray.observe.metrics import registry
from miniray.process import context
from miniray.telemetry import QueryError, fork_gate
from miniray.telemetry.collecting.store import Store
from miniray.telemetry.recording.restore import read
from miniray.telemetry.sql import sources
from miniray.telemetry.sql.sources import FileSource
from miniray.testing import simulate
from miniray.util.metrics import Gauge


@pytest.fixture(autouse=True)
def no_statement_is_left(monkeypatch):
    """A test ends when the functions of SQLite have ended that it did not wait for."""
    statements, start = [], sources.start_real_thread

    def started(work, args):
        statements.append(work.__self__)
        start(work, args)

    monkeypatch.setattr(sources, "start_real_thread", started)
    yield
    for statement in statements:
        statement.wait(60)


@pytest.fixture
def recorded(path):
    """The file of a session that has ended."""
    with ray.init(num_cpus=1, log_to_driver=False, telemetry=path):
        pass
    return path


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT trim(?, ?) AS n",
        "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c",
    ],
)
def test_a_handler_may_close_the_source_of_the_statement_that_it_interrupts(recorded, statement):
    """The connection stays open until nobody uses it."""
    source = FileSource(recorded)
    closed = threading.Event()
    source._after_closing = closed.set
    params = ["a" * 200_000, "b" * 1_000 + "a"] if "?" in statement else ()
    before = signal.signal(signal.SIGALRM, lambda *ignored: source.close())
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with contextlib.suppress(QueryError):
            source.query(statement, params, timeout_s=60)
        assert closed.wait(60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(QueryError, match="is closed"):
        source.query("SELECT 1")
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        source._connection.execute("SELECT 1")


FORKS = """
import os, sys, threading, time
import miniray as ray
from miniray import telemetry

ray.init(num_cpus=1, log_to_driver=False, telemetry=sys.argv[1])
ray.sql("SELECT 1")
def asks():
    while True:
        ray.sql("SELECT count(*) FROM tasks")
threading.Thread(target=asks, daemon=True).start()
for number in range(20):
    child = os.fork()
    if not child:
        ray.init(num_cpus=1, log_to_driver=False)
        assert ray.sql("SELECT 1 AS n").rows == [{"n": 1}]
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("done", flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_that_is_forked_while_a_thread_asks_may_ask(path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS, path],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout == "done\n" and done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_waits_until_no_other_thread_is_inside_of_sqlite():
    """A statement of many steps lets it fork in the middle; a child inherits no lock that is held."""
    entered, leaves = threading.Event(), threading.Event()
    inside_at_fork = []

    def work():
        with fork_gate.inside:
            entered.set()
            leaves.wait(10)
            fork_gate.let_fork()  # the statement looks at the clock
            inside_at_fork.append("again")

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(10)
    threading.Timer(0.1, leaves.set).start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        alone = list(fork_gate._inside) in ([], [threading.get_ident()]) and not fork_gate._gate.locked()
        os._exit(0 if alone else 1)
    assert leaves.is_set()
    assert os.waitpid(child, 0)[1] == 0
    thread.join(10)
    assert inside_at_fork == ["again"] and not fork_gate._inside and not fork_gate._gate.locked()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_waits_no_longer_than_it_may(monkeypatch):
    """A function of SQLite that takes long does not stop the program from forking."""
    monkeypatch.setattr(fork_gate, "FORK_S", 0.1)
    entered, leaves = threading.Event(), threading.Event()

    def work():
        with fork_gate.inside:
            entered.set()
            leaves.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        os._exit(0 if not fork_gate._inside else 1)
    leaves.set()
    assert os.waitpid(child, 0)[1] == 0
    thread.join(10)
    assert not fork_gate._inside and not fork_gate._gate.locked()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_file_that_was_opened_before_a_fork_is_refused_in_the_child(recorded):
    with FileSource(recorded) as source:
        source._process += 1  # as the child sees it
        with pytest.raises(QueryError, match="before this process was forked"):
            source.query("SELECT 1")
        source._process -= 1


def test_a_view_of_a_file_may_not_take_long_either(recorded):
    """The statement that reads it names no function."""
    writer = sqlite3.connect(recorded)
    view = "SELECT trim(replace(hex(zeroblob(9000)), '0', 'a'), replace(hex(zeroblob(9000)), '0', 'b') || 'a') AS x"
    writer.execute("DROP VIEW actor_executions")
    writer.execute(f"CREATE VIEW actor_executions AS {view}")
    writer.execute("DROP TABLE dropped")
    writer.execute("CREATE VIEW dropped AS SELECT x AS table_name, x AS reason, 1 AS count FROM actor_executions")
    writer.commit()
    writer.close()
    with FileSource(recorded) as source:
        before = time.monotonic()
        assert source.query("SELECT 1 AS n").reason == "The file does not tell what is missing."
        with pytest.raises(QueryError, match="longer than"):
            source.query("SELECT x FROM actor_executions", timeout_s=0.1)
        assert time.monotonic() - before < 3


def test_the_history_that_a_late_statement_keeps_is_missed():
    with ray.init(num_cpus=1, log_to_driver=False):
        assert ray.sql("SELECT * FROM metric_points").complete
        with pytest.raises(QueryError, match="longer than"):
            ray.sql(
                "SELECT trim(replace(hex(zeroblob(9000)), '0', 'a'), replace(hex(zeroblob(9000)), '0', 'b') || 'a')",
                timeout_s=0.1,
            )
        found = ray.sql("SELECT * FROM metric_points")
        assert not found.complete and "has the earlier values" in found.reason


LONG = ["a" * 150_000, "b" * 8_000 + "a"]  # a `trim` of these takes seconds, and nothing can stop it


def in_the_middle(source):
    """A thread in the middle of a long statement, and what it is told in the end."""
    said = []

    def ask():
        try:
            source.query("SELECT length(trim(?, ?))", LONG, timeout_s=30)
        except QueryError as problem:
            said.append(str(problem))

    begun = threading.Event()
    run = source._run

    def observed(*args):
        sandbox_run = sources.sandbox.run

        def noticed(*inner):
            begun.set()
            sources.sandbox.run = sandbox_run
            return sandbox_run(*inner)

        sources.sandbox.run = noticed
        return run(*args)

    source._run = observed
    thread = threading.Thread(target=ask)
    thread.start()
    assert begun.wait(30)
    source._run = run
    return thread, said


def test_the_end_of_a_session_does_not_wait_for_another_thread_s_statement():
    """It used to wait until the statement's time was over."""
    with ray.init(num_cpus=1, log_to_driver=False):
        thread, said = in_the_middle(sources.live())
        ray.shutdown()
        thread.join(10)
        assert said == ["The session has ended."]


def test_the_facts_of_a_file_are_not_read_beside_a_late_statement(recorded):
    """Both used one connection, which crashed or blocked the process."""
    with FileSource(recorded) as source:
        with pytest.raises(QueryError, match="given up"):
            source.query("SELECT length(trim(?, ?))", LONG, timeout_s=0.1)
        assert source.late
        late = source._aside
        seen = []
        late.wait = lambda seconds: seen.append(seconds)
        with pytest.raises(QueryError, match="has not ended yet"):
            source.session()
        del late.wait
        assert len(seen) == 1 and 0 < seen[0] <= sources.OWN_S
        late.wait(60)
        assert source.session()["status"] == "SUCCEEDED"
    with pytest.raises(QueryError, match="is closed"):
        source.session()


def test_a_statement_that_comes_after_a_late_one_of_a_session_that_ends():
    """It was told that the time of the late one was over, which the end of the session had cut."""
    with ray.init(num_cpus=1, log_to_driver=False):
        source = sources.live()
        with pytest.raises(QueryError, match="given up"):
            ray.sql("SELECT length(trim(?, ?))", LONG, timeout_s=0.1)
    assert source.late
    with pytest.raises(QueryError, match="^The session has ended.$"):
        source.query("SELECT 1", timeout_s=0.01)
    source._aside.wait(60)


def test_the_wait_for_another_thread_s_statement_counts():
    """The second one used to wait for as long as the first one took."""
    with ray.init(num_cpus=1, log_to_driver=False):
        thread, said = in_the_middle(sources.live())
        with pytest.raises(QueryError, match="other threads have taken all of timeout_s=0.1"):
            ray.sql("SELECT 1", timeout_s=0.1)
    thread.join(10)
    assert said == ["The session has ended."]


def test_a_statement_waits_no_longer_than_it_may(recorded, monkeypatch):
    """First for a late statement, then for other threads. Each wait used to take the whole time."""
    now, waited = [0.0], []

    def in_vain(lock, seconds):
        waited.append(seconds)
        now[0] += seconds
        return False

    with FileSource(recorded) as source:
        source._aside = sources._Aside(None, None)  # one that does not end
        with monkeypatch.context() as patch, pytest.raises(QueryError, match="other threads have taken all"):
            patch.setattr(sources, "real_clock", lambda: now[0])
            patch.setattr(sources, "_wait", in_vain)
            source.query("SELECT 1", timeout_s=5)
        assert waited == [5, 0]
        source._aside = None


def test_a_time_limit_is_real_time_in_a_simulation():
    """Virtual time stands still while a function of SQLite runs, so the limit was never reached."""

    def program():
        ray.init(num_cpus=1)
        with pytest.raises(QueryError, match="given up"):
            ray.sql("SELECT length(trim(?, ?))", LONG, timeout_s=0.1)
        assert ray.sql("SELECT 1 AS x").rows == [{"x": 1}]

    simulate(program, seed=1)


def test_a_reader_leaves_no_files(path):
    """SQLite creates a log and its index beside the file, also for a reader."""
    with ray.init(num_cpus=1, telemetry=path, log_to_driver=False):
        ray.get(ray.remote(lambda: 1).remote())
    folder = os.path.dirname(path)
    assert os.listdir(folder) == [os.path.basename(path)]
    with telemetry.open(path) as source:
        assert len(source.query("SELECT * FROM tasks")) == 1
    assert os.listdir(folder) == [os.path.basename(path)]
    read(path)
    assert os.listdir(folder) == [os.path.basename(path)]


def test_retention_keeps_the_last_value_of_each_series():
    """A gauge that nobody has set since has that value: the metrics of a file lacked it."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        store = Store(connection)
        store.create()
        for number, name in enumerate(("level", "level", "load")):
            connection.execute(
                "INSERT INTO metric_points (id, timestamp_us, name, kind, worker_id, tags_json) "
                "VALUES (?, ?, ?, 'gauge', 'driver', '{}')",
                (number, number, name),
            )
        assert store.trim(100) == {"metric_points": 1}
        assert connection.execute("SELECT id FROM metric_points").fetchall() == [(1,), (2,)]


@pytest.mark.parametrize("most_names", [2, 1_000])
def test_the_metrics_of_a_file_are_those_of_the_session_at_its_end(path, capsys, most_names):
    """The file has tasks that the session had dropped: two of Ray's totals counted them as kept. It lacks others, which
    the session had dropped before the recorder saw them: `ray_tasks` did not count them. If the session had counted
    them under one name, the file may know better."""

    def page(text):
        found = ("ray_gcs_task_manager", "ray_level")
        return sorted(line for line in text.splitlines() if line.startswith(found))

    def ended(text):
        lines = [line for line in text.splitlines() if line.startswith("ray_tasks{") and 'State="FINISHED"' in line]
        return {re.search('Name="(.*?)"', line)[1]: float(line.split()[-1]) for line in lines}

    with ray.init(num_cpus=1, telemetry=path, log_to_driver=False):
        context.session.cluster.history.limit = 5
        context.session.cluster.totals.most_names = most_names
        Gauge("level").set(2)
        for name in "abcd":
            double = ray.remote(lambda n: 2 * n).options(name=name)
            ray.get([double.remote(n) for n in range(20)])
        value = ray.put(bytes(200_000))
        text = registry.export_text()
        before = page(text)
        (dropped,) = [line for line in before if "events_dropped" in line and "STATUS" in line]
        assert not dropped.endswith(" 0.0")
    assert value is not None and cli.main(["metrics", "--from", path]) == 0
    shown = capsys.readouterr().out
    assert page(shown) == before
    assert sum(ended(shown).values()) == sum(ended(text).values()) == 80
    assert ended(shown) == ended(text) or most_names == 2
