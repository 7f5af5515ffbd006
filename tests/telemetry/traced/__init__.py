"""A program with calls of every kind, and the spans that real Ray makes of them.

program     runs on Ray and on miniray, with OpenTelemetry or without
span_files  the tracing hook: each process writes its spans to a file
trees       the spans of a run as trees that can be compared
answers     real Ray's trees, recorded by `python -m tests.telemetry.traced.record RAY_PYTHON`
"""
