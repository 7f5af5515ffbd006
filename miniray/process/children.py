"""The processes that a task or an actor starts end with its worker, as in Ray, whichever way it ends.

All of Python's ways to start a process end in one of a few functions. While a session runs, each notes the number of
the process that a worker starts. `os.system` is not among them: it waits for its process itself.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from functools import wraps
from typing import Any

from .our_code import stands_in
from .replaced import replace
from .worker_process import WorkerProcess, here

OF_THE_WHOLE_PROCESS = ("resource_tracker.py", "forkserver.py")  # of multiprocessing: they serve later workers too


def wanted(options: Mapping[str, Any]) -> bool:
    """Whether children end with their worker. options: of `init`; Ray has a setting for it."""
    name = "kill_child_processes_on_worker_exit"
    setting = (options.get("_system_config") or {}).get(name, os.environ.get("RAY_" + name, "1"))
    return str(setting).lower() not in ("0", "false")


def _noting(original: Any) -> Any:
    @stands_in
    @wraps(original)
    def start(*args: Any, **kwargs: Any) -> Any:
        process = here()
        started = original(*args, **kwargs)
        number = started[0] if isinstance(started, tuple) else started  # forkpty returns a descriptor as well
        if process is not None and number:  # 0: this is the child
            _note(process, number)
        return started

    return start


def _note(process: WorkerProcess, number: int) -> None:
    frame: Any = sys._getframe(2)
    for _ in range(4):
        if frame is None:
            break
        if frame.f_code.co_filename.endswith(OF_THE_WHOLE_PROCESS):
            return
        frame = frame.f_back
    if process.children is None:
        process.children = {}
    process.children[number] = _born(number)


def _born(number: int) -> str:
    """When a process was started, as the system's own text; by this it is told from a later one with its number."""
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def kill(process: WorkerProcess, reap: bool) -> None:
    """Kill the worker's children that still run. reap: also wait until they have ended, which takes no time to speak
    of, so that no trace of them is left."""
    for number, born in list((process.children or {}).items()):
        try:
            if born == _born(number) and os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                os.kill(number, signal.SIGKILL)
            if reap and born == _born(number):
                os.waitpid(number, 0)
        except (ChildProcessError, ProcessLookupError):  # somebody has waited for it: it is gone
            continue
    if reap:
        process.children = None


def install() -> None:
    """Replace the functions that start processes, until `replaced.restore_all` restores them."""
    if not hasattr(os, "waitid"):
        return
    import _posixsubprocess

    replace(_posixsubprocess, "fork_exec", _noting(_posixsubprocess.fork_exec))
    subprocess = sys.modules.get("subprocess")
    if hasattr(subprocess, "_fork_exec"):
        replace(subprocess, "_fork_exec", _posixsubprocess.fork_exec)
    for name in "fork", "forkpty", "posix_spawn", "posix_spawnp":
        if hasattr(os, name):
            replace(os, name, _noting(getattr(os, name)))
