"""What readers leave beside a recording: an empty log and its index."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3


def remove_empty_log(path: str) -> None:
    """After a reader has closed the file: remove `path-wal` and `path-shm` if they hold nothing and nobody uses them.

    SQLite creates both for a reader, which may not remove them. A connection that may write removes them when it closes
    as the last one; SQLite's own locks tell whether it is. A log with transactions stays: they are the file's, and
    reading changes no recording.
    """
    try:
        if os.path.getsize(f"{path}-wal") or not os.access(path, os.W_OK):
            return
    except OSError:  # there is none
        return
    address = pathlib.Path(path).absolute().as_uri()
    with contextlib.suppress(sqlite3.Error, UnicodeError):
        connection = sqlite3.connect(f"{address}?mode=rw", uri=True, timeout=0.0, isolation_level=None)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        finally:
            connection.close()
