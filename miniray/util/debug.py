"""`log_once`: whether this is the first time for a message. Ray: ray.util.debug."""

from __future__ import annotations

import threading
import time

_lock = threading.Lock()
_logged: set[str] = set()
_disabled = _periodic = False
_since = 0.0
PERIOD_S = 60.0


def log_once(key: str) -> bool:
    """Whether nobody has asked with this key yet in this process: `if log_once("old"): logger.warning(...)`."""
    global _since
    with _lock:
        if _disabled:
            return False
        if _periodic and time.monotonic() - _since > PERIOD_S:
            _logged.clear()
            _since = time.monotonic()
        first = key not in _logged
        _logged.add(key)
        return first


def disable_log_once_globally() -> None:
    """From now on log_once says False."""
    global _disabled
    _disabled = True


def enable_periodic_logging() -> None:
    """From now on log_once says True again a minute after."""
    global _periodic, _since
    _periodic, _since = True, time.monotonic()


def reset_log_once(key: str | None = None) -> None:
    """Forget one key, or all of them."""
    with _lock:
        if key is None:
            _logged.clear()
        else:
            _logged.discard(key)
