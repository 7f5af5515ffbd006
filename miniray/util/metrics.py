"""Counters, gauges and histograms, and functions that read them. Defined in `miniray.observe.metrics.metrics`.

Ray: ray.util.metrics.
"""

from miniray.observe.metrics.metrics import Counter, Gauge, Histogram, Metric, unregister
from miniray.observe.metrics.prometheus import CONTENT_TYPE, CONTENT_TYPES
from miniray.observe.metrics.registry import export_page, export_text, snapshot

__all__ = [
    "CONTENT_TYPE",
    "CONTENT_TYPES",
    "Counter",
    "Gauge",
    "Histogram",
    "Metric",
    "export_page",
    "export_text",
    "snapshot",
    "unregister",
]
