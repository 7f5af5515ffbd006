"""The object stores: one per node, with a capacity, copies and primaries, eviction and spilling.

A small value stays with its owner and is in no store (Ray: the in-process memory store). A large value has a primary
copy on the node where it was made, and further copies on the nodes that fetched it.

When a store exceeds its capacity, it first evicts copies whose primary is on another node, and then spills primaries to
files; in both cases the least recently used go first. The runtime writes the file and reports it (`spilled`).

A spilled value counts as available: a task that takes it can start, and reads it back (`restored`). So a task's
arguments need not all be in memory before it starts. The file stays as long as the value lives, so a value is written
only once: when the restored value must leave memory again, it does so at no cost (`_evict_to_file`). A value larger
than the whole store is spilled at once and is never restored (Ray: fallback allocation).

Ray: plasma, LocalObjectManager.
"""

from __future__ import annotations

from .actions import DropValues, SpillObject
from .records import DROPPED, LOST, READY, SPILLED, NodeRecord, ObjectRecord
from .tables import Tables
from .transitions import move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_SAMPLES = 1_000
"""Of a store's history. When there are more, every second one is dropped, so that they still cover the whole run."""

INLINE_BYTES = 100 * 1024  # a larger value goes into a store. Ray: max_direct_call_object_size


class ObjectStore:
    """What one node holds. All sizes are in bytes."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.full = 0  # how many injected faults make the store refuse new values at the moment
        self.used = 0  # bytes of `objects`
        self.peak = 0  # the highest value of `used` so far
        self.spilled = 0  # bytes of the values that are only in files
        self.objects: dict[int, ObjectRecord] = {}  # number -> a value in memory, least recently used first
        self.files: dict[int, Any] = {}  # number -> the file of a value that was spilled here, in memory or not; opaque
        self.spilling: dict[int, ObjectRecord] = {}  # number -> a value whose file is being written; still in `objects`
        self.samples: list[tuple[float, int, int]] = []  # time, `used`, `spilled`, whenever a value came or went
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

    def sample(self, now: float) -> None:
        """Note how full the store is."""
        if len(self.samples) >= MOST_SAMPLES:
            del self.samples[1::2]
        self.samples.append((now, self.used, self.spilled))

    def stats(self) -> dict[str, int]:
        """All numbers of the store in one flat dict: the current ones, and the counters since the node joined."""
        return {
            "num_objects": len(self.objects),
            "used_bytes": self.used,
            "capacity_bytes": self.capacity,
            "peak_bytes": self.peak,
            "spilled_now_bytes": self.spilled,
            **self.counters,
        }


class Stores:
    """Decides where large values are: on which nodes, in memory or in a file."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster

    def created(self, now: float, obj: ObjectRecord, node: NodeRecord) -> None:
        """Store a large value on the node where it was made. This is its primary copy."""
        store = node.store
        store.counters["created"] += 1
        self.cluster.totals.sizes.add(obj.size)
        store.sample(now)  # values are freed without a time, so note the change since the last sample first
        self._add(obj, node)
        store.sample(now)
        if obj.size > store.capacity:
            store.counters["fallback"] += 1
            self._spill(obj, node)  # it never fits, so other values need not make room for it
        elif store.used > store.capacity:
            self.make_room(now, node)

    def make_room(self, now: float, node: NodeRecord, size: int = 0) -> None:
        """Evict copies and order spills until `size` more bytes fit, or nothing is left to evict or spill."""
        store = node.store
        if size > store.capacity:
            return
        over = store.used + size - store.capacity - sum(o.size for o in store.spilling.values())
        if over <= 0:
            return
        if len(self.cluster.scheduler.alive) > 1:  # with one node, every value is a primary
            copies = [obj for obj in store.objects.values() if next(iter(obj.locations)) != node.number]
            for obj in copies:
                self._remove(obj, node)
                store.counters["evicted"] += 1
                over -= obj.size
                if over <= 0:
                    return
        to_spill = []
        for number, obj in store.objects.items():
            if number not in store.spilling and obj.status is READY:
                to_spill.append(obj)
                over -= obj.size
                if over <= 0:
                    break
        for obj in to_spill:
            if obj.number in store.files:
                self._evict_to_file(obj, node)
            else:
                self._spill(obj, node)

    def _spill(self, obj: ObjectRecord, node: NodeRecord) -> None:
        node.store.spilling[obj.number] = obj
        self.cluster.actions.append(SpillObject(obj))

    def _evict_to_file(self, obj: ObjectRecord, node: NodeRecord) -> None:
        """Drop a restored value from memory. Its file still exists, so nothing is written."""
        file = node.store.files[obj.number]
        node.store.counters["evicted"] += 1
        if obj.value is not file:  # otherwise the runtime is restoring it, and has not set the value yet
            self.cluster.references.freed.append(obj.value)
            obj.value = file
        self._in_file_only(obj, node)

    def _in_file_only(self, obj: ObjectRecord, node: NodeRecord) -> None:
        """The value is in no node's memory now. Its only location is the node that wrote the file."""
        for holder in list(obj.locations.values()):
            self._remove(obj, holder)  # in this process all copies share the memory, which must be free now
        obj.locations[node.number] = node
        node.store.spilled += obj.size
        move(obj, SPILLED)

    def fetched(self, now: float, obj: ObjectRecord, node: NodeRecord) -> None:
        """A value is used on this node: add a copy if the node has none, and mark it as the most recently used."""
        if obj.locations is None or not node.alive:
            return
        store = node.store
        if node.number in obj.locations:
            if obj.status is READY:
                store.objects[obj.number] = store.objects.pop(obj.number)
            return
        store.counters["transferred"] += 1
        store.counters["transferred_bytes"] += obj.size
        if obj.status is READY:  # otherwise the runtime reads the file for this one use
            self._add(obj, node)
            store.sample(now)
            if store.used > store.capacity:
                self.make_room(now, node)

    @staticmethod
    def _add(obj: ObjectRecord, node: NodeRecord) -> None:
        """Count the value as in memory on this node, and as the most recently used."""
        if obj.locations is None:
            obj.locations = {}
        obj.locations[node.number] = node
        store = node.store
        store.objects[obj.number] = obj
        store.used += obj.size
        store.peak = max(store.peak, store.used)

    def _remove(self, obj: ObjectRecord, node: NodeRecord) -> None:
        """Count the value as no longer in memory on this node."""
        del obj.locations[node.number]
        node.store.objects.pop(obj.number, None)
        node.store.used -= obj.size

    def spilled(self, now: float, obj: ObjectRecord) -> None:
        """The runtime has written a value's file and stored it in `obj.value`. Ignored if nobody wants the file."""
        node = self.spilling_node(obj)
        if node is None:
            return
        store = node.store
        del store.spilling[obj.number]
        store.counters["spilled"] += 1
        store.counters["spilled_bytes"] += obj.size
        store.files[obj.number] = obj.value
        self._in_file_only(obj, node)
        store.sample(now)
        self.cluster.events.add(now, "spilled", f"object {obj.hex}, {obj.size} bytes, was spilled to a file", obj)

    @staticmethod
    def spilling_node(obj: ObjectRecord) -> NodeRecord | None:
        """The node that was told to spill the value. None if the node has died or the value was freed since: nobody
        wants a file that is written then."""
        node: NodeRecord
        for node in (obj.locations or {}).values():
            if node.store.spilling.get(obj.number) is obj:
                return node
        return None

    def spill_failed(self, now: float, obj: ObjectRecord, why: str) -> None:
        """The runtime could not write the file. The value stays in memory; `make_room` may order the spill again."""
        node = self.spilling_node(obj)
        if node is not None:
            del node.store.spilling[obj.number]
            node.store.counters["spill_failures"] += 1
        self.cluster.events.add(now, "spill_failed", f"object {obj.hex} could not be spilled: {why}", obj)

    def restored(self, now: float, obj: ObjectRecord) -> None:
        """The runtime has read a spilled value from its file: it is in memory again, on the node that spilled it. A
        value larger than the store stays in its file; only the reader has it."""
        node = next(iter(obj.locations.values()))
        store = node.store
        store.counters["restored"] += 1
        store.counters["restored_bytes"] += obj.size
        self.cluster.events.add(
            now, "restored", f"object {obj.hex}, {obj.size} bytes, was read back from its file", obj
        )
        if obj.size > store.capacity:
            return
        obj.locations.clear()
        store.spilled -= obj.size
        move(obj, READY)
        self._add(obj, node)
        store.sample(now)
        if store.used > store.capacity:
            self.make_room(now, node)

    def forget(self, obj: ObjectRecord) -> None:
        """Remove the object from all stores. The caller drops the value; this drops the file of a value in memory."""
        for node in list(obj.locations.values()):
            node.store.spilling.pop(obj.number, None)
            file = node.store.files.pop(obj.number, None)
            if obj.status is SPILLED:  # its value is the file
                node.store.spilled -= obj.size
            else:
                self._remove(obj, node)
                if file is not None:
                    self.cluster.references.freed.append(file)
        obj.locations = None

    def node_died(self, now: float, node: NodeRecord) -> list[ObjectRecord]:
        """Drop all copies on a node that died. Returns the objects that have no copy left; they are LOST."""
        lost, values = [], []
        for obj in list(self.cluster.objects.values()):
            if obj.locations is None or node.number not in obj.locations:
                continue
            del obj.locations[node.number]
            if not obj.locations:
                obj.locations = None
                lost.append(obj)
                if obj.status is READY:  # otherwise the value is one of the files, which are dropped below
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
        """Lose every copy of a large value: an injected fault. Returns False if it has no copy in a store."""
        if obj.locations is None or obj.status not in (READY, SPILLED):
            return False
        self.forget(obj)
        move(obj, LOST)
        self.cluster.actions.append(DropValues([obj.value]))
        obj.value = DROPPED
        return True
