"""`miniray doctor -- script.py`: run a program, ask the runbook's questions of its tables, and print the findings."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any

from ..observe.amounts import count
from ..observe.doctor import RUNBOOK, Finding, findings
from ..observe.escape import cut, for_terminal
from ..observe.state.short_ids import short
from ._grammar import Command
from ._look import accept_format, accept_file, accept_program, again, show
from ._text import table

FOUND = 3  # the exit code of `--exit-code` when there are findings
INDENT = " " * 9  # of the second and later lines of a text that is broken


def add_parser(subparsers: Any) -> Command:
    """Declare `doctor`."""
    parser: Command = subparsers.add_parser(
        "doctor",
        help="find out what went wrong in a program: stuck tasks, dead actors, retries, leaks, ...",
        description="Ask the questions of a runbook about a program, and print a finding for each symptom: stuck "
        "tasks, dead actors, failures, retries, stragglers, leaks, spilling, ...",
        usage="miniray doctor [--after SECONDS] [--format {default,json}] [--exit-code] [--questions] "
        "[--from RUN.DB | -- script.py [args]]",
    )
    accept_format(parser, "json")
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help=f"if there are findings and the program ended with 0, exit with {FOUND}",
    )
    parser.add_argument("--questions", action="store_true", help="list the questions, and run nothing")
    accept_file(parser)
    accept_program(parser, "shows the findings")
    parser.set_defaults(resource=None)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the findings. Returns the program's exit code, or FOUND."""
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
    found_any = False

    def answer(runtime: Any) -> str:
        nonlocal found_any
        found = findings(runtime, args.interrupted)
        found_any = found_any or bool(found)
        return as_json(found, args) if args.format == "json" else report(found, args)

    code = show(args, answer)
    return FOUND if args.exit_code and found_any and code == 0 else code


def as_json(found: list[Finding], args: argparse.Namespace) -> str:
    """The findings as a JSON array of objects. The command is one that can be pasted."""
    return json.dumps([{**finding.asdict(), "command": again(args, finding.command)} for finding in found], indent=2)


def report(found: list[Finding], args: argparse.Namespace) -> str:
    """The findings as text, one after the other, then the symptoms that were not found."""
    lines = [f"======== Doctor: {count(len(found), 'finding')}, {len(RUNBOOK)} questions ========"]
    for number, finding in enumerate(found, 1):
        lines += ["", *_lines(number, finding, args)]
    covered = {name: finding.symptom for finding in found for name in finding.covers}
    clear = [
        name + (f" (except as part of {covered[name]})" if name in covered else "")
        for name in RUNBOOK
        if name not in {finding.symptom for finding in found}
    ]
    return "\n".join([*lines, "", *_broken(f"Not found: {', '.join(clear) or '-'}", args.width)])


def _lines(number: int, finding: Finding, args: argparse.Namespace) -> list[str]:
    lines = _broken(f"{number}. {finding.symptom}: {for_terminal(finding.sentence)}", args.width)
    if finding.rows:
        header = list(finding.rows[0])
        rows = table(header, [[_cell(row[name]) for name in header] for row in finding.rows], indent="     ")
        lines += [cut(row, args.width) for row in rows] if args.width else rows
    for title, stack in finding.stacks.items():
        lines += [f"   stack of {for_terminal(title)}:", *(f"   {for_terminal(line)}" for line in stack)]
    where = finding.look if not args.program and args.source is None else again(args, finding.command)
    return [*lines, *_broken(f"   do:   {finding.advice}", args.width), f"   look: {where}"]


def _cell(value: Any) -> Any:
    return "" if value is None else short(value) if isinstance(value, str) else value


def _broken(text: str, width: int | None) -> list[str]:
    """A text as lines that fit the terminal; one line without a terminal."""
    if width is None:
        return [text]
    return textwrap.wrap(text, max(width, 40), subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False)
