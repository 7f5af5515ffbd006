"""`init(telemetry=...)`: what a recording has, when it ends, and what happens to it and to the program when the file
fails."""

from __future__ import annotations

import logging
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import time
from contextlib import suppress

import pytest

import miniray as ray
from miniray.core.transitions import TaskStatus
from miniray.telemetry import TelemetryConfig
from miniray.telemetry.recording import recorder
from miniray.telemetry.config import config_of
from miniray.telemetry.recording.recording_file import writer_of
from miniray.telemetry.recording.restore import restored
from miniray.testing import simulate

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(ray.__file__))}


def run(program: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *words],
        capture_output=True,
        text=True,
        timeout=50,
        env={**ENVIRONMENT, **environment},
    )


def rows(path: str, sql: str, *values: object) -> list[tuple]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def facts(path: str) -> dict[str, str]:
    return dict(rows(path, "SELECT name, value FROM session"))


def recorded(path: str, **config: object) -> None:
    """A small session with ten tasks."""
    telemetry = TelemetryConfig(path, **config) if config else path
    with ray.init(num_cpus=2, telemetry=telemetry):
        ray.get([double.remote(n) for n in range(10)])


@ray.remote
def double(n):
    return 2 * n


# ------------------------------------------------------------ what to record


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"path": 3}, TypeError),
        ({"path": b"run.db"}, TypeError),
        ({"path": ""}, ValueError),
        ({"path": "a\0b"}, ValueError),
        ({"retention_secs": "1"}, TypeError),
        ({"retention_secs": True}, TypeError),
        ({"retention_secs": -1}, ValueError),
        ({"retention_secs": float("nan")}, ValueError),
        ({"retention_secs": float("inf")}, ValueError),
        ({"retention_secs": 10**400}, ValueError),
        ({"retention_secs": -(10**5000)}, ValueError),
        ({"snapshot_interval_secs": None}, TypeError),
        ({"snapshot_interval_secs": True}, TypeError),
        ({"snapshot_interval_secs": float("nan")}, ValueError),
        ({"snapshot_interval_secs": 10**5000}, ValueError),
        ({"snapshot_interval_secs": -0.1}, ValueError),
        ({"include_dashboard": 1}, TypeError),
        ({"dashboard_port": 1.5}, TypeError),
        ({"dashboard_port": True}, TypeError),
        ({"dashboard_port": 65536}, ValueError),
        ({"dashboard_port": -1}, ValueError),
        ({"dashboard_port": 10**5000}, ValueError),
    ],
)
def test_a_bad_setting_is_refused(given, problem):
    """TypeError for a wrong type, ValueError for a wrong value; the text names the argument."""
    with pytest.raises(problem, match=next(iter(given))):
        TelemetryConfig(**given)


def test_the_argument_comes_before_the_variable(path):
    """None asks MINIRAY_TELEMETRY; False switches it off; an empty variable names no file."""
    environ = {"MINIRAY_TELEMETRY": "other.db"}
    assert config_of(None, environ) == TelemetryConfig("other.db", otlp=False)
    assert config_of(path, environ) == TelemetryConfig(path, otlp=False)
    assert config_of(False, environ) is None
    assert config_of(TelemetryConfig(retention_secs=1), environ) is None
    for nothing in "", "0", "false", "No", " off ":
        assert config_of(None, {"MINIRAY_TELEMETRY": nothing}) is None
    with pytest.raises(TypeError, match="telemetry takes the name of a file"):
        config_of(3, {})


def test_the_home_of_the_user(monkeypatch):
    """ "~" is expanded, since no shell has done it."""
    monkeypatch.setenv("HOME", "/home/somebody")
    assert TelemetryConfig("~/run.db").path == "/home/somebody/run.db"
    assert config_of(None, {"MINIRAY_TELEMETRY": "~/run.db"}).path == "/home/somebody/run.db"


def test_init_refuses_a_bad_setting_and_starts_nothing():
    """The check comes before the session."""
    with pytest.raises(TypeError, match="telemetry takes"):
        ray.init(telemetry=3)
    assert not ray.is_initialized()


def test_the_variable_names_the_file(path, monkeypatch):
    """A program that calls init without the argument, or not at all, is recorded."""
    monkeypatch.setenv("MINIRAY_TELEMETRY", path)
    assert ray.get(double.remote(4)) == 8
    ray.shutdown()
    assert rows(path, "SELECT name, state FROM tasks") == [("double", "FINISHED")]


