"""The error of a task whose worker crashed says what happened to the worker."""

from __future__ import annotations

import os

import pytest

import miniray as ray


@ray.remote(max_retries=0)
def leaves():
    os._exit(3)


def test_a_crashed_workers_error_says_what_happened_to_it():
    """The error used to be the same for a crash and for a thread that the system refused to start."""
    ray.init(num_cpus=1, log_to_driver=False)
    try:
        with pytest.raises(ray.exceptions.WorkerCrashedError, match=r"_exit\(3\)"):
            ray.get(leaves.remote())
    finally:
        ray.shutdown()
