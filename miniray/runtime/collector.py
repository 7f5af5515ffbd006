"""Measures against many live records: Python's cyclic collector runs less often, and unused functions are released."""

from __future__ import annotations

import gc
from collections import deque

from ..core.cluster import Cluster
from .core_lock import core_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHECK = 0xFF  # a mask: a submission adjusts the pace if these bits of `cluster.number` are 0, about once in 256 times
MANY_TASKS = 500  # with more live tasks than this, the collector runs less often
RELAXED_THRESHOLDS = 200_000, 10, 10  # for gc.set_threshold
FORGOTTEN_BYTES = 1 << 20  # the tables are searched only if forgotten functions hold at least this much


class CollectorPace:
    """Lets the cyclic collector run less often while many records are alive.

    The records hold no cycles, but the collector would walk through all of them again and again. When few records are
    left, or the session ends, the program's own thresholds are restored.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None

    def adjust(self, num_tasks: int) -> None:
        """Raise the thresholds if many tasks are alive, otherwise restore them. The caller holds the lock."""
        if num_tasks <= MANY_TASKS:
            self.restore()
        elif self._before is None and core_lock.collects:
            self._before = gc.get_threshold()
            gc.set_threshold(*map(max, RELAXED_THRESHOLDS, self._before))

    def restore(self) -> None:
        """Restore the thresholds that the program had set."""
        if self._before is not None:
            gc.set_threshold(*self._before)
            self._before = None


class ForgottenFunctions:
    """Captured functions and classes that the program has dropped. The records of their tasks are kept for the state
    rows, and would keep alive everything that the functions have captured.

    captured: the forgotten functions; finalisers append to it, without a lock.
    """

    def __init__(self) -> None:
        self.captured: deque[Any] = deque()
        self._still_needed_bytes = 0  # the size of those that the last search found to be still in use

    def worth_a_search(self) -> bool:
        """Whether the forgotten functions are large enough to justify a walk through the tables. Asked whenever a
        function is captured, so that a notebook does not grow when its cells are run again and again."""
        forgotten_bytes: int = sum(captured.size for captured in list(self.captured))
        return forgotten_bytes >= FORGOTTEN_BYTES + 2 * self._still_needed_bytes

    def release(self, cluster: Cluster) -> list[Any]:
        """Remove the forgotten functions from the records of all tasks, except those that a task may still run.

        The caller holds the lock, and drops the returned functions after it has released the lock, since their
        finalisers are the user's code.
        """
        tasks = [
            *cluster.tasks.values(),
            *(actor.creation for actor in cluster.actors.values() if actor.creation),
            *(obj.task for obj in cluster.objects.values() if obj.task is not None),
        ]
        needed = {id(task.spec.function) for task in tasks if task.args is not None}
        found = {id(captured): captured for captured in (self.captured.popleft() for _ in range(len(self.captured)))}
        kept = [captured for number, captured in found.items() if number in needed]
        for task in tasks:
            function = task.spec.function
            if function is not None and id(function) in found and id(function) not in needed:
                task.spec.function = None
        self.captured.extend(kept)
        self._still_needed_bytes = sum(captured.size for captured in kept)
        return list(found.values())
