"""`miniray sql STATEMENT`: SQL over a program's tables, or over a recording."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import sys
from typing import Any

from ..observe.escape import escaped, for_terminal
from ._grammar import Command, similar
from ._layout import plain_table
from ._look import Refused, accept_program, complain, complain_of, no_session, show

FORMATS = ("table", "csv", "json", "jsonl")


def add_parser(subparsers: Any) -> Command:
    """Declare `sql`."""
    parser: Command = subparsers.add_parser(
        "sql",
        help="ask a program's tables, or a recording, in SQL",
        description="Run one SQL statement that reads: on the tables of a program when it ends, or on a recording.",
        usage='miniray sql "SELECT ..." [options] [run.db | -- script.py [args]]',
    )
    parser.add_argument(
        "words",
        nargs="+",
        metavar="STATEMENT [FILE]",
        help='a statement ("-" reads it from stdin), or `.schema [TABLE]` for the tables and their columns; then the '
        "file of a recording, unless a program follows",
    )
    parser.add_argument("--from", dest="recording", metavar="FILE", help="the recording to ask; as FILE")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="output format (default: table). csv, json and jsonl have the values as they are; a table is for people",
    )
    parser.add_argument("--limit", type=int, default=10_000, metavar="N", help="at most N rows (default: 10000)")
    parser.add_argument(
        "--timeout", type=float, default=10.0, metavar="S", help="stop the statement after S seconds (default: 10)"
    )
    accept_program(parser, "runs the statement")
    parser.late_words = "words"
    parser.set_defaults(resource="", usage_error=parser.error)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the rows. Returns 2 for a statement that cannot be run, and 1 without a program or a recording."""
    words = list(args.words)
    if words[0] == ".schema" or words[0].startswith(".schema "):
        return schema(words[0].split()[1:] + words[1:])
    if len(words) > 2 or len(words) == 2 and args.recording:
        args.usage_error(f"too many words: {' '.join(words[2:] or words[1:])}; quote the statement")
    statement = sys.stdin.read() if words[0] == "-" else words[0]
    path = args.recording or (words[1] if len(words) == 2 else None)
    if path is not None:
        if args.program:
            args.usage_error(f"name {path} or a program after --, not both")
        return from_file(path, statement, args)
    from ..process import context

    if not args.program and context.session is None:
        return complain(no_session('miniray sql "SELECT ..."'), 1)
    from ..telemetry import QueryError
    from ..telemetry.sql import sources

    try:  # before the program runs, which may take long
        sources.check_statement(statement, args.limit, args.timeout)
    except (QueryError, ValueError) as problem:
        return complain_of(problem, 2)
    return show(args, lambda runtime: answered(_live(runtime), statement, args))


def _live(runtime: Any) -> Any:
    from ..telemetry.sql.sources import LiveSource

    return LiveSource(runtime)


def from_file(path: str, statement: str, args: argparse.Namespace) -> int:
    """Ask a recording. Returns 2 if it cannot be opened, or cannot answer."""
    from ..telemetry import QueryError
    from ..telemetry.sql import sources

    try:
        with sources.open(path) as source:
            text = answered(source, statement, args)
    except (Refused, QueryError, OSError) as problem:
        return complain_of(problem, 2)
    print(text)
    return 0


def answered(source: Any, statement: str, args: argparse.Namespace) -> str:
    """The rows as text. What is missing goes to stderr. Raises Refused for a statement that cannot be run."""
    from ..telemetry import QueryError

    try:
        result = source.query(statement, limit=args.limit, timeout_s=args.timeout)
    except (QueryError, ValueError) as problem:
        raise Refused(str(problem)) from None
    for note in result.notes():
        print(f"Note: {for_terminal(note)}", file=sys.stderr)
    for_people = getattr(args, "width", None) is not None or sys.stdout.isatty()
    return formatted(result.columns, result.rows, args.format or "table", for_people)


def formatted(columns: list[str], rows: list[dict[str, Any]], how: str, for_people: bool) -> str:
    """Rows as text in one of FORMATS. for_people: whether a terminal shows it; a file has the values as they are."""
    if how == "json":
        return json.dumps([_plain(row) for row in rows], indent=2)
    if how == "jsonl":
        return "\n".join(json.dumps(_plain(row)) for row in rows)
    if how == "csv":
        written = io.StringIO()
        writer = csv.writer(written, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_plain(row)[name] for name in columns] for row in rows)
        text = written.getvalue().rstrip("\n")
        return for_terminal(text, newlines=True) if for_people else text
    if not rows:
        return "(no rows)"
    cells = [["NULL" if row[name] is None else _plain(row)[name] for name in columns] for row in rows]
    from ..telemetry.sql.result import shown_value

    return plain_table([escaped(name) for name in columns], cells, rule=True, floats=shown_value)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row that every format can hold: bytes become hexadecimal digits, and infinity, which JSON lacks, a text."""
    return {
        name: value.hex()
        if isinstance(value, bytes)
        else str(value)
        if isinstance(value, float) and not math.isfinite(value)
        else value
        for name, value in row.items()
    }


def schema(names: list[str]) -> int:
    """Print the tables, or the columns of one. Needs no program. Returns 2 for an unknown table."""
    from ..telemetry.schema import BY_NAME

    names = [name for name in names if not os.path.isfile(name)]  # every recording has the same schema
    public = {name: table for name, table in BY_NAME.items() if not name.startswith("_")}
    for name in names:
        if name not in public:
            return complain(f"there is no table {name}{similar(name, list(public))}", 2)
    if not names:
        print(plain_table(["table", "rows"], [[name, public[name].text] for name in sorted(public)], rule=True))
        print("\n`miniray sql .schema TABLE` shows the columns of a table.")
        return 0
    for name in names:
        table = public[name]
        print(f"{name}: {table.text}\n")
        print(plain_table(["column", "type", "unit", "meaning"], [_described(c) for c in table.columns], rule=True))
    return 0


def _described(column: Any) -> list[str]:
    return [column.name, column.type, column.unit, column.text]
