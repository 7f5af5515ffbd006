"""Access to the core: the lock around it, events in, actions out.

The lock guards everything in `cluster`, and the value and status of its objects. While a thread holds it, that thread runs no
user code, no pickle, no `__del__`, no callback and no log call. So a thread does three things in turn: it takes the lock and
reports an event, it releases the lock, and it carries out the actions that the core has returned.

References that the program drops arrive in `dropped`. A finaliser may run on any thread, even on one that holds the lock, so
it only appends there. Whoever takes the lock next reports them first.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from ..core import actions as act
from ..core.cluster import NOTHING, Cluster
from ..core.records import NodeRecord
from .core_lock import CoreLock
from .spill_folder import SpilledFile, SpillFolder


class CoreAccess:
    """The core of one session behind its lock.

    carriers: for each class of action, the function that carries it out; filled by the classes below this one.
    closed: the session has been shut down, or is being shut down.
    """

    def __init__(self, options: dict[str, Any], dropped: deque):
        self.options = options
        self.lock = CoreLock()
        self.cluster = Cluster()
        self.now: Callable[[], float] = time.perf_counter
        self.epoch = time.time() - time.perf_counter()
        self.dropped = dropped
        self.closed = False
        self.spill = SpillFolder(options.get("object_spilling_directory"))
        self.carriers: dict[type, Callable[[Any], None]] = {
            act.Wake: _wake,
            act.DropValues: lambda action: drop_values(action.values),
        }

    @property
    def head(self) -> NodeRecord:
        """The node that the driver is on: the first that is alive."""
        return self.cluster.scheduler.alive[0]

    @contextmanager
    def locked(self) -> Iterator[Cluster]:
        """The lock, for a reader: what the program has dropped is reported first, also when the reader raises."""
        actions = NOTHING
        try:
            with self.lock:
                if self.dropped:
                    now = self.now()
                    self.cluster.references_dropped(now, self.dropped)
                    actions = self.cluster.settled(now)
                yield self.cluster
        finally:
            self.carry_out(actions)

    def drain(self) -> None:
        """Report what the program has dropped. Every call of `tell` does so, too."""
        with self.locked():
            return

    def tell(self, event: Callable[..., list], *args: Any) -> None:
        """Report an event to the core, as `self.tell(cluster.kill_actor, actor)`, and carry out the resulting actions."""
        with self.lock:
            now = self.now()
            if self.dropped:
                self.cluster.references_dropped(now, self.dropped)
            actions = event(now, *args)
        self.carry_out(actions)

    def carry_out(self, actions: list) -> None:
        """Carry out the core's actions, in order, without the lock. Then drop the values that nobody can reach any more."""
        for action in actions:
            self.carriers[type(action)](action)
        if self.cluster.references.freed:
            with self.lock:
                freed = self.cluster.references.take_freed()
            drop_values(freed)


def _wake(action: act.Wake) -> None:
    action.waiter.token()


def drop_values(values: list) -> None:
    """Drop values outside the lock, since their finalisers may run user code. A spilled value's file is deleted."""
    for value in values:
        if type(value) is SpilledFile:
            value.delete()
