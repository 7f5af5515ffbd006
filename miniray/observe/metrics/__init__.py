"""Counter, Gauge and Histogram, their registry, and Prometheus text."""
