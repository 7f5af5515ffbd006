"""RuntimeEnv: a runtime environment as an object. It is a dict, and every `runtime_env=` also accepts a plain dict.

Tasks and actors see their `env_vars` (process/environment.py). Nothing is installed, because tasks and actors are
threads of this process. The environment is checked and kept as in Ray; `get_runtime_context().runtime_env` and the
state tables show it. Ray: ray.runtime_env.
"""

from __future__ import annotations

import sys

from .options import runtime_env_fields as fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class RuntimeEnvConfig(dict[str, "Any"]):
    """How an environment is set up. setup_timeout_seconds: above 0, or -1 for no limit; otherwise ValueError."""

    known_fields = set(fields.CONFIG)
    _default_config = fields.CONFIG

    def __init__(
        self, setup_timeout_seconds: int = 600, eager_install: bool = True, log_files: list[str] | None = None
    ):
        super().__init__(fields.checked_config(setup_timeout_seconds, eager_install, log_files))

    @staticmethod
    def parse_and_validate_runtime_env_config(config: Any) -> RuntimeEnvConfig:
        """Return a dict of these fields as a RuntimeEnvConfig. Raises TypeError for anything but a dict."""
        return config if isinstance(config, RuntimeEnvConfig) else RuntimeEnvConfig(**fields.config_of(config))

    @classmethod
    def default_config(cls) -> RuntimeEnvConfig:
        """Return one with the defaults."""
        return cls()

    def to_dict(self) -> dict[str, Any]:
        """Return the three fields as a plain dict."""
        from copy import deepcopy

        return deepcopy(dict(self))


