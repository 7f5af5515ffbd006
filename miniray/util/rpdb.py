"""`ray.util.pdb.set_trace()`: Python's debugger, in this terminal. (Ray's is used from another terminal.)"""

from __future__ import annotations

import pdb
import sys


def set_trace(breakpoint_uuid: bytes | None = None) -> None:
    """Stop in the caller's frame, also inside a task. `breakpoint()` does the same."""
    pdb.Pdb().set_trace(sys._getframe().f_back)
