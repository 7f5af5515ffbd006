"""The names of `ray._private` that programs use, although Ray does not guarantee them.

Each is another way to a public function; new programs do not need them. The modules are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("internal_api", "services", "state", "test_utils", "worker"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
