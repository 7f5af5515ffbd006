"""`ray.util.metrics`: counters, gauges and histograms, and what reads them back. See `miniray.observe.metrics.metrics`."""

from miniray.observe.metrics.metrics import (
    CONTENT_TYPE,
    Counter,
    Gauge,
    Histogram,
    Metric,
    export_text,
    snapshot,
    unregister,
)

__all__ = ["CONTENT_TYPE", "Counter", "Gauge", "Histogram", "Metric", "export_text", "snapshot", "unregister"]
