"""The object stores: one per node, with a capacity, copies and primaries, eviction and spilling.

A small value stays with its owner and is in no store (Ray's in-process memory store). A large one has a primary copy on the
node where it was made, and copies where it was fetched. When a store is over its capacity the least recently used copies go,
and then the least recently used primaries are spilled to files. A spilled value counts as being there: whoever takes it reads it
back, so that no task has to have all of its arguments in memory before it starts. Its file stays as long as the value does, so
that it is written once and no more: it goes from memory for nothing the next time. A value larger than a whole store stands in
a file from the beginning (Ray: fallback allocation). Ray: plasma, LocalObjectManager.
"""

from __future__ import annotations

from typing import Any

from .actions import DropValues, SpillObject
from .records import DROPPED, LOST, READY, SPILLED, NodeRecord, ObjectRecord
from .tables import Tables
from .transitions import move

INLINE_BYTES = 100 * 1024  # Ray: max_direct_call_object_size


class ObjectStore:
    """What one node holds. objects: number -> record, least recently used first. files: number -> the runtime's own name for
    the file (opaque) of each value that was spilled here, also of those that are in memory again. All sizes are bytes. full: how
    many faults are active by which new values are refused, whatever could be spilled."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.full = 0
        self.used = self.peak = self.spilled = 0
        self.objects: dict[int, ObjectRecord] = {}
        self.files: dict[int, Any] = {}
        self.spilling: dict[int, ObjectRecord] = {}
        self.counters = {
            "created": 0,
            "evicted": 0,
            "spilled": 0,
            "restored": 0,
            "transferred": 0,
            "spill_failures": 0,
            "fallback": 0,
            "spilled_bytes": 0,
            "restored_bytes": 0,
            "transferred_bytes": 0,
        }

    def stats(self) -> dict[str, int]:
        """Everything counted, as one flat dict: bytes in use, capacity, objects, and each counter since the start."""
        return {
            "num_objects": len(self.objects),
            "used_bytes": self.used,
            "capacity_bytes": self.capacity,
            "peak_bytes": self.peak,
            "spilled_now_bytes": self.spilled,
            **self.counters,
        }


class Stores:
    """What happens to large values across the nodes."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster

    def created(self, now: float, obj: ObjectRecord, node: NodeRecord) -> None:
        """A large value was made on this node: its primary copy is there."""
        store = node.store
        store.counters["created"] += 1
        self._add(obj, node)
        if obj.size > store.capacity:
            store.counters["fallback"] += 1
            self._spill(obj, node)  # by itself: nothing else has to make room for what never fits
        elif store.used > store.capacity:
            self.make_room(now, node)

    def make_room(self, now: float, node: NodeRecord, size: int = 0) -> None:
        """Let copies go and order spills until `size` more bytes fit, or nothing is left that could go."""
        store = node.store
        if size > store.capacity:
            return
        over = store.used + size - store.capacity - sum(o.size for o in store.spilling.values())
        if over <= 0:
            return
        if len(self.cluster.scheduler.alive) > 1:  # on one node there are none
            copies = [obj for obj in store.objects.values() if next(iter(obj.locations)) != node.number]
            for obj in copies:  # the primary is on another node
                self._remove(obj, node)
                store.counters["evicted"] += 1
                over -= obj.size
                if over <= 0:
                    return
        going = []
        for number, obj in store.objects.items():
            if number not in store.spilling and obj.status is READY:
                going.append(obj)
                over -= obj.size
                if over <= 0:
                    break
        for obj in going:
            if obj.number in store.files:
                self._back_to_file(obj, node)
            else:
                self._spill(obj, node)

    def _spill(self, obj: ObjectRecord, node: NodeRecord) -> None:
        node.store.spilling[obj.number] = obj
        self.cluster.actions.append(SpillObject(obj))

    def _back_to_file(self, obj: ObjectRecord, node: NodeRecord) -> None:
        """The value goes from memory, and is in its file as before."""
        file = node.store.files[obj.number]
        node.store.counters["evicted"] += 1
        if obj.value is not file:  # else it is being restored just now
            self.cluster.references.freed.append(obj.value)
            obj.value = file
        self._in_file_only(obj, node)

    def _in_file_only(self, obj: ObjectRecord, node: NodeRecord) -> None:
        for holder in list(obj.locations.values()):
            self._remove(obj, holder)  # of the same memory, which is to be free now
        obj.locations[node.number] = node  # the file belongs to the node that wrote it
        node.store.spilled += obj.size
        move(obj, SPILLED)

    def fetched(self, now: float, obj: ObjectRecord, node: NodeRecord) -> None:
        """A value is used on this node: a copy comes there if there is none, and it counts as just used."""
        if obj.locations is None or not node.alive:
            return
        store = node.store
        if node.number in obj.locations:
            if obj.status is READY:
                store.objects[obj.number] = store.objects.pop(obj.number)
            return
        store.counters["transferred"] += 1
        store.counters["transferred_bytes"] += obj.size
        if obj.status is READY:  # else it was read from its file and handed out
            self._add(obj, node)
            if store.used > store.capacity:
                self.make_room(now, node)

    @staticmethod
    def _add(obj: ObjectRecord, node: NodeRecord) -> None:
        if obj.locations is None:
            obj.locations = {}
        obj.locations[node.number] = node
        store = node.store
        store.objects[obj.number] = obj
        store.used += obj.size
        store.peak = max(store.peak, store.used)

    def _remove(self, obj: ObjectRecord, node: NodeRecord) -> None:
        del obj.locations[node.number]
        node.store.objects.pop(obj.number, None)
        node.store.used -= obj.size

    def spilled(self, now: float, obj: ObjectRecord) -> None:
        """The primary stands in a file; the runtime has put what finds it in `value`."""
        node = self.spilling_node(obj)
        if node is None:
            return
        store = node.store
        del store.spilling[obj.number]
        store.counters["spilled"] += 1
        store.counters["spilled_bytes"] += obj.size
        store.files[obj.number] = obj.value
        self._in_file_only(obj, node)
        self.cluster.events.add(now, "spilled", f"object {obj.hex}, {obj.size} bytes, was spilled to a file", obj)

    @staticmethod
    def spilling_node(obj: ObjectRecord) -> NodeRecord | None:
        """The node that was told to spill the value. None when it has died meanwhile, or the value was let go of: a file that is
        written then is for nobody."""
        for node in (obj.locations or {}).values():
            if node.store.spilling.get(obj.number) is obj:
                return node
        return None

    def spill_failed(self, now: float, obj: ObjectRecord, why: str) -> None:
        """The file could not be written: the value stays in memory, and is tried again when room is next needed."""
        node = self.spilling_node(obj)
        if node is not None:
            del node.store.spilling[obj.number]
            node.store.counters["spill_failures"] += 1
        self.cluster.events.add(now, "spill_failed", f"object {obj.hex} could not be spilled: {why}", obj)

    def restored(self, now: float, obj: ObjectRecord) -> bool:
        """The value was read back. Returns whether it is in memory again, on the node that had spilled it; one that never fits
        there stays in its file, and who read it has it."""
        node = next(iter(obj.locations.values()))
        store = node.store
        store.counters["restored"] += 1
        store.counters["restored_bytes"] += obj.size
        self.cluster.events.add(
            now, "restored", f"object {obj.hex}, {obj.size} bytes, was read back from its file", obj
        )
        if obj.size > store.capacity:
            return False
        obj.locations.clear()
        store.spilled -= obj.size
        move(obj, READY)
        self._add(obj, node)
        if store.used > store.capacity:
            self.make_room(now, node)
        return True

    def forget(self, obj: ObjectRecord) -> None:
        """The object goes: no node holds it any more."""
        for node in list(obj.locations.values()):
            node.store.spilling.pop(obj.number, None)
            file = node.store.files.pop(obj.number, None)
            if obj.status is SPILLED:  # its value is the file, and goes with it
                node.store.spilled -= obj.size
            else:
                self._remove(obj, node)
                if file is not None:
                    self.cluster.references.freed.append(file)
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
                lost.append(obj)
                if obj.status is READY:  # else it is one of the files
                    values.append(obj.value)
                obj.value = DROPPED
                move(obj, LOST)
        values.extend(node.store.files.values())
        node.store.objects.clear()
        node.store.spilling.clear()
        node.store.files.clear()
        node.store.used = node.store.spilled = 0
        if values:
            self.cluster.actions.append(DropValues(values))
        return lost

    def lose(self, now: float, obj: ObjectRecord) -> bool:
        """Every copy of a large value is made to vanish, as a fault. Returns whether there was one."""
        if obj.locations is None or obj.status not in (READY, SPILLED):
            return False
        self.forget(obj)
        move(obj, LOST)
        self.cluster.actions.append(DropValues([obj.value]))
        obj.value = DROPPED
        return True
