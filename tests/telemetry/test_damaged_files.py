"""Recordings of which a part is missing, and files that somebody has made to do harm: each gives a session or one error,
and reading it ends."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3

import pytest

from miniray import cli
from miniray.telemetry.recording import restore
from miniray.telemetry.recording.restore import Unreadable, read
from tests.telemetry.test_from_file import file
from tests.telemetry.test_recorder import run

__all__ = ["file"]  # a fixture

KILLED = """
import os, signal, sys, miniray as ray
ray.init(num_cpus=1, telemetry=sys.argv[1])
ray.get([ray.remote(lambda: 1).remote() for _ in range(5)])
recorder = ray.api.session.recorders[0]
recorder._connection.execute("PRAGMA wal_autocheckpoint = 0")
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
