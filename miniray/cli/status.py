"""`miniray status`: the nodes, the resources in use, and the requests that wait, in the layout of `ray status`."""

from __future__ import annotations

import argparse
import datetime
import json
from collections import Counter
from typing import Any

from ..core.records import ACTOR_TASK, NORMAL_TASK
from ..observe.escape import for_terminal
from ..observe.state import book
from ..observe.state.ray_rows import StateResource
from ..process import context
from ._grammar import Command
from ._look import accept_format, accept_file, accept_program, show
from ._text import size

MEMORY = ("memory", "object_store_memory")


def add_parser(subparsers: Any) -> Command:
    """Declare `status`."""
    parser: Command = subparsers.add_parser(
        "status",
        help="show a session's nodes and resources",
        description="Show the nodes, resources and pending demands of a program's session, as `ray status` does. "
        "Without a program, start a session with these resources, show its status, and end it.",
        usage="miniray status [options] [--from RUN.DB | -- script.py [args]]",
    )
    parser.add_argument(
        "--num-cpus", type=float, metavar="N", help="CPUs of the session (default: those of this machine)"
    )
    parser.add_argument("--num-gpus", type=float, metavar="N", help="GPUs of the session (default: none)")
    parser.add_argument(
        "--resources", type=_resources, metavar="JSON", help="other resources, for example '{\"disk\": 2}'"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show the usage of each node too")
    accept_format(parser, "json")
    accept_file(parser)
    accept_program(parser, "shows its status")
    parser.set_defaults(resource=None)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the status of a program's session at its end, of the running session, or of a new one."""
    import miniray as ray

    if args.program or args.source is not None or context.session is not None:
        return show(args, lambda runtime: answer(runtime, args))
    ray.init(num_cpus=args.num_cpus, num_gpus=args.num_gpus, resources=args.resources)
    try:
        return show(args, lambda runtime: answer(runtime, args))
    finally:
        ray.shutdown()


def _resources(text: str) -> dict[str, float]:
    """The value of --resources. Raises ArgumentTypeError with an example."""
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError
    except ValueError:
        name, _, amount = text.partition("=")
        example = json.dumps({name: float(amount)}) if amount.replace(".", "", 1).isdigit() else '{"disk": 2}'
        raise argparse.ArgumentTypeError(f"expected JSON such as '{example}', not {text!r}") from None
    return found


def answer(runtime: Any, args: argparse.Namespace) -> str:
    """The text that the command prints."""
    if args.format == "json":
        rows = book.book_rows(runtime, StateResource.NODES)
        return json.dumps({"nodes": rows, "demands": [line.strip() for line in demands(runtime)]})
    return status_text(runtime, args.verbose)


def status_text(runtime: Any, verbose: bool = False) -> str:
    """The status of a session, as `ray status` prints it."""
    heading = f"======== Autoscaler status: {datetime.datetime.now()} ========"
    rule = "-" * len(heading)
    nodes = book.book_rows(runtime, StateResource.NODES)
    alive = [node for node in nodes if node["state"] == "ALIVE"]
    total, free = _sum(alive, "resources_total"), _sum(alive, "resources_available")
    lines = [
        heading,
        "Node status",
        rule,
        "Active:",
        *([f" 1 node_{node['node_id']}" for node in alive] or [" (no active nodes)"]),
        "Pending:",
        " (no pending nodes)",
        "Recent failures:",
        *([f" node_{node['node_id']}: NodeTerminated" for node in nodes if node not in alive] or [" (no failures)"]),
        "",
        "Resources",
        rule,
        "Total Usage:",
        *[" " + line for line in usage(total, free, *reserved(runtime))],
        "",
        "From request_resources:",
        " (none)",
        "Pending Demands:",
        *(demands(runtime) or [" (no resource demands)"]),
    ]
    if verbose:
        for row in alive:
            lines += [
                "",
                f"Node: {row['node_id']} ({row['node_name']})",
                " Usage:",
                *["  " + line for line in usage(row["resources_total"], row["resources_available"], {}, {})],
            ]
    return "\n".join(lines)


def _sum(nodes: list[dict[str, Any]], column: str) -> dict[str, float]:
    total: dict[str, float] = {}
    for node in nodes:
        for name, amount in node[column].items():
            total[name] = total.get(name, 0.0) + amount
    return total


def usage(total: dict[str, float], free: dict[str, float], held: dict[str, float], used: dict[str, float]) -> list[str]:
    """One line per resource: `1.0/4.0 CPU`, which is the amount in use and the total.

    held: the amounts that placement groups reserve. used: the part of these that the groups' tasks and actors use.
    A reserved resource is not free, but only the used part counts as in use.
    """
    lines = []
    for name in sorted(total):
        if name.startswith("node:"):
            continue  # a marker that each node has, for tasks that must run on this node
        taken = total[name] - free.get(name, 0.0) - held.get(name, 0.0) + used.get(name, 0.0)
        show = size if name in MEMORY else _plain
        line = f"{show(taken)}/{show(total[name])} {for_terminal(name)}"
        if name in held:
            line += f" ({show(used.get(name, 0.0))} used of {show(held[name])} reserved in placement groups)"
        lines.append(line)
    return lines


def _plain(amount: float) -> str:
    return str(round(float(amount), 4))


def reserved(runtime: Any) -> tuple[dict[str, float], dict[str, float]]:
    """The amounts that placement groups have reserved, and the part of these that their tasks and actors use."""
    held: Counter[str] = Counter()
    for group in book.book_rows(runtime, StateResource.PLACEMENT_GROUPS, [("state", "=", "CREATED")]):
        for bundle in group["bundles"]:
            held.update(bundle)
    used: Counter[str] = Counter()
    if held:
        for resource, state in ((StateResource.TASKS, "RUNNING"), (StateResource.ACTORS, "ALIVE")):
            for row in book.book_rows(runtime, resource, [("state", "=", state)]):
                if row["placement_group_id"] and row.get("type", NORMAL_TASK) == NORMAL_TASK:
                    used.update(row["required_resources"])
    return dict(held), dict(used)


def demands(runtime: Any) -> list[str]:
    """One line per shape of pending request, with the number of tasks, actors or groups that wait with it."""
    waiting: Counter[str] = Counter()
    for task in book.book_rows(runtime, StateResource.TASKS, [("state", "=", "PENDING_NODE_ASSIGNMENT")]):
        if task["type"] != ACTOR_TASK and task["required_resources"]:  # a call waits for its actor, not for resources
            waiting[str(dict(sorted(task["required_resources"].items())))] += 1
    lines = [f" {for_terminal(shape)}: {count}+ pending tasks/actors" for shape, count in waiting.items()]
    groups: Counter[str] = Counter()
    for group in book.book_rows(runtime, StateResource.PLACEMENT_GROUPS):
        if group["state"] in ("PENDING", "RESCHEDULING"):
            shapes = Counter(str(dict(sorted(bundle.items()))) for bundle in group["bundles"])
            groups[", ".join(f"{shape} * {n}" for shape, n in shapes.items()) + f" ({group['strategy']})"] += 1
    return lines + [f" {for_terminal(shape)}: {count}+ pending placement groups" for shape, count in groups.items()]
