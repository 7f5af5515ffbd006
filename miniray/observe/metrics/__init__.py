"""Counter, Gauge and Histogram, their registry, and the Prometheus text."""