def test_the_variable_does_not_concern_simulations(path, monkeypatch):
    """A search through schedules runs thousands of sessions. One that asks for a file itself gets it."""
    monkeypatch.setenv("MINIRAY_TELEMETRY", path)
    simulate(lambda: ray.get(double.remote(4)), seed=1)
    assert not os.path.exists(path)

    def program():
        with ray.init(num_cpus=1, telemetry=pathlib.Path(path)):
            return ray.get(double.remote(4))

    assert simulate(program, seed=1) == 8
    assert rows(path, "SELECT name, state FROM tasks") == [("double", "FINISHED")]


def test_without_telemetry_a_session_imports_none_of_it():
    """Neither `import miniray` nor a session loads SQLite or the package."""
    done = run(
        """
        import sys, miniray as ray
        ray.init(num_cpus=1); ray.get(ray.put(1)); ray.shutdown()
        print([name for name in sys.modules if name == "sqlite3" or name.startswith("miniray.telemetry.")])
        """
    )
    assert done.stdout.strip() == "[]", done.stderr


# ------------------------------------------------------------ what is recorded


def test_a_session_is_recorded(path):
    """The file has every task, the session's facts, and belongs to its owner only."""
    recorded(path)
    assert rows(path, "SELECT count(*), min(state), max(state) FROM tasks") == [(10, "FINISHED", "FINISHED")]
    told = facts(path)
    assert told["pid"] == str(os.getpid()) and told["how_it_ended"] == "shutdown" and told["status"] == "SUCCEEDED"
    assert int(told["started_us"]) < int(told["ended_us"]) <= time.time() * 1e6 + 1e5
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert not os.path.exists(f"{path}-wal")


def test_no_argument_no_value_and_no_secret_is_recorded(path):
    """Arguments, results, values of `put`, and the values of a runtime environment are not in the file."""
    with ray.init(num_cpus=2, telemetry=path, runtime_env={"env_vars": {"TOKEN_NAME": "secret-in-env"}}):
        kept = ray.put("secret-put")
        task = ray.remote(lambda *args, **named: "secret-result")
        assert ray.get(task.remote("secret-argument", key="secret-keyword", ref=kept)) == "secret-result"
        own = task.options(runtime_env={"env_vars": {"OTHER_NAME": "secret-of-task"}})
        ray.get(own.remote())
    with open(path, "rb") as file:
        data = file.read()
    assert b"secret" not in data
    assert b"TOKEN_NAME" in data and b"OTHER_NAME" in data


def test_files_beside_it_are_private_too(path):
    """The write-ahead log and the shared memory have the mode of the database, whatever the umask is."""
    before = os.umask(0)
    try:
        with ray.init(num_cpus=1, telemetry=path):
            modes = {name: stat.S_IMODE(os.stat(f"{path}{name}").st_mode) for name in ("", "-wal", "-shm")}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("settings", [{"local_mode": True}, {"runtime": "simulated", "seed": 3}])
def test_every_runtime_is_recorded(path, settings):
    """local_mode and the simulated runtime."""
    with ray.init(telemetry=path, **settings):
        assert ray.get([double.remote(n) for n in range(3)]) == [0, 2, 4]
    assert rows(path, "SELECT count(*) FROM tasks WHERE state = 'FINISHED'") == [(3,)]
    assert "ended_us" in facts(path)


def test_hours_of_a_simulated_session_are_recorded_whole(path):
    """Its time is virtual: the retention, an hour unless the program says otherwise, removed what was older."""

    @ray.remote
    def hours(n):
        time.sleep(7_200)
        return n

    with ray.init(telemetry=path, runtime="simulated", num_cpus=1):
        assert ray.get([hours.remote(n) for n in range(3)]) == [0, 1, 2]
    assert rows(path, "SELECT count(*), max(duration_us) FROM tasks") == [(3, 7_200_000_000)]
    assert rows(path, "SELECT * FROM dropped") == []


def test_the_file_can_be_read_while_it_is_written(path):
    """A task that has ended is in the file soon, and the reader does not disturb the recorder."""
    with ray.init(num_cpus=1, telemetry=path):
        ray.get(double.remote(1))
        session_recorder = ray.api.session.recorders[0]
        wait_for_rows(path, "SELECT 1 FROM tasks WHERE state = 'FINISHED'")
        assert "ended_us" not in facts(path)
        connection = sqlite3.connect(path)
        assert writer_of(connection) == os.getpid()
        connection.close()
        assert not session_recorder.stopped


