"""Names of `ray._private` that programs use, although Ray does not promise them. What is not here has no meaning here.

Each is another way to something public; new programs do not need any of it. Its modules are imported when they are asked for.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("services", "state", "test_utils", "worker"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
