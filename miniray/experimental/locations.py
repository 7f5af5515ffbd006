"""Where objects are. Ray: ray.experimental.locations."""

from __future__ import annotations

from typing import Any

from ..api import session_or_start
from ..object_ref import ObjectRef

__all__ = ["get_local_object_locations", "get_object_locations"]


def get_object_locations(obj_refs: list[ObjectRef], timeout_ms: int = -1) -> dict[ObjectRef, dict[str, Any]]:
    """For each reference `node_ids` (hexadecimal; [] for a value that has no copy in a store: a small one, or one that is not there
    yet), `object_size` in bytes, None while it is not known, and `did_spill`: whether there is a file of it. TypeError for what is
    no reference."""
    for ref in obj_refs:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"obj_refs are references to objects, and {ref!r} is not")
    with session_or_start().locked():
        return {ref: _location(ref._record) for ref in obj_refs}


def _location(record: Any) -> dict[str, Any]:
    nodes = (record.locations or {}).values()
    return {
        "node_ids": [node.hex for node in nodes],
        "object_size": record.size if record.size >= 0 else None,
        "did_spill": any(record.number in node.store.files for node in nodes),
    }


def get_local_object_locations(obj_refs: list[ObjectRef]) -> dict[ObjectRef, dict[str, Any]]:
    """The same, as far as this process knows, which is all there is."""
    return get_object_locations(obj_refs)
