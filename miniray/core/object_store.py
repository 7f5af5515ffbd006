"""The object stores: one per node, with a capacity, copies and primaries, eviction and spilling.

A small value stays with its owner and is in no store (Ray's in-process memory store). A large one has a primary copy on the
node where it was made, and copies where it was fetched. When a store is over its capacity the least recently used copies go,
and then the least recently used primaries are spilled to files. Ray: plasma, LocalObjectManager.
"""
from __future__ import annotations

from .actions import DropValues, RestoreObject, SpillObject
from .records import DROPPED, LOST, READY, SPILLED, NodeRecord, ObjectRecord

INLINE_BYTES = 100 * 1024       # Ray: max_direct_call_object_size


class ObjectStore:
    """What one node holds. objects: number -> record, least recently used first. All sizes are bytes."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.used = self.peak = self.spilled = 0
        self.objects: dict[int, ObjectRecord] = {}
        self.spilling: dict[int, ObjectRecord] = {}
        self.counters = {"created": 0, "evicted": 0, "spilled": 0, "restored": 0, "transferred": 0, "spill_failures": 0,
                         "fallback": 0, "spilled_bytes": 0, "restored_bytes": 0, "transferred_bytes": 0}

    def stats(self) -> dict[str, int]:
        """Everything counted, as one flat dict: bytes in use, capacity, objects, and each counter since the start."""
        return {"num_objects": len(self.objects), "used_bytes": self.used, "capacity_bytes": self.capacity,
                "peak_bytes": self.peak, "spilled_now_bytes": self.spilled, **self.counters}


class Stores:
    """What happens to large values across the nodes."""

    def __init__(self, cluster):
        self.cluster = cluster

    def created(self, now: float, obj: ObjectRecord, node: NodeRecord) -> None:
        """A large value was made on this node: its primary copy is there."""
        node.store.counters["created"] += 1
        if obj.size > node.store.capacity:
            node.store.counters["fallback"] += 1        # Ray: fallback allocation on disk
        self._place(now, obj, node)

    def fetched(self, now: float, obj: ObjectRecord, node: NodeRecord) -> None:
        """A value is used on this node: a copy comes there if there is none, and it counts as just used."""
        if obj.locations is None or not node.alive:
            return
        store = node.store
        if obj.number in store.objects:
            store.objects[obj.number] = store.objects.pop(obj.number)
            return
        store.counters["transferred"] += 1
        store.counters["transferred_bytes"] += obj.size
        self._place(now, obj, node)

    def _place(self, now: float, obj: ObjectRecord, node: NodeRecord) -> None:
        if obj.locations is None:
            obj.locations = {}
        obj.locations[node.number] = node
        store = node.store
        store.objects[obj.number] = obj
        store.used += obj.size
        store.peak = max(store.peak, store.used)
        if store.used > store.capacity:
            self._make_room(now, node)

    def _make_room(self, now: float, node: NodeRecord) -> None:
        store = node.store
        over = store.used - store.capacity - sum(o.size for o in store.spilling.values())
        for number, obj in list(store.objects.items()):
            if over <= 0:
                return
            if next(iter(obj.locations)) != node.number:        # a copy: the primary's node comes first
                self._remove(obj, node)
                store.counters["evicted"] += 1
                over -= obj.size
        for number, obj in list(store.objects.items()):
            if over <= 0:
                return
            if number not in store.spilling and obj.done == READY:
                store.spilling[number] = obj
                over -= obj.size
                self.cluster.actions.append(SpillObject(obj))

    def _remove(self, obj: ObjectRecord, node: NodeRecord) -> None:
        del obj.locations[node.number]
        node.store.objects.pop(obj.number, None)
        node.store.used -= obj.size

    def spilled(self, now: float, obj: ObjectRecord) -> None:
        """The primary stands in a file; the runtime has put what finds it in `value`."""
        node = next(iter(obj.locations.values()), None) if obj.locations else None
        if node is None or self.cluster.objects.get(obj.number) is not obj:
            return
        node.store.spilling.pop(obj.number, None)
        node.store.counters["spilled"] += 1
        node.store.counters["spilled_bytes"] += obj.size
        node.store.spilled += obj.size
        for holder in list(obj.locations.values()):
            self._remove(obj, holder)
        obj.locations[node.number] = node                       # the file belongs to the node that wrote it
        obj.done = SPILLED
        if obj.waiters or obj.dependents:
            self.wanted(now, obj)

    def spill_failed(self, now: float, obj: ObjectRecord, why: str) -> None:
        """The file could not be written: the value stays in memory."""
        for node in (obj.locations or {}).values():
            if node.store.spilling.pop(obj.number, None) is not None:
                node.store.counters["spill_failures"] += 1
        self.cluster.events.add(now, "spill_failed", f"object {obj.hex} could not be spilled: {why}", obj)

    def wanted(self, now: float, obj: ObjectRecord) -> None:
        """Somebody needs a spilled value."""
        self.cluster.actions.append(RestoreObject(obj))

    def restored(self, now: float, obj: ObjectRecord) -> None:
        """The value is in memory again, on the node that had spilled it."""
        if obj.done != SPILLED or self.cluster.objects.get(obj.number) is not obj:
            return
        node = next(iter(obj.locations.values()))
        obj.locations.clear()
        node.store.spilled -= obj.size
        node.store.counters["restored"] += 1
        node.store.counters["restored_bytes"] += obj.size
        obj.done = READY
        self._place(now, obj, node)
        self.cluster.ready.append(obj)

    def forget(self, obj: ObjectRecord) -> None:
        """The object goes: no node holds it any more."""
        for node in list(obj.locations.values()):
            node.store.spilling.pop(obj.number, None)
            if obj.done == SPILLED:
                node.store.spilled -= obj.size
            else:
                self._remove(obj, node)
        obj.locations = None

    def node_died(self, now: float, node: NodeRecord) -> list[ObjectRecord]:
        """All copies on the node are gone. Returns the objects that have none left."""
        lost, values = [], []
        for obj in list(self.cluster.objects.values()):
            if obj.locations is None or node.number not in obj.locations:
                continue
            del obj.locations[node.number]
            if not obj.locations:
                obj.locations = None
                obj.done = LOST
                lost.append(obj)
                values.append(obj.value)
                obj.value = DROPPED
        node.store.objects.clear()
        node.store.spilling.clear()
        node.store.used = node.store.spilled = 0
        if lost:
            self.cluster.actions.append(DropValues(values))
        return lost

    def lose(self, now: float, obj: ObjectRecord) -> bool:
        """Every copy of a large value is made to vanish, as a fault. Returns whether there was one."""
        if obj.locations is None or obj.done not in (READY, SPILLED):
            return False
        self.forget(obj)
        obj.done = LOST
        self.cluster.actions.append(DropValues([obj.value]))
        obj.value = DROPPED
        return True
