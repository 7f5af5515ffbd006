"""Reads the rows of a recording, and checks every value against the schema before anybody uses it.

A recording may be damaged, or come from anybody. This is the one place where what a file says becomes values that the
rest of the program relies on: each has its column's type, is NULL only where that is allowed, and is in range; JSON is
parsed, and has its column's shape. A value that does not fit is `Damaged`, with the table, the column and the row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from .ddl import Column, Table
from .shapes import MOST, MOST_US, SHAPES, Malformed, parsed
from .stored_tables import TABLES

STORED = {table.name: table for table in TABLES}
SHOWN = 60  # characters of a value in an error


def _number_to(most: int) -> Callable[[str], int]:
    """A reader of whole numbers from 0 to `most`. It raises ValueError."""

    def read(text: str) -> int:
        value = int(text)
        if not 0 <= value <= most:
            raise ValueError(text)
        return value

    return read


def _json_of(shape: str) -> Callable[[str], Any]:
    """A reader of JSON of a shape. It raises Malformed."""
    return lambda text: parsed(text, SHAPES[shape])


FACTS: dict[str, Callable[[str], Any]] = {  # of the facts that are no plain texts
    "pid": _number_to(1 << 31),
    "schema_version": _number_to(MOST),
    "started_us": _number_to(MOST_US),
    "written_us": _number_to(MOST_US),
    "ended_us": _number_to(MOST_US),
    "num_reconstructions": _number_to(MOST),
    "runtime_env_json": _json_of("fields"),
    "totals_json": _json_of("totals"),
    "waits_json": _json_of("waits"),
}


class Damaged(ValueError):
    """The file says something that no recording says. The text names the table, the column and the row."""


class CheckedRows:
    """The stored tables of one file. missing: the names of those that the file lacks."""

    def __init__(self, connection: sqlite3.Connection):
        self._connection = connection
        there = {name for (name,) in connection.execute("SELECT lower(name) FROM sqlite_master WHERE type = 'table'")}
        self.missing = [name for name in STORED if name not in there]
        self._checked: set[str] = set()

    def __call__(self, name: str) -> Iterator[dict[str, Any]]:
        """The rows of a table in the order of their keys, as dicts; JSON is parsed. There are none if the file lacks
        the table. Raises Damaged."""
        if name in self.missing:
            return
        table = STORED[name]
        if name not in self._checked:
            self._check(table)
            self._checked.add(name)
        names = [column.name for column in table.columns]
        shaped = [(column.name, SHAPES[column.shape]) for column in table.columns if column.shape]
        for values in self._connection.execute(
            f"SELECT {', '.join(names)} FROM {name} ORDER BY {', '.join(table.key)}"
        ):
            row = dict(zip(names, values))
            for column, shape in shaped:
                text = row[column]
                if text is not None:
                    try:
                        row[column] = parsed(text, shape)
                    except Malformed as problem:
                        raise Damaged(f"{_place(table, column, row)} {problem}") from None
            yield row

    def facts(self) -> dict[str, Any]:
        """The rows of the table `session`: numbers are numbers, and JSON is parsed. Raises Damaged."""
        facts: dict[str, Any] = {}
        for row in self("session"):
            name, text = row["name"], row["value"]
            convert = FACTS.get(name)
            try:
                facts[name] = text if convert is None else convert(text)
            except ValueError as problem:
                raise Damaged(f"session: {name} {problem if isinstance(problem, Malformed) else _is(text)}") from None
        return facts

    def _check(self, table: Table) -> None:
        """Raise Damaged unless every row is as the schema says. SQLite does it, in one pass."""
        has = {name.lower() for _, name, *_ in self._connection.execute(f"PRAGMA table_info({table.name})")}
        for column in table.columns:
            if column.name not in has:
                raise Damaged(f"the table {table.name} has no column {column.name}")
        tests = [test for column in table.columns for test in _tests(column)]
        tests += [(f"NOT ({condition})", "", problem) for condition, problem in table.rules]
        cases = " ".join(f"WHEN {test} THEN {number}" for number, (test, _, _) in enumerate(tests))
        found = self._connection.execute(
            f"SELECT CASE {cases} END AS bad, * FROM {table.name} WHERE bad IS NOT NULL LIMIT 1"
        )
        values = found.fetchone()
        if values is None:
            return
        _, column, said = tests[values[0]]
        row = dict(zip([name.lower() for name, *_ in found.description], values))
        if column:
            raise Damaged(f"{_place(table, column, row)} {_is(row[column])}, and should be {said}")
        raise Damaged(f"{_place(table, table.key[0], row)}: {said}")


def _tests(column: Column) -> Iterator[tuple[str, str, str]]:
    """Conditions in SQL that a wrong value meets, each with the column's name and what the value should be."""
    name = column.name
    types = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'"}[column.type]
    what = {"INTEGER": "a whole number", "REAL": "a number", "TEXT": "a text"}[column.type]
    null = "" if column.required else ", 'null'"
    yield f"typeof({name}) NOT IN ({types}{null})", name, what
    if column.unit == "us":
        yield f"({name} < 0 OR {name} > {MOST_US})", name, "a time"
    elif column.type == "INTEGER" and not column.signed:
        yield f"{name} < -1", name, "-1 or more"


def _place(table: Table, column: str, row: dict[str, Any]) -> str:
    key = ", ".join(f"{name} {_shown(row[name])}" for name in table.key)
    return f"{table.name}.{column} of the row with {key}"


def _is(value: Any) -> str:
    return f"is {'NULL' if value is None else _shown(value)}"


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
