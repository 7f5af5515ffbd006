"""A collector tells of each row once: what happens to a row that cannot be written at once."""

import os
import sqlite3

import pytest

import miniray as ray
from miniray.telemetry import QueryError
from miniray.telemetry import open as open_recording
from miniray.telemetry.collecting.collector import Collector
from miniray.telemetry.schema.ddl import Table, columns
from miniray.telemetry.collecting.store import Store
from miniray.util import tracing


@ray.remote
def f(x):
    return x


def test_a_lone_surrogate_loses_no_row(tmp_path):
    """`os.listdir` makes such texts of names that are no UTF-8. They are spelled out, and the rows around them stay."""
    odd = os.fsdecode(b"caf\xe9")
    path = tmp_path / "run.db"
    ray.init(num_cpus=2, telemetry=str(path), namespace=odd, log_to_driver=False)
    with pytest.raises(ValueError):
        with tracing.start_span(odd):
            raise ValueError(odd)

    def named():
        raise ValueError(odd)

    named.__name__ = named.__qualname__ = odd
    with pytest.raises(ValueError):
        ray.get(ray.remote(named).remote())
    ray.get([f.remote(i) for i in range(100)])
    statement = (
        "SELECT (SELECT count(*) FROM tasks) AS tasks, (SELECT max(name) FROM spans WHERE name LIKE 'caf%') AS span"
    )
    expected = [{"tasks": 101, "span": "caf\\udce9"}]
    assert ray.sql(statement).rows == expected
    ray.shutdown()
    with open_recording(path) as recording:
        result = recording.query(statement)
        assert result.rows == expected and result.complete
        assert recording.session()["namespace"] == "caf\\udce9"


def test_a_surrogate_is_found_in_any_chunk():
    """The rows of the chunks before it are written once, and those after it, too."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    store = Store(connection)
    store.create()
    connection.execute("CREATE TABLE many (a, b)")
    store.tables["many"] = Table("many", "", columns("a INTEGER | A.\nb TEXT | B."), ("a",), "")
    rows = [(number, "\udce9" if number % 3_000 == 2_999 else "a") for number in range(10_000)]
    store.insert("many", rows, 0.0)
    assert connection.execute("SELECT count(*), count(DISTINCT a) FROM many").fetchone() == (10_000, 10_000)
    assert connection.execute("SELECT a FROM many WHERE b <> 'a'").fetchall() == [(2_999,), (5_999,), (8_999,)]


def test_a_batch_that_cannot_be_written_is_written_the_next_time(session, monkeypatch):
    """The collector tells of each row once."""
    ray.get([f.remote(i) for i in range(10)])
    write = Store.write_open

    def full(*args):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Store, "write_open", full)
    with pytest.raises(QueryError, match="disk is full"):
        ray.sql("SELECT count(*) FROM tasks")
    monkeypatch.setattr(Store, "write_open", write)
    assert ray.sql("SELECT count(*) AS n FROM tasks").rows == [{"n": 10}]


def test_an_interrupted_look_is_said(session, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    ray.sql("SELECT count(*) FROM tasks")
    monkeypatch.setattr(Collector, "collect", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ray.sql("SELECT count(*) FROM tasks")
    monkeypatch.undo()
    result = ray.sql("SELECT count(*) FROM tasks")
    assert not result.complete and "was interrupted" in result.reason
