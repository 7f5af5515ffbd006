"""`log_once`: log a message only the first time. Ray: ray.util.debug."""

from __future__ import annotations

import threading
import time

from ..process.context import in_turn

_lock = threading.RLock()  # a finaliser may log, too
_logged: set[str] = set()
_disabled = _periodic = False
_period_start = 0.0
PERIOD_S = 60.0


def log_once(key: str) -> bool:
    """Return True only for the first call with this key in this process.

    if log_once("old_option"):
        logger.warning("...")
    """
    global _period_start
    with in_turn(_lock), _lock:
        if _disabled:
            return False
        if _periodic and time.monotonic() - _period_start > PERIOD_S:
            _logged.clear()
            _period_start = time.monotonic()
        first = key not in _logged
        _logged.add(key)
        return first


def disable_log_once_globally() -> None:
    """Make `log_once` return False from now on."""
    global _disabled
    _disabled = True


def enable_periodic_logging() -> None:
    """Make `log_once` forget all keys once a minute from now on."""
    global _periodic, _period_start
    _periodic, _period_start = True, time.monotonic()


def reset_log_once(key: str | None = None) -> None:
    """Make `log_once` forget one key, or all keys for None."""
    with in_turn(_lock), _lock:
        if key is None:
            _logged.clear()
        else:
            _logged.discard(key)
