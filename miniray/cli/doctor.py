"""`miniray doctor -- script.py`: run a program, ask the runbook's questions of its tables, and print the findings."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from typing import Any

from ..observe.doctor import RUNBOOK, Finding, findings
from ..observe.escape import for_terminal
from ..process import context
from ._look import accept_program, show
from ._text import table


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `doctor`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "doctor",
        help="find out what went wrong in a program: stuck tasks, dead actors, retries, leaks, ...",
        description="Ask the questions of a runbook about a program, and print a finding for each symptom: stuck "
        "tasks, dead actors, failures, retries, stragglers, leaks, spilling, ...",
        usage="miniray doctor [--after SECONDS] [--format {default,json}] [--questions] [-- script.py [args]]",
    )
    parser.add_argument(
        "--after",
        type=float,
        metavar="SECONDS",
        help="if the script has not ended after this time, report and interrupt it; Ctrl-C does so at any time",
    )
    parser.add_argument(
        "--format", choices=("default", "json"), default="default", help="output format (default: text)"
    )
    parser.add_argument("--questions", action="store_true", help="list the questions, and run nothing")
    accept_program(parser, "shows the findings")
    parser.set_defaults(resource=None)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the findings. Returns the program's exit code, or 130 if the program was interrupted."""
    if args.questions:
        print(
            "\n".join(
                table(
                    ("symptom", "question"),
                    [(name, (ask.__doc__ or "").strip()) for name, ask in RUNBOOK.items()],
                    indent="",
                )
            )
        )
        return 0
    write = report if args.format == "default" else as_json
    seen: list[str] = []  # the report from the moment of --after; later the interrupted program's tables would differ
    if args.after is None or not args.program:
        return show(args, write)

    def interrupt() -> None:
        """Write the report while the program is still stuck, then interrupt it. Called on the timer's thread."""
        try:
            if context.session is not None:
                seen.append(write(context.session))
            else:
                print(f"After {args.after:g} s the program had not called init: there is no session.", file=sys.stderr)
        finally:  # whatever happens to the report, the program must not hang
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    timer = threading.Timer(args.after, interrupt)
    timer.daemon = True
    timer.start()
    try:
        return show(args, lambda runtime: seen[0] if seen else write(runtime))
    finally:
        timer.cancel()


def as_json(runtime: Any) -> str:
    """The findings as a JSON array of objects."""
    return json.dumps([finding.asdict() for finding in findings(runtime)], indent=2)


def report(runtime: Any) -> str:
    """The findings as text, one after the other, then the symptoms that were not found."""
    found = findings(runtime)
    noun = "finding" if len(found) == 1 else "findings"
    lines = [f"======== Doctor: {len(found)} {noun}, {len(RUNBOOK)} questions ========"]
    for number, finding in enumerate(found, 1):
        lines += ["", *_lines(number, finding)]
    covered = {name: finding.symptom for finding in found for name in finding.covers}
    clear = [
        name + (f" (except as part of {covered[name]})" if name in covered else "")
        for name in RUNBOOK
        if name not in {finding.symptom for finding in found}
    ]
    return "\n".join([*lines, "", f"Not found: {', '.join(clear) or '-'}"])


def _lines(number: int, finding: Finding) -> list[str]:
    lines = [f"{number}. {finding.symptom}: {for_terminal(finding.sentence)}"]
    if finding.rows:
        header = list(finding.rows[0])
        lines += table(
            header,
            [["" if row[name] is None else row[name] for name in header] for row in finding.rows],
            indent="     ",
        )
    return [*lines, f"   do:   {finding.advice}", f"   look: {finding.look}"]
