"""JobConfig: settings of a job as an object, for `init(job_config=...)`. Ray: ray.job_config.

Its namespace, runtime environment and metadata are taken, each unless `init` was given its own; what is for Java and C++ workers is
kept and has no effect. Its lifetime of actors is checked only: without a cluster no actor outlives its program.
"""

from __future__ import annotations

from typing import Any

LIFETIMES = ("detached", "non_detached")


class JobConfig:
    """runtime_env, metadata (texts), ray_namespace, and what other languages need. Raises ValueError for a default_actor_lifetime
    that is neither "detached" nor "non_detached", TypeError for metadata that are no texts."""

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
        """One more entry."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata are texts by text, and {key!r}: {value!r} is not")
        self.metadata[key] = value

    def set_runtime_env(self, runtime_env: dict[str, Any] | None) -> None:
        """The environment of the job's tasks and actors."""
        self.runtime_env = dict(runtime_env or {})

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """The namespace of its named actors."""
        self.ray_namespace = ray_namespace

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """How long actors live that do not say so."""
        if default_actor_lifetime not in LIFETIMES:
            raise ValueError(f"default_actor_lifetime is one of {LIFETIMES}, not {default_actor_lifetime!r}")
        self._default_actor_lifetime = default_actor_lifetime

    @classmethod
    def from_json(cls, job_config_json: dict[str, Any]) -> JobConfig:
        """Of a dict with the names of the arguments, as a file may hold it; other names are passed over."""
        known = ("jvm_options", "code_search_path", "runtime_env", "metadata", "ray_namespace")
        return cls(**{name: job_config_json[name] for name in known if name in job_config_json})
