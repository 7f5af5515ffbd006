"""joblib on remote tasks: `register_ray()`, then `with joblib.parallel_backend("ray"): ...`. Ray: ray.util.joblib.

joblib is the caller's; it is looked up only here, when it is to be told of the backend.
"""

from __future__ import annotations

import importlib
from typing import Any

from miniray import api

from .multiprocessing import Pool


def register_ray() -> None:
    """Tell joblib of the backend "ray": a Pool of actors, as many as there are CPUs unless n_jobs says otherwise.

    `parallel_backend("ray", ray_remote_args={...})`: options of these actors. A session is started by the first loop that
    needs one. ImportError when joblib is not installed.
    """
    backends = importlib.import_module("joblib._parallel_backends")
    importlib.import_module("joblib.parallel").register_parallel_backend("ray", _backend(backends))


def _backend(joblib: Any) -> type:
    class RayBackend(joblib.PoolManagerMixin, joblib.AutoBatchingMixin, joblib.ParallelBackendBase):
        """Batches of a loop's calls, each a call of a Pool."""

        supports_retrieve_callback = True
        supports_return_generator = False
        default_n_jobs = -1

        def __init__(self, ray_remote_args: dict[str, Any] | None = None, **kwargs: Any):
            super().__init__(**kwargs)
            self._ray_remote_args = ray_remote_args

        def effective_n_jobs(self, n_jobs: int | None) -> int:
            """How many actors: all CPUs of the cluster for None or -1, all but one for -2, and so on. ValueError for 0."""
            if n_jobs == 0:
                raise ValueError("n_jobs == 0 in Parallel has no meaning")
            if n_jobs is None or n_jobs < 0:
                if not api.is_initialized():
                    api.init()
                return max(1, int(api.cluster_resources().get("CPU", 1)) + 1 + (-1 if n_jobs is None else n_jobs))
            return n_jobs

        def configure(self, n_jobs: int = 1, parallel: Any = None, **of_other_backends: Any) -> int:
            """Start the actors; returns how many. A loop inside of a loop, and one job, run without any."""
            n_jobs = self.effective_n_jobs(n_jobs)
            if n_jobs == 1:
                raise joblib.FallbackToBackend(joblib.SequentialBackend(nesting_level=self.nesting_level))
            self.parallel = parallel
            self._pool = Pool(n_jobs, ray_remote_args=self._ray_remote_args)
            return n_jobs

    return RayBackend
