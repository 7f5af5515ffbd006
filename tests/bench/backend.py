"""The interface through which a workload uses each of the runtimes that the benchmark compares.

If an adapter does not define a method, the table shows '-' for the workloads that need this method.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

WORKERS = 2


def children(pid: int) -> list[int]:
    """The process ids of all descendants of a process."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        text = " ".join(pathlib.Path(f"/proc/{pid}/task/{t}/children").read_text() for t in tasks)
    except OSError:
        return []
    found = [int(p) for p in text.split()]
    return found + [g for p in found for g in children(p)]


class Backend:
    """One of the compared runtimes. A subclass defines the methods that its runtime supports."""

    name = "?"
    package: str | None = None  # the module to import
    hello: str | None = None  # a complete program: import, start, one task, stop
    scale = 1.0  # multiplies the size of every workload; smaller for slow backends
    limits: dict[str, int] = {}  # the largest size of single workloads
    keep_worker = False  # measure everything in one worker process, since the backend takes long to start
    resolves_refs = True  # a reference passed as an argument arrives as its value
    inline = False  # a task runs inside the call that submits it
    ran = 0  # the number of tasks to list, for a backend that does not record its tasks

    def start(self) -> None:
        """Prepare for tasks and actors."""

    def stop(self) -> None:
        """End everything that the backend has started."""

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {name}")
