"""What happens to the program, and to its recording, when the file cannot be written."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time

import pytest

import miniray as ray
from miniray import cli
from miniray.telemetry import TelemetryConfig
from miniray.telemetry.recording import recorder
from tests.telemetry.test_recorder import double, recorded, rows, wait_for_rows


def on_its_thread(session_recorder, work):
    """Let the recorder's thread call `work` before its next transaction, and wait for it. While the thread runs, nobody
    else may use the connection."""
    called, flush = threading.Event(), session_recorder._flush

    def first(last):
        session_recorder._flush = flush
        try:
            work()
        finally:
            called.set()
        flush(last)

    session_recorder._flush = first
    assert called.wait(30)
    assert not session_recorder.stopped


def test_a_folder_that_does_not_exist(tmp_path, caplog):
    """One warning, and the program goes on."""
    recorded(str(tmp_path / "missing" / "run.db"))
    assert [record.getMessage() for record in caplog.records] == [
        f"This session is not recorded: {tmp_path}/missing/run.db cannot be written: there is no folder "
        f"{tmp_path}/missing."
    ]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="this system has no /proc")
def test_a_folder_that_cannot_be_written(caplog):
    """Not even root can create a file in /proc."""
    recorded("/proc/run.db")
    assert len(caplog.records) == 1 and "/proc/run.db cannot be written" in caplog.records[0].getMessage()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path, caplog):
    """As above, for an ordinary user."""
    os.chmod(tmp_path, 0o500)
    recorded(str(tmp_path / "run.db"))
    assert "Permission denied" in caplog.records[0].getMessage()


@pytest.mark.parametrize("step", ["facts", "Collector", "Identity"])
def test_a_mistake_of_ours_does_not_leave_init(tmp_path, caplog, monkeypatch, step):
    """One warning, and a session that works and ends. A file that has no recording is gone."""

    def fails(*ignored):
        raise UnicodeEncodeError("utf-8", "n\udce9", 1, 2, "surrogates not allowed")

    monkeypatch.setattr(recorder, step, fails)
    recorded(str(tmp_path / "run.db"))
    assert not ray.is_initialized()
    assert len(caplog.records) == 1 and "surrogates not allowed" in caplog.records[0].getMessage()
    if step == "facts":
        assert os.listdir(tmp_path) == []


def test_names_that_are_not_unicode(tmp_path, caplog):
    """Of the namespace and of the file: the session runs, and no half of a recording is left."""
    with ray.init(num_cpus=1, namespace="n\udce9", telemetry=str(tmp_path / "run.db")):
        assert ray.get(double.remote(2)) == 4
    recorded(str(tmp_path / "\ud800.db"))
    assert "cannot be written" in caplog.records[-1].getMessage()
    assert not [file for file in os.listdir(tmp_path) if file.endswith(("-wal", "-shm"))]


@pytest.mark.parametrize("content", [b"precious", b"SQLite format 3\0" + bytes(84)])
def test_a_file_of_somebody_else_is_left_as_it_is(path, caplog, content):
    """A recording never replaces anything but a recording."""
    with open(path, "wb") as file:
        file.write(content)
    recorded(path)
    with open(path, "rb") as file:
        assert file.read() == content
    assert len(caplog.records) == 1 and "not recorded" in caplog.records[0].getMessage()


def test_another_database_is_left_as_it_is(path, caplog):
    """Also one of SQLite."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE session (name, value)")
    connection.commit()
    connection.close()
    recorded(path)
    assert rows(path, "SELECT name FROM sqlite_master") == [("session",)]
    assert "it is not a recording of miniray" in caplog.records[0].getMessage()


def test_a_path_that_is_a_folder(tmp_path, caplog):
    """It is named in the warning."""
    recorded(str(tmp_path))
    assert "it is a folder" in caplog.records[0].getMessage()


