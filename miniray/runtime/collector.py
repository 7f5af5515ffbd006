"""Many records alive: how often Python's cyclic collector runs then, and which captured functions can be released."""

from __future__ import annotations

import gc
from collections import deque
from typing import Any

from ..core.cluster import Cluster

CHECK = 0xFF  # the pace is looked at after so many submissions
MANY = 500  # so many live tasks slow the collector down
PACE = 50_000, 10, 10  # its thresholds then
FORGOTTEN_BYTES = 1 << 20  # so much must have been forgotten before the tables are searched


class CollectorPace:
    """Lets the cyclic collector run less often while many records are alive.

    They hold no cycles, and the collector would walk through all of them again and again. The thresholds are the program's own
    before and afterwards.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None

    def adjust(self, num_tasks: int) -> None:
        """Raise the thresholds if many tasks are alive, and restore them if not."""
        if num_tasks <= MANY:
            self.restore()
        elif self._before is None and gc.isenabled():
            self._before = gc.get_threshold()
            gc.set_threshold(*map(max, PACE, self._before))

    def restore(self) -> None:
        """Set the thresholds that the program had."""
        if self._before is not None:
            gc.set_threshold(*self._before)
            self._before = None


class ForgottenFunctions:
    """Captured functions and classes that the program has dropped. The records of their tasks stay for the state rows, and would
    keep everything that the functions have captured.

    captured: appended to by finalisers.
    """

    def __init__(self) -> None:
        self.captured: deque[Any] = deque()
        self._still_needed_bytes = 0  # of those that a search found in use

    def worth_a_search(self) -> bool:
        """Whether enough bytes were forgotten to walk through the tables. Asked when another function is captured, so that a
        notebook whose cells run again and again does not grow."""
        return sum(captured.size for captured in list(self.captured)) >= FORGOTTEN_BYTES + 2 * self._still_needed_bytes

    def release(self, cluster: Cluster) -> list[Any]:
        """Remove the forgotten functions from the tasks' records, except from tasks that may still run. The caller holds the lock,
        and drops the returned functions after it has released it: their finalisers are the user's."""
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