class RuntimeEnv(dict[str, "Any"]):
    """The environment that tasks and actors need: `RuntimeEnv(env_vars={"A": "1"}, pip=["requests"])`.

    Its keys are the fields that were given and are not empty. `pip=[...]`, or the name of a requirements file, becomes
    {"packages": [...], "pip_check": False}. Unknown fields are kept; in Ray, plugins own them.
    Raises TypeError for a field of a wrong type, such as an env_vars that is not a dict of strings; ValueError for
    fields that exclude each other, as pip, uv and conda do, and for files and folders that do not exist.
    """

    extensions_fields = {"_ray_release", "_ray_commit", "_inject_current_ray"}
    known_fields = extensions_fields | {
        "py_modules",
        "py_executable",
        "java_jars",
        "working_dir",
        "conda",
        "pip",
        "uv",
        "container",
        "excludes",
        "env_vars",
        "config",
        "worker_process_setup_hook",
        "_nsight",
        "_rocprof_sys",
        "image_uri",
    }

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
        named = {
            "py_modules": py_modules,
            "py_executable": py_executable,
            "working_dir": working_dir,
            "pip": pip,
            "uv": uv,
            "conda": conda,
            "_nsight": nsight,
            "_rocprof_sys": rocprof_sys,
            "container": container,
            "env_vars": env_vars,
            "config": config,
            "worker_process_setup_hook": worker_process_setup_hook,
            "image_uri": image_uri,
        }
        given = {**kwargs, **{name: value for name, value in named.items() if value is not None}}
        super().__init__(fields.normalised(given) if _validate else given)
        if _validate and "config" in self:
            super().__setitem__("config", RuntimeEnvConfig(**self["config"]))

    def __setitem__(self, key: str, value: Any) -> None:
        if hasattr(type(value), "__dataclass_fields__"):
            value = sys.modules["dataclasses"].asdict(value)
        kept = fields.field_value(key, value)
        if kept is None and value is not None:
            return  # it asks for nothing
        super().__setitem__(key, RuntimeEnvConfig(**kept) if key == "config" else kept)

    def set(self, name: str, value: Any) -> None:
        """Do `env[name] = value`: the value is checked, and kept in the usual form."""
        self[name] = value

    def get(self, name: str, default: Any = None, data_class: Any = None) -> Any:
        """Return a field, by default None. data_class: return a dataclass made of a field that is a dict."""
        if name not in self:
            return default
        return self[name] if data_class is None else data_class(**self[name])

    # ------------------------------------------------------------ single fields, by Ray's names

    def env_vars(self) -> dict[str, str]:
        """Return the environment variables, by default {}."""
        variables: dict[str, str] = self.get("env_vars", {})
        return variables

    def working_dir(self) -> str:
        """Return the working directory, by default ""."""
        directory: str = self.get("working_dir", "")
        return directory

    def has_working_dir(self) -> bool:
        """Return whether there is a working directory."""
        return self.get("working_dir") is not None

    def working_dir_uri(self) -> str | None:
        """Return the working directory, by default None."""
        directory: str | None = self.get("working_dir")
        return directory

    def py_modules(self) -> list[str]:
        """Return the modules, by default []."""
        return list(self.get("py_modules", []))

    py_modules_uris = py_modules

    def py_executable(self) -> Any:
        """Return the interpreter, by default None."""
        return self.get("py_executable")

    def java_jars(self) -> list[str]:
        """Return the archives of Java, by default []."""
        return list(self.get("java_jars", []))

    def image_uri(self) -> Any:
        """Return the image of a container, by default None."""
        return self.get("image_uri")

    def nsight(self) -> Any:
        """Return the settings of Nsight, by default None."""
        return self.get("_nsight")

    def rocprof_sys(self) -> Any:
        """Return the settings of rocprof-sys, by default None."""
        return self.get("_rocprof_sys")

    def has_conda(self) -> bool:
        """Return whether conda is asked for."""
        return bool(self.get("conda"))

    def conda_env_name(self) -> str | None:
        """Return the name of an environment of conda."""
        return self["conda"] if self.has_conda() and isinstance(self["conda"], str) else None

    def conda_config(self) -> str | None:
        """Return what conda is told, as JSON."""
        return fields.as_json(self["conda"]) if self.has_conda() and isinstance(self["conda"], dict) else None

    def has_pip(self) -> bool:
        """Return whether packages are asked for with pip."""
        return bool(self.get("pip"))

    def pip_config(self) -> dict[str, Any]:
        """Return what pip is told, by default {}."""
        return self._config_of("pip")

    def virtualenv_name(self) -> str | None:
        """Return the name of a virtual environment."""
        return self["pip"] if self.has_pip() and isinstance(self["pip"], str) else None

    def has_uv(self) -> bool:
        """Return whether packages are asked for with uv."""
        return bool(self.get("uv"))

    def uv_config(self) -> dict[str, Any]:
        """Return what uv is told, by default {}."""
        return self._config_of("uv")

    def _config_of(self, name: str) -> dict[str, Any]:
        if not self.get(name) or isinstance(self[name], str):
            return {}
        self[name] = self[name]  # completed once more, as in Ray
        config: dict[str, Any] = self[name]
        return config

    def has_py_container(self) -> bool:
        """Return whether a container is asked for."""
        return bool(self.get("container"))

    def py_container_image(self) -> Any:
        """Return the image of the container; None without one."""
        return self["container"].get("image", "") if self.has_py_container() else None

    def py_container_worker_path(self) -> Any:
        """Return the path of the worker in the container; None without one."""
        return self["container"].get("worker_path", "") if self.has_py_container() else None

    def py_container_run_options(self) -> Any:
        """Return the options with which the container is started; None without one."""
        return self["container"].get("run_options", []) if self.has_py_container() else None

    def get_extension(self, key: str) -> Any:
        """Return one of the `extensions_fields`, by default None. Raises ValueError for another name."""
        if key not in self.extensions_fields:
            raise ValueError(f"Extension key must be one of {self.extensions_fields}, got: {key}")
        return self.get(key)

    def plugins(self) -> list[tuple[str, Any]]:
        """Return the fields that are none of Ray's own."""
        return [(name, value) for name, value in self.items() if name not in self.known_fields]

    def plugin_uris(self) -> list[str]:
        """Return []: Ray has not filled it in either."""
        return []

    # ------------------------------------------------------------ as a whole

    def to_dict(self) -> dict[str, Any]:
        """Return a deep copy as a plain dict."""
        from copy import deepcopy

        found: dict[str, Any] = deepcopy(dict(self))
        if found.get("config"):
            found["config"] = dict(found["config"])
        return found

    def serialize(self) -> str:
        """Return JSON with the fields in alphabetical order.

        Raises TypeError for a value that JSON does not support, and what the constructor raises.
        """
        return fields.as_json(type(self)(**self))

    @classmethod
    def deserialize(cls, serialized_runtime_env: str) -> RuntimeEnv:
        """Return the environment that `serialize` wrote."""
        import json

        return cls(_validate=False, **json.loads(serialized_runtime_env))
