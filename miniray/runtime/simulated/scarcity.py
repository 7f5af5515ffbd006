"""Scarcity: whether the order of submissions and reports decides who gets resources.

As long as every task finds room at once, it makes no difference whether another task ends before or after it is
submitted. Once tasks may have to wait, the order can decide who runs first: of two tasks that need one CPU and two, or
of two that become ready when an argument does. Then an exhaustive search must try both orders (see `schedules`). Tasks
that make the same demand run in the order of their submissions, whenever others end. So they alone are not scarce.

Which worker of a node runs a task makes no difference here, although a program can ask for the worker's id.
"""

from __future__ import annotations

from ...core.records import ACTOR_CREATION_TASK, UNIT, NodeRecord, SchedulingClass, TaskRecord


class Demand:
    """What the tasks and actors of a session have asked for.

    It is counted as if no task ever ended, so the answer is the same in whichever order they end.
    """

    def __init__(self) -> None:
        self._held: dict[str, int] = {}  # units by resource
        self._may_wait: set[SchedulingClass] = set()  # the demands that perhaps did not find room
        self._some_queue_late = False  # a report puts some task into its queue, not the submission

    def is_scarce_with(self, task: TaskRecord, node: NodeRecord) -> bool:
        """Count a task or the creation of an actor. Returns whether the order may make a difference from now on. node:
        the only one."""
        wanted: SchedulingClass = task.spec.scheduling_class
        if not wanted.plain or wanted.devices:  # it chooses a place, or a device by its number
            return True
        need, hold = wanted.need, wanted.hold
        if "CPU" not in need and task.spec.kind != ACTOR_CREATION_TASK:  # it waits while many workers are starting
            need, hold = {**need, "CPU": UNIT}, {**hold, "CPU": UNIT}
        if any(self._held.get(name, 0) + units > node.total.get(name, 0) for name, units in need.items()):
            self._may_wait.add(wanted)
        for name, units in hold.items():
            self._held[name] = self._held.get(name, 0) + units
        if any(dep.task is not None for dep in task.deps or ()) or task.spec.retry_exceptions:
            self._some_queue_late = True
        return len(self._may_wait) > 1 or bool(self._may_wait) and self._some_queue_late
