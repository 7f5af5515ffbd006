"""`miniray memory`: all references to objects, and what the object stores hold. Ray: `ray memory`, memory_utils.py."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..observe.amounts import count
from ..observe.escape import for_terminal
from ..observe.state import book
from ..observe.state.memory_text import NO_LINES, UNITS, entries_of, references, sized, stores
from ..observe.state.ray_rows import StateResource
from ._grammar import Command
from ._layout import fitted
from ._look import accept_address, accept_format, accept_file, accept_program, show
from .list import USEFUL

NARROW = 200  # columns; a terminal with fewer gets a table that fits it instead of Ray's


def add_parser(subparsers: Any) -> Command:
    """Declare `memory`."""
    parser: Command = subparsers.add_parser(
        "memory",
        help="show references to objects, and what the object stores hold",
        description="Show a program's references to objects, and what its object stores hold.",
        usage="miniray memory [options] [--from RUN.DB | -- script.py [args]]",
    )
    parser.add_argument(
        "--group-by",
        choices=("NODE_ADDRESS", "STACK_TRACE"),
        default="NODE_ADDRESS",
        type=str.upper,
        help="print one table per node, or one per call site (default: NODE_ADDRESS)",
    )
    parser.add_argument(
        "--sort-by",
        choices=("PID", "OBJECT_SIZE", "REFERENCE_TYPE"),
        default="OBJECT_SIZE",
        type=str.upper,
        help="sort each table by this column (default: OBJECT_SIZE)",
    )
    parser.add_argument(
        "--units", choices=tuple(UNITS), default="B", type=str.upper, help="the unit of sizes (default: B)"
    )
    parser.add_argument("--no-format", action="store_true", help="print one line per entry on a wide terminal too")
    parser.add_argument("--stats-only", action="store_true", help="show only what the object stores hold")
    parser.add_argument("--num-entries", "--n", type=int, metavar="N", help="show at most N entries per table")
    accept_format(parser, "json", default="Ray's tables, or a table that fits the terminal")
    accept_address(parser)
    accept_file(parser)
    accept_program(parser, "shows the references")
    parser.set_defaults(resource=None)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the references."""
    return show(args, lambda runtime: answer(runtime, args))


def answer(runtime: Any, args: argparse.Namespace) -> str:
    """The text that the command prints."""
    if args.format == "json":
        found = {} if args.stats_only else {"references": [row.asdict() for row in _chosen(runtime, args)]}
        return json.dumps({**found, "object_stores": book.book_objects(runtime)}, default=str)
    if args.width is not None and args.width < NARROW and not args.no_format and not args.stats_only:
        return narrow(runtime, args)
    return references(
        runtime,
        group_by=args.group_by,
        sort_by=args.sort_by,
        unit=args.units,
        may_be_wide=not args.no_format,
        stats_only=args.stats_only,
        num_entries=args.num_entries,
    )


def _chosen(runtime: Any, args: argparse.Namespace) -> list[Any]:
    """The references, the largest objects last as in Ray."""
    return sorted(entries_of(runtime), key=lambda row: getattr(row, args.sort_by.lower()))


def narrow(runtime: Any, args: argparse.Namespace) -> str:
    """The references of each group as a table that fits the terminal, without Ray's empty lines between the rows."""
    groups: dict[str, list[Any]] = {}
    for row in _chosen(runtime, args):
        groups.setdefault(row.ip if args.group_by == "NODE_ADDRESS" else row.call_site, []).append(row)
    lines = []
    for key, rows in groups.items():
        total = sum(max(0, row.object_size) for row in rows)
        lines.append(f"--- {for_terminal(key)}: {count(len(rows), 'reference')}, {sized(total, args.units)} ---")
        names = [name for name in rows[0].list_columns() if name != "ip"]
        cells = [
            [
                (sized(row.object_size, args.units) if row.object_size >= 0 else "?")
                if name == "object_size"
                else getattr(row, name)
                for name in names
            ]
            for row in rows[: args.num_entries]
        ]
        headers, useful = [name.upper() for name in names], USEFUL[StateResource.OBJECTS]
        table, note = fitted(headers, cells, args.width, useful, "--no-format")
        lines += [table, *([note] if note else []), ""]
    return "\n".join([*lines, NO_LINES, "", stores(book.book_objects(runtime))])
