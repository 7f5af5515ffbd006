"""`miniray doctor -- script.py`: run a program, walk the runbook over its tables, and print what was found."""

from __future__ import annotations

import argparse
import json
import signal
import threading
from typing import Any

from ..observe.doctor import RUNBOOK, Finding, findings
from ..observe.escape import for_terminal
from ..process import context
from ._look import show, takes_program
from ._text import table


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `doctor`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "doctor",
        help="what is wrong with a run: stuck tasks, dead actors, retries, stragglers, leaks ...",
        usage="miniray doctor [--after SECONDS] [--format {default,json}] [--questions] [-- script.py args]",
    )
    parser.add_argument(
        "--after",
        type=float,
        metavar="SECONDS",
        help="look then if the program has not ended, and interrupt it, as Ctrl-C does at any time",
    )
    parser.add_argument(
        "--format", choices=("default", "json"), default="default", help="how to print: as text, or as JSON"
    )
    parser.add_argument("--questions", action="store_true", help="only say what would be asked")
    takes_program(parser)
    parser.set_defaults(resource=None)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the findings. The program's exit code is the command's, 130 when it was interrupted."""
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
    seen: list[str] = []
    if args.after is None or not args.program:
        return show(args, write)

    def interrupt() -> None:
        """On a thread of its own, while the program is where it is stuck."""
        if context.session is not None:
            seen.append(write(context.session))
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    timer = threading.Timer(args.after, interrupt)
    timer.daemon = True
    timer.start()
    try:
        return show(args, lambda runtime: seen[0] if seen else write(runtime))
    finally:
        timer.cancel()


def as_json(runtime: Any) -> str:
    """The findings as an array of objects."""
    return json.dumps([finding.asdict() for finding in findings(runtime)], indent=2)


def report(runtime: Any) -> str:
    """The findings as text, one after the other, and which symptoms there are none of."""
    found = findings(runtime)
    lines = [
        f"======== Doctor: {len(found)} {'finding' if len(found) == 1 else 'findings'}, {len(RUNBOOK)} questions ========"
    ]
    for number, finding in enumerate(found, 1):
        lines += ["", *_lines(number, finding)]
    covered = {name: finding.symptom for finding in found for name in finding.covers}
    clear = [
        name + (f" (but for what {covered[name]} tells of)" if name in covered else "")
        for name in RUNBOOK
        if name not in {finding.symptom for finding in found}
    ]
    return "\n".join([*lines, "", f"Nothing of: {', '.join(clear) or '-'}"])


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
