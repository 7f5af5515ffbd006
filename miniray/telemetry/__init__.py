"""A session for those outside it: a schema, SQL, recordings, traces, exports, stacks and profiles.

Everything here is off until the program asks for it. `import miniray` imports nothing of it, and each name here is
imported on its first use: SQLite is loaded only by what needs it.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from .config import TelemetryConfig
    from .export.exporter import export_stats
    from .profiler.recording import profile
    from .sql.result import QueryError, Result
    from .sql.sources import FileSource, open

__all__ = ["FileSource", "QueryError", "Result", "TelemetryConfig", "export_stats", "open", "profile"]

_HOMES = {
    "FileSource": "sql.sources",
    "QueryError": "sql.result",
    "Result": "sql.result",
    "TelemetryConfig": "config",
    "export_stats": "export.exporter",
    "open": "sql.sources",
    "profile": "profiler.recording",
}


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(_importlib.import_module(f"{__name__}.{_HOMES[name]}"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
