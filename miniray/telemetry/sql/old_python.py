"""Limits of a SQLite connection on Python 3.10, whose `sqlite3` has no `setlimit`.

The connection's struct begins with the object's header and the pointer to SQLite's connection (CPython 3.10,
Modules/_sqlite/connection.h). That version gets no more changes, so the place of the pointer is known.
"""

from __future__ import annotations

import sqlite3
import sys


def set_limits(connection: sqlite3.Connection, limits: dict[int, int]) -> dict[int, int]:
    """Set limits of a connection. Returns what they were; {} if this Python is of another kind: then there are none."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 10):
        return {}
    import ctypes

    import _sqlite3

    try:
        function = ctypes.CDLL(_sqlite3.__file__).sqlite3_limit
    except (OSError, AttributeError):
        return {}
    function.restype, function.argtypes = ctypes.c_int, (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    pointer = ctypes.c_void_p.from_address(id(connection) + object.__basicsize__)
    return {number: function(pointer, number, value) for number, value in limits.items()}
