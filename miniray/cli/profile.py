"""`miniray profile`: sample where every task of a program stands, and write a flame graph. Ray: py-spy, by hand."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import Any

from ..observe.amounts import count
from ..observe.escape import for_terminal
from ..observe.timeline.text import duration
from ..telemetry.profiler import ENDINGS, HZ, MOST_HZ
from ._grammar import Command
from ._look import CODES, complain, run_program
from .stack import accept_pid

SECONDS = 10.0
MOST_NAMES = 10  # in the summary


def add_parser(subparsers: Any) -> Command:
    """Declare `profile`."""
    parser: Command = subparsers.add_parser(
        "profile",
        help="sample where the tasks of a program spend their time, and write a flame graph",
        description="Sample where each task, actor method and thread of a program stands, by task name, and tell "
        f"running from waiting. The ending of the file decides the form: {', '.join(ENDINGS)}: a page that needs no "
        "network, speedscope's JSON, or collapsed stacks. Name a program that is running by its process id, or start "
        "one.",
        usage="miniray profile -o FILE [--hz HZ] -- script.py [args]\n"
        "       miniray profile -o FILE [--hz HZ] [--seconds SECONDS] [--timeout SECONDS] PID",
    )
    accept_pid(parser)
    parser.takes_program = True
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="where to write the profile")
    parser.add_argument("--hz", type=_hz, default=HZ, metavar="HZ", help=f"samples a second (default: {HZ:g})")
    parser.add_argument(
        "--seconds",
        type=float,
        default=None,
        metavar="SECONDS",
        help=f"how long to sample a program that is running (default: {SECONDS:g})",
    )
    parser.epilog = (
        "The program given after `--` is sampled until it ends, or until Ctrl-C. Its own output stays as it is; the "
        f"summary goes to stderr. {CODES.partition(';')[0]}; 2 if the words make no sense or the file cannot be "
        "written; 1 if the program raised an exception, or a running program did not answer."
    )
    return parser


def _hz(word: str) -> float:
    try:
        number = float(word)
    except ValueError:
        number = 0.0
    if not 0 < number <= MOST_HZ:
        raise argparse.ArgumentTypeError(f"{word!r} is not a number of samples a second, above 0, at most {MOST_HZ:g}")
    return number


def run(args: argparse.Namespace) -> int:
    """Profile the program, and write the file."""
    from ..telemetry.profiler.forms import form_of
    from ..telemetry.profiler.recording import Profile

    try:
        form_of(args.output)
    except ValueError as problem:
        args.usage_error(str(problem))
    if (args.pid is None) == (not args.program):
        args.usage_error("give a process id, or a program after --")
    folder = os.path.dirname(args.output) or "."
    if not os.path.isdir(folder):
        return complain(f"there is no folder {folder!r} to write to", 2)
    if args.pid is not None:
        return _of_running(args)
    if args.seconds is not None:
        args.usage_error("--seconds is for a program that is running; a program after -- is sampled until it ends")
    if args.program[0] != "-m" and not os.path.isfile(args.program[0]):
        return complain(f"there is no file {args.program[0]!r} to run", 2)
    profile = Profile(hz=args.hz).start()
    try:
        code = run_program(args.program)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    finally:
        profile.stop()
    return _written(profile, args.output) or code


def _of_running(args: argparse.Namespace) -> int:
    from ..telemetry.profiler.samples import Samples
    from ..telemetry.stack_socket import NoAnswer, ask

    seconds = SECONDS if args.seconds is None else args.seconds
    if not 0 < seconds <= 86_400:
        args.usage_error(f"--seconds is above 0 and at most a day, not {seconds:g}")
    question = {"kind": "profile", "seconds": seconds, "hz": args.hz}
    try:
        (part,) = ask(args.pid, question, args.timeout, seconds)
    except NoAnswer as problem:
        return complain(str(problem), 1)
    return _written(Samples.from_dict(part["profile"]), args.output)


def _written(profile: Any, path: str) -> int:
    """Write the file and a summary. profile: its `Samples`. Returns the exit code."""
    from ..telemetry.profiler.forms import save

    try:
        save(profile, path)
    except OSError as problem:
        return complain(f"the profile could not be written: {problem}", 2)
    samples = f"{count(profile.samples, 'sample')} in {duration(profile.seconds)}"
    print(f"{samples}; the profile is in {path}", file=sys.stderr)
    names = profile.by_name()
    for name, stacks in list(names.items())[:MOST_NAMES]:
        running, waiting = sum(one.running_s for one in stacks), sum(one.waiting_s for one in stacks)
        print(f"  {duration(running):>9} running {duration(waiting):>9} waiting  {for_terminal(name)}", file=sys.stderr)
    if len(names) > MOST_NAMES:
        print(f"  and {count(len(names) - MOST_NAMES, 'more name')}", file=sys.stderr)
    return 0
