"""`runtime_env={"env_vars": ...}`: variables in `os.environ` that only one task or one actor sees.

In Ray a worker is a process with an environment of its own. Here there is one process. So while a session has such
variables, `os.environ` first looks at which task is asking. A task with variables sees them on top of the real ones.
Changes that the task makes stay with the task, or with the actor for as long as it lives. The real environment of the
process is never touched: a C library, which reads the real environment, sees none of this, but programs that the task
starts do, since they get a copy.

A task with GPUs or other accelerators sees their ids in CUDA_VISIBLE_DEVICES or the like in the same way.

Nothing is replaced, and nothing costs time, until the first variable or accelerator is asked for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from functools import wraps

from ..options.runtime_env_fields import check_variable
from . import accelerators, children
from .context import Execution, current
from .worker_process import caller
from .our_code import stands_in
from .replaced import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any, Callable

# Threads by ident. `threading.current_thread()` would add an entry for a thread that threading does not know.
_threads: dict[int, threading.Thread] = getattr(threading, "_active", {})
_installing = threading.RLock()
_making = threading.RLock()  # held while an actor's layer is made, so that all its threads get the same one
_STAMP = "_miniray_environment"  # an attribute of a thread that a task started: the layer that the task sees


# ---------------------------------------------------------------- who was given what


def env_of(execution: Execution) -> Any:
    """The runtime environment of a running task, or of the actor in an actor's call; None if there is none."""
    actor = execution.worker.actor
    return (actor.creation.spec if actor is not None else execution.task.spec).runtime_env


def inherited(runtime: Any, own: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The runtime environment of a call that is made here: the caller's with the call's own on top. Variables are
    merged; every other field replaces the caller's. Ray: _private/runtime_env, override_task_or_actor_runtime_env."""
    outer = _env_of_caller(runtime)
    merged: dict[str, Any] | None = outer
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
    """Whether the caller's runtime environment, which a call made here inherits, is not simply the job's."""
    return _env_of_caller(runtime) is not _env_of_job(runtime)


def _env_of_job(runtime: Any) -> Any:
    return runtime.options.get("runtime_env") or None


def _env_of_caller(runtime: Any) -> Any:
    execution = caller()
    return _env_of_job(runtime) if execution is None else env_of(execution)


# ---------------------------------------------------------------- what it sees


class Layer(Mapping["Any", "Any"]):
    """The real variables with changes on top. In `changes`, None marks a deleted variable. Keys and values are encoded,
    as in `os.environ._data`."""

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
    """The layer of the running task, or of the task that started this thread; None for the real environment."""
    execution = current.get()
    if execution is None:
        return getattr(_threads.get(threading.get_ident()), _STAMP, None)
    try:
        found: Layer | None = execution.environ
    except AttributeError:  # this is the first time that the task looks
        execution.environ = found = _layer_of(execution)
    return found


def _layer_of(execution: Execution) -> Layer | None:
    variables = (env_of(execution) or {}).get("env_vars")
    actor = execution.worker.actor
    if (execution.worker if actor is None else actor).devices:
        real = {os.fsdecode(key): os.fsdecode(value) for key, value in vars(os.environ)["_data"].items()}
        variables = {**(variables or {}), **accelerators.variables_of(execution, variables, real)}
    if not variables:
        return None
    if actor is None:
        return _make(variables)
    handle = (actor.worker or execution.worker).handle
    if handle is None:  # this thread of the actor has outlived the actor
        return _make(variables)
    with _making:
        if not hasattr(handle, "environ"):
            handle.environ = _make(variables)
        shared: Layer = handle.environ
    return shared


def _make(variables: Mapping[str, str]) -> Layer:
    """A layer with these variables. `${NAME}` and `$NAME` in a value are replaced by the variable's present value. This
    may be one of `variables` whose name comes earlier in the alphabet, since Ray sends the variables in that order."""
    environ: Any = os.environ
    made = Layer(vars(environ)["_data"])
    for name, text in sorted(variables.items()):
        made.changes[environ.encodekey(name)] = environ.encodevalue(_expanded(text, made, environ))
    return made


def _expanded(text: str, layer: Layer, environ: Any) -> str:
    if "$" not in text:
        return text
    import re  # only for a reference

    def value(match: re.Match[str]) -> str:
        found = layer.get(environ.encodekey(match[1].strip("{}")))
        known: str = match[0] if found is None else environ.decodevalue(found)
        return known

    # An unknown `${NAME}` is removed and an unknown `$NAME` is left as it is, as in Ray.
    return re.sub(r"\$\{[A-Z0-9_]+\}", "", re.sub(r"\$(\w+|\{[^}]*\})", value, text, flags=re.ASCII))


class _Environ(os._Environ["Any"]):
    """The class of `os.environ` while layers are in use. The object stays the same."""

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


# ---------------------------------------------------------------- replacing os.environ


def install() -> None:
    """Make `os.environ` look at layers, until the session ends. Does nothing if that is done already."""
    if type(os.environ) is _Environ:
        return
    with _installing:
        if type(os.environ) is _Environ:
            return
        import subprocess  # only sessions with variables need it

        _replace(subprocess.Popen, "__init__", _popen)
        _replace(threading.Thread, "start", _start)
        _replace(os, "system", _system)
        _replace(os, "execv", _execv)  # os.execl, os.execvp, os.spawnv and others call it
        for environ in os.environ, getattr(os, "environb", None):
            if environ is not None:
                replace(environ, "__class__", _Environ)


def keep_what_is_seen() -> None:
    """In a forked child of a task: make the variables that the task sees the real environment of the child process, so
    that C code and programs that the child starts see them too."""
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
    replace(module, name, stands_in(wraps(original)(make(original))))


ENV = 10  # the position of `env` among the arguments of Popen


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
            status: int = original(command)
            return status
        return children.run_in_shell(command)

    return system


def _execv(original: Any) -> Any:
    def execv(path: Any, args: Any) -> None:
        if layer() is None:
            original(path, args)
        os.execve(path, args, os.environ)

    return execv
