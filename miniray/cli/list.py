"""`miniray list RESOURCE`: the rows of a table, laid out as `ray list` does. Ray: util/state/state_cli.py."""

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
from ._look import Refused, complain, show, takes_program, takes_what_a_server_would, warnings_on_stderr

RESOURCES = tuple(resource.value.replace("_", "-") for resource in StateResource)
NOTHING = "No resource in the cluster"


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `list`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "list",
        help="the tasks, actors, objects, ... of a program",
        usage="miniray list RESOURCE [options] [-- script.py args]",
    )
    parser.add_argument("resource", choices=RESOURCES, metavar="RESOURCE", help=", ".join(RESOURCES))
    parser.add_argument(
        "--format",
        choices=("default", "json", "yaml", "table"),
        default="default",
        help="how to print: a table, of the columns that a terminal has room for, or with --detail yaml; "
        "`table` has all columns",
    )
    parser.add_argument(
        "-f",
        "--filter",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="only rows like this, or KEY!=VALUE; several mean AND; text without regard to case",
    )
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="how many rows at most (100)")
    parser.add_argument("--detail", action="store_true", help="the columns of details too")
    takes_what_a_server_would(parser)
    takes_program(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the rows. Exit code 2 for a filter or limit that makes no sense, 1 for one without = or !=, or no session."""
    resource = StateResource(args.resource.replace("-", "_"))
    try:
        filters = [known_column(resource, *parse_filter(text)) for text in args.filter]
    except Refused as refused:
        return complain(str(refused), refused.code)
    # Asked now: while the program runs, what is printed goes elsewhere.
    args.width = shutil.get_terminal_size().columns if sys.stdout.isatty() and args.format == "default" else None
    return show(args, lambda runtime: listed(runtime, resource, filters, args))


def parse_filter(text: str) -> tuple[str, str, str]:
    """`key=value` or `key!=value` in three parts. Raises Refused, with Ray's exit code 1, for anything else."""
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
    """The filter with its column spelled as in the table. Raises Refused for a column that there is not."""
    columns = SCHEMAS[resource].list_columns()
    for column in columns:
        if column == key.lower():
            return column, predicate, value
    raise Refused(
        f"Invalid value: Invalid filter key {key!r} for resource {resource.value!r}. Available filter keys are: "
        + ", ".join(columns)
    )


def listed(runtime: Any, resource: StateResource, filters: list[tuple[str, str, str]], args: argparse.Namespace) -> str:
    """The text of `list`. What the limit cut off is a warning, but not for programs that read JSON or YAML."""
    options = ListApiOptions(limit=args.limit, timeout=args.timeout, detail=args.detail, filters=filters)
    for_people = args.format in ("default", "table")
    with warnings_on_stderr():
        rows = state.list_rows(runtime, resource, options, raise_on_missing_output=False, explain=for_people)
    if not rows:
        return NOTHING
    chosen = "yaml" if args.format == "default" and args.detail else args.format
    return formatted(rows, SCHEMAS[resource], chosen, args.detail, args.width)


def formatted(rows: list[Any], schema: type[StateSchema], how: str, detail: bool, width: int | None = None) -> str:
    """Rows as a table, JSON or YAML. width: of the terminal that a table is for; it is told which columns do not fit."""
    shown = [schema.humanify(row.asdict()) for row in rows]
    if how == "json":
        return json.dumps(shown, default=str)
    if how == "yaml":
        return yaml_document(shown)
    columns = schema.list_columns(detail=detail)
    headers, cells = [column.upper() for column in columns], [[row[column] for column in columns] for row in shown]
    there, left_out = fitted(headers, cells, width) if width else (range(len(columns)), "")
    table = plain_table([headers[n] for n in there], [[row[n] for n in there] for row in cells])
    said = f"\n{left_out}\n" if left_out else ""
    return (
        f"\n======== List: {datetime.now()} ========\nStats:\n{'-' * 30}\nTotal: {len(rows)}\n\n"
        f"Table:\n{'-' * 30}\n{table}\n{said}"
    )
