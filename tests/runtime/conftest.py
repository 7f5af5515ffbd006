"""Sessions for tests that do not start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import miniray as ray

RUNTIMES = {"session": ("threaded", "local_mode", "simulated"), "threaded": ("threaded", "simulated")}
"""The fixtures below, and the runtimes in which a test that asks for one of them runs."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test once in each runtime; on the simulated runtime with each of `--simulated-seeds N` seeds."""
    for fixture, runtimes in RUNTIMES.items():
        if fixture in metafunc.fixturenames and not hasattr(metafunc.module, fixture):  # a module may have its own
            seeds = range(1, metafunc.config.getoption("--simulated-seeds") + 1)
            runs = [(runtime, seed) for runtime in runtimes for seed in (seeds if runtime == "simulated" else [1])]
            names = [runtime if seed == 1 else f"{runtime}-{seed}" for runtime, seed in runs]
            metafunc.parametrize(fixture, runs, ids=names, indirect=True)


def _start(request: pytest.FixtureRequest) -> str:
    """Start the session of a test, with four CPUs. Returns the name of its runtime."""
    runtime, seed = request.param
    name = "simulated" if runtime == "simulated" else "threaded"
    given = {"seed": seed} if name == "simulated" else {}
    ray.init(num_cpus=4, local_mode=runtime == "local_mode", log_to_driver=False, runtime=name, **given)
    return str(runtime)


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Iterator[str]:
    """Four CPUs; the test runs once in each runtime."""
    yield _start(request)
    ray.shutdown()


@pytest.fixture
def threaded(request: pytest.FixtureRequest) -> Iterator[None]:
    """Four CPUs. For tests that need a second thread, since one task runs while another waits."""
    _start(request)
    yield
    ray.shutdown()
