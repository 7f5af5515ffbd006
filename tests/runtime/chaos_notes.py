"""Notes that the tasks of the chaos programs make. A module travels by reference, so all workers see the same one."""

from __future__ import annotations

from collections import deque

from miniray.process import context

entered: deque = deque()  # the number of a task each time its code is entered; append is atomic, also without the GIL
disk: dict[int, dict[int, list]] = {}  # the parameter server's checkpoints, by run: they outlive it


def enter() -> None:
    """Note that this task's code runs."""
    entered.append(context.current.get().task.number)
