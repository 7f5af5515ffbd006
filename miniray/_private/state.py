"""Tables of actors and of the resources of each node, as dicts with Ray's old keys. Ray: ray._private.state.

`miniray.util.state` is the public API, and shows more. All functions raise an error if no session is running:
RaySystemError from `actors` and the functions of `miniray.api`, ConnectionError from the others.
"""

from __future__ import annotations

from typing import Any

from miniray.api import available_resources, cluster_resources, nodes
from miniray.core.records import amounts
from miniray.observe.timeline.chrome import timeline
from miniray.observe.state.book import book_rows
from miniray.observe.state.ray_rows import StateResource
from miniray.util.state import running

__all__ = [
    "actors",
    "available_resources",
    "available_resources_per_node",
    "cluster_resources",
    "nodes",
    "timeline",
    "total_resources_per_node",
]


def actors(actor_id: str | None = None) -> dict[str, Any]:
    """Return a dict with the row of each actor, dead ones included, by id. With an id, return only its row, or {}.

    The keys of a row are ActorID, ActorClassName, IsDetached, Name, JobID, Address and OwnerAddress (each with
    IPAddress, Port and NodeID), State, NumRestarts, Timestamp, StartTime and EndTime (milliseconds since 1970; 0 if not
    reached), DeathCause (a text, "" while the actor lives; in Ray a protobuf message) and Pid.
    """
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in nodes()}
    found = {row["actor_id"]: _row(row, addresses) for row in book_rows(running(), StateResource.ACTORS)}
    return found if actor_id is None else found.get(actor_id, {})


def _row(row: dict[str, Any], addresses: dict[str, str]) -> dict[str, Any]:
    started, ended = int(row["alive_time_ms"] or 0), int(row["death_time_ms"] or 0)
    return {
        "ActorID": row["actor_id"],
        "ActorClassName": row["class_name"],
        "IsDetached": row["is_detached"],
        "Name": row["name"],
        "JobID": row["job_id"],
        "Address": _address(row["node_id"] or "", addresses),
        "OwnerAddress": _address(next(iter(addresses)), addresses),
        "State": row["state"],
        "NumRestarts": row["num_restarts"],
        "Timestamp": float(ended or started),
        "StartTime": started,
        "EndTime": ended,
        "DeathCause": row["death_cause"] or "",
        "Pid": row["pid"],
    }


def _address(node_id: str, addresses: dict[str, str]) -> dict[str, Any]:
    return {"IPAddress": addresses.get(node_id, ""), "Port": 0, "NodeID": node_id}


def available_resources_per_node() -> dict[str, dict[str, float]]:
    """Return the free resources of each living node, by node id. A resource that is used up has no key."""
    with running().locked() as cluster:
        return {
            node.hex: {name: amount for name, amount in amounts(node.available).items() if amount}
            for node in cluster.scheduler.alive
        }


def total_resources_per_node() -> dict[str, dict[str, float]]:
    """Return the total resources of each living node, by node id."""
    with running().locked() as cluster:
        return {node.hex: amounts(node.total) for node in cluster.scheduler.alive}
