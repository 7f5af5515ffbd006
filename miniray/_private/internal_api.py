"""memory_summary: the text of `ray memory` for a program. Ray: ray._private.internal_api."""

from __future__ import annotations

from miniray.observe.state.memory_text import UNITS, references
from miniray.util.state import running


def memory_summary(
    address: str | None = None,
    group_by: str = "NODE_ADDRESS",
    sort_by: str = "OBJECT_SIZE",
    units: str = "B",
    line_wrap: bool = True,
    stats_only: bool = False,
    num_entries: int | None = None,
) -> str:
    """Return what `python -m miniray memory` prints about this session. address: not used.

    Raises KeyError for an unknown unit, ConnectionError if no session is running.
    """
    runtime = running()
    UNITS[units]
    return references(runtime, group_by, sort_by, units, line_wrap, stats_only, num_entries)