def test_a_folder_that_is_deleted_meanwhile(tmp_path, caplog):
    """The recording stops with one warning. The session ends as usual."""
    folder = tmp_path / "runs"
    folder.mkdir()
    with ray.init(num_cpus=1, telemetry=str(folder / "run.db")):
        ray.get(double.remote(1))
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        ray.api.session.recorders[0]._done.acquire()
        ray.api.session.recorders[0]._done.release()
        assert ray.get(double.remote(2)) == 4
    assert [record.getMessage() for record in caplog.records] == [
        f"The recording has stopped, and the program goes on: {folder}/run.db was deleted or replaced."
    ]


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_deleted_or_replaced_meanwhile_leaves_no_log(tmp_path, caplog, replaced):
    """SQLite would write the log of the old file into the next one of this name."""
    path, other = tmp_path / "run.db", tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE theirs (name)")
    connection.close()
    with ray.init(num_cpus=1, telemetry=str(path)):
        ray.get(double.remote(1))
        wait_for_rows(str(path), "SELECT 1 FROM tasks WHERE state = 'FINISHED'")
        assert (tmp_path / "run.db-wal").stat().st_size
        other.replace(path) if replaced else path.unlink()
        ray.api.session.recorders[0]._done.acquire()
        ray.api.session.recorders[0]._done.release()
        assert [file.name for file in tmp_path.iterdir()] == ["run.db" if replaced else "other.db"]
    assert not replaced or rows(str(path), "SELECT name FROM sqlite_master") == [("theirs",)]
    assert len(caplog.records) == 1


def test_a_full_disk(path, caplog):
    """The recording stops with one warning and a row in `dropped`; what was written before is complete."""
    with ray.init(num_cpus=2, telemetry=path):
        session_recorder = ray.api.session.recorders[0]
        ray.get([double.remote(n) for n in range(10)])
        wait_for_rows(path, "SELECT 1 WHERE (SELECT count(*) FROM tasks) = 10")

        def fill():
            (pages,) = session_recorder._connection.execute("PRAGMA page_count").fetchone()
            session_recorder._connection.execute(f"PRAGMA max_page_count = {pages}")

        on_its_thread(session_recorder, fill)
        ray.get([double.remote(n) for n in range(20_000)])
        session_recorder._done.acquire()
        session_recorder._done.release()
        assert ray.get(double.remote(2)) == 4
    assert [record.getMessage() for record in caplog.records] == [
        f"The recording has stopped, and the program goes on: {path} cannot be written: database or disk is full."
    ]
    assert rows(path, "SELECT table_name, reason FROM dropped") == [
        ("", f"the recording stopped: {path} cannot be written: database or disk is full")
    ]
    assert rows(path, "SELECT count(*) >= 10 FROM tasks") == [(1,)]
    with ray.telemetry.open(path) as source:
        result = source.query("SELECT count(*) FROM tasks")
        assert not result.complete and "disk is full" in result.reason


def test_a_file_that_another_process_takes_over(path, caplog):
    """The recorder notices that the tables are no longer its own, and writes nothing into them."""
    with ray.init(num_cpus=1, telemetry=path):
        connection = sqlite3.connect(path)
        connection.execute("UPDATE session SET value = 'another' WHERE name = 'recording_id'")
        connection.commit()
        connection.close()
        ray.get(double.remote(1))
    assert "another process records into" in caplog.records[0].getMessage()


def test_a_reader_that_locks_the_file_does_not_stop_the_recording(path, caplog):
    """What could not be written is written later."""
    with ray.init(num_cpus=1, telemetry=path):
        session_recorder = ray.api.session.recorders[0]
        found_it_locked, begin = threading.Event(), session_recorder._begin_transaction

        def observed(now):
            begun = begin(now)
            if not begun:
                found_it_locked.set()
            return begun

        session_recorder._begin_transaction = observed
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        ray.get([double.remote(n) for n in range(10)])
        assert found_it_locked.wait(30)
        connection.execute("ROLLBACK")
        connection.close()
    assert rows(path, "SELECT count(*) FROM tasks") == [(10,)]
    assert not caplog.records


