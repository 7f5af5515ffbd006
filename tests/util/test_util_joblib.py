"""The joblib backend "ray": joblib's loops on a Pool of actors."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

import miniray as ray
from miniray.util.joblib import register_ray

HAS_JOBLIB = importlib.util.find_spec("joblib") is not None
needs_joblib = pytest.mark.skipif(not HAS_JOBLIB, reason="joblib is not installed")


@pytest.fixture
def session() -> Iterator[None]:
    ray.init(num_cpus=3, log_to_driver=False)
    yield
    ray.shutdown()


def divide(n):
    return 6 // n


@needs_joblib
def test_a_loop_runs_on_the_actors_of_a_pool(session: None):
    """There is one actor per CPU by default, and the results come in order."""
    import joblib

    register_ray()
    with joblib.parallel_backend("ray"):
        assert joblib.effective_n_jobs(-1) == 3 and joblib.effective_n_jobs(-2) == 2
        assert joblib.Parallel()(joblib.delayed(divide)(n) for n in (1, 2, 3)) == [6, 3, 2]
    made = [row for row in ray.util.state.list_actors() if row.class_name == "PoolActor"]
    assert len(made) == 3 and {row.state for row in made} == {"DEAD"}


@needs_joblib
def test_an_error_in_the_loop_is_raised_by_it(session: None):
    """This is how joblib's own backends behave."""
    import joblib

    register_ray()
    with joblib.parallel_backend("ray", n_jobs=2), pytest.raises(ZeroDivisionError):
        joblib.Parallel()(joblib.delayed(divide)(n) for n in (1, 0))


@pytest.mark.skipif(HAS_JOBLIB, reason="joblib is installed")
def test_without_joblib_it_cannot_be_registered():
    """The error is the ImportError of joblib."""
    with pytest.raises(ImportError, match="joblib"):
        register_ray()
