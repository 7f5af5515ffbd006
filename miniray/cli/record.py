"""`miniray record -o run.db -- script.py`: run a program, and record its session in a file while it runs.

The file is an SQLite database. The commands that show a program's tables read it with `--from run.db`, also while the
program still runs, and after it was killed.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from ..observe.amounts import count
from ..observe.escape import for_terminal
from ._grammar import Command
from ._look import complain, run_program


def add_parser(subparsers: Any) -> Command:
    """Declare `record`."""
    parser: Command = subparsers.add_parser(
        "record",
        help="run a program, and record its session in a file",
        description="Run a program, and record its session in a file while it runs: tasks, actors, objects, nodes, "
        "events and logs, but no arguments and no values. A program that is killed leaves a file, too.",
        usage="miniray record [-o FILE] [--retention SECONDS] -- script.py [args]",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="run.db",
        help="the file (default: run.db); a second session of the program is recorded in run-2.db",
    )
    parser.add_argument(
        "--retention",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="keep only what has ended within this time (default: keep everything)",
    )
    parser.takes_program = True
    parser.epilog = (
        "The program's streams are its own; the name of the file goes to stderr at the end. Exit codes: the program's "
        "own; 1 if it raised an exception or started no session; 2 if the words make no sense; 130 after Ctrl-C."
    )
    parser.set_defaults(usage_error=parser.error)
    return parser


def run(args: argparse.Namespace) -> int:
    """Run the program. Returns its exit code, or 1 if nothing was recorded."""
    if not args.program:
        args.usage_error("name a script, or a module with -m, after --")
    from .. import api, session
    from ..telemetry.recording import recorder
    from ..telemetry.config import TelemetryConfig

    try:
        config = TelemetryConfig(args.output, retention_secs=args.retention)
    except ValueError as problem:
        return complain(str(problem), 2)
    recordings: list[Any] = []

    def on_start(runtime: Any) -> None:
        recordings.append(recorder.start(runtime, config))

    session.after_start.append(on_start)
    try:
        code = run_program(args.program)
    except KeyboardInterrupt:
        code = 130
    finally:
        session.after_start.remove(on_start)
    for recording in recordings:
        if recording is not None:
            recording.exit_code = code
    api.shutdown()
    if not recordings:
        return code or complain(f"{args.program[0]} started no session, so there is nothing to record", 1)
    for recording in recordings:
        if recording is not None:
            print(told(recording), file=sys.stderr)
    return code or int(None in recordings)


def told(recording: Any) -> str:
    """The line about a recording that has ended."""
    path = for_terminal(os.path.relpath(recording.path))
    if recording.stopped:
        return f"The recording in {path} ended early: {for_terminal(recording.stopped)}."
    return f"Recorded in {path}: {count(recording.num_tasks, 'task')}, {os.path.getsize(recording.path):,} bytes."
