"""Observability: state, explanations, metrics, logs and the timeline, read from the core's records."""
