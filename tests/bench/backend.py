"""What every runtime that is compared looks like to a workload.

A method that an adapter leaves out makes the workloads that need it show '-' for it.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

WORKERS = 2


def children(pid: int) -> list[int]:
    """The processes that descend from this one."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        text = " ".join(pathlib.Path(f"/proc/{pid}/task/{t}/children").read_text() for t in tasks)
    except OSError:
        return []
    found = [int(p) for p in text.split()]
    return found + [g for p in found for g in children(p)]


class Backend:
    """What a workload may ask for."""

    name = "?"
    package: str | None = None  # what is imported
    hello: str | None = None  # a whole program: import, start, one task, stop
    scale = 1.0  # shrinks every workload's size, for slow backends
    limits: dict[str, int] = {}  # the most that one workload may ask of it
    keep_worker = False  # one worker process for the whole run
    resolves_refs = True  # a ref passed as an argument arrives as its value
    inline = False  # a task runs inside the call that submits it
    ran = 0  # for a backend without tables: how many tasks it would list

    def start(self) -> None:
        """Make it ready to take work."""

    def stop(self) -> None:
        """End what it started."""

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no {name}")
