"""The command line: `python -m miniray COMMAND`.

Each module of this package whose name has no leading underscore is a command, with two functions:

    add_parser(subparsers) -> argparse.ArgumentParser     declare the command and its arguments
    run(args) -> int                                      carry it out; returns the exit code

A new command is a new file; nothing else has to know of it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command. argv: the words after the program's name, those of this process by default.

    Returns the exit code: what the command returned; 2, on stderr with the usage, when the words make no sense
    (argparse's SystemExit); 130 after an interrupt.
    """
    parser = argparse.ArgumentParser(
        prog="miniray", description="Ray Core's programming model and its observability in one Python process."
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for found in pkgutil.iter_modules(__path__):
        if not found.name.startswith("_"):
            command = importlib.import_module(f"{__name__}.{found.name}")
            command.add_parser(subparsers).set_defaults(run=command.run)
    args = parser.parse_args(argv)
    try:
        code = args.run(args)
        sys.stdout.flush()  # here, where a reader that has gone away is still met with an answer
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # `miniray list tasks | head`: the reader has seen enough. What is still buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
