"""The processes that a task or an actor starts write to its worker's log, and end with the worker, whichever way it
ends. Both as in Ray.

All of Python's ways to start a process end in one of a few functions. While a session runs, each gives the process that
a worker starts the descriptors of the worker's log (see `worker_output`), and notes its number. Only `os.system` is no
such way. In a worker it starts a subprocess instead.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from functools import wraps

from . import standard_streams, worker_output
from .late_imports import no_longer, when_imported
from .our_code import stands_in
from .replaced import replace
from .worker_process import WorkerProcess, here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OF_THE_WHOLE_PROCESS = ("resource_tracker.py", "forkserver.py")  # of multiprocessing: they serve later workers too


STDOUT_AT, STDERR_AT = 9, 11  # where the child's descriptors 1 and 2 are among the arguments of fork_exec


def wanted(options: Mapping[str, Any]) -> bool:
    """Whether children end with their worker. options: of `init`; Ray has a setting for it."""
    name = "kill_child_processes_on_worker_exit"
    setting = (options.get("_system_config") or {}).get(name, os.environ.get("RAY_" + name, "1"))
    return str(setting).lower() not in ("0", "false")


def _noting(name: str, original: Any) -> Any:
    @stands_in
    @wraps(original)
    def start(*args: Any, **kwargs: Any) -> Any:
        process = here()
        if process is not None and _serves_all():
            process = None
        ends = None if process is None or name == "forkpty" else standard_streams.descriptors()
        if ends is not None:
            if name == "fork_exec":
                args = _with_output(args, ends)
            elif name != "fork":
                kwargs["file_actions"] = [*_inherited(ends), *(kwargs.get("file_actions") or ())]
        started = original(*args, **kwargs)
        number = started[0] if isinstance(started, tuple) else started  # forkpty returns a descriptor as well
        if number == 0:  # this is the child
            worker_output.become_child(ends)
        elif process is not None:
            _note(process, number)
        return started

    return start


def _with_output(args: tuple[Any, ...], ends: tuple[int, int]) -> tuple[Any, ...]:
    """The arguments of fork_exec, with these descriptors where the child would inherit those of the process.
    Descriptors 1 and 2 may also be given by number, as `stderr=STDOUT` does."""
    given = list(args)
    for position, own in (STDOUT_AT, ends[0]), (STDERR_AT, ends[1]):
        given[position] = {-1: own, 1: ends[0], 2: ends[1]}.get(given[position], given[position])
    return tuple(given)


def _inherited(ends: tuple[int, int]) -> list[tuple[int, int, int]]:
    return [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(ends, 1)]


def _serves_all() -> bool:
    """Whether the process that is being started serves all workers."""
    frame: Any = sys._getframe(2)
    for _ in range(4):
        if frame is None:
            return False
        if frame.f_code.co_filename.endswith(OF_THE_WHOLE_PROCESS):
            return True
        frame = frame.f_back
    return False


def _note(process: WorkerProcess, number: int) -> None:
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


def run_in_shell(command: Any) -> int:
    """`os.system` as a subprocess, which gets the caller's variables and the descriptors of its worker."""
    import subprocess

    code = subprocess.call(command, shell=True)
    return code if os.name == "nt" else code << 8 if code >= 0 else -code  # the format of os.wait


def _system(original: Any) -> Any:
    @wraps(original)
    def system(command: Any) -> int:
        status: int = original(command) if standard_streams.descriptors() is None else run_in_shell(command)
        return status

    return system


def _write(original: Any) -> Any:
    @wraps(original)
    def write(fd: int, data: Any, /) -> int:
        if fd == 1 or fd == 2:
            ends = standard_streams.descriptors()
            if ends is not None:
                fd = ends[fd - 1]
        written: int = original(fd, data)
        return written

    return write


def _put(name: str, function: Any) -> None:
    """Replace a function of `os`. It can be pickled as `os.name`; the module of the original is `posix`."""
    function.__module__ = "os"
    replace(os, name, function)


def _note_subprocesses(module: Any) -> None:
    if not hasattr(module.fork_exec, "__wrapped__"):
        replace(module, "fork_exec", _noting("fork_exec", module.fork_exec))
        subprocess = sys.modules.get("subprocess")
        if hasattr(subprocess, "_fork_exec"):
            replace(subprocess, "_fork_exec", module.fork_exec)


def uninstall() -> None:
    """The functions will be restored. `subprocess` may have got ours under a name of its own when it was imported."""
    module, subprocess = no_longer("_posixsubprocess"), sys.modules.get("subprocess")
    ours = getattr(subprocess, "_fork_exec", None)
    if ours is not None and ours is module.fork_exec and hasattr(ours, "__wrapped__"):
        setattr(subprocess, "_fork_exec", ours.__wrapped__)  # noqa: B010 - mypy does not know the name


def install() -> None:
    """Replace the functions that start processes, and those that write to a descriptor, until `replaced.restore_all`
    restores them."""
    _put("system", _system(os.system))
    _put("write", _write(os.write))
    if not hasattr(os, "waitid"):
        return
    when_imported("_posixsubprocess", _note_subprocesses)
    for name in "fork", "forkpty", "posix_spawn", "posix_spawnp":
        if hasattr(os, name):
            _put(name, _noting(name, getattr(os, name)))
