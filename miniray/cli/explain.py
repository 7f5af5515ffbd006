"""`miniray explain [ID]`: why something does not go on, or what determined the time of the run."""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

from ..observe.escape import for_terminal
from ..observe.explain.bottleneck import explain_run
from ..observe.explain.explanation import explain
from ..observe.explain.sentence import Explanation
from ..observe.state.ray_rows import StateResource
from ._grammar import Command
from ._look import Refused, accept_file, accept_format, accept_program, ids_of, show

SEARCHED = (StateResource.TASKS, StateResource.ACTORS, StateResource.PLACEMENT_GROUPS, StateResource.OBJECTS)
MOST = 20  # records of one name that are explained


def add_parser(subparsers: Any) -> Command:
    """Declare `explain`."""
    parser: Command = subparsers.add_parser(
        "explain",
        help="tell why a task, actor, object or placement group does not go on",
        description="Tell why a task, an actor, an object or a placement group does not go on, or what it does. "
        "Without an id, tell what determined the time of the run.",
        usage="miniray explain [ID] [options] [--from RUN.DB | -- script.py [args]]",
    )
    parser.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help="an id, whole or short, its first digits, or a name (which several may have)",
    )
    accept_format(parser, "json")
    accept_file(parser)
    accept_program(parser, "tells why")
    parser.set_defaults(resource=None)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the explanation."""
    return show(args, lambda runtime: answer(runtime, args))


def answer(runtime: Any, args: argparse.Namespace) -> str:
    """The text that the command prints: a sentence for each record that the id or the name means."""
    found = [explain_run(runtime)] if args.id is None else [explain(runtime, id) for id in meant(runtime, args.id)]
    if args.format == "json":
        told = [one.asdict() for one in found]
        return json.dumps(told[0] if len(told) == 1 else told, default=str)
    return "\n".join(map(_text, found))


def _text(found: Explanation) -> str:
    return for_terminal(found.sentence)


def meant(runtime: Any, text: str) -> list[str]:
    """The ids that a text means, of the first kind of records that has one. Raises Refused if none has."""
    refusals = []
    for resource in SEARCHED:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ids_of(runtime, resource, text)[:MOST]
        except Refused as refused:
            refusals.append(str(refused))
    ambiguous = [said for said in refusals if "begins with" in said]
    raise Refused(ambiguous[0] if ambiguous else refusals[0])
