"""The tracing hook of Ray's documentation: spans as lines of JSON in /tmp/spans.

`ray.init(_tracing_startup_hook="ray.util.tracing.setup_local_tmp_tracing:setup_tracing")`. Importing this module needs
opentelemetry-sdk.
"""

from __future__ import annotations

import os

from opentelemetry import trace  # type: ignore[import-not-found,unused-ignore]
from opentelemetry.sdk.trace import TracerProvider  # type: ignore[import-not-found,unused-ignore]
from opentelemetry.sdk.trace.export import (  # type: ignore[import-not-found,unused-ignore]
    ConsoleSpanExporter,
    SimpleSpanProcessor,
)

FOLDER = "/tmp/spans"


def setup_tracing() -> None:
    """Write each span that ends as one line of JSON to /tmp/spans/<process id>.txt."""
    os.makedirs(FOLDER, exist_ok=True)
    out = open(os.path.join(FOLDER, f"{os.getpid()}.txt"), "w", encoding="utf-8")  # noqa: SIM115  # as long as the process
    exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(indent=None) + os.linesep)
    trace.set_tracer_provider(TracerProvider())
    trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
