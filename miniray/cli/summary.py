"""`miniray summary tasks|actors|objects`: counts by function, class or call site. Ray: util/state/state_cli.py."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from typing import Any

from ..observe.state import ray_tables as state
from ..observe.escape import cells, for_terminal
from ..observe.state.ray_rows import SummaryResource
from ._grammar import Command
from ._layout import fitted, plain_table, yaml, yaml_document
from ._look import accept_file, accept_program, accept_server_options, show, warnings_on_stderr

RESOURCES = ("tasks", "actors", "objects")


def add_parser(subparsers: Any) -> Command:
    """Declare `summary`."""
    parser: Command = subparsers.add_parser(
        "summary",
        help="count tasks, actors or objects by state",
        description="Count a program's tasks by function and state, its actors by class and state, or its objects by "
        "call site.",
        usage="miniray summary {tasks,actors,objects} [options] [--from RUN.DB | -- script.py [args]]",
    )
    parser.add_argument("resource", choices=RESOURCES, metavar="{tasks,actors,objects}", help="what to count")
    parser.add_argument(
        "--format",
        choices=("default", "json", "yaml", "table"),
        default="default",
        help="output format (default: a table that fits the terminal); `table` shows it whole",
    )
    accept_server_options(parser)
    accept_file(parser)
    accept_program(parser, "shows the counts")
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the summary."""
    resource = SummaryResource(args.resource)

    def answer(runtime: Any) -> str:
        return summarized(runtime, resource, args.format, args.width if args.format == "default" else None)

    return show(args, answer)


def summarized(runtime: Any, resource: SummaryResource, how: str, width: int | None = None) -> str:
    """The text that the command prints. width: of the terminal, if the tables are to fit it."""
    with warnings_on_stderr():
        found = state.summary(runtime, resource, raise_on_missing_output=False, explain=how in ("default", "table"))
    if how == "json":
        return json.dumps(found)
    if how == "yaml":
        return yaml_document(found)
    cluster = dict(found["cluster"])
    by_key, what = cluster.pop("summary"), cluster.pop("summary_by")
    tables = _of_objects(by_key, width) if resource is SummaryResource.OBJECTS else _table(list(by_key.values()), width)
    title = "Object" if resource is SummaryResource.OBJECTS else resource.value.capitalize()
    colon = "" if resource is SummaryResource.OBJECTS else ":"
    return (
        f"\n======== {title} Summary: {datetime.now()} ========\nStats:\n{'-' * 36}\n{yaml(cluster, sort=True)}\n\n"
        f"Table (group by {what}){colon}\n{'-' * 36}\n{tables}\n"
    )


# The columns from the most useful to the least; those before the bar are always shown.
USEFUL = (
    "FUNC_OR_CLASS_NAME CLASS_NAME TOTAL_OBJECTS STATE_COUNTS | TOTAL_SIZE_MB REF_TYPE_COUNTS TASK_STATE_COUNTS TYPE"
)


def _table(entries: list[dict[str, Any]], width: int | None, rule: bool = False) -> str:
    if not entries:
        return ""
    columns = sorted(entries[0])
    headers, rows = [column.upper() for column in columns], [[entry[column] for column in columns] for entry in entries]
    table = plain_table(headers, rows, rule, numbers_right=False, floats="g")
    if width is None or all(cells(line) <= width for line in table.split("\n")):
        return table
    table, note = fitted(headers, rows, width, USEFUL)
    return f"{table}\n{note}" if note else table


def _of_objects(by_site: dict[str, dict[str, Any]], width: int | None) -> str:
    """One table for each call site, under the call site's name."""
    between = "\n\n" if width is not None else "\n\n\n\n"
    return between.join(f"{for_terminal(site)}\n{_table([entry], width, rule=True)}" for site, entry in by_site.items())
