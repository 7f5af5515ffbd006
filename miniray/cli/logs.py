"""`miniray logs`: the names of a session's logs, or what stands in one of them. Ray: `ray logs`,
util/state/state_cli.py.

    miniray logs [cluster] [GLOB]       the names that fit, or the log itself when only one does
    miniray logs actor --id ID | task --id ID [-a ATTEMPT] | worker --pid PID

The session is the one of this process: the command is for `miniray.cli.main([...])` in a program that has one.
"""
from __future__ import annotations

import argparse
import sys
from typing import Any

KINDS = ("cluster", "actor", "task", "worker", "job")
TRUNCATED = ("--- Log has been truncated to last {} lines. Use `--tail` flag to toggle. "
             "Set to -1 for getting the entire file. ---\n")


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `logs`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "logs", help="the logs of this process's session: their names, or one of them",
        usage="miniray logs [cluster|actor|task|worker|job] [GLOB] [options]")
    parser.add_argument("words", nargs="*", metavar="KIND or GLOB", help="whose log, or which names (*)")
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
    parser.add_argument("--timeout", type=int, default=30, metavar="S", help="accepted; the answer is at hand")
    parser.add_argument("--encoding", default="utf-8", help="of the log (utf-8)")
    parser.add_argument("--encoding-errors", default="strict", metavar="HOW", help="what to do with other bytes")
    parser.add_argument("--address", help="accepted; there is only the session of this process")
    parser.set_defaults(usage_error=parser.error)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print names, or a log. 1 with a sentence on stderr for a log that there is not; argparse's 2 for words that make
    no sense.
    """
    from miniray import api
    from miniray.util.state.exception import RayStateApiException
    kind = args.words.pop(0) if args.words and args.words[0] in KINDS else "cluster"
    if len(args.words) > (kind == "cluster"):
        args.usage_error(f"unexpected words: {' '.join(args.words)}")
    if api.session is None:
        args.usage_error("Could not find any running Ray instance: this process has no session. "
                         "The logs of a session are in its own process and end with it.")
    if args.node_id is None and args.node_ip is None:
        args.node_ip = api.session.head.name
    try:
        return cluster(args) if kind == "cluster" else show(args, kind)
    except (RayStateApiException, OSError) as problem:
        if isinstance(problem, BrokenPipeError):
            raise
        print(f"Error: {problem}", file=sys.stderr)
        return 1


def cluster(args: argparse.Namespace) -> int:
    """The names of a node's logs that fit a pattern; the log itself when there is exactly one."""
    from miniray.observe.logs import list_logs
    found = list_logs(node_id=args.node_id, node_ip=args.node_ip, glob_filter=args.words[0] if args.words else "*")
    names = [name for category in found.values() for name in category]
    if len(names) == 1:
        return show(args, "cluster", names[0])
    print(f"Node ID: {args.node_id}" if args.node_id else f"Node IP: {args.node_ip}")
    print("---")
    for category, listed in found.items():
        print("\n- ".join([f"{category}:", *listed]))
    print("...\n" if found else "{}\n...\n")
    return 0


def show(args: argparse.Namespace, kind: str, filename: str | None = None) -> int:
    """Print one log, as it was written."""
    from miniray.observe.logs import get_log
    which: dict[str, Any] = {"filename": filename, "node_id": args.node_id, "node_ip": args.node_ip}
    if kind == "actor":
        which["actor_id"], which["pid"] = args.id or args.a, args.pid
        if not which["actor_id"] and not args.pid:
            args.usage_error("Missing option: at least one of `--pid` and `--id` has to be set")
    elif kind == "task":
        which["task_id"], which["attempt_number"] = args.id, args.attempt_number or int(args.a or 0)
    elif kind == "worker":
        which["pid"] = args.pid
    elif kind == "job":
        which["submission_id"] = args.id
    if kind in ("task", "job") and not args.id:
        args.usage_error("Missing option '--id'.")
    if kind == "worker" and not args.pid:
        args.usage_error("Missing option '--pid' / '-pid'.")
    chunks = get_log(**which, follow=args.follow, tail=args.tail, suffix="err" if args.err else "out",
                     encoding=args.encoding, errors=args.encoding_errors)
    if args.tail > 0:
        print(TRUNCATED.format(args.tail))
    for chunk in chunks:
        print(chunk, end="", flush=True)
    return 0
