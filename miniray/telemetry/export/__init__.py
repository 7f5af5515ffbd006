"""Export: metrics, traces and logs to a collector of OpenTelemetry, by OTLP/HTTP with JSON.

settings    where to and how: the arguments, and the standard variables OTEL_*
encoding    metrics, spans and log lines as the JSON form of OTLP's messages
sender      one request, and what its answer means
sources     what is new in a session: ended calls, lines, metrics
exporter    the thread: when to read, to send and to try again, and what was dropped

The text for Prometheus is in `observe.metrics.prometheus`.
"""
