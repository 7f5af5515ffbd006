"""DAGContext: the settings of Ray's compiled graphs. miniray runs every graph as it is, so they have no effect."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any


def _setting(name: str, default: Any) -> Any:
    """A field whose default may be given in the environment, as RAY_CGRAPH_<name>."""
    text = os.environ.get(f"RAY_CGRAPH_{name}")
    if text is None:
        return field(default=default)
    return field(default=text.lower() in ("1", "true") if isinstance(default, bool) else type(default)(text))


@dataclass
class DAGContext:
    """The settings, with Ray's names and defaults. Raises ValueError if read_iteration_timeout exceeds get_timeout.

    Ray: ray.dag.context.DAGContext.
    """

    submit_timeout: int = _setting("submit_timeout", 10)
    get_timeout: int = _setting("get_timeout", 10)
    teardown_timeout: int = _setting("teardown_timeout", 30)
    read_iteration_timeout: float = _setting("read_iteration_timeout_s", 0.1)
    buffer_size_bytes: int = _setting("buffer_size_bytes", 1_000_000)
    max_inflight_executions: int = _setting("max_inflight_executions", 10)
    max_buffered_results: int = _setting("max_buffered_results", 1000)
    overlap_gpu_communication: bool = _setting("overlap_gpu_communication", False)

    def __post_init__(self) -> None:
        if self.read_iteration_timeout > self.get_timeout:
            raise ValueError(
                f"read_iteration_timeout ({self.read_iteration_timeout}) must be less than or equal to get_timeout "
                f"({self.get_timeout})"
            )

    @staticmethod
    def get_current() -> DAGContext:
        """The settings of this process, always the same object."""
        return _current


_current = DAGContext()
