"""Buffers: the memory that an object hands to pickle apart from the stream (PEP 574), such as that of a numpy array.

A stored value has one copy of each buffer, which never changes and which all its readers share. As in Ray, the copy of
an array's memory begins at a multiple of ALIGNMENT bytes, since code that uses vector instructions may rely on that.
Only numpy offers memory whose address is known and that is not cleared first. So only arrays are aligned: if there is
an array, numpy has been imported.
"""

from __future__ import annotations

import _pickle as pickle
import functools
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ALIGNMENT = 64  # bytes


def frozen(buffer: pickle.PickleBuffer) -> Any:
    """A copy of a buffer: bytes, or a read-only memoryview of aligned memory. Bytes, and what an earlier call returned,
    are not copied."""
    with buffer.raw() as raw:
        owner = raw.obj
        if type(owner) is bytes and len(owner) == len(raw):
            return owner
        array = getattr(sys.modules.get("numpy"), "ndarray", None)
        if array is None:
            return bytes(raw)
        if type(owner) is memoryview and raw.readonly and type(owner.obj) is _block_type():
            return memoryview(buffer)
        if not isinstance(owner, array):
            return bytes(raw)
        copied = aligned(len(raw))
        copied[:] = raw
        return copied.toreadonly()


def aligned(size: int) -> memoryview:
    """Aligned memory of this many bytes, to be filled. Needs numpy."""
    block = _block_type()(size + ALIGNMENT, "B")
    start = -block.__array_interface__["data"][0] % ALIGNMENT
    return memoryview(block)[start : start + size]


def is_aligned(buffer: Any) -> bool:
    """Whether this is a copy of an array's memory that `frozen` returned."""
    return type(buffer) is memoryview


@functools.cache
def _block_type() -> Any:
    """The type of our own blocks of memory, which tells them from the program's arrays."""
    numpy: Any = sys.modules["numpy"]
    return type("Block", (numpy.ndarray,), {"__slots__": ()})
