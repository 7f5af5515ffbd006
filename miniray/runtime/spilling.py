"""Spilling: values that do not fit into the object store are written to files until they are needed again.

The core decides what to spill and when; the functions here read and write the files, without the lock. While a file is
being written or read, another thread may drop, lose or restore the same value. So each function looks at `obj.value`
again, under the lock, before it stores its result: the thread that replaced the value first has won.
"""

from __future__ import annotations

from ..core.records import READY, NodeRecord, ObjectRecord
from ..exceptions import ObjectStoreFullError, OutOfDiskError
from .core_access import CoreAccess
from .spill_folder import SpilledFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def make_room(runtime: CoreAccess, node: NodeRecord, size: int) -> None:
    """Make room on a node for a large value that is about to be stored. size: in bytes.

    Values are spilled before the new one is stored, so that memory stays near the capacity. Raises ObjectStoreFullError
    if the store refuses further values, and OutOfDiskError if the values that are in the way cannot be spilled for lack
    of disk space.
    """
    runtime.tell(runtime.cluster.make_room, node, size)
    store = node.store
    if store.full:
        raise ObjectStoreFullError(
            f"the object store of node {node.name} accepts no more values: there is no room for {size} bytes, "
            f"{store.used} of {store.capacity} are in use"
        )
    if runtime.spill.disk_is_full and store.used + size > store.capacity:
        raise OutOfDiskError(
            f"node {node.name} has no room for {size} bytes: {store.used} of {store.capacity} are in use, "
            "and the disk is too full to spill other values"
        )


def spill(runtime: CoreAccess, obj: ObjectRecord) -> None:
    """Carry out SpillObject: write an object's value to a file, and report `object_spilled` or `spill_failed`."""
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
        if still:  # otherwise the value was dropped or lost while it was being written
            obj.value = spilled
        actions = cluster.object_spilled(now, obj) if still else []
    if not still:
        spilled.delete()
    del value
    runtime.spill.moved(spilled.length)
    runtime.carry_out(actions)


def read_back(runtime: CoreAccess, obj: ObjectRecord, spilled: SpilledFile) -> Any:
    """The value in a spilled value's file, or whatever has taken its place in `obj.value` meanwhile. Makes room for the
    value and reports `object_restored`. If the file cannot be read, the value is lost: reports `restore_failed`."""
    cluster = runtime.cluster
    with runtime.lock:
        now = runtime.now()
        if runtime.dropped:  # this may make room
            cluster.references_dropped(now, runtime.dropped)
        home = next(iter(obj.locations.values())) if obj.locations and obj.value is spilled else None
        actions = cluster.make_room(now, home, obj.size) if home is not None else cluster.settled(now)
    runtime.carry_out(actions)
    try:
        value = spilled.read()
    except OSError as problem:  # the value is lost, unless another thread has restored it and removed the file
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
        mine = mine and obj.status is READY  # otherwise the value is larger than the store and stays in its file
        if mine:
            obj.value = value
    runtime.spill.moved(spilled.length)
    runtime.carry_out(actions)
    return value
