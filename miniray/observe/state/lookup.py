"""From an id, or from a reference or handle that has one, to the record."""

from __future__ import annotations

from typing import Any

from ...core.cluster import Cluster
from ...core.records import ObjectRecord
from ...ids import INDEX_BITS, creation_task_hex, object_hex

BEFORE_JOB = slice(0, -8)  # the last eight digits of an actor's or a group's id are its job's
CREATION = "f" * 16  # the first digits of the id of an actor's creation task, and of its handle's object


def id_text(thing: Any) -> str:
    """The id of a reference, an actor handle, a placement group or an id, as hexadecimal text. TypeError for anything
    without an id."""
    if isinstance(thing, str):
        return thing
    for owner in (getattr(thing, "_actor_id", None), getattr(thing, "id", None), thing):
        if owner is not None and callable(getattr(owner, "hex", None)):
            return str(owner.hex())
    raise TypeError(f"expected an id, a reference, an actor or a placement group, not {type(thing).__name__}")


def object_id(obj: ObjectRecord) -> str:
    """The id of an object as text. As in Ray, an actor's handle is the first object of its creation task."""
    if obj.actor is not None and obj.actor.handle is obj:
        return object_hex(creation_task_hex(obj.actor.number), 1)
    return obj.hex


def find(cluster: Cluster, text: str) -> Any:
    """The record of the task, object, actor or placement group with this id, or None. Upper case is accepted.

    The length of an id tells the kind of record, and its digits contain the record's number. The caller holds the lock.
    """
    text = text.lower()
    try:
        number = int(text[BEFORE_JOB] if len(text) in (32, 36) else text[:16], 16)
        index = int.from_bytes(bytes.fromhex(text[48:]), "little")
        creator = cluster.actors.get(int(text[16:40], 16)) if text.startswith(CREATION) else None
    except ValueError:
        return None
    if len(text) == 56:
        found: Any = creator.handle if creator is not None else cluster.objects.get(number << INDEX_BITS | index)
        return found if found is not None and text in (object_id(found), found.hex) else None
    if len(text) == 48:
        found = creator.creation if creator is not None else cluster.tasks.get(number)
    else:
        tables: dict[int, dict[int, Any]] = {32: cluster.actors, 36: cluster.placement_groups}
        found = tables.get(len(text), {}).get(number)
    return found if found is not None and found.hex == text else None
