"""Run a miniray program on real Ray: `python -m miniray run --engine ray`."""
