"""A cluster whose environment acts at random: nodes come and go, files are written, actions are carried out late."""

from __future__ import annotations

import heapq
import random

from miniray.core.invariants import check
from miniray.core.object_store import INLINE_BYTES
from miniray.core.records import READY, SPILLED, PlacementGroupRecord, units
from tests.core.fake_runtime import THERE, FakeRuntime

SMALL, LARGE = 100, 4 * INLINE_BYTES
STORE = 3 * LARGE  # three large values fill a store, so that there is something to evict and to spill
NODES = ({"CPU": 2}, {"CPU": 4}, {"CPU": 2, "GPU": 2}, {"CPU": 1, "fast": 1})


class RandomCluster:
    """A cluster, and the random generator that decides everything.

    Each method that returns a bool is a step that may be possible or not; it returns whether it was.
    """

    def __init__(self, chance: random.Random):
        self.chance = chance
        self.runtime = FakeRuntime(record_limit=8)
        self.cluster = self.runtime.cluster
        self.cluster.worker_pool.dead_kept = self.cluster.actor_manager.dead_kept = 5
        self.groups: list[PlacementGroupRecord] = []
        self.last_node = 0
        self.add_node()

    def check(self) -> None:
        """Check every invariant, and compare with the programs' own account of their references and values."""
        check(self.cluster, self.runtime.references())
        for obj in self.cluster.objects.values():
            if obj.status in THERE:
                self.runtime.value_of(obj)

    # ------------------------------------------------------------ nodes and groups

    def add_node(self) -> bool:
        """A node joins."""
        if len(self.cluster.scheduler.alive) >= 4:
            return False
        self.last_node += 1
        resources, labels = units(self.chance.choice(NODES)), {"zone": self.chance.choice("ab")}
        self.runtime.tell(self.cluster.add_node, self.last_node, resources, labels, STORE)
        return True

    def remove_node(self) -> bool:
        """A node dies. The last one stays, for the driver."""
        if len(self.cluster.scheduler.alive) < 2:
            return False
        self.runtime.tell(self.cluster.remove_node, self.chance.choice(self.cluster.scheduler.alive))
        return True

    def remove_group(self) -> bool:
        """`remove_placement_group`."""
        known = len(self.groups)
        if known:
            self.runtime.tell(self.cluster.remove_placement_group, self.groups.pop(self.chance.randrange(known)))
        return bool(known)

    # ------------------------------------------------------------ what the runtime does in its own time

    def carry_out(self) -> bool:
        """Actions are carried out: those of the oldest event, or of another event before them."""
        waiting = len(self.runtime.outbox)
        if waiting:
            self.runtime.carry_out(0 if self.chance.random() < 0.8 else self.chance.randrange(waiting))
        return bool(waiting)

    def worker_starts(self) -> bool:
        """A worker that was told to start has started."""
        ordered = bool(self.runtime.starting)
        if ordered:
            self.runtime.worker_started(self.chance.choice(self.runtime.starting))
        return ordered

    def file_is_done(self) -> bool:
        """A file was written or read, or could not be."""
        well, runtime = self.chance.random() < 0.85, self.runtime
        if runtime.spills and (not runtime.reads or self.chance.random() < 0.5):
            runtime.spilled(*self.chance.choice(runtime.spills), well)
        elif runtime.reads:
            runtime.read(*self.chance.choice(runtime.reads), well)
        else:
            return False
        return True

    def lose_object(self) -> bool:
        """Every copy of a large value vanishes."""
        large = [
            obj for obj in self.cluster.objects.values() if obj.locations is not None and obj.status in (READY, SPILLED)
        ]
        if large:
            self.runtime.tell(self.cluster.lose_object, self.chance.choice(large))
        return bool(large)

    def timer(self) -> bool:
        """A time that the core asked for has come."""
        due = bool(self.runtime.timers)
        if due:
            self.runtime.now = max(self.runtime.now, heapq.heappop(self.runtime.timers))
            self.runtime.tell(self.cluster.timer)
        return due