def wait_for_rows(path: str, sql: str) -> None:
    """Wait until a query has a row. The recorder's thread has no event to wait for: another process cannot see one."""
    deadline = time.monotonic() + 30
    while not rows(path, sql):
        assert time.monotonic() < deadline, f"no row of {sql}"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("ending", "how", "status"),
    [
        ("ray.shutdown()", "shutdown", "SUCCEEDED"),
        ("pass", "ended", "UNKNOWN"),
        ("raise ValueError('x')", "error: ValueError", "FAILED"),
        ("sys.exit(3)", "ended", "UNKNOWN"),
        ("with ray: sys.exit(3)", "exit code 3", "FAILED"),
        ("with ray: sys.exit()", "exit code 0", "SUCCEEDED"),
        ("with ray: sys.exit('no')", "exit code 1", "FAILED"),
        ("raise KeyboardInterrupt", "interrupted", "FAILED"),
    ],
)
def test_the_file_says_how_the_session_ended(path, ending, how, status):
    """Without a call of `shutdown` the end of the program is the end of the session, and nothing is missing. Python does
    not tell the exit code at that time."""
    run(
        f"""
        import sys, miniray as ray
        session = ray.init(num_cpus=1, telemetry=sys.argv[1])
        ray.get(ray.remote(lambda: 1).remote())
        {ending.replace("with ray", "with session")}
        """,
        path,
    )
    told = facts(path)
    assert (told["how_it_ended"], told["status"]) == (how, status)
    assert rows(path, "SELECT count(*) FROM tasks WHERE state = 'FINISHED'") == [(1,)]


@pytest.mark.parametrize(
    ("number", "code", "how"),
    [(signal.SIGINT, -signal.SIGINT, "interrupted"), (signal.SIGTERM, signal.SIGTERM, "SIGTERM")],
)
def test_a_signal_ends_the_recording_in_order(path, number, code, how):
    """Ctrl-C and SIGTERM: the last transaction is written, and the file says how the session ended."""
    program = subprocess.Popen(
        [sys.executable, "-c", WAITS, path],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ENVIRONMENT,
    )
    assert program.stdout is not None and program.stdout.readline() == "ready\n"
    program.send_signal(number)
    assert program.wait(30) == code
    program.stdout.close()
    told = facts(path)
    assert "ended_us" in told and (told["how_it_ended"], told["status"]) == (how, "FAILED")
    assert rows(path, "SELECT count(*) FROM tasks WHERE state = 'FINISHED'") == [(1,)]


WAITS = """
import sys, threading
import miniray as ray
ray.init(num_cpus=1, telemetry=sys.argv[1])
ray.get(ray.remote(lambda: 1).remote())
print("ready", flush=True)
while True:  # in slices: without the GIL, a signal just before a wait does not end it
    threading.Event().wait(0.05)
"""


def test_without_a_thread_the_recording_stops(path, caplog, monkeypatch):
    """The system may have no more threads: one warning, and the program goes on."""

    def refuse(*ignored):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(recorder, "_start_new_thread", refuse)
    recorded(path)
    assert "can't start new thread" in caplog.records[0].getMessage() and len(caplog.records) == 1
    assert "can't start new thread" in facts(path)["stopped"]


# ------------------------------------------------------------ several sessions, several processes


def test_the_second_session_of_a_program_has_a_file_of_its_own(path):
    """run.db, run-2.db, ..."""
    recorded(path)
    recorded(path)
    second = path.replace("run.db", "run-2.db")
    assert [rows(one, "SELECT count(*) FROM tasks") for one in (path, second)] == [[(10,)], [(10,)]]


def test_a_new_recording_replaces_an_older_one(path, monkeypatch):
    """Nothing of the old one is left in the file, and a file with another mode gets the private one."""
    recorded(path)
    size = os.path.getsize(path)
    os.chmod(path, 0o644)
    monkeypatch.setattr(recorder, "_begun", {})  # a new program
    with ray.init(num_cpus=1, telemetry=path):
        pass
    assert rows(path, "SELECT count(*) FROM tasks") == [(0,)]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert os.path.getsize(path) <= size


