"""Sessions and files for the tests of telemetry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import miniray as ray
from miniray.telemetry.recording import recorder


@pytest.fixture
def session() -> Iterator[None]:
    """A session with threads."""
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


@pytest.fixture(params=["threaded", "simulated", "local"])
def each_session(request: pytest.FixtureRequest) -> Iterator[None]:
    """A session of each runtime."""
    local = request.param == "local"
    ray.init(num_cpus=2, local_mode=local, runtime="threaded" if local else request.param)
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins as a process that has recorded nothing."""
    monkeypatch.setattr(recorder, "_begun", {})
    monkeypatch.delenv("MINIRAY_TELEMETRY", raising=False)


@pytest.fixture
def path(tmp_path) -> str:
    """Of a recording that is not there yet."""
    return str(tmp_path / "run.db")
