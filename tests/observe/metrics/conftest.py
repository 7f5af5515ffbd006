"""A fresh registry for each test of metrics."""

import pytest

from miniray.observe.metrics import metrics, registry


@pytest.fixture(autouse=True)
def fresh_registry(monkeypatch):
    """Strict checks, no system metrics, and nothing recorded."""
    monkeypatch.delenv("MINIRAY_STRICT_METRICS", raising=False)
    monkeypatch.setattr(registry, "system_metrics_provider", None)
    monkeypatch.setattr(metrics, "_lenient", False)
    registry.reset()
    yield
    registry.reset()
