"""`miniray list RESOURCE`: the rows of a table, in the layout of `ray list`. Ray: util/state/state_cli.py."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from datetime import datetime
from typing import Any

from ..observe.state import ray_tables as state
from ..observe.state.query import ListApiOptions
from ..observe.state.ray_rows import SCHEMAS, StateResource, StateSchema
from ._layout import fitted, plain_table, yaml_document
from ._look import Refused, accept_program, accept_server_options, complain, show, warnings_on_stderr

RESOURCES = tuple(resource.value.replace("_", "-") for resource in StateResource)
NOTHING = "No resource in the cluster"


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `list`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "list",
        help="list tasks, actors, objects, ...",
        description="List the rows of one of a program's tables.",
        usage="miniray list RESOURCE [options] [-- script.py [args]]",
    )
    parser.add_argument("resource", choices=RESOURCES, metavar="RESOURCE", help=f"one of {', '.join(RESOURCES)}")
    parser.add_argument(
        "--format",
        choices=("default", "json", "yaml", "table"),
        default="default",
        help="output format (default: a table with the columns that fit the terminal, or YAML with --detail); "
        "`table` shows all columns",
    )
    parser.add_argument(
        "-f",
        "--filter",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="show only rows in which column KEY is VALUE (or is not, with KEY!=VALUE), ignoring case; "
        "if repeated, all filters must match",
    )
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="show at most N rows (default: 100)")
    parser.add_argument("--detail", action="store_true", help="include the columns with details")
    accept_server_options(parser)
    accept_program(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the rows.

    Returns 1 for a filter without `=` or `!=` and for a missing session, 2 for other wrong filters.
    """
    resource = StateResource(args.resource.replace("-", "_"))
    try:
        filters = [known_column(resource, *parse_filter(text)) for text in args.filter]
    except Refused as refused:
        return complain(str(refused), refused.code)
    # Ask for the width now: while the program runs, stdout is redirected.
    args.width = shutil.get_terminal_size().columns if sys.stdout.isatty() and args.format == "default" else None
    return show(args, lambda runtime: listed(runtime, resource, filters, args))


def parse_filter(text: str) -> tuple[str, str, str]:
    """Split `key=value` or `key!=value` into key, predicate and value. Raises Refused, with Ray's exit code 1."""
    key, equal, value = text.partition("=")
    predicate = "!=" if key.endswith("!") else "="
    key = key.removesuffix("!")
    if not equal or not key or not value:
        raise Refused(
            f"The format of a given filter {text} is invalid: "
            + (f"Cannot identify key {key} or value, {value}. " if equal else "Cannot find the predicate. ")
            + "Please provide key=val or key!=val format string.",
            1,
        )
    return key, predicate, value


def known_column(resource: StateResource, key: str, predicate: str, value: str) -> tuple[str, str, str]:
    """The filter, with its column spelled as in the table. Raises Refused if the table has no such column."""
    columns = SCHEMAS[resource].list_columns()
    for column in columns:
        if column == key.lower():
            return column, predicate, value
    raise Refused(
        f"Invalid value: Invalid filter key {key!r} for resource {resource.value!r}. Available filter keys are: "
        + ", ".join(columns)
    )


def listed(runtime: Any, resource: StateResource, filters: list[tuple[str, str, str]], args: argparse.Namespace) -> str:
    """The text that the command prints. A table that the limit cut short gives a warning; JSON and YAML give none."""
    options = ListApiOptions(limit=args.limit, timeout=args.timeout, detail=args.detail, filters=filters)
    for_people = args.format in ("default", "table")
    with warnings_on_stderr():
        rows = state.list_rows(runtime, resource, options, raise_on_missing_output=False, explain=for_people)
    if not rows:
        return NOTHING
    chosen = "yaml" if args.format == "default" and args.detail else args.format
    return formatted(rows, SCHEMAS[resource], chosen, args.detail, args.width)


def formatted(rows: list[Any], schema: type[StateSchema], how: str, detail: bool, width: int | None = None) -> str:
    """Rows as a table, JSON or YAML. width: of the terminal; columns that do not fit are named below the table."""
    shown = [schema.humanify(row.asdict()) for row in rows]
    if how == "json":
        return json.dumps(shown, default=str)
    if how == "yaml":
        return yaml_document(shown)
    columns = schema.list_columns(detail=detail)
    headers, cells = [column.upper() for column in columns], [[row[column] for column in columns] for row in shown]
    fitting, note = fitted(headers, cells, width) if width else (range(len(columns)), "")
    table = plain_table([headers[n] for n in fitting], [[row[n] for n in fitting] for row in cells])
    below = f"\n{note}\n" if note else ""
    return (
        f"\n======== List: {datetime.now()} ========\nStats:\n{'-' * 30}\nTotal: {len(rows)}\n\n"
        f"Table:\n{'-' * 30}\n{table}\n{below}"
    )
