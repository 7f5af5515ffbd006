"""RuntimeEnv: a runtime environment as an object. It is a dict, and every `runtime_env=` also accepts a plain dict.

Tasks and actors see their `env_vars` (process/environment.py). Nothing is installed, because tasks and actors are
threads of this process. The environment is stored as given; `get_runtime_context().runtime_env` and the state tables
show it. Ray: ray.runtime_env.
"""

from __future__ import annotations

import copy
import os
from typing import Any, Callable

from .options.runtime_env_fields import check_runtime_env

_INSTALLERS = ("pip", "uv", "conda")


class RuntimeEnvConfig(dict[str, Any]):
    """How an environment is set up. setup_timeout_seconds: above 0, or -1 for no limit; otherwise ValueError."""

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
        """Return the three fields as a plain dict."""
        return dict(self)


class RuntimeEnv(dict[str, Any]):
    """The environment that tasks and actors need: `RuntimeEnv(env_vars={"A": "1"}, pip=["requests"])`.

    Its keys are the fields that were given and are not empty. `pip=[...]`, or the name of a requirements file, becomes
    {"packages": [...], "pip_check": False}. Unknown fields are kept; in Ray, plugins own them.
    Raises TypeError for a field of a wrong type, such as an env_vars that is not a dict of strings; ValueError for more
    than one of pip, uv and conda, and for files and folders that do not exist.
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
        if config is not None:  # unknown fields are ignored, as in Ray
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
        """Turn lists of packages into dicts, and remove empty fields."""
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
        """Do `env[name] = value`."""
        self[name] = value

    def env_vars(self) -> dict[str, str]:
        """Return the environment variables, by default {}."""
        variables: dict[str, str] = self.get("env_vars", {})
        return variables

    def working_dir(self) -> str:
        """Return the working directory, by default ""."""
        directory: str = self.get("working_dir", "")
        return directory

    def py_modules(self) -> list[str]:
        """Return the modules, by default []."""
        modules: list[str] = self.get("py_modules", [])
        return modules

    def to_dict(self) -> dict[str, Any]:
        """Return a deep copy as a plain dict."""
        return copy.deepcopy(dict(self))

    def serialize(self) -> str:
        """Return JSON with the fields in alphabetical order.

        Raises TypeError for a value that JSON does not support.
        """
        import json  # takes milliseconds, which most programs need not spend

        return json.dumps(self, sort_keys=True)

    @classmethod
    def deserialize(cls, serialized_runtime_env: str) -> RuntimeEnv:
        """Return the environment that `serialize` wrote."""
        import json

        return cls(_validate=False, **json.loads(serialized_runtime_env))


def _packages_in(path: str) -> list[str]:
    """Return the lines of a requirements file that are neither empty nor comments.

    Raises ValueError if there is no file.
    """
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a valid file")
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return [line for line in lines if line and not line.startswith("#")]
