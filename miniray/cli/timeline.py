"""`miniray timeline`: run a program and write its timeline to a file. Ray: `ray timeline`."""

from __future__ import annotations

import argparse
import os
import tempfile
from datetime import datetime
from typing import Any

from ..observe.escape import for_terminal
from ..observe.timeline.chrome import write
from ..observe.timeline.recording import read
from ._grammar import Command
from ._look import Refused, accept_file, accept_program, cannot_be_written, complain, show


def add_parser(subparsers: Any) -> Command:
    """Declare `timeline`."""
    parser: Command = subparsers.add_parser(
        "timeline",
        help="run a program and write its timeline, as a trace or a page",
        description="Run a program and write its timeline: a Chrome trace for ui.perfetto.dev, or an HTML page.",
        usage="miniray timeline [-o FILE]... (--from RUN.DB | -- script.py [args])",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        action="append",
        default=[],
        help="the file to write, a page if it ends in .html and otherwise a trace; may be repeated "
        "(default: a trace in the temporary folder)",
    )
    accept_file(parser)
    accept_program(parser, "writes its timeline")
    parser.set_defaults(resource="")
    return parser


def run(args: argparse.Namespace) -> int:
    """Run the program and write the files. Returns 2 if one of them cannot be written.

    Whether they can be written is checked before the program runs. A second session writes to `NAME-2.html`.
    """
    names = args.output or [
        os.path.join(tempfile.gettempdir(), f"ray-timeline-{datetime.now():%Y-%m-%d_%H-%M-%S}.json")
    ]
    for name in names:
        problem = cannot_be_written(name)
        if problem:
            return complain(f"{name} cannot be written: {problem}", 2)
    sessions = 0

    def answer(runtime: Any) -> str:
        nonlocal sessions
        sessions += 1
        recording = read(runtime)
        lines = []
        for name in names:
            if sessions > 1:
                name = "-{}".format(sessions).join(os.path.splitext(name))
            try:
                write(recording, name)
            except OSError as error:
                raise Refused(f"{name} cannot be written: {error.strerror}") from error
            what = "Page" if name.endswith(".html") else "Trace file"
            lines.append(f"{what} written to {for_terminal(os.path.abspath(name))} ({os.path.getsize(name):,} bytes).")
        if recording.empty:
            lines.append(recording.why_empty())
        return "\n".join(lines)

    return show(args, answer)
