"""`miniray status`: the nodes, the resources in use, and the requests that wait, in the layout of `ray status`."""

from __future__ import annotations

import argparse
import datetime
import json
from collections import Counter
from typing import Any

from ..observe.escape import for_terminal
from ._text import size

MEMORY = ("memory", "object_store_memory")


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `status`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "status",
        help="start a session, and show its nodes and resources",
        description="Start a session, show its nodes, resources and pending demands as `ray status` does, and end it.",
    )
    parser.add_argument(
        "--num-cpus", type=float, metavar="N", help="CPUs of the session (default: those of this machine)"
    )
    parser.add_argument("--num-gpus", type=float, metavar="N", help="GPUs of the session (default: none)")
    parser.add_argument(
        "--resources", type=json.loads, metavar="JSON", help="other resources, for example '{\"disk\": 2}'"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show the usage of each node too")
    return parser


def run(args: argparse.Namespace) -> int:
    """Start a session, print its status, and end it. A session lives in one process, so there is no other to ask."""
    import miniray as ray

    ray.init(num_cpus=args.num_cpus, num_gpus=args.num_gpus, resources=args.resources)
    try:
        print(status_text(args.verbose))
    finally:
        ray.shutdown()
    return 0


def status_text(verbose: bool = False) -> str:
    """The status of the running session, as `ray status` prints it.

    Without a session, raises what `miniray.nodes` does.
    """
    import miniray as ray

    heading = f"======== Autoscaler status: {datetime.datetime.now()} ========"
    rule = "-" * len(heading)
    nodes = ray.nodes()
    lines = [
        heading,
        "Node status",
        rule,
        "Active:",
        *([f" 1 node_{node['NodeID']}" for node in nodes if node["Alive"]] or [" (no active nodes)"]),
        "Pending:",
        " (no pending nodes)",
        "Recent failures:",
        *([f" node_{node['NodeID']}: NodeTerminated" for node in nodes if not node["Alive"]] or [" (no failures)"]),
        "",
        "Resources",
        rule,
        "Total Usage:",
        *[" " + line for line in usage(ray.cluster_resources(), ray.available_resources(), *reserved())],
        "",
        "From request_resources:",
        " (none)",
        "Pending Demands:",
        *(demands() or [" (no resource demands)"]),
    ]
    if verbose:
        from miniray import state

        for row in state.list_nodes(filters=[("state", "=", "ALIVE")]):
            lines += [
                "",
                f"Node: {row['node_id']} ({row['node_name']})",
                " Usage:",
                *["  " + line for line in usage(row["resources_total"], row["resources_available"], {}, {})],
            ]
    return "\n".join(lines)


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


def reserved() -> tuple[dict[str, float], dict[str, float]]:
    """The amounts that placement groups have reserved, and the part of these that their tasks and actors use."""
    from miniray.util import state

    held: Counter[str] = Counter()
    for group in state.list_placement_groups(detail=True, limit=10_000, filters=[("state", "=", "CREATED")]):
        for bundle in group.bundles or ():
            held.update(bundle["unit_resources"])
    used: Counter[str] = Counter()
    if held:
        for task in state.list_tasks(detail=True, limit=10_000, filters=[("state", "=", "RUNNING")]):
            if task.placement_group_id and task.type == "NORMAL_TASK":
                used.update(task.required_resources)
        for actor in state.list_actors(detail=True, limit=10_000, filters=[("state", "=", "ALIVE")]):
            if actor.placement_group_id:
                used.update(actor.required_resources)
    return dict(held), dict(used)


def demands() -> list[str]:
    """One line per shape of pending request, with the number of tasks, actors or groups that wait with it."""
    from miniray.util import state
    from miniray.util.placement_group import placement_group_table

    waiting: Counter[str] = Counter()
    for task in state.list_tasks(detail=True, limit=10_000, filters=[("state", "=", "PENDING_NODE_ASSIGNMENT")]):
        if task.type != "ACTOR_TASK" and task.required_resources:  # a call waits for its actor, not for resources
            waiting[str(dict(sorted(task.required_resources.items())))] += 1
    lines = [f" {for_terminal(shape)}: {count}+ pending tasks/actors" for shape, count in waiting.items()]
    groups: Counter[str] = Counter()
    for group in placement_group_table().values():
        if group["state"] in ("PENDING", "RESCHEDULING"):
            shapes = Counter(str(dict(sorted(bundle.items()))) for bundle in group["bundles"].values())
            groups[", ".join(f"{shape} * {n}" for shape, n in shapes.items()) + f" ({group['strategy']})"] += 1
    return lines + [f" {for_terminal(shape)}: {count}+ pending placement groups" for shape, count in groups.items()]
