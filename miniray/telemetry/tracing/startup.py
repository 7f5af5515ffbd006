"""`init(_tracing_startup_hook="module:attribute")`: the program's function that sets OpenTelemetry up.

Ray calls it in the driver and in every worker. Here all of them are one process, and it is called once.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


class _ImportFromStringError(Exception):
    """Raised by `init` for a startup hook that cannot be found. Ray: ray.util.tracing.tracing_helper."""


def run_hook(text: Any) -> None:
    """Import the hook and call it without arguments.

    Raises ImportError if OpenTelemetry is not installed; _ImportFromStringError for a hook that does not exist; and
    what importing or calling it raises.
    """
    check_installed()
    _import_from_string(text)()


def check_installed() -> None:
    """Raise ImportError if OpenTelemetry is not installed. Imports nothing of it but its empty package."""
    try:
        found = importlib.util.find_spec("opentelemetry.trace")
    except ImportError:
        found = None
    if found is None:
        raise ImportError(
            "Install OpenTelemetry with 'pip install opentelemetry-api opentelemetry-sdk opentelemetry-exporter-otlp' "
            "to enable tracing: `_tracing_startup_hook` was given. (miniray.util.tracing works without it.)"
        )


def _import_from_string(text: Any) -> Any:
    """What a text of the form "module:attribute" names; the attribute may have dots. Anything but a str is returned as
    it is. Raises _ImportFromStringError, or what importing the module raises."""
    if not isinstance(text, str):
        return text
    module_name, _, names = text.partition(":")
    if not module_name or not names:
        raise _ImportFromStringError(f'Import string "{text}" must be in format "<module>:<attribute>".')
    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        if error.name != module_name:
            raise
        raise _ImportFromStringError(f'Could not import module "{module_name}".') from None
    for name in names.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise _ImportFromStringError(f'Attribute "{names}" not found in module "{module_name}".') from None
    return found
