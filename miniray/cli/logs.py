"""`miniray logs`: the names of a session's logs, or the text of one log. Ray: util/state/state_cli.py, `ray logs`.

    miniray logs [cluster] [GLOB] -- script.py      the names that match, or the text of the log if only one matches
    miniray logs actor --id ID | task --id ID [-a ATTEMPT] | worker --pid PID

The session is that of the program given after `--`. Without one it is the running session of this process, for a
program that calls `miniray.cli.main([...])`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from ..observe.logs.reading import get_log, list_logs
from ..observe.state.query import RayStateApiException
from ..observe.state.ray_rows import StateResource
from ..process import context
from ._grammar import Command
from . import _look

KINDS = ("cluster", "actor", "task", "worker", "job")
TRUNCATED = (
    "--- Log has been truncated to last {} lines. Use `--tail` flag to toggle. "
    "Set to -1 for getting the entire file. ---\n"
)


def add_parser(subparsers: Any) -> Command:
    """Declare `logs`."""
    parser: Command = subparsers.add_parser(
        "logs",
        help="list a program's logs, or print one of them",
        description="List the names of a program's logs that match GLOB; if only one matches, print that log. With a "
        "kind other than `cluster`, print the log of one actor, task, worker or job.",
        usage="miniray logs [cluster|actor|task|worker|job] [GLOB] [options] [--from RUN.DB | -- script.py [args]]",
    )
    parser.add_argument(
        "which", nargs="*", metavar="KIND or GLOB", help="the kind (default: cluster), then a pattern (default: *)"
    )
    parser.add_argument("--id", help="the actor or the task: its id, whole or short, or its name")
    parser.add_argument("-a", metavar="ID or N", help="the same for an actor; for a task, the number of its attempt")
    parser.add_argument("--attempt-number", type=int, metavar="N", help="the task's attempt (default: 0)")
    parser.add_argument("--pid", "-pid", help="the worker, by process id")
    parser.add_argument("--node-id", "-id", metavar="ID", help="the node, by id (default: the head node)")
    parser.add_argument("--node-ip", "-ip", metavar="IP", help="the node, by address")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing as the log grows")
    parser.add_argument(
        "--tail", type=int, default=1000, metavar="N", help="print the last N lines (default: 1000; -1: all)"
    )
    _look.accept_format(parser, "json", default="text; JSON: the names by category, or the lines of a log as an array")
    parser.add_argument("--err", action="store_true", help="print what was written to stderr instead of stdout")
    parser.add_argument(
        "--interval", type=float, metavar="S", help=f"{_look.AS_IN_RAY}: --follow is notified of each line"
    )
    parser.add_argument("--encoding", default="utf-8", help="the encoding of the log (default: utf-8)")
    parser.add_argument(
        "--encoding-errors",
        default="strict",
        metavar="HOW",
        help="how to treat bytes that cannot be decoded (default: strict)",
    )
    _look.accept_server_options(parser)
    _look.accept_file(parser)
    _look.accept_program(parser, "shows its logs")
    parser.set_defaults(usage_error=parser.error)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print names, or the text of a log. Returns 1 if there is no such log; argparse exits with 2 for wrong words."""
    kind = args.which.pop(0) if args.which and args.which[0] in KINDS else "cluster"
    _check(args, kind)
    if args.program or args.source is not None:
        return _look.show(args, lambda runtime: _at_the_end(args, kind, runtime).rstrip("\n"))
    if context.session is None:
        args.usage_error(_look.no_session("miniray logs"))
    try:
        for text in _answer(args, kind, context.session):
            print(text, end="", flush=True)
    except BrokenPipeError:
        raise
    except _look.Refused as refused:
        return _look.complain(str(refused), refused.code)
    except (RayStateApiException, OSError) as problem:
        return _look.complain(str(problem), 1)
    return 0


def _check(args: argparse.Namespace, kind: str) -> None:
    if len(args.which) > (kind == "cluster"):
        args.usage_error(f"unexpected words: {' '.join(args.which)}")
    if kind == "actor" and not (args.id or args.a or args.pid):
        args.usage_error("Missing option: at least one of `--pid` and `--id` has to be set")
    if kind in ("task", "job") and not args.id:
        args.usage_error("Missing option '--id'.")
    if kind == "worker" and not args.pid:
        args.usage_error("Missing option '--pid' / '-pid'.")
    if args.follow and args.source is not None:
        args.usage_error("a recording does not grow: --follow has nothing to follow")
    if args.follow and args.program:
        args.usage_error("the logs of the script after -- are read when it ends: --follow has nothing to follow")
    if args.follow and args.format == "json":
        args.usage_error("JSON is one document, which --follow would never finish")


def _at_the_end(args: argparse.Namespace, kind: str, runtime: Any) -> str:
    try:
        return "".join(_answer(args, kind, runtime))
    except (RayStateApiException, OSError) as problem:
        raise _look.Refused(str(problem), 1) from None


def _answer(args: argparse.Namespace, kind: str, runtime: Any) -> Iterator[str]:
    """The text of the answer, in pieces as it arrives."""
    if args.node_id is None and args.node_ip is None:
        args.node_ip = runtime.head.name
    if kind != "cluster":
        yield from _log(args, kind, runtime)
        return
    found = list_logs(node_id=args.node_id, node_ip=args.node_ip, glob_filter=args.which[0] if args.which else "*")
    names = [name for category in found.values() for name in category]
    if len(names) == 1:
        yield from _log(args, kind, runtime, names[0])
        return
    if args.format == "json":
        yield json.dumps(found) + "\n"
        return
    yield f"Node ID: {args.node_id}\n---\n" if args.node_id else f"Node IP: {args.node_ip}\n---\n"
    for category, listed in found.items():
        yield "\n- ".join([f"{category}:", *listed]) + "\n"
    yield "...\n\n" if found else "{}\n...\n\n"


def _log(args: argparse.Namespace, kind: str, runtime: Any, filename: str | None = None) -> Iterator[str]:
    """The text of one log, as it was written."""
    which: dict[str, Any] = {"filename": filename, "node_id": args.node_id, "node_ip": args.node_ip}
    if kind == "actor":
        name = args.id or args.a
        which["actor_id"] = _look.id_of(runtime, StateResource.ACTORS, name) if name else None
        which["pid"] = args.pid
    elif kind == "task":
        which["task_id"] = _look.id_of(runtime, StateResource.TASKS, args.id)
        which["attempt_number"] = args.attempt_number or int(args.a or 0)
    elif kind == "worker":
        which["pid"] = args.pid
    elif kind == "job":
        which["submission_id"] = args.id
    chunks = get_log(
        **which,
        follow=args.follow,
        tail=args.tail,
        suffix="err" if args.err else "out",
        encoding=args.encoding,
        errors=args.encoding_errors,
    )
    if args.format == "json":
        yield json.dumps("".join(chunks).splitlines()) + "\n"
        return
    if args.tail <= 0 or args.follow:
        yield from chunks
        return
    text = "".join(chunks)
    if text.count("\n") >= args.tail:
        yield TRUNCATED.format(args.tail) + "\n"
    yield text
