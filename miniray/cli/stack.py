"""`miniray stack`: what is pending and why, and the stacks of all busy workers and threads. Ray: `ray stack`."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..observe.escape import for_terminal
from ..observe.stacks.report import Report
from ._grammar import Command
from ._look import accept_format, accept_program, complain, show

TIMEOUT_S = 5.0


def add_parser(subparsers: Any) -> Command:
    """Declare `stack`."""
    parser: Command = subparsers.add_parser(
        "stack",
        help="show what a program is doing: what is pending and why, and all stacks",
        description="Show what each pending task, actor and placement group waits for, then the stack of each busy "
        "worker and of each thread. Name a program that is running by its process id, or start one. Give --after for a "
        "program that does not end. A program that is running needs no preparation: it gets the signal SIGURG, and "
        "answers through a socket in a folder that only its user can enter.",
        usage="miniray stack [--format {default,json}] [--timeout SECONDS] PID\n"
        "       miniray stack [--after SECONDS] [--format {default,json}] [-- script.py [args]]",
    )
    accept_pid(parser)
    accept_format(parser, "json")
    accept_program(parser, "shows its stacks")
    parser.set_defaults(resource=None)
    return parser


def accept_pid(parser: Command) -> None:
    """Let a command name a running program: `args.pid`, `args.timeout`."""
    parser.add_argument("pid", nargs="?", type=_pid, metavar="PID", help="the process id of a program that is running")
    parser.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT_S,
        metavar="SECONDS",
        help=f"how long a running program may take to answer (default: {TIMEOUT_S:g})",
    )
    parser.set_defaults(usage_error=parser.error)


def _pid(word: str) -> int:
    if not word.isdecimal() or not int(word):
        hint = f"; put -- before the script: ... -- {word}" if word.endswith(".py") else ""
        raise argparse.ArgumentTypeError(f"{word!r} is not a process id, which is a positive number{hint}")
    return int(word)


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    if args.pid is not None:
        if args.program or args.after is not None or args.session is not None:
            args.usage_error("give a process id, or a program after --, not both")
        return _of_running(args)

    def answer(runtime: Any) -> str:
        report = Report(runtime)
        if args.format == "json":
            return json.dumps({"interrupted_in": args.interrupted, **report.asdict()})
        interrupted = ["The program was interrupted in", *args.interrupted] if args.interrupted else []
        return "\n".join([*interrupted, str(report)])

    return show(args, answer)


def _of_running(args: argparse.Namespace) -> int:
    from ..telemetry.stack_socket import NoAnswer, ask

    try:
        (part,) = ask(args.pid, {"kind": "stack"}, args.timeout)
    except NoAnswer as problem:
        return complain(str(problem), 1)
    if args.format == "json":
        print(json.dumps({"interrupted_in": [], "note": part["note"], **part["report"]}))
    else:
        print(for_terminal(part["text"], newlines=True))
        if part["note"]:
            print(for_terminal(f"Note: {part['note']}."))
    return 0
