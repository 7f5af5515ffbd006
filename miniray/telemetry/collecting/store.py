"""The store: a SQLite database with the tables of the schema.

The live source keeps one in memory; the recorder keeps one in a file. Both write batches of a collector.

*Why one INSERT has many rows.* `sqlite3` releases the GIL around every step of a statement. With `executemany`, each
row is a step, and after each step the writing thread waits for the GIL, up to a whole time slice of another thread. So
one statement inserts hundreds of rows: the GIL is held only while the values are bound, and SQLite does its work beside
the program.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from .. import schema
from ..fork_gate import let_fork
from .collector import FINISHED_COLUMNS, Batch
from .numbers import Numbers, Row, storable
from ..schema.ddl import Table, quoted
from ..schema import TABLES, VIEWS
from ..schema.stored_tables import SEARCH_DDL

MANY_VALUES = sqlite3.sqlite_version_info >= (3, 32)  # whether a statement may have 32,766 values, and not only 999
MOST_VALUES = 32_000 if MANY_VALUES else 990  # of one statement
SIZES = (2_600, 200, 20, 1)  # rows of one INSERT


TRIMS = {
    "actors": "DELETE FROM actors WHERE dead_us < ? AND id NOT IN (SELECT abs(actor) FROM _attempts "
    "WHERE actor IS NOT NULL) AND id NOT IN (SELECT actor FROM objects WHERE actor IS NOT NULL)",
    "actor_events": "DELETE FROM actor_events WHERE timestamp_us < ? AND actor NOT IN (SELECT id FROM actors)",
    "workers": "DELETE FROM workers WHERE end_us < ? AND number NOT IN (SELECT worker FROM _attempts "
    "WHERE worker IS NOT NULL) AND number NOT IN (SELECT worker FROM actors WHERE worker IS NOT NULL)",
}
"""What else `trim` deletes: dead actors and workers to which no row refers any longer."""
LAST_VALUES = (
    " AND id NOT IN (SELECT max(id) FROM metric_points WHERE timestamp_us < ?1 "
    "GROUP BY worker_id, name, kind, tags_json)"
)
"""What `trim` leaves of old points: the last one of each series. A gauge that nobody has set since has that value. Only
old points are grouped, so a sweep costs as much as what it may delete."""
UNUSED = (
    "DELETE FROM _specs WHERE id NOT IN (SELECT spec FROM _attempts)",
    "DELETE FROM _callers WHERE id NOT IN (SELECT caller FROM _attempts)",
    "DELETE FROM _failures WHERE id NOT IN (SELECT failure FROM _attempts WHERE failure IS NOT NULL "
    "UNION SELECT error FROM _attempts WHERE error IS NOT NULL UNION SELECT failure FROM actors WHERE failure "
    "IS NOT NULL UNION SELECT failure FROM objects WHERE failure IS NOT NULL UNION SELECT cause FROM _failures "
    "WHERE cause IS NOT NULL)",
)


class Store:
    """Writes batches into a database. The connection belongs to the caller."""

    def __init__(self, connection: sqlite3.Connection):
        self.connection = connection
        self._inserts: dict[tuple[str, int, float], str] = {}
        self.tables: dict[str, Table] = {table.name: table for table in TABLES}

    def create(self) -> None:
        """Create the tables and views of the schema in an empty database."""
        with self.connection:
            self.connection.execute("BEGIN")
            self.create_open()

    def create_open(self) -> None:
        """As `create`, in the transaction that the caller has begun."""
        for table in TABLES:
            self.connection.execute(table.ddl())
            for index in table.indexes:
                self.connection.execute(index)
        for view in VIEWS:
            self.connection.execute(view.ddl())
        with contextlib.suppress(sqlite3.OperationalError):  # a SQLite without FTS5
            for statement in SEARCH_DDL:
                self.connection.execute(statement)
        self.connection.executemany("INSERT INTO _states VALUES (?, ?)", enumerate(schema.STEPS))
        self.note(schema_version=schema.VERSION)

    def note(self, **facts: object) -> None:
        """Set rows of `session`. The caller commits."""
        self.connection.executemany(
            "INSERT OR REPLACE INTO session VALUES (?, ?)",
            [(name, storable(str(value))) for name, value in facts.items()],
        )

    def write(self, batch: Batch, between: Callable[[], object] | None = None) -> None:
        """Write a batch in one transaction. Raises sqlite3.Error; then nothing of it was written.

        between: called after every statement, such as `Collector.take_in_time`: writing a large batch takes a while.
        """
        with self.connection:
            self.connection.execute("BEGIN")
            self.write_open(batch, between)

    def write_open(self, batch: Batch, between: Callable[[], object] | None = None) -> None:
        """Write a batch in the transaction that the caller has begun."""
        finished = batch.finished
        if finished:
            self._insert("finished", finished, FINISHED_COLUMNS, batch.epoch, between)
        for name, rows in batch.rows.items():
            if name == "_released":
                self._released(rows, batch.epoch)
            else:
                self.insert(name, rows, batch.epoch, between)
        now_us = round((batch.now + batch.epoch) * 1e6)
        for name, count in batch.dropped.items():
            self.drop(name, "the session dropped records before they were collected", count, now_us)

    def drop(self, table: str, reason: str, count: int, now_us: int) -> None:
        """Count rows of a table that are missing. The caller commits."""
        self.connection.execute(
            "INSERT INTO dropped VALUES (?, ?, ?, ?) ON CONFLICT (table_name, reason) "
            "DO UPDATE SET count = count + excluded.count, last_us = excluded.last_us",
            (table, reason, count, now_us),
        )

    def _released(self, rows: list[Row], epoch: float) -> None:
        at_us, most = round((rows[0][1] + epoch) * 1e6), SIZES[0]  # the rows of one look have one time
        for done in range(0, len(rows), most):
            numbers = [number for number, _ in rows[done : done + most]]
            self.connection.execute(
                "UPDATE objects SET state = 'RELEASED', refs = 0, uses = 0, held = 0, waiters = 0, released_us = ?, "
                f"reference_type = 'UNKNOWN_STATUS' WHERE number IN ({', '.join('?' * len(numbers))})",
                (at_us, *numbers),
            )

    def insert(self, name: str, rows: Sequence[Row], epoch: float, between: Callable[[], object] | None = None) -> None:
        """Insert rows of a table, in the transaction that the caller has begun. See `write` for `between`."""
        if rows:
            self._insert(name, list(chain.from_iterable(rows)), len(rows[0]), epoch, between)

    def _insert(
        self, name: str, values: list[Any], columns: int, epoch: float, between: Callable[[], object] | None
    ) -> None:
        """values: of all rows, one row after the other."""
        done = 0
        for size in SIZES:
            size = max(1, min(size, MOST_VALUES // columns))
            end = done + (len(values) - done) // (size * columns) * size * columns
            if end > done:  # `executemany` gives the GIL away less often than `execute`
                self._execute(self._statement(name, size, epoch), values, range(done, end, size * columns), between)
                done = end

    def _execute(self, statement: str, values: list[Any], starts: range, between: Callable[[], object] | None) -> None:
        """Execute a statement with the values from each start. A lone surrogate, which no text in SQLite can have, is
        spelled out; texts are looked at only when there is one."""
        at = starts.start

        def chunks() -> Iterator[list[Any]]:
            nonlocal at
            for at in starts:
                yield values[at : at + starts.step]
                let_fork()
                if between is not None:
                    between()

        try:
            self.connection.executemany(statement, chunks())
        except UnicodeEncodeError:  # in the last chunk; those before it have been written
            values[at:] = map(storable, values[at:])
            starts = range(at, starts.stop, starts.step)
            self.connection.executemany(statement, chunks())

    def _statement(self, name: str, size: int, epoch: float) -> str:
        key = name, size, epoch
        found = self._inserts.get(key)
        if found is None:
            table = self.tables["_attempts" if name == "finished" else name]
            given = [column for column in table.columns if not column.expression]
            if name == "finished":
                given = given[:FINISHED_COLUMNS]
            made = [(column.name, column.expression) for column in table.columns if column.expression]
            made += [("attempt", "0"), ("state", "'FINISHED'")] if name == "finished" else []
            made += [
                (column.name, f"CAST((NULLIF({column.name}, 0.0) + {epoch!r}) * 1000000 AS INTEGER)")
                if column.clock
                else (column.name, quoted(column.name))
                for column in given
            ]
            marks = f"({', '.join('?' * len(given))})"
            # The expressions stand behind the values, so SQLite compiles them once and not for every row.
            found = self._inserts[key] = (
                f"WITH given ({', '.join(quoted(column.name) for column in given)}) AS "
                f"(VALUES {', '.join([marks] * size)}) "
                f"INSERT OR REPLACE INTO {table.name} ({', '.join(quoted(name) for name, _ in made)}) "
                f"SELECT {', '.join(expression for _, expression in made)} FROM given"
            )
        return found

    def trim(self, before_us: int, numbers: Numbers | None = None) -> dict[str, int]:
        """Delete the rows of what ended before a moment, and count them in `dropped`. Returns the counts by table.

        numbers: of the collector whose batches are written here. It forgets what it has told: rows that only deleted
        rows referred to are deleted as well, and a thing that comes again gets a new number.
        """
        counts: dict[str, int] = {}
        execute = self.connection.execute
        with self.connection:
            execute("BEGIN")
            for table in TABLES:
                if table.time and table.name != "workers":
                    kept = LAST_VALUES if table.name == "metric_points" else ""
                    counts[table.name] = execute(
                        f"DELETE FROM {table.name} WHERE {table.time} < ?1{kept}", (before_us,)
                    ).rowcount
            for name, statement in TRIMS.items():  # records that other rows may still refer to
                counts[name] = counts.get(name, 0) + execute(statement, (before_us,)).rowcount
            if numbers is not None and any(counts.values()):
                numbers.forget()
                for statement in UNUSED:
                    execute(statement)
            counts = {name: count for name, count in counts.items() if count > 0}
            for name, count in counts.items():
                public = "task_attempts" if name == "_attempts" else name
                self.drop(public, "older than the retention", count, before_us)
        return counts
