"""`miniray metrics`: a program's metrics as text for Prometheus. Ray: the page that each node serves at /metrics."""

from __future__ import annotations

import argparse
import os
from typing import Any

from ..observe.escape import for_terminal
from ..observe.metrics import host, registry
from ..observe.metrics.prometheus import CONTENT_TYPES
from ._grammar import Command
from ._look import Refused, accept_file, accept_program, cannot_be_written, complain, show


def add_parser(subparsers: Any) -> Command:
    """Declare `metrics`."""
    parser: Command = subparsers.add_parser(
        "metrics",
        help="print a program's metrics, or a recording's, as text for Prometheus",
        description="Print the metrics of a program when it ends, or of a recording, and Ray's metrics about the "
        "session, as text for Prometheus.",
        usage="miniray metrics [options] [--from RUN.DB | -- script.py [args]]",
    )
    parser.add_argument(
        "--format",
        choices=tuple(CONTENT_TYPES),
        default="prometheus",
        help="the text format 0.0.4 of Prometheus, or OpenMetrics 1.0.0 (default: prometheus)",
    )
    parser.add_argument("--user-only", action="store_true", help="leave out Ray's metrics about the session")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write FILE instead of printing; it is replaced in one step, so a text file collector may read it "
        "(a second session writes NAME-2)",
    )
    accept_file(parser)
    accept_program(parser, "shows its metrics")
    parser.set_defaults(resource=None)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the page, or write it. Returns 2 if the file cannot be written."""
    problem = cannot_be_written(args.output) if args.output else None
    if problem:
        return complain(f"{args.output} cannot be written: {problem}", 2)
    host.host = host.Host()  # the first speeds are those since now
    pages = 0

    def answer(runtime: Any) -> str:
        nonlocal pages
        pages += 1
        text = registry.export_text(not args.user_only, args.format, runtime)
        if not args.output:
            return text.rstrip("\n")
        name = args.output if pages == 1 else f"-{pages}".join(os.path.splitext(args.output))
        written = f"{name}.{os.getpid()}.tmp"
        try:
            with open(written, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            os.replace(written, name)
        except OSError as error:
            raise Refused(f"{name} cannot be written: {error.strerror}") from error
        return f"Metrics written to {for_terminal(os.path.abspath(name))} ({len(text.encode()):,} bytes)."

    return show(args, answer)
