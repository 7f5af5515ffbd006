"""The checks of a runtime environment's fields, for the option `runtime_env` and for `init`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sized
from typing import Any

from .telling import tell_once


_FIELDS_WITH_EFFECT = ("env_vars", "config")  # config holds time limits for Ray's setup, of which there is none


def check_runtime_env(runtime_env: Mapping[Any, Any] | None) -> None:
    """Check the fields that miniray reads, and `pip`, where mistakes are common.

    Unknown fields pass, as in Ray: plugins own them. A field that has no effect here is told once. Raises TypeError for
    a field of a wrong type, and what `check_variable` raises.
    """
    if not runtime_env:
        return
    variables = runtime_env.get("env_vars")
    if variables is not None and not (isinstance(variables, Sized) and len(variables) == 0):
        if not isinstance(variables, dict):
            raise TypeError(f"runtime_env['env_vars'] must be a dict of strings, not {variables!r}")
        for key, value in variables.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError(f"runtime_env['env_vars'] must be a dict of strings; {key!r}: {value!r} is not allowed")
            check_variable(key, value)
    directory = runtime_env.get("working_dir")
    if directory is not None and not isinstance(directory, str):
        raise TypeError(f"runtime_env['working_dir'] must be a string, not {directory!r}")
    packages = runtime_env.get("pip")
    if packages is not None and not isinstance(packages, (str, list, dict)):
        raise TypeError(f"runtime_env['pip'] must be a list of strings, not {packages!r}")
    for name, value in runtime_env.items():
        if name not in _FIELDS_WITH_EFFECT and value:
            tell_once(f"the field {name!r} of a runtime_env")


def check_variable(name: str, value: str) -> None:
    """Raise ValueError for a variable that no process can have in its environment.

    With Ray, a task with such a variable waits for a worker forever.
    """
    if not name or "=" in name:
        raise ValueError(f"illegal environment variable name {name!r}")
    for text in name, value:
        if "\0" in text:
            raise ValueError(f"embedded null byte in the environment variable {name!r}")
        os.fsencode(text)  # a UnicodeEncodeError is a ValueError
