"""`miniray get RESOURCE ID`: one row with all its details, as YAML. Ray: util/state/state_cli.py, `ray get`."""

from __future__ import annotations

import argparse
from typing import Any

from ..observe.state import ray_tables as state
from ..observe.state.ray_rows import SCHEMAS, StateResource
from ._look import accept_program, accept_server_options, complain, show
from .list import RESOURCES, formatted

WITH_IDS = tuple(name for name in RESOURCES if name not in ("jobs", "runtime-envs"))


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `get`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "get",
        help="show one task, actor, object, ... in detail",
        description="Show one row of a program's tables with all its details, as YAML.",
        usage="miniray get RESOURCE ID [-- script.py [args]]",
    )
    parser.add_argument("resource", choices=WITH_IDS, metavar="RESOURCE", help=f"one of {', '.join(WITH_IDS)}")
    parser.add_argument("id", nargs="?", metavar="ID", help="the id that `miniray list` shows")
    accept_server_options(parser)
    accept_program(parser, "shows the row")
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the row. If no row has the id, the message goes to stdout and the exit code is 0, as in Ray."""
    if not args.id:
        return complain(f"Invalid value: Missing argument 'ID'. Do you mean 'miniray list {args.resource}'?", 2)
    return show(args, lambda runtime: found(runtime, StateResource(args.resource.replace("-", "_")), args.id))


def found(runtime: Any, resource: StateResource, id: str) -> str:
    """The text that the command prints for an id: its row, or its rows if a task has several attempts."""
    rows = state.get_rows(runtime, resource, id)
    if not rows:
        return f"Resource with id={id} not found in the cluster."
    return formatted(rows if isinstance(rows, list) else [rows], SCHEMAS[resource], "yaml", True)
