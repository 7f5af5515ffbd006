"""Commands that look at tables: those of the session of this process, or of a program that is run for it.

In Ray the tables are a server's, and a command asks it. Here they are the program's own and end with it, so a command takes
the program: `miniray list tasks -- script.py args` runs it, and looks when it has ended, was interrupted, or ends its session.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ..observe.escape import for_terminal
from ..observe.state.query import RayStateApiException
from ..process import context

Answer = Callable[[Any], str]


class Refused(Exception):
    """The question makes no sense. code: what the command exits with."""

    def __init__(self, text: str, code: int = 2):
        super().__init__(text)
        self.code = code


def takes_program(parser: argparse.ArgumentParser, what: str = "tables") -> None:
    """Let the command be followed by `-- script.py args`, in `args.program`; argparse would take its options as ours."""
    parse = parser.parse_known_args

    def parse_known_args(words: Any = None, namespace: Any = None) -> Any:
        words = list(words or ())
        at = words.index("--") if "--" in words else len(words)
        namespace, rest = parse(words[:at], namespace)
        namespace.program = words[at + 1 :]
        return namespace, rest

    parser.parse_known_args = parse_known_args  # type: ignore[method-assign, assignment]
    parser.epilog = f"The program after -- is run first, and what is shown are its {what} at its end."
    parser.set_defaults(words=parser.prog)


def takes_what_a_server_would(parser: argparse.ArgumentParser) -> None:
    """Declare what Ray's commands take besides, since they ask a server."""
    parser.add_argument("--timeout", type=int, default=30, metavar="S", help="accepted; the answer is at hand")
    parser.add_argument("--address", help="accepted; there is no other session to ask")


def show(args: argparse.Namespace, answer: Answer) -> int:
    """Print what `answer(runtime)` says of the session. Returns the exit code.

    A wrong question is one line on stderr, and 2; no session is 1. A program's own output goes to stderr, so that what is
    printed can be read by another program; its exit code is the command's, unless that had an error of its own.
    """
    if args.program:
        return _of_program(args, answer)
    if context.session is None:
        line = f"{args.words} {' '.join(filter(None, (args.resource, getattr(args, 'id', None))))}".strip()
        return complain(no_session(line), 1)
    return _printed(lambda: answer(context.session))


def no_session(command: str) -> str:
    """The message of a command that was given no program to look at. command: as it was typed, from "miniray" on."""
    next_step = f"Tables and logs end with their program, so name the program:\n    python -m {command} -- script.py [args]"
    return str(context.not_found(next_step))


def complain(text: str, code: int) -> int:
    """One error on stderr."""
    print(f"Error: {for_terminal(text, newlines=True)}", file=sys.stderr)
    return code


@contextlib.contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """What is warned of is one line on stderr."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    for warning in said:
        print(f"Warning: {for_terminal(warning.message)}", file=sys.stderr)


def _printed(ask: Callable[[], str]) -> int:
    try:
        text = ask()
    except Refused as refused:
        return complain(str(refused), refused.code)
    except (RayStateApiException, ValueError) as problem:
        return complain(str(problem), 2)
    print(text)
    return 0


def _of_program(args: argparse.Namespace, answer: Answer) -> int:
    from .. import api, session

    said: list[Callable[[], str]] = []

    def look(runtime: Any) -> None:
        """Ask now; what is said, or raised, comes out when the program has ended."""
        try:
            text = answer(runtime)
        except Exception as problem:
            said[:] = [_raiser(problem)]
        else:
            said[:] = [lambda: text]

    session.before_end.append(look)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            try:
                code = run_program(args.program)
            except KeyboardInterrupt:  # a program that hangs is one that somebody wants to look into
                code = 130
            api.shutdown()
    finally:
        session.before_end.remove(look)
    if not said:
        return code or complain(f"{args.program[0]} started no session, so there is nothing to show", 1)
    return _printed(said[-1]) or code


def _raiser(problem: Exception) -> Callable[[], str]:
    def again() -> str:
        raise problem

    return again


def run_program(words: list[str]) -> int:
    """Run a script as `miniray run` does, and return its exit code."""
    from . import run

    if not os.path.isfile(words[0]):
        return complain(f"there is no file {words[0]!r} to run", 2)
    try:
        return run.run(argparse.Namespace(engine="miniray", address=None, module=None, script=words, usage_error=None))
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1
