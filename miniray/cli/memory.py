"""`miniray memory`: all references to objects, and what the object stores hold. Ray: `ray memory`, memory_utils.py."""

from __future__ import annotations

import argparse
from typing import Any

from ..observe.state.memory_text import UNITS, references
from ._look import accept_address, accept_program, show


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `memory`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "memory",
        help="show references to objects, and what the object stores hold",
        description="Show a program's references to objects, and what its object stores hold.",
        usage="miniray memory [options] [-- script.py [args]]",
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
    accept_address(parser)
    accept_program(parser, "shows the references")
    parser.set_defaults(resource=None)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the references."""
    return show(
        args,
        lambda runtime: references(
            runtime,
            group_by=args.group_by,
            sort_by=args.sort_by,
            unit=args.units,
            may_be_wide=not args.no_format,
            stats_only=args.stats_only,
            num_entries=args.num_entries,
        ),
    )
