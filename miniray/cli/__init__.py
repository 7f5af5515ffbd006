"""The command line: `python -m miniray COMMAND`.

Each module of this package whose name does not start with an underscore is a command. It defines two functions:

    add_parser(subparsers) -> argparse.ArgumentParser     declares the command and its arguments
    run(args) -> int                                      runs the command and returns its exit code

To add a command, add a file; no other file lists the commands.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence

from .._version import __ray_version__, __version__
from ._grammar import Command

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. argv: the words after the program's name; by default those of this process.

    Returns the command's exit code, 130 after an interrupt, and 0 when the reader of a pipe has closed it. Raises
    argparse's SystemExit(2), with the usage on stderr, when the words make no sense.
    """
    parser = Command(
        prog="miniray",
        description="Ray Core's programming model and its observability, in one Python process.",
        epilog="`miniray COMMAND --help` shows the options of a command.",
    )
    parser.add_argument(
        "--version", action="version", version=f"miniray {__version__}, with the interface of Ray {__ray_version__}"
    )
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for found in pkgutil.iter_modules(__path__):
        if not found.name.startswith("_"):
            command = importlib.import_module(f"{__name__}.{found.name}")
            command.add_parser(subparsers).set_defaults(run=command.run)
    args = parser.parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()  # inside the try: if the reader has closed the pipe, the flush raises BrokenPipeError
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # `miniray list tasks | head`: the reader has seen enough. Whatever is still buffered goes to /dev/null, so that
        # Python does not report a second error when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
