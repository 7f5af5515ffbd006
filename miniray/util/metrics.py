"""Counters, gauges and histograms, and functions that read them. Defined in `miniray.observe.metrics.metrics`.

Ray: ray.util.metrics.
"""

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
