"""Tracing: what ran, as spans with parents, and the context of each call. See `miniray.util.tracing`.

spans       the spans of a session, read from its records, with Ray's names, kinds and attributes
own_spans   spans that the program opens itself, and the current context
headers     W3C headers: traceparent, tracestate, baggage
bridge      OpenTelemetry: its current span is a parent, and with Ray's startup hook it gets Ray's spans
"""
