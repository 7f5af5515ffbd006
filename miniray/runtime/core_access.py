"""Access to the core: the lock around it, events in, actions out.

The lock guards everything in `cluster`, and the value and status of each object. While a thread holds the lock, it runs
no user code, no pickle, no `__del__`, no callback and no log call. So a thread takes three steps: it takes the lock and
reports an event, it releases the lock, and it carries out the actions that the core has returned.

References that the program drops go to the deque `dropped`. A finaliser may run on any thread, even on one that holds
the lock, so it only appends. The next thread that takes the lock to report an event reports the dropped references
first.

Values that the core no longer needs are dropped without the lock too, since their finalisers may be user code. The core
collects them in `references.freed`, and `carry_out` drops them after the actions. The same list takes the functions,
classes and exceptions that a record held when its last reference went (`records.aside`).
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import contextmanager
from functools import partial
from weakref import ref

from ..core import actions as act
from ..core.actions import Wake
from ..core.cluster import NOTHING, Cluster
from ..core.records import NodeRecord, aside
from .core_lock import core_lock
from .spill_folder import SpilledFile, SpillFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator


class CoreAccess:
    """The core of one session behind its lock.

    options: as given to `init`. dropped: where finalisers append the records of dropped references. now: the clock;
    seconds since an arbitrary moment, and `epoch` added to them makes a Unix time. carriers: for each class of action
    the function that carries it out; subclasses add theirs. closed: the session has been shut down, or is being shut
    down; set once, under the lock.
    """

    def __init__(self, options: dict[str, Any], dropped: deque[Any]):
        self.options = options
        self.lock = core_lock
        self.cluster = Cluster()
        limit_ms = (options.get("_system_config") or {}).get("kill_worker_timeout_milliseconds")
        if type(limit_ms) is int:
            self.cluster.ownership.drop_limit_s = limit_ms / 1000
        self.now: Callable[[], float] = time.perf_counter
        self.epoch = time.time() - time.perf_counter()
        self.dropped = dropped
        self.closed = False
        self.spill = SpillFolder(options.get("object_spilling_directory"))
        self.carriers: dict[type, Callable[[Any], None]] = {
            Wake: lambda action: action.waiter.token(),
            act.DropValues: lambda action: drop_values(action.values),
        }
        aside.put = partial(_put_aside, ref(self))

    @property
    def head(self) -> NodeRecord:
        """The driver's node: the first node that is alive."""
        node: NodeRecord = self.cluster.scheduler.alive[0]
        return node

    @contextmanager
    def locked(self) -> Iterator[Cluster]:
        """Hold the lock to read the tables. Dropped references are reported first; the resulting actions are carried
        out when the lock has been released, even if the reader raises."""
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
        """Report the references that the program has dropped. Every call of `tell` does so as well."""
        with self.locked():
            return

    def tell(self, event: Callable[..., list[Any]], *args: Any) -> None:
        """Report an event to the core, as in `self.tell(cluster.kill_actor, actor)`, and carry out the resulting
        actions.

        event: called with `now` and `args` under the lock; returns the list of actions. `tell` raises any error of the
        event.
        """
        with self.lock:
            now = self.now()
            if self.dropped:
                self.cluster.references_dropped(now, self.dropped)
            actions = event(now, *args)
        self.carry_out(actions)

    def carry_out(self, actions: list[Any]) -> None:
        """Carry out the core's actions in order, then drop the values that it has freed. The lock must not be held."""
        while True:
            for action in actions:
                if type(action) is Wake:  # the most frequent one
                    action.waiter.token()
                else:
                    self.carriers[type(action)](action)
            if not self.cluster.references.freed:
                return
            with self.lock:
                freed = self.cluster.references.take_freed()
            drop_values(freed)
            del freed
            # A function or a class that was among them may have held references. Nobody may come after us to report
            # these as dropped.
            actions = self._report_dropped() if self.dropped else NOTHING

    def _report_dropped(self) -> list[Any]:
        with self.lock:
            now = self.now()
            self.cluster.references_dropped(now, self.dropped)
            actions: list[Any] = self.cluster.settled(now)
        return actions


def _put_aside(access: Callable[[], CoreAccess | None], things: Any) -> None:
    """Take over objects of the program that a dropped record held. If this thread holds the lock, it drops them after
    it has released the lock; otherwise the caller drops them when this returns. They are never left to another thread:
    they may hold references, and there may be no further call that would report these. access: a weak reference."""
    runtime = access()
    if runtime is not None and runtime.lock.may_be_held_here():
        runtime.cluster.references.freed.append(things)


def drop_values(values: list[Any]) -> None:
    """Delete the files of spilled values. The caller then drops the list, and so all other values, without the lock."""
    for value in values:
        if type(value) is SpilledFile:
            value.delete()
