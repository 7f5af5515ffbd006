"""Spilling: values that do not fit into the object store are written to files until they are needed again."""

from __future__ import annotations

from typing import Any

from ..core.records import READY, NodeRecord, ObjectRecord
from ..exceptions import ObjectStoreFullError, OutOfDiskError
from .core_access import CoreAccess
from .spill_folder import SpilledFile


def make_room(runtime: CoreAccess, node: NodeRecord, size: int) -> None:
    """A large value is about to be stored on a node: what must be spilled for it is spilled first, so that memory stays near the
    capacity. Raises ObjectStoreFullError, or OutOfDiskError when the disk took no more of what is in the way."""
    runtime.tell(runtime.cluster.make_room, node, size)
    store = node.store
    if store.full:
        raise ObjectStoreFullError(
            f"the object store of node {node.name} takes no more: {size} bytes were to be stored, "
            f"{store.used} of {store.capacity} are in use"
        )
    if runtime.spill.disk_is_full and store.used + size > store.capacity:
        raise OutOfDiskError(
            f"{size} bytes were to be stored on node {node.name}, {store.used} of {store.capacity} are in use, "
            "and the disk has no room for values to be spilled"
        )


def spill(runtime: CoreAccess, obj: ObjectRecord) -> None:
    """Write an object's value to a file, as the core has ordered, and tell how that went."""
    value, cluster = obj.value, runtime.cluster
    try:
        spilled = runtime.spill.write(obj.number, value)
    except BaseException as problem:
        runtime.tell(cluster.spill_failed, obj, f"{type(problem).__name__}: {problem}")
        if isinstance(problem, Exception):
            return
        raise
    with runtime.lock:
        now = runtime.now()
        still = obj.value is value and cluster.store.spilling_node(obj) is not None
        if still:  # else it was let go of, or lost, while it was being written
            obj.value = spilled
        actions = cluster.object_spilled(now, obj) if still else []
    if not still:
        spilled.delete()
    del value
    runtime.spill.moved(spilled.length)
    runtime.carry_out(actions)


def read_back(runtime: CoreAccess, obj: ObjectRecord, spilled: SpilledFile) -> Any:
    """What a spilled value's file holds, or what has taken its place meanwhile. A file that cannot be read is a lost value."""
    cluster = runtime.cluster
    with runtime.lock:
        now = runtime.now()
        if runtime.dropped:  # room that has come since the last entry
            cluster.references_dropped(now, runtime.dropped)
        home = next(iter(obj.locations.values())) if obj.locations and obj.value is spilled else None
        actions = cluster.make_room(now, home, obj.size) if home is not None else cluster.settled(now)
    runtime.carry_out(actions)
    try:
        value = spilled.read()
    except OSError as problem:  # no wonder when another thread has read it and removed the file
        with runtime.lock:
            now = runtime.now()
            lost = obj.value is spilled
            actions = cluster.restore_failed(now, obj, str(problem)) if lost else []
        runtime.carry_out(actions)
        return obj.value
    with runtime.lock:
        now = runtime.now()
        mine = obj.value is spilled
        actions = cluster.object_restored(now, obj) if mine else []
        mine = mine and obj.status is READY  # it has its place in memory again
        if mine:
            obj.value = value
    runtime.spill.moved(spilled.length)
    runtime.carry_out(actions)
    return value
