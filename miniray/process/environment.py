"""`runtime_env={"env_vars": ...}`: what a task or an actor sees in `os.environ`, and nobody else does.

In Ray a worker is a process, with an environment of its own. Here there is one process; so while a session has such variables,
`os.environ` looks first at who is asking. A task with variables sees them on top of the real ones, and what it sets itself stays
with it: to its end, or as long as the actor lives. The process's own environment is never touched, so a library in C, which asks
there, sees none of this; programs that the task starts do, since they are handed a copy.

So does a task with GPUs see in CUDA_VISIBLE_DEVICES which are its own.

Nothing is in place, and nothing is paid, before the first variable, or GPU, is asked for.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from functools import wraps
from typing import Any, Callable

from ..options.runtime_env_fields import check_variable
from .context import Execution, current
from .replaced import replace

_threads: dict[int, threading.Thread] = getattr(
    threading, "_active", {}
)  # by ident; current_thread() would add to them
_installing = threading.Lock()
_making = threading.RLock()  # so that all threads of an actor get the same one
_STAMP = "_miniray_environment"  # of a thread that a task started: it sees what the task does
_REFERENCE = re.compile(r"\$(\w+|\{[^}]*\})", re.ASCII)
_UNKNOWN = re.compile(r"\$\{[A-Z0-9_]+\}")


# ---------------------------------------------------------------- who was given what


def env_of(execution: Execution) -> Any:
    """The runtime environment of a running task, which for an actor's call is the actor's; None when it has none."""
    actor = execution.worker.actor
    return (actor.creation.spec if actor is not None else execution.task.spec).runtime_env


def inherited(runtime: Any, own: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What a call made here runs in: the caller's environment with its own on top. Variables are added to the caller's, every
    other field takes the place of the caller's. Ray: _private/runtime_env, override_task_or_actor_runtime_env."""
    outer = _callers(runtime)
    merged = outer
    if own:
        variables = {**((outer or {}).get("env_vars") or {}), **(own.get("env_vars") or {})}
        merged = {**(outer or {}), **own, "env_vars": variables}
        if not variables:
            del merged["env_vars"]
        runtime.asks_caller = True
    if merged and merged.get("env_vars"):
        install()
    return merged


def hands_down(runtime: Any) -> bool:
    """Whether a call made here runs in an environment that is not simply the job's."""
    return _callers(runtime) is not _jobs(runtime)


def _jobs(runtime: Any) -> Any:
    return runtime.options.get("runtime_env") or None


def _callers(runtime: Any) -> Any:
    execution = current.get()
    return _jobs(runtime) if execution is None else env_of(execution)


# ---------------------------------------------------------------- what it sees


class Layer(Mapping):
    """The real variables with changes on top; None stands for a deleted one. Keys and values as `os.environ` keeps them."""

    def __init__(self, real: Mapping[Any, Any]):
        self.real = real
        self.changes: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        value = self.changes[key] if key in self.changes else self.real[key]
        if value is None:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[Any]:
        merged = {**self.real, **self.changes}
        return (key for key, value in merged.items() if value is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def layer() -> Layer | None:
    """That of the running task, or of the task that started this thread; None for those who see the process's own."""
    execution = current.get()
    if execution is None:
        return getattr(_threads.get(threading.get_ident()), _STAMP, None)
    try:
        return execution.environ
    except AttributeError:  # it is asked for the first time
        execution.environ = found = _layer_of(execution)
        return found


def _layer_of(execution: Execution) -> Layer | None:
    variables = (env_of(execution) or {}).get("env_vars")
    actor = execution.worker.actor
    gpus = (execution.worker if actor is None else actor).gpu_ids
    if gpus:
        variables = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)), **(variables or {})}
    if not variables:
        return None
    if actor is None:
        return _make(variables)
    handle = (actor.worker or execution.worker).handle
    if handle is None:  # a thread of the actor's that has outlived it
        return _make(variables)
    with _making:
        if not hasattr(handle, "environ"):
            handle.environ = _make(variables)
        return handle.environ