def test_a_locked_file_is_not_waited_for(path, caplog):
    """At the beginning the session takes a file of its own; at the end it gives up soon."""
    recorded(path, retention_secs=0)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    recorder._begun.clear()
    begun = time.monotonic()
    ray.init(num_cpus=1, telemetry=path)
    assert time.monotonic() - begun < 3
    connection.execute("ROLLBACK")
    own = path.replace("run.db", f"run-{os.getpid()}.db")
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} is locked by another program: this session is recorded in {own}."
    ]
    other = sqlite3.connect(own, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    ray.get(double.remote(1))
    begun = time.monotonic()
    ray.shutdown()
    assert time.monotonic() - begun < 4  # some 1.5 s on an idle machine
    assert "has kept" in caplog.records[-1].getMessage() and len(caplog.records) == 2
    for one in connection, other:
        one.close()


def test_a_lock_does_not_stop_the_retention(path, caplog):
    """What cannot be removed now is removed later."""
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(path, retention_secs=3600)):
        session_recorder = ray.api.session.recorders[0]
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        trimmed = []

        def trim():
            trimmed.append(session_recorder._trim(session_recorder.runtime.now()))

        on_its_thread(session_recorder, trim)
        connection.execute("ROLLBACK")
        on_its_thread(session_recorder, trim)
        connection.close()
        assert trimmed == [False, True]
    assert not caplog.records


@pytest.mark.parametrize("retention", [sys.maxsize, 1e300, sys.float_info.max, 10**18, 5e-324])
def test_any_length_of_retention(path, caplog, retention):
    """A moment before 1970 is no problem: nothing is that old."""
    recorded(path, retention_secs=retention)
    assert not caplog.records
    assert os.listdir(os.path.dirname(path)) == ["run.db"]
    assert [count for (count,) in rows(path, "SELECT count(*) FROM tasks")] == [10 if retention > 1 else 0]


@pytest.mark.parametrize("step", ["_trim", "_flush"])
def test_a_mistake_at_the_end_leaves_the_file_closed(path, caplog, monkeypatch, step):
    """One warning; the log has gone, the file says that it has no end, and the session ends."""

    def fails(*arguments):
        raise OverflowError("a mistake")

    with ray.init(num_cpus=1, telemetry=path):
        ray.get(double.remote(1))
        wait_for_rows(path, "SELECT 1 FROM session WHERE name = 'waits_json'")
        monkeypatch.setattr(ray.api.session.recorders[0], step, fails)
    assert ["the recorder has failed" in record.getMessage() for record in caplog.records] == [True]
    assert os.listdir(os.path.dirname(path)) == ["run.db"]
    with ray.telemetry.open(path) as source:
        assert "the recorder has failed" in source.query("SELECT count(*) FROM tasks").reason


def test_a_recording_that_stopped_before_its_first_rows(path, caplog, capsys, monkeypatch):
    """Each reader gives the recorder's own reason, not that its program ended early."""

    def fails(self, last):
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(recorder.Recorder, "_flush", fails)
    recorded(path)
    for words in ["doctor"], ["list", "tasks"], ["summary", "tasks"]:
        assert cli.main([*words, "--from", path]) == 1
        said = capsys.readouterr().err
        assert f"has no rows: the recording stopped: {path} cannot be written: disk I/O error" in said
    with ray.telemetry.open(path) as source:
        assert "disk I/O error" in source.query("SELECT count(*) FROM tasks").reason


def test_a_recording_without_rows_yet(path, capsys, monkeypatch):
    """A reader that comes before the first transaction names the process."""
    monkeypatch.setattr(recorder.Recorder, "_flush", lambda self, last: None)
    with ray.init(num_cpus=1, telemetry=path):
        assert cli.main(["list", "tasks", "--from", path]) == 1
        assert f"process {os.getpid()} records into it" in capsys.readouterr().err
