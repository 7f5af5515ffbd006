"""`miniray stack`: what is pending and why, and the stacks of all busy workers and threads. Ray: `ray stack`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..observe.stacks.report import Report
from ._grammar import Command
from ._look import accept_format, accept_program, show


def add_parser(subparsers: Any) -> Command:
    """Declare `stack`."""
    parser: Command = subparsers.add_parser(
        "stack",
        help="show what a program is doing: what is pending and why, and all stacks",
        description="Show what each pending task, actor and placement group waits for, then the stack of each busy "
        "worker and of each thread. Give --after for a program that does not end.",
        usage="miniray stack [--after SECONDS] [--format {default,json}] [-- script.py [args]]",
    )
    accept_format(parser, "json")
    accept_program(parser, "shows its stacks")
    parser.set_defaults(resource=None)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the report."""

    def answer(runtime: Any) -> str:
        report = Report(runtime)
        if args.format == "json":
            return json.dumps({"interrupted_in": args.interrupted, **report.asdict()})
        interrupted = ["The program was interrupted in", *args.interrupted] if args.interrupted else []
        return "\n".join([*interrupted, str(report)])

    return show(args, answer)