def test_two_processes_with_one_path(path, caplog):
    """The second one says so, and records into a file with its own pid in its name."""
    other = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, miniray as ray; ray.init(num_cpus=1, telemetry=sys.argv[1]); print('ready', flush=True); input()",
            path,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert other.stdout is not None and other.stdout.readline() == "ready\n"
    with caplog.at_level(logging.WARNING):
        recorded(path)
    other.communicate("\n", timeout=30)
    own = path.replace("run.db", f"run-{os.getpid()}.db")
    assert rows(own, "SELECT count(*) FROM tasks") == [(10,)]
    assert facts(path)["pid"] == str(other.pid)
    assert [f"written by process {other.pid}" in record.getMessage() for record in caplog.records] == [True]


def test_a_recording_that_is_closed_beside_a_reader_was_not_killed(path, monkeypatch):
    """Its process may end after the reader has read that it has not, and before it looks for the process."""
    recorded(path)
    ended = facts(path)["ended_us"]

    def closes(found):
        change("INSERT OR REPLACE INTO session VALUES ('ended_us', ?)", ended)
        return 0

    def change(statement, *values):
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute(statement, values)
        connection.close()

    change("PRAGMA journal_mode = WAL")
    change("DELETE FROM session WHERE name = 'ended_us'")
    monkeypatch.setattr("miniray.telemetry.sql.sources.writer_in", closes)
    with ray.telemetry.open(path) as source:
        assert source.query("SELECT count(*) FROM tasks").reason == ""
    change("DELETE FROM session WHERE name = 'ended_us'")
    monkeypatch.setattr("miniray.telemetry.recording.restore.writer_of", closes)
    with restored(path) as runtime:
        assert runtime.gaps == []


