"""`miniray list RESOURCE`: the rows of a table, in the layout of `ray list`. Ray: util/state/state_cli.py."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from typing import Any

from ..observe.state import ray_tables as state
from ..observe.state.query import ListApiOptions
from ..observe.state.ray_rows import SCHEMAS, StateResource
from ._grammar import Command, similar
from ._layout import fitted, plain_table, yaml_document
from ._look import Refused, accept_file, accept_program, accept_server_options, complain, show, warnings_on_stderr

RESOURCES = tuple(resource.value.replace("_", "-") for resource in StateResource)
NOTHING = "No resource in the cluster"


def add_parser(subparsers: Any) -> Command:
    """Declare `list`."""
    parser: Command = subparsers.add_parser(
        "list",
        help="list tasks, actors, objects, ...",
        description="List the rows of one of a program's tables.",
        usage="miniray list RESOURCE [options] [--from RUN.DB | -- script.py [args]]",
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
    accept_file(parser)
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
    return show(args, lambda runtime: listed(runtime, resource, filters, args))


def parse_filter(text: str) -> tuple[str, str, str]:
    """Split `key=value` or `key!=value` into key, predicate and value. Raises Refused, with Ray's exit code 1."""
    key, equal, value = text.partition("=")
    predicate = "!=" if key.endswith("!") else "="
    key = key.removesuffix("!")
    if value.startswith("="):
        raise Refused(f"The format of a given filter {text} is invalid; did you mean {key}={value[1:]}?", 1)
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
        + similar(key.lower(), list(columns))
    )


def listed(runtime: Any, resource: StateResource, filters: list[tuple[str, str, str]], args: argparse.Namespace) -> str:
    """The text that the command prints. A table that the limit cut short gives a warning; JSON and YAML give none."""
    options = ListApiOptions(limit=args.limit, timeout=args.timeout, detail=args.detail, filters=filters)
    for_people = args.format in ("default", "table")
    with warnings_on_stderr():
        rows = state.list_rows(runtime, resource, options, raise_on_missing_output=False, explain=for_people)
    if not rows:
        return NOTHING
    if resource is StateResource.OBJECTS:
        rows = state.with_makers(runtime, rows)
    chosen = "yaml" if args.format == "default" and args.detail else args.format
    return formatted(rows, resource, chosen, args.detail, args.width if args.format == "default" else None)


# The columns of each table from the most useful to the least. A narrow terminal shows the first that fit; the columns
# that are not named here follow, ids last. Those before the bar are always shown.
USEFUL = {
    StateResource.TASKS: "NAME STATE | ERROR_TYPE TASK_ID ATTEMPT_NUMBER TYPE NODE_ID WORKER_ID",
    StateResource.ACTORS: "CLASS_NAME STATE | NAME ACTOR_ID NODE_ID PID",
    StateResource.OBJECTS: "OBJECT_ID OBJECT_SIZE | CALL_SITE REFERENCE_TYPE TASK_STATUS ATTEMPT_NUMBER TYPE",
    StateResource.NODES: "NODE_IP STATE | NODE_ID IS_HEAD_NODE RESOURCES_TOTAL STATE_MESSAGE",
    StateResource.WORKERS: "WORKER_ID IS_ALIVE | WORKER_TYPE EXIT_TYPE NODE_ID IP",
    StateResource.PLACEMENT_GROUPS: "NAME STATE | PLACEMENT_GROUP_ID BUNDLES",
    StateResource.JOBS: "JOB_ID STATUS | TYPE ENTRYPOINT",
    StateResource.RUNTIME_ENVS: "RUNTIME_ENV SUCCESS | REF_CNT",
    StateResource.CLUSTER_EVENTS: "SEVERITY MESSAGE | SOURCE_TYPE TIME EVENT_ID",
}


def formatted(rows: list[Any], resource: StateResource, how: str, detail: bool, width: int | None = None) -> str:
    """Rows as a table, JSON or YAML. width: of the terminal; columns that do not fit are named below the table."""
    schema = SCHEMAS[resource]
    shown = [schema.humanify(row.asdict()) for row in rows]
    if how == "json":
        return json.dumps(shown, default=str)
    if how == "yaml":
        return yaml_document(shown)
    columns = schema.list_columns(detail=detail)
    headers, cells = [column.upper() for column in columns], [[row[column] for column in columns] for row in shown]
    table, note = fitted(headers, cells, width, USEFUL[resource]) if width else (plain_table(headers, cells), "")
    below = f"\n{note}\n" if note else ""
    return (
        f"\n======== List: {datetime.now()} ========\nStats:\n{'-' * 30}\nTotal: {len(rows)}\n\n"
        f"Table:\n{'-' * 30}\n{table}\n{below}"
    )
