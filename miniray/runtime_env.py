"""RuntimeEnv: a runtime environment as an object. It is a dict, and every `runtime_env=` takes a plain dict as well.

Tasks and actors see their `env_vars` (process/environment.py). Nothing is installed, since they are threads of this process; what
was asked for is kept, and can be read by `get_runtime_context().runtime_env` and in the state tables. Ray: ray.runtime_env.
"""

from __future__ import annotations

import copy
import json
import os
from typing import Any, Callable

from .options.runtime_env_fields import check_runtime_env

_INSTALLERS = ("pip", "uv", "conda")


class RuntimeEnvConfig(dict):
    """How an environment is set up. setup_timeout_seconds: above 0, or -1 for no limit (ValueError)."""

    known_fields = {"setup_timeout_seconds", "eager_install", "log_files"}

    def __init__(
        self, setup_timeout_seconds: int = 600, eager_install: bool = True, log_files: list[str] | None = None
    ):
        if not isinstance(setup_timeout_seconds, int):
            raise TypeError(f"setup_timeout_seconds must be a whole number, not {setup_timeout_seconds!r}")
        if setup_timeout_seconds <= 0 and setup_timeout_seconds != -1:
            raise ValueError(
                f"setup_timeout_seconds must be greater than zero or equals to -1, got: {setup_timeout_seconds}"
            )
        super().__init__(
            setup_timeout_seconds=setup_timeout_seconds, eager_install=eager_install, log_files=log_files or []
        )

    def to_dict(self) -> dict[str, Any]:
        """A plain dict of the three."""
        return dict(self)


class RuntimeEnv(dict):
    """What tasks and actors want around them: `RuntimeEnv(env_vars={"A": "1"}, pip=["requests"])`.

    Only the fields that were given and ask for something are keys; `pip=[...]`, or the name of a file, becomes
    {"packages": [...], "pip_check": False}. Unknown fields are kept: in Ray plugins own them. TypeError for env_vars that are
    not texts and the like; ValueError for more than one of pip, uv and conda, and for files and folders that do not exist.
    """

    def __init__(
        self,
        *,
        py_modules: list[str] | None = None,
        py_executable: str | None = None,
        working_dir: str | None = None,
        pip: Any = None,
        conda: Any = None,
        container: dict[str, str] | None = None,
        env_vars: dict[str, str] | None = None,
        worker_process_setup_hook: Callable[[], Any] | str | None = None,
        nsight: Any = None,
        rocprof_sys: Any = None,
        config: dict[str, Any] | RuntimeEnvConfig | None = None,
        _validate: bool = True,
        image_uri: str | None = None,
        uv: Any = None,
        **kwargs: Any,
    ):
        if config is not None and not isinstance(config, dict):
            raise TypeError(f"runtime_env['config'] must be of type dict or RuntimeEnvConfig, got: {type(config)}")
        if config is not None:  # fields that it does not know are ignored, as by Ray
            config = dict(
                RuntimeEnvConfig(**{name: config[name] for name in RuntimeEnvConfig.known_fields & config.keys()})
            )
        given = {
            "py_modules": py_modules,
            "py_executable": py_executable,
            "working_dir": working_dir,
            "pip": pip,
            "uv": uv,
            "conda": conda,
            "container": container,
            "env_vars": env_vars,
            "nsight": nsight,
            "rocprof_sys": rocprof_sys,
            "worker_process_setup_hook": worker_process_setup_hook,
            "config": config,
            "image_uri": image_uri,
            **kwargs,
        }
        super().__init__({name: value for name, value in given.items() if value is not None})
        if _validate:
            self._check()
            self._normalise()

    def _check(self) -> None:
        installers = [name for name in _INSTALLERS if name in self]
        if len(installers) > 1:
            raise ValueError(
                "The 'pip' field, 'uv' field, and 'conda' field of runtime_env cannot be specified at the same "
                f"time, and {' and '.join(installers)} were"
            )
        check_runtime_env(self)
        directory = self.get("working_dir")
        if directory is not None and "://" not in directory and not os.path.exists(directory):
            raise ValueError(f"{directory} is not a valid path.")

    def _normalise(self) -> None:
        """Lists of packages become dicts, and what asks for nothing is dropped."""
        for name in ("env_vars", *_INSTALLERS):
            if name in self and not self[name]:
                del self[name]
        for name in ("pip", "uv"):
            packages = self.get(name)
            if isinstance(packages, str):
                packages = _packages_in(packages)
            if packages is not None:
                packages = packages if isinstance(packages, dict) else {"packages": packages}
                self[name] = {**packages, f"{name}_check": packages.get(f"{name}_check", False)}

    def set(self, name: str, value: Any) -> None:
        """As `env[name] = value`."""
        self[name] = value

    def env_vars(self) -> dict[str, str]:
        """The environment variables, {} when there are none."""
        return self.get("env_vars", {})

    def working_dir(self) -> str:
        """The working directory, "" when there is none."""
        return self.get("working_dir", "")

    def py_modules(self) -> list[str]:
        """The modules, [] when there are none."""
        return self.get("py_modules", [])

    def to_dict(self) -> dict[str, Any]:
        """A plain dict that later changes of this one do not reach."""
        return copy.deepcopy(dict(self))

    def serialize(self) -> str:
        """JSON, with the fields in alphabetical order. TypeError for what JSON cannot say."""
        return json.dumps(self, sort_keys=True)

    @classmethod
    def deserialize(cls, serialized_runtime_env: str) -> RuntimeEnv:
        """What `serialize` wrote."""
        return cls(_validate=False, **json.loads(serialized_runtime_env))


def _packages_in(path: str) -> list[str]:
    """The packages that a requirements file names, a line each."""
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a valid file")
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return [line for line in lines if line and not line.startswith("#")]
