"""`ray.util.pdb.set_trace()`. Ray opens a debugger that is reached from another terminal; here it is Python's own, in this one."""

from __future__ import annotations

import pdb
import sys


def set_trace(breakpoint_uuid: bytes | None = None) -> None:
    """Stop in the caller's frame, be it a task's. `breakpoint()` does the same."""
    pdb.Pdb().set_trace(sys._getframe().f_back)
