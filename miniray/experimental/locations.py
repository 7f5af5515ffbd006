"""The locations of objects: on which nodes they have copies. Ray: ray.experimental.locations."""

from __future__ import annotations

from typing import Any

from ..object_ref import ObjectRef
from ..session import session_or_start

__all__ = ["get_local_object_locations", "get_object_locations"]


def get_object_locations(obj_refs: list[ObjectRef[Any]], timeout_ms: int = -1) -> dict[ObjectRef[Any], dict[str, Any]]:
    """Return a dict for each reference, which tells where its object is.

    node_ids: the nodes whose object stores have a copy, in hex. [] if there is none: the value is small, or does not
    exist yet. object_size: in bytes; None while it is unknown. did_spill: whether a node has spilled the object to a
    file.

    Raises TypeError if an item is not an ObjectRef. timeout_ms is accepted as in Ray; the answer comes at once.
    """
    for ref in obj_refs:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"obj_refs must be references to objects, not {ref!r}")
    with session_or_start().locked():
        return {ref: _location(ref._record) for ref in obj_refs}


def _location(record: Any) -> dict[str, Any]:
    nodes = (record.locations or {}).values()
    return {
        "node_ids": [node.hex for node in nodes],
        "object_size": record.size if record.size >= 0 else None,
        "did_spill": any(record.number in node.store.files for node in nodes),
    }


def get_local_object_locations(obj_refs: list[ObjectRef[Any]]) -> dict[ObjectRef[Any], dict[str, Any]]:
    """The same as `get_object_locations`. (In Ray, it asks only the local process.)"""
    return get_object_locations(obj_refs)
