"""A joblib backend: `register_ray()`, then `with joblib.parallel_backend("ray"): ...`. Ray: ray.util.joblib.

miniray does not depend on joblib. `register_ray` imports the user's.
"""

from __future__ import annotations

import importlib
from typing import Any

from miniray import api

from .multiprocessing import Pool


def register_ray() -> None:
    """Register the joblib backend "ray", which runs on a `Pool` of actors: n_jobs of them, by default one per CPU.

    `parallel_backend("ray", ray_remote_args={...})` sets options of these actors. The first loop that needs a session
    starts one. Raises ImportError if joblib is not installed.
    """
    backends = importlib.import_module("joblib._parallel_backends")
    importlib.import_module("joblib.parallel").register_parallel_backend("ray", _backend(backends))


def _backend(joblib: Any) -> type:
    class RayBackend(
        joblib.PoolManagerMixin,  # type: ignore[misc]  # joblib has no types
        joblib.AutoBatchingMixin,  # type: ignore[misc]
        joblib.ParallelBackendBase,  # type: ignore[misc]
    ):
        """Sends each batch of a loop's calls to a Pool, as one call."""

        supports_retrieve_callback = True
        supports_return_generator = False
        default_n_jobs = -1

        def __init__(self, ray_remote_args: dict[str, Any] | None = None, **kwargs: Any):
            super().__init__(**kwargs)
            self._ray_remote_args = ray_remote_args

        def effective_n_jobs(self, n_jobs: int | None) -> int:
            """The number of actors: one per CPU for None and -1, one fewer for -2, and so on. ValueError for 0."""
            if n_jobs == 0:
                raise ValueError("n_jobs == 0 in Parallel has no meaning")
            if n_jobs is None or n_jobs < 0:
                if not api.is_initialized():
                    api.init()
                return max(1, int(api.cluster_resources().get("CPU", 1)) + 1 + (-1 if n_jobs is None else n_jobs))
            return n_jobs

        def configure(self, n_jobs: int = 1, parallel: Any = None, **of_other_backends: Any) -> int:
            """Start the actors and return how many there are. A nested loop, and a single job, run without actors."""
            n_jobs = self.effective_n_jobs(n_jobs)
            if n_jobs == 1:
                raise joblib.FallbackToBackend(joblib.SequentialBackend(nesting_level=self.nesting_level))
            self.parallel = parallel
            self._pool = Pool(n_jobs, ray_remote_args=self._ray_remote_args)
            return n_jobs

    return RayBackend