def test_a_file_of_a_killed_process_is_free_again(path):
    """The next program replaces it, although it was never ended."""
    done = run(
        """
        import os, signal, sys, miniray as ray
        ray.init(num_cpus=1, telemetry=sys.argv[1])
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        path,
    )
    assert done.returncode == -signal.SIGKILL
    assert "ended_us" not in facts(path)
    with ray.telemetry.open(path) as source:  # at once, however short ago it was killed
        result = source.query("SELECT count(*) FROM tasks")
        assert not result.complete and "was killed" in result.reason
    recorded(path)
    assert rows(path, "SELECT count(*) FROM tasks") == [(10,)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_writes_nothing(path):
    """The child ends normally, may have a session of its own, and the parent's recording is complete."""
    done = run(
        """
        import os, sys, miniray as ray
        ray.init(num_cpus=2, telemetry=sys.argv[1])
        f = ray.remote(lambda: 1)
        ray.get([f.remote() for _ in range(5)])
        child = os.fork()
        if child == 0:
            ray.init(num_cpus=1, telemetry=sys.argv[1])
            ray.get([ray.remote(lambda: 1).remote() for _ in range(3)])
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        ray.get([f.remote() for _ in range(5)])
        print(child)
        """,
        path,
    )
    assert done.returncode == 0, done.stderr
    child = done.stdout.strip()
    assert rows(path, "SELECT count(*) FROM tasks") == [(10,)]
    assert rows(path.replace("run.db", f"run-{child}.db"), "SELECT count(*) FROM tasks") == [(3,)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_waits_until_the_recorder_is_outside_of_sqlite(path):
    """A child inherited a lock of SQLite that the recorder's thread held, and hung when it opened a file."""
    done = run(
        """
        import os, sys, threading, time, miniray as ray
        from miniray.telemetry.collecting import store
        from miniray.telemetry.recording.recorder import Recorder
        writes, written, flush = threading.Event(), threading.Event(), Recorder._flush
        store.let_fork = lambda: None  # otherwise it may fork between two statements

        def slow(self, last):
            writes.set()
            written.wait(0.5)  # the main thread is about to fork
            flush(self, last)
            writes.clear()

        Recorder._flush = slow
        ray.init(num_cpus=1, telemetry=sys.argv[1])
        writes.wait()
        child = os.fork()
        if child == 0:
            os._exit(writes.is_set())
        written.set()
        assert os.waitpid(child, 0)[1] == 0
        """,
        path,
    )
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------ retention


def test_retention_trims_and_counts(path):
    """What ended too long ago is removed; the table `dropped` says how much."""
    with ray.init(num_cpus=2, telemetry=TelemetryConfig(path, retention_secs=0.2)):
        ray.get([double.remote(n) for n in range(10)])
        wait_for_rows(path, "SELECT 1 FROM dropped WHERE table_name = 'task_attempts' AND count = 10")
        assert rows(path, "SELECT count(*) FROM tasks") == [(0,)]


def test_retention_removes_what_no_row_refers_to(path):
    """Dead actors and workers, names, failures. What comes again has all of its columns again."""

    @ray.remote
    class Short:
        def fail(self):
            raise ValueError("again")

    def once():
        actor = Short.options(name="short").remote()
        with pytest.raises(ValueError, match="again"):
            ray.get(actor.fail.remote())
        ray.kill(actor)
        ray.get(double.options(name="once").remote(1))

    with ray.init(num_cpus=1, telemetry=TelemetryConfig(path, retention_secs=0.2)):
        once()
        gone = " AND ".join(
            f"NOT EXISTS (SELECT 1 FROM {table})" for table in ("actors", "_specs", "_failures", "_callers")
        )
        wait_for_rows(path, f"SELECT 1 WHERE {gone} AND EXISTS (SELECT 1 FROM dropped WHERE table_name = 'actors')")
        once()
    named = set(rows(path, "SELECT func_or_class_name, error_type FROM tasks"))  # on a busy machine some are gone
    assert named <= {("Short.__init__", None), ("Short.fail", "TASK_EXECUTION_EXCEPTION"), ("double", None)}


def test_without_retention_nothing_is_removed(path):
    """retention_secs=0 keeps everything."""
    recorded(path, retention_secs=0)
    assert rows(path, "SELECT count(*) FROM tasks") == [(10,)]
    assert rows(path, "SELECT * FROM dropped") == []


# ------------------------------------------------------------ SIGKILL


def test_the_file_alone_has_the_rows_soon(path, tmp_path):
    """The log is moved into the file while the program runs, so a copy without the log has them, too."""
    copy = str(tmp_path / "copy.db")
    with ray.init(num_cpus=1, telemetry=path):
        ray.get([double.remote(n) for n in range(10)])
        deadline = time.monotonic() + 30
        while True:
            shutil.copyfile(path, copy)
            with suppress(sqlite3.DatabaseError):  # not even the tables yet, or copied in the middle of a change
                if rows(copy, "SELECT count(*) FROM tasks WHERE state = 'FINISHED'") == [(10,)]:
                    break
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_first_flush_has_every_table(path):
    """A program that is killed early leaves its node and its workers beside its tasks."""
    with ray.init(num_cpus=1, telemetry=path):
        ray.get(double.remote(1))
        wait_for_rows(path, "SELECT 1 FROM session WHERE name = 'waits_json'")
        assert rows(path, "SELECT count(*) FROM nodes") == [(1,)]


KILLED = """
import sys, time
import miniray as ray

@ray.remote
def f(n):
    return n

ray.init(num_cpus=2, telemetry=sys.argv[1])
number = 0
while True:
    ray.get([f.remote(n) for n in range(20)])
    number += 20
    print(number, time.time(), flush=True)
"""
KILLS = 6  # 200 were tried when this was written


@pytest.mark.slow  # each program runs for a second or two
@pytest.mark.watchdog(180)
def test_a_killed_process_leaves_everything_up_to_its_last_transaction(tmp_path):
    """At a random moment, half of them while the session starts: the file opens, and has every task that had ended
    when the last transaction began. That was at most a few flushes ago."""
    chance, lags = random.Random(3), []
    for number in range(KILLS):
        path = str(tmp_path / f"{number}.db")
        program = subprocess.Popen(
            [sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        first = "" if number % 2 else program.stdout.readline()  # the session runs
        time.sleep(chance.uniform(0, 0.6 if number % 2 else 2))
        program.send_signal(signal.SIGKILL)
        killed = time.time()
        output = first + program.communicate()[0]
        if not os.path.exists(path):
            continue
        with restored(path) as runtime:
            assert runtime.gaps
            done = sum(task.status is TaskStatus.FINISHED for task in runtime.cluster.tasks.values())
            lines = [line.split() for line in output.splitlines(keepends=True) if line.endswith("\n")]
            told = [int(count) for count, at in lines if float(at) < runtime.now() - 0.001]
            assert done >= max(told, default=0)
            if runtime.facts:
                lags.append(killed - runtime.now())
        assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    assert sorted(lags)[len(lags) // 2] < 10 * recorder.FLUSH_S  # on a busy machine
