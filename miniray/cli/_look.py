"""What the commands that read a session's tables have in common.

In Ray a command asks a server for the tables. Here the tables belong to the program and end with it. So the command
runs the program (`miniray list tasks -- script.py args`) and reads the tables when the program ends, is interrupted, or
shuts its session down. Called inside a program, through `miniray.cli.main`, it reads the tables of the running session.
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
AS_IN_RAY = "accepted as in Ray, without effect"


class Refused(Exception):
    """The question cannot be answered as asked. code: the command's exit code."""

    def __init__(self, text: str, code: int = 2):
        super().__init__(text)
        self.code = code


def accept_program(parser: argparse.ArgumentParser, purpose: str = "shows its tables") -> None:
    """Let `-- script.py args` follow the command, and store these words in `args.program`. purpose: for the help.

    The words are cut at `--` before argparse sees them: it would take the script's options for the command's own.
    """
    parse = parser.parse_known_args

    def parse_known_args(words: Any = None, namespace: Any = None) -> Any:
        words = list(words or ())
        at = words.index("--") if "--" in words else len(words)
        namespace, rest = parse(words[:at], namespace)
        namespace.program = words[at + 1 :]
        return namespace, rest

    parser.parse_known_args = parse_known_args  # type: ignore[method-assign, assignment]
    parser.epilog = (
        f"The command runs the script given after `--`, and {purpose} when the script ends, is interrupted, "
        "or shuts its session down."
    )
    parser.set_defaults(words=parser.prog)


def accept_server_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that Ray's commands have because they ask a server."""
    parser.add_argument("--timeout", type=int, default=30, metavar="S", help=f"{AS_IN_RAY}: the tables are local")
    accept_address(parser)


def accept_address(parser: argparse.ArgumentParser) -> None:
    """Declare Ray's option --address."""
    parser.add_argument("--address", help=f"{AS_IN_RAY}: there is no other session")


def show(args: argparse.Namespace, answer: Answer) -> int:
    """Print the text that `answer(runtime)` returns for the session. Returns the exit code.

    A question that cannot be answered gives one line on stderr and exit code 2 (or the code that it names); no session
    gives exit code 1. The program's own output goes to stderr, so that another program can read stdout. The program's
    exit code becomes the command's, unless the command itself failed.
    """
    if args.program:
        return _of_program(args, answer)
    if context.session is None:
        line = f"{args.words} {' '.join(filter(None, (args.resource, getattr(args, 'id', None))))}".strip()
        return complain(no_session(line), 1)
    return _printed(lambda: answer(context.session))


def no_session(command: str) -> str:
    """The message of a command that was given no program to look at. command: as it was typed, from "miniray" on."""
    next_step = (
        f"Tables and logs end with their program, so name the program:\n    python -m {command} -- script.py [args]"
    )
    return str(context.not_found(next_step))


def complain(text: str, code: int) -> int:
    """Print an error on stderr. Returns the exit code."""
    print(f"Error: {for_terminal(text, newlines=True)}", file=sys.stderr)
    return code


@contextlib.contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Print each warning of the block as one line on stderr when the block ends."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
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

    last: list[Callable[[], str]] = []  # gives the answer of the last session that ended, or raises its error

    def look(runtime: Any) -> None:
        """Ask now, while the session runs. The answer, or the error, is printed after the program has ended."""
        try:
            text = answer(runtime)
        except Exception as problem:
            last[:] = [_raiser(problem)]
        else:
            last[:] = [lambda: text]

    session.before_end.append(look)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            try:
                code = run_program(args.program)
            except KeyboardInterrupt:  # the program may hang, and the tables say why
                code = 130
            api.shutdown()
    finally:
        session.before_end.remove(look)
    if not last:
        return code or complain(f"{args.program[0]} started no session, so there is nothing to show", 1)
    return _printed(last[-1]) or code


def _raiser(problem: Exception) -> Callable[[], str]:
    def again() -> str:
        raise problem

    return again


def run_program(words: list[str]) -> int:
    """Run a script as `miniray run` does. Returns its exit code."""
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
