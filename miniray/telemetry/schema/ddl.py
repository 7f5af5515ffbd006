"""The words in which the schema is written: columns, tables, views, and the SQL of ids."""

from __future__ import annotations

from dataclasses import dataclass

from ...ids import JOB_HEX


@dataclass(frozen=True)
class Column:
    """One column. type: INTEGER, REAL or TEXT. unit: "us" for a time, "bytes", "units", "json" or "".

    expression: the SQL that makes a view's column; of a stored one, the SQL that makes it of the columns that the rows
    have, and "" if the rows have the column itself. clock: the rows hold seconds on the runtime's clock, 0.0 for
    a moment that has not come; the store makes microseconds since the epoch of them.
    required: whether a reader of recordings refuses NULL in it. signed: whether it may be below -1. shape: of its JSON,
    see `shapes.SHAPES`. A recording may come from anybody, so its reader checks these.
    """

    name: str
    type: str
    unit: str
    text: str
    expression: str = ""
    clock: bool = False
    required: bool = False
    signed: bool = False
    shape: str = ""


@dataclass(frozen=True)
class Table:
    """A stored table. key: the columns that identify a row; a row replaces the one with its key. time: the column by
    which `Store.trim` finds old rows, "" if rows are never trimmed. indexes: more SQL of its DDL. rules: conditions in
    SQL that each row must meet, each with the error for a row that does not."""

    name: str
    text: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    time: str = ""
    indexes: tuple[str, ...] = ()
    rules: tuple[tuple[str, str], ...] = ()

    def ddl(self) -> str:
        """The CREATE TABLE statement."""
        lines = [f"{column.name} {column.type}" for column in self.columns]
        if len(self.key) == 1 and self.columns[0].type == "INTEGER":
            lines[0] += " PRIMARY KEY"
            return f"CREATE TABLE {self.name} ({', '.join(lines)})"
        return f"CREATE TABLE {self.name} ({', '.join(lines)}, PRIMARY KEY ({', '.join(self.key)})) WITHOUT ROWID"


@dataclass(frozen=True)
class View:
    """A view. source: what stands after FROM."""

    name: str
    text: str
    columns: tuple[Column, ...]
    source: str

    def ddl(self) -> str:
        """The CREATE VIEW statement."""
        shown = ", ".join(f"{column.expression} AS {quoted(column.name)}" for column in self.columns)
        return f"CREATE VIEW {self.name} AS SELECT {shown} FROM {self.source}"


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return name if name.isidentifier() and name not in ("exists", "group", "index", "limit") else f'"{name}"'


def columns(text: str) -> tuple[Column, ...]:
    """The columns that a text describes, one in each line: `name TYPE unit | sentence`, and of a view's column
    `name TYPE unit | expression | sentence`. The unit `clock` is a time that the rows give in seconds, and `json:shape`
    is JSON of a shape. Behind the type, `!` means `required` and `~` means `signed`."""
    found = []
    for line in filter(None, text.splitlines()):
        head, *expression, sentence = (part.strip() for part in line.split(" | "))
        assert len(expression) < 2, line
        name, kind, unit, *_ = [*head.split(), ""]
        unit, _, shape = unit.partition(":")
        clock = unit == "clock"
        found.append(
            Column(
                name,
                kind.rstrip("!~"),
                "us" if clock else unit,
                sentence,
                "".join(expression),
                clock,
                "!" in kind,
                "~" in kind,
                shape,
            )
        )
    return tuple(found)


# ------------------------------------------------------------ ids

NUMBER = "CASE WHEN key > 0 THEN key ELSE (-key) >> 20 END"  # of the task; see _attempts
_TAIL = "f" * 24 + JOB_HEX
TASK_ID = (  # of `_attempts.key` and `_attempts.actor`
    f"CASE WHEN actor IS NULL THEN printf('%016x{_TAIL}', {NUMBER}) "
    f"WHEN actor < 0 THEN printf('{'f' * 16}%024x{JOB_HEX}', -actor) "
    f"ELSE printf('%016x%024x{JOB_HEX}', {NUMBER}, actor) END"
)


def hex_of(digits: int, number: str, tail: str = "") -> str:
    """The SQL of an id that is a number in hexadecimal digits; NULL if the number is."""
    return f"CASE WHEN {number} IS NOT NULL THEN printf('%0{digits}x{tail}', {number}) END"


def actor_id(number: str) -> str:
    """The SQL of an actor's id."""
    return hex_of(24, number, JOB_HEX)


def worker_id(number: str) -> str:
    """The SQL of a worker's id; the driver's for NULL."""
    return f"CASE WHEN {number} IS NULL THEN '{JOB_HEX}{'f' * 48}' ELSE printf('%056x', {number}) END"


def of(table: str, column: str, key: str, value: str) -> str:
    """The SQL of one column of another table. It is read only where a statement asks for it, unlike a join."""
    return f"(SELECT x.{column} FROM {table} x WHERE x.{key} = {value})"