def _make(variables: Mapping[str, str]) -> Layer:
    """A layer with these. `${NAME}` and `$NAME` in a value stand for what is there already: also for one of these, when its name
    comes earlier in the alphabet, since Ray sends them in that order."""
    environ: Any = os.environ
    made = Layer(vars(environ)["_data"])
    for name, text in sorted(variables.items()):
        made.changes[environ.encodekey(name)] = environ.encodevalue(_expanded(text, made, environ))
    return made


def _expanded(text: str, layer: Layer, environ: Any) -> str:
    def value(match: re.Match) -> str:
        found = layer.get(environ.encodekey(match[1].strip("{}")))
        return match[0] if found is None else environ.decodevalue(found)

    return _UNKNOWN.sub(
        "", _REFERENCE.sub(value, text)
    )  # which leaves `$NAME` that is nowhere as it stands, as Ray does


class _Environ(os._Environ):
    """`os.environ` while it is in place: the same object, with this class, so that whoever holds it sees it too."""

    @property
    def _data(self) -> Any:
        own = layer()
        return vars(self)["_data"] if own is None else own

    def __setitem__(self, key: Any, value: Any) -> None:
        own = layer()
        if own is None:
            super().__setitem__(key, value)
            return
        key, value = self.encodekey(key), self.encodevalue(value)
        check_variable(os.fsdecode(key), os.fsdecode(value))
        own.changes[key] = value

    def __delitem__(self, key: Any) -> None:
        own = layer()
        if own is None:
            super().__delitem__(key)
            return
        encoded = self.encodekey(key)
        if encoded not in own:
            raise KeyError(key)
        own.changes[encoded] = None


# ---------------------------------------------------------------- in place


def install() -> None:
    """Put it in place, until the session ends."""
    if type(os.environ) is _Environ:
        return
    with _installing:
        if type(os.environ) is _Environ:
            return
        import subprocess  # for those only who have variables

        _replace(subprocess.Popen, "__init__", _popen)
        _replace(threading.Thread, "start", _start)
        _replace(os, "system", _system)
        _replace(os, "execv", _execv)  # through which go os.execl, os.execvp, os.spawnv and their like
        for environ in os.environ, getattr(os, "environb", None):
            if environ is not None:
                replace(environ, "__class__", _Environ)


def keep_what_is_seen() -> None:
    """In a forked child of a task: what the task sees is the child's own environment, also for C code and whatever it executes."""
    own = layer()
    if own is None:
        return
    real: Any = own.real
    for key, value in own.changes.items():
        if value is not None:
            os.putenv(key, value)
            real[key] = value
        elif real.pop(key, None) is not None:
            os.unsetenv(key)


def _replace(module: Any, name: str, make: Callable[[Any], Any]) -> None:
    original = getattr(module, name)
    replace(module, name, wraps(original)(make(original)))


ENV = 10  # where Popen takes env, when it is not given by its name


def _popen(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if layer() is not None and kwargs.get("env") is None and (len(args) <= ENV or args[ENV] is None):
            if len(args) <= ENV:
                kwargs["env"] = dict(os.environ)
            else:
                args = (*args[:ENV], dict(os.environ), *args[ENV + 1 :])
        original(self, *args, **kwargs)

    return __init__


def _start(original: Any) -> Any:
    def start(self: threading.Thread) -> None:
        own = layer()
        if own is not None:
            setattr(self, _STAMP, own)
        original(self)

    return start


def _system(original: Any) -> Any:
    def system(command: Any) -> int:
        if layer() is None:
            return original(command)
        import subprocess

        code = subprocess.call(command, shell=True)
        return code if os.name == "nt" else code << 8 if code >= 0 else -code  # as wait() tells it

    return system


def _execv(original: Any) -> Any:
    def execv(path: Any, args: Any) -> None:
        if layer() is None:
            original(path, args)
        os.execve(path, args, os.environ)

    return execv
