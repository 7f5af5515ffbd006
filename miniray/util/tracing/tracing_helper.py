"""Whether tracing is on, and the error of a startup hook. Ray: ray.util.tracing.tracing_helper."""

from __future__ import annotations

from miniray.process import context
from miniray.telemetry.tracing.startup import _import_from_string, _ImportFromStringError

__all__ = ["_ImportFromStringError", "_import_from_string", "_is_tracing_enabled"]


def _is_tracing_enabled() -> bool:
    """Whether the session was started with a tracing hook."""
    return context.session is not None and context.session.call_spans is not None
