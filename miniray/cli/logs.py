"""`miniray logs`: the names of a session's logs, or what stands in one of them. Ray: `ray logs`,
util/state/state_cli.py.

    miniray logs [cluster] [GLOB] -- script.py      the names that fit, or the log itself when only one does
    miniray logs actor --id ID | task --id ID [-a ATTEMPT] | worker --pid PID

They are those of the program behind `--`, or of this process's session, for `miniray.cli.main([...])` in a program that has one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from ..observe.logs.reading import get_log, list_logs
from ..observe.state.query import RayStateApiException
from ..process import context
from . import _look

KINDS = ("cluster", "actor", "task", "worker", "job")
TRUNCATED = (
    "--- Log has been truncated to last {} lines. Use `--tail` flag to toggle. "
    "Set to -1 for getting the entire file. ---\n"
)


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `logs`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "logs",
        help="what a program's workers have printed: the names of its logs, or one of them",
        usage="miniray logs [cluster|actor|task|worker|job] [GLOB] [options] [-- script.py args]",
    )
    parser.add_argument("which", nargs="*", metavar="KIND or GLOB", help="whose log, or which names (*)")
    parser.add_argument("--id", help="of the actor or the task")
    parser.add_argument("-a", metavar="ID or N", help="the actor's id, or the task's attempt number")
    parser.add_argument("--attempt-number", type=int, metavar="N", help="which attempt of the task (0)")
    parser.add_argument("--pid", "-pid", help="of the worker")
    parser.add_argument("--node-id", "-id", metavar="ID", help="of the node whose logs are meant; the head by default")
    parser.add_argument("--node-ip", "-ip", metavar="IP", help="the same by address")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is written from now on")
    parser.add_argument("--tail", type=int, default=1000, metavar="N", help="how many last lines (1000), -1 for all")
    parser.add_argument("--err", action="store_true", help="what was written to stderr, not to stdout")
    parser.add_argument("--interval", type=float, metavar="S", help="accepted; a follower is woken, it never looks")
    parser.add_argument("--encoding", default="utf-8", help="of the log (utf-8)")
    parser.add_argument("--encoding-errors", default="strict", metavar="HOW", help="what to do with other bytes")
    _look.takes_what_a_server_would(parser)
    _look.takes_program(parser, "logs")
    parser.set_defaults(usage_error=parser.error)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print names, or a log. 1 with a sentence on stderr for a log that there is not; argparse's 2 for words that make
    no sense.
    """
    kind = args.which.pop(0) if args.which and args.which[0] in KINDS else "cluster"
    _check(args, kind)
    if args.program:
        return _look.show(args, lambda runtime: _at_the_end(args, kind, runtime).rstrip("\n"))
    if context.session is None:
        args.usage_error(_look.no_session("miniray logs"))
    try:
        for text in _said(args, kind, context.session):
            print(text, end="", flush=True)
    except BrokenPipeError:
        raise
    except (RayStateApiException, OSError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 1
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
    if args.follow and args.program:
        args.usage_error("the program after -- is looked at when it ends: there is nothing to --follow")


def _at_the_end(args: argparse.Namespace, kind: str, runtime: Any) -> str:
    try:
        return "".join(_said(args, kind, runtime))
    except OSError as problem:
        raise _look.Refused(str(problem), 1) from None
    except RayStateApiException as problem:
        raise _look.Refused(str(problem), 1) from None


def _said(args: argparse.Namespace, kind: str, runtime: Any) -> Iterator[str]:
    """The text of the answer, piece by piece."""
    if args.node_id is None and args.node_ip is None:
        args.node_ip = runtime.head.name
    if kind != "cluster":
        yield from _one(args, kind)
        return
    found = list_logs(node_id=args.node_id, node_ip=args.node_ip, glob_filter=args.which[0] if args.which else "*")
    names = [name for category in found.values() for name in category]
    if len(names) == 1:
        yield from _one(args, kind, names[0])
        return
    yield f"Node ID: {args.node_id}\n---\n" if args.node_id else f"Node IP: {args.node_ip}\n---\n"
    for category, listed in found.items():
        yield "\n- ".join([f"{category}:", *listed]) + "\n"
    yield "...\n\n" if found else "{}\n...\n\n"


def _one(args: argparse.Namespace, kind: str, filename: str | None = None) -> Iterator[str]:
    """One log, as it was written."""
    which: dict[str, Any] = {"filename": filename, "node_id": args.node_id, "node_ip": args.node_ip}
    if kind == "actor":
        which["actor_id"], which["pid"] = args.id or args.a, args.pid
    elif kind == "task":
        which["task_id"], which["attempt_number"] = args.id, args.attempt_number or int(args.a or 0)
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
    if args.tail > 0:
        yield TRUNCATED.format(args.tail) + "\n"
    yield from chunks
