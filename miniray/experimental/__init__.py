"""APIs that Ray calls experimental: progress bars (`tqdm_ray`), the locations of objects, the internal key-value store.

Each module is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = frozenset({"dynamic_resources", "internal_kv", "locations", "state", "tqdm_ray"})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in ("get_object_locations", "get_local_object_locations"):
        return getattr(importlib.import_module(f"{__name__}.locations"), name)
    if name == "set_resource":
        return importlib.import_module(f"{__name__}.dynamic_resources").set_resource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
