"""Recordings of which a part is missing, and files that somebody has made to do harm: each gives a session or one error,
and reading it ends."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
from contextlib import suppress

import pytest

import miniray as ray
from miniray import cli
from miniray.cli import doctor
from miniray.telemetry.recording import recorder, restore
from miniray.telemetry.recording.recording_file import APPLICATION_ID
from miniray.telemetry.recording.restore import Unreadable, read
from miniray.telemetry.schema import TABLES, VIEWS as OF_SCHEMA
from miniray.util.metrics import Counter as Counts, Histogram
from tests.telemetry.test_from_file import Counter, double, fail, file
from tests.telemetry.test_recorder import run

__all__ = ["file"]  # a fixture
VIEWS = [view.name for view in OF_SCHEMA]

KILLED = """
import os, signal, sys, miniray as ray
ray.init(num_cpus=1, telemetry=sys.argv[1])
ray.get([ray.remote(lambda: 1).remote() for _ in range(5)])
recorder = ray.api.session.recorders[0]
end = recorder._end

def killed():  # on the recorder's thread: nobody else may use the connection
    recorder._connection.execute("PRAGMA wal_autocheckpoint = 0")
    end()

recorder._end = killed
recorder._next_checkpoint = float("inf")
recorder.runtime.recorders.clear()
recorder._how_it_ended, recorder._finishing = "killed", True
recorder._wake.release()
recorder._close = lambda: None
recorder._done.acquire()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(path):
    """The file of a killed program; its log has rows that the file lacks."""
    done = run(KILLED, path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert os.path.getsize(f"{path}-wal") > 0
    return path


def test_a_folder_that_cannot_be_written(killed, monkeypatch):
    """SQLite cannot use the log there, so a copy of both files is read; without a log, the file is read as it is."""
    connected = restore._connected
    modes = []

    def refused(name, mode, stack):
        modes.append(mode)
        if mode == "mode=ro":
            raise sqlite3.OperationalError("unable to open database file")
        return connected(name, mode, stack)

    monkeypatch.setattr(restore, "_connected", refused)
    assert len(read(killed).cluster.tasks) == 5
    for ending in "-wal", "-shm":
        os.unlink(killed + ending)
    try:
        read(killed)
    finally:
        assert modes == ["mode=ro", "mode=rw", "mode=ro", "mode=ro&immutable=1"]


def test_a_file_without_its_log(path, capsys):
    """The message names the files that belong together."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert cli.main(["doctor", "--from", path]) == 1
    assert "run.db-wal, which is not here" in capsys.readouterr().err
    with open(f"{path}-wal", "w") as log:
        log.write("something")
    assert cli.main(["doctor", "--from", path]) == 1
    assert "before the first rows were written\n" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize("ending", ["", "-wal"])
def test_a_file_of_another_kind_is_not_opened(file, path, ending):
    """To open a FIFO would wait for somebody who writes into it."""
    if ending:
        shutil.copyfile(file, path)
    os.mkfifo(path + ending)
    with pytest.raises(Unreadable, match="not an ordinary file"):
        read(path)


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n"


@pytest.mark.parametrize(("table", "column"), [("_attempts", "x"), ("session", "'pid' AS name, x AS value")])
def test_a_view_in_place_of_a_table_is_refused(file, path, table, column):
    """Its query might never end."""
    shutil.copyfile(file, path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA legacy_alter_table = ON")
    connection.execute(f"ALTER TABLE {table} RENAME TO other")
    connection.execute(f"CREATE VIEW {table.upper()} AS {ENDLESS.format(column)}")
    connection.commit()
    connection.close()
    with pytest.raises(Unreadable, match=f"{table} is not a table"):
        read(path)


def test_a_query_that_does_not_end_is_ended(path, file, monkeypatch):
    """By a limit of steps, whatever in the file makes it long."""
    monkeypatch.setattr(restore, "LEAST_ROUNDS", 3)

    def endless(name, connection):
        connection.execute(ENDLESS.format("max(x)")).fetchone()

    monkeypatch.setattr(restore, "_check_tables", endless)
    with pytest.raises(Unreadable, match="does not end"):
        read(file)


def test_ctrl_c_ends_the_reading(file, monkeypatch):
    """SQLite swallows what the handler of a signal raises; the reader raises it again."""
    monkeypatch.setattr(restore, "LEAST_ROUNDS", 10**9)

    def endless(name, connection):
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        connection.execute(ENDLESS.format("max(x)")).fetchone()

    monkeypatch.setattr(restore, "_check_tables", endless)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            read(file)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_damaged_file_gives_one_error(file, tmp_path):
    """Whatever the bytes are: Unreadable, or a session."""
    with open(file, "rb") as source:
        data = bytearray(source.read())
    for place in range(100, len(data), len(data) // 40):
        damaged = tmp_path / "damaged.db"
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 0xFF] * 64) + data[place + 64 :])
        try:
            read(str(damaged))
        except Unreadable as problem:
            assert "damaged.db" in str(problem)


# ------------------------------------------------------------ values that no recorder writes


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A recording with a row in most tables."""
    path = str(tmp_path_factory.mktemp("measured") / "run.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "_begun", {})
        with ray.init(num_cpus=2, telemetry=path, log_to_driver=False):
            Counts("orders", tag_keys=("user",)).inc(2, {"user": "one"})
            sizes = Histogram("sizes", boundaries=[1, 10])
            sizes.observe(5)
            counter = Counter.options(name="count").remote()
            with ray.profile("prepare"):
                ray.get([counter.add.remote(1), double.remote(double.remote(1))])
            failed = fail.remote()
            passed_on = double.remote(failed)
            ray.wait([failed, passed_on], num_returns=2)
            zone = double.options(label_selector={"zone": "x"}).remote(1)
            kept = [ray.put(bytes(300_000)), double.options(num_gpus=1, name="stuck").remote(1), zone]
            del kept
    return path


def changed(file, path, *statements):
    """A copy of the recording in which these statements have run."""
    shutil.copyfile(file, path)
    connection = sqlite3.connect(path, isolation_level=None)
    for statement, *params in statements:
        connection.execute(statement, params)
    connection.close()
    return path


@pytest.mark.parametrize(
    ("statement", "value", "said"),
    [
        ("UPDATE objects SET uses = ?", "x", r"objects.uses of the row with number [0-9]+ is 'x'.* a whole number"),
        ("UPDATE objects SET refs = ?", 1.5, "objects.refs .* is 1.5"),
        ("UPDATE _attempts SET attempt = ?", "x", "_attempts.attempt of the row with key -?[0-9]+ is 'x'"),
        ("UPDATE _attempts SET created_us = ?", 2**63 - 1, "_attempts.created_us .*, and should be a time"),
        ("UPDATE nodes SET store_used_bytes = ?", None, "nodes.store_used_bytes .* is NULL"),
        ("UPDATE nodes SET store_used_bytes = ?", "much", "nodes.store_used_bytes .* is 'much'"),
        ("UPDATE nodes SET labels_json = ?", "[" * 9_000, "nodes.labels_json .* is no JSON"),
        (
            "UPDATE nodes SET resources_total_json = ?",
            '{"CPU": NaN}',
            "resources_total_json .* each value a finite number",
        ),
        ("UPDATE _classes SET selector_json = ?", '[["a"]]', "_classes.selector_json .* should be a list"),
        ("UPDATE _classes SET strategy_json = ?", '["NODE_AFFINITY"]', "_classes.strategy_json .* a strategy"),
        ("UPDATE _specs SET label_selector_json = ?", '{"a": {}}', "label_selector_json .* each value a text"),
        ("UPDATE metric_points SET worker_id = ?", None, "metric_points.worker_id .* is NULL"),
        ("UPDATE metric_points SET kind = ?", "dial", "metric_points.*: its kind is unknown"),
        ("UPDATE metric_points SET bounds_json = ?", "[1]", "has 3 buckets and 1 bounds"),
        ("UPDATE metric_points SET kind = 'histogram', count = ?", None, "a histogram without its buckets"),
        ("UPDATE waits SET start_us = ?", float("inf"), "waits.start_us .* is inf"),
        ("UPDATE actors SET state = ?", "ASLEEP", "'ASLEEP' is no ActorStatus"),
        ("UPDATE _failures SET cause = id + ?", 0, "is a cause of itself"),
        ("UPDATE session SET value = ? WHERE name = 'pid'", "many", "session: pid is 'many'"),
        ("UPDATE session SET value = ? WHERE name = 'waits_json'", '{"driver": [1]}', "session: waits_json should be"),
        ("ALTER TABLE workers RENAME COLUMN node TO ?", None, "the table workers has no column node"),
    ],
)
def test_a_wrong_value_is_named(measured, path, capsys, statement, value, said):
    """Each of these used to end in a traceback. The line names the table, the column and the row."""
    if statement.startswith("ALTER"):
        views = [(f"DROP VIEW {name}",) for name in VIEWS]
        changed(measured, path, *views, (statement.replace("?", "other"),))
    else:
        changed(measured, path, (statement, value))
    with pytest.raises(Unreadable, match=said):
        read(path)
    for words in "doctor", "metrics", "list tasks":
        assert cli.main([*words.split(), "--from", path]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_values_that_look_damaged_and_are_not(measured, path, capsys):
    """SQLite keeps NaN as NULL. A wait may begin at second 0 of a simulation. A name may have a lone surrogate."""
    changed(
        measured,
        path,
        ("UPDATE metric_points SET sum = NULL, delta = NULL WHERE kind = 'histogram'",),
        ("UPDATE metric_points SET tags_json = ?", '{"user": "\\ud800"}'),
        ("UPDATE waits SET start_us = NULL",),
        ("UPDATE nodes SET labels_json = ?", '{"zone": "\\udfff"}'),
    )
    for words in "metrics", "doctor", "list nodes --detail", "list tasks --detail":
        assert cli.main([*words.split(), "--from", path]) == 0, capsys.readouterr().err
    capsys.readouterr().out.encode()  # it can be printed
    assert cli.main(["metrics", "--from", path]) == 0
    out = capsys.readouterr().out
    assert "_sum{" in out and "} NaN" in out and r"\\ud800" in out


def test_a_file_with_a_table_of_facts_only(path, capsys):
    """Anybody's file may have a table `session`. It used to be called a recording without rows."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE session (name TEXT, value TEXT)")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.commit()
    connection.close()
    assert cli.main(["doctor", "--from", path]) == 2
    assert "is no recording of miniray: it has no table _attempts" in capsys.readouterr().err


def test_a_table_that_is_missing_is_named(measured, path, capsys):
    """The other tables answer."""
    changed(measured, path, ("DROP TABLE waits",), ("DROP TABLE metric_points",))
    assert cli.main(["list", "tasks", "--from", path]) == 0
    assert "lacks the tables waits, metric_points" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["metrics --from {}", "sql SELECT {}"])
def test_an_error_is_one_line(measured, path, capsys, words):
    """SQLite quotes what it has found in a damaged definition, such as the end of a line."""
    bad = "CREATE TABLE nodes (number INTEGER, 'name\n"
    changed(
        measured, path, ("PRAGMA writable_schema = ON",), ("UPDATE sqlite_master SET sql = ? WHERE name = 'nodes'", bad)
    )
    assert cli.main([word.format(path) for word in words.split()]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "malformed database schema" in error and "name\\n" in error


def test_an_error_of_a_reader_may_come_from_the_rows(measured, capsys, monkeypatch):
    """No list of rules foresees how rows may contradict each other. The line has the place: it may be our mistake."""

    def broken(*_):
        return {}["two rows"]

    monkeypatch.setattr(doctor, "findings", broken)
    assert cli.main(["doctor", "--from", measured]) == 2
    error = capsys.readouterr().err
    assert "KeyError('two rows') in test_damaged_files.py, line " in error and error.count("\n") == 1


@pytest.mark.parametrize("mistake", [ImportError, MemoryError, NameError])
def test_an_error_that_rows_cannot_cause_is_not_hidden(measured, monkeypatch, mistake):
    """It used to be called a contradiction of the file."""

    def broken(*_):
        raise mistake("of ours")

    monkeypatch.setattr(doctor, "findings", broken)
    with pytest.raises(mistake, match="of ours"):
        cli.main(["doctor", "--from", measured])


COMMANDS = (
    *("doctor", "explain", "metrics", "memory", "logs", "status", "summary tasks", "list objects --detail"),
    *("list actors --detail --format json", "get tasks double", "timeline -o {}"),
)
STATEMENTS = "SELECT * FROM tasks", "SELECT * FROM actors", "SELECT * FROM spans", "SELECT * FROM session"
ODD = (
    *(None, 0, -1, 2**63 - 1, -(2**63), float("inf"), 1.5, "", "x", b"\xff\xfe", "[", "{}", "[]", '{"a": null}'),
    *(
        '{"a": {"b": 1}}',
        "[1e999]",
        "[1, 2]",
        '"\\ud800"',
        "RUNNING",
        "DEAD",
        "task",
        '["SPREAD"]',
        '{"": {"limit": 1}}',
    ),
)


@pytest.mark.parametrize("seed", range(40))
def test_every_command_answers_or_refuses(measured, path, capsys, tmp_path, seed):
    """Whatever is damaged: an exit code, and at most one line besides the notes and warnings. Never a traceback."""
    chance = random.Random(seed)
    damage(measured, path, chance)
    words = [word.format(tmp_path / "page.html") for word in chance.choice(COMMANDS).split()]
    for command in [*words, "--from", path], ["sql", chance.choice(STATEMENTS), path]:
        code = cli.main(command)
        err = [line for line in capsys.readouterr().err.splitlines() if not line.startswith(("Note: ", "Warning: "))]
        assert len(err) == (code != 0) and code in (0, 1, 2), (command, code, err)


def damage(source, path, chance):
    """Copy a recording, and change cells, bytes or tables of it."""
    shutil.copyfile(source, path)
    how = chance.choice(("cells", "cells", "cells", "bytes", "cut", "tables"))
    if how in ("bytes", "cut"):
        with open(path, "rb") as file:
            data = bytearray(file.read())
        if how == "cut":
            del data[chance.randrange(len(data)) :]
        for _ in range(chance.choice((1, 30, 300)) if data else 0):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with open(path, "wb") as file:
            file.write(data)
        return
    connection = sqlite3.connect(path, isolation_level=None)
    for _ in range(chance.randint(1, 4)):
        table = chance.choice(TABLES)
        if how == "tables":
            connection.execute(f"DROP TABLE IF EXISTS {table.name}")
            continue
        column = chance.choice(table.columns).name
        key = table.key[0]
        with suppress(sqlite3.IntegrityError):  # a key is unique, and some are numbers
            connection.execute(
                f"UPDATE {table.name} SET {column} = ? WHERE {key} IN (SELECT {key} FROM {table.name} LIMIT ?)",
                (chance.choice(ODD), chance.choice((1, 100))),
            )
    connection.close()
