"""JobConfig: settings of a job as an object, for `init(job_config=...)`. Ray: ray.job_config.

`init` uses the namespace, the runtime environment and the metadata, each unless `init` was given its own. The settings
for Java and C++ workers are kept and have no effect. `default_actor_lifetime` is checked and then ignored, because no
actor outlives the program.
"""

from __future__ import annotations

from typing import Any

LIFETIMES = ("detached", "non_detached")


class JobConfig:
    """The settings of a job, to be passed to `init`.

    runtime_env: the environment of the job's tasks and actors. metadata: a dict from str to str. ray_namespace: the
    namespace of its named actors. Raises ValueError if default_actor_lifetime is neither "detached" nor "non_detached";
    TypeError if a key or value of metadata is not a string.
    """

    def __init__(
        self,
        jvm_options: list[str] | None = None,
        code_search_path: list[str] | None = None,
        runtime_env: dict[str, Any] | None = None,
        _client_job: bool = False,
        metadata: dict[str, str] | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
        _disable_job_level_lineage_reconstruction: bool = False,
        _py_driver_sys_path: list[str] | None = None,
    ):
        self.jvm_options, self.code_search_path = jvm_options or [], code_search_path or []
        self.metadata: dict[str, str] = {}
        for key, value in (metadata or {}).items():
            self.set_metadata(key, value)
        self.ray_namespace = ray_namespace
        self.set_runtime_env(runtime_env)
        self.set_default_actor_lifetime(default_actor_lifetime)

    def set_metadata(self, key: str, value: str) -> None:
        """Add an entry to the metadata. Raises TypeError unless both are strings."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"keys and values of metadata must be strings, not {key!r}: {value!r}")
        self.metadata[key] = value

    def set_runtime_env(self, runtime_env: dict[str, Any] | None) -> None:
        """Set the environment of the job's tasks and actors."""
        self.runtime_env = dict(runtime_env or {})

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Set the namespace of the job's named actors."""
        self.ray_namespace = ray_namespace

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """Set the lifetime of actors created without the option `lifetime`. Raises ValueError for an unknown one."""
        if default_actor_lifetime not in LIFETIMES:
            raise ValueError(f"default_actor_lifetime must be one of {LIFETIMES}, not {default_actor_lifetime!r}")
        self._default_actor_lifetime = default_actor_lifetime

    @classmethod
    def from_json(cls, job_config_json: dict[str, Any]) -> JobConfig:
        """Build a JobConfig from a dict whose keys are argument names. Unknown keys are ignored."""
        known = ("jvm_options", "code_search_path", "runtime_env", "metadata", "ray_namespace")
        return cls(**{name: job_config_json[name] for name in known if name in job_config_json})
