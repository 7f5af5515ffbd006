"""`miniray get RESOURCE ID`: one row with all its details, by id or name. Ray: util/state/state_cli.py, `ray get`."""

from __future__ import annotations

import argparse
from typing import Any

from ..observe.state import ray_tables as state
from ..observe.state.ray_rows import StateResource
from ._grammar import Command
from ._look import accept_format, accept_file, accept_program, accept_server_options, complain, ids_of, show
from .list import RESOURCES, formatted

WITH_IDS = tuple(name for name in RESOURCES if name not in ("jobs", "runtime-envs"))


def add_parser(subparsers: Any) -> Command:
    """Declare `get`."""
    parser: Command = subparsers.add_parser(
        "get",
        help="show one task, actor, object, ... in detail",
        description="Show one row of a program's tables with all its details, as YAML.",
        usage="miniray get RESOURCE ID [options] [--from RUN.DB | -- script.py [args]]",
    )
    parser.add_argument(
        "resource", nargs="?", choices=WITH_IDS, metavar="RESOURCE", help=f"one of {', '.join(WITH_IDS)}"
    )
    parser.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help="an id that `miniray list` shows, whole or short, its first digits, or a name (which several may have)",
    )
    accept_format(parser, "json", "yaml", default="YAML")
    accept_server_options(parser)
    accept_file(parser)
    accept_program(parser, "shows the row")
    parser.set_defaults(usage_error=parser.error)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the row. If no row has the id, the message goes to stdout and the exit code is 0, as in Ray."""
    if not args.resource:
        args.usage_error("the following arguments are required: RESOURCE, ID")
    if not args.id:
        return complain(f"Invalid value: Missing argument 'ID'. Do you mean 'miniray list {args.resource}'?", 2)
    resource = StateResource(args.resource.replace("-", "_"))
    return show(args, lambda runtime: found(runtime, resource, args.id, args.format))


def found(runtime: Any, resource: StateResource, text: str, how: str) -> str:
    """The text that the command prints: the row, or the rows if several have the name, or a task several attempts."""
    rows: list[Any] = []
    for id in ids_of(runtime, resource, text):
        row = state.get_rows(runtime, resource, id)
        rows += row if isinstance(row, list) else [row] if row else []
    if not rows:
        return f"Resource with id={text} not found in the cluster."
    if resource is StateResource.OBJECTS:
        rows = state.with_makers(runtime, rows)
    return formatted(rows, resource, how if how != "default" else "yaml", True)
