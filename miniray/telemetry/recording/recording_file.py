"""The file of a recording: how it is created, who may write it, and what a reader leaves beside it.

A file belongs to one session. A new recording replaces an older one in the same file, unless the process of the older
one still runs. It never replaces anything else: a file that this module has not made is left as it is.

SQLite is the only lock. Who claims a file looks at its table `session` and replaces its tables in one transaction, so
two processes cannot both believe that a file is theirs. Each transaction of a recorder then asks again whether the file
is still its own.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Callable

APPLICATION_ID = 0x6D726179  # "mray", in the header of every recording
MODE = 0o600  # names and errors of a program are nobody else's business
BUSY_S = 0.5  # how long a transaction waits for another program that has the file locked; a program may wait for it
ENDINGS = "", "-wal", "-shm"  # of the names of the files that a recording has while it is written


class Refused(Exception):
    """The file cannot take a recording; its text says why."""


class InUse(Refused):
    """Another process, or another session of this one, is recording into the file, or has locked it."""


def claim(path: str, create: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    """Open a file for a new recording, and create its tables. Any older recording in it is gone then.

    create: creates the tables and the row of the session, in the transaction that is open. Raises Refused, or what
    `create` raises; then a file that was not there before is gone again.
    """
    made = False
    try:
        made = _make_private(path)
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    except OSError as problem:
        raise Refused(f"{path} cannot be written: {problem.strerror or problem}") from problem
    except (sqlite3.Error, UnicodeError) as problem:  # UnicodeError: no file can have this name
        if made:
            _remove(path)
        raise Refused(f"{ascii(path)} cannot be written: {problem}") from problem
    try:
        replaced = _begin(connection, path)
        create(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
        if replaced:
            with suppress(sqlite3.OperationalError):  # a reader has locked the file, so it stays as large as it was
                connection.execute("VACUUM")
        return connection
    except InUse:
        connection.close()
        raise
    except BaseException as problem:
        connection.close()
        if "locked" in str(problem) and isinstance(problem, sqlite3.OperationalError):
            raise InUse(f"{path} is locked by another program") from problem
        if made:
            _remove(path)
        if isinstance(problem, sqlite3.Error):
            raise Refused(f"{path} cannot be written: {problem}") from problem
        raise


def _remove(path: str) -> None:
    """Remove a file that was made for a recording and has none."""
    for ending in ENDINGS:
        with suppress(OSError):  # it is gone
            os.unlink(f"{path}{ending}")


def _make_private(path: str) -> bool:
    """Create the file if there is none, and let nobody else read it. SQLite gives the files beside it the same mode.
    Returns whether there was none."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise Refused(f"{path} cannot be written: there is no folder {folder}")
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, MODE))
        return True
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise Refused(
            f"{path} cannot be written: it is a {'folder' if stat.S_ISDIR(found.st_mode) else 'special file'}"
        )
    if stat.S_IMODE(found.st_mode) != MODE and _is_recording(path):
        os.chmod(path, MODE)
    return False


def _is_recording(path: str) -> bool:
    """Whether the file is a recording, as far as its header says."""
    try:
        connection = sqlite3.connect(f"file:{quoted_path(path)}?mode=ro", uri=True, timeout=BUSY_S)
    except sqlite3.Error:
        return False
    try:
        ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        return bool(ours) or is_empty(connection)
    except sqlite3.Error:
        return False
    finally:
        connection.close()


def quoted_path(path: str) -> str:
    """A path as part of SQLite's file: address."""
    return os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


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
    with suppress(sqlite3.Error, UnicodeError):
        connection = sqlite3.connect(f"file:{quoted_path(path)}?mode=rw", uri=True, timeout=0.0, isolation_level=None)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # SQLite opens a file when it first reads it
        finally:
            connection.close()


def _begin(connection: sqlite3.Connection, path: str) -> bool:
    """Begin the transaction in which the tables are created, and drop what an older recording has left. Returns whether
    there was one."""
    try:
        ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        empty = is_empty(connection)
    except sqlite3.DatabaseError as problem:
        if isinstance(problem, sqlite3.OperationalError):
            raise
        ours = empty = False
    if not ours and not empty:
        raise Refused(f"{path} is left as it is: it is not a recording of miniray")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    owner = writer_of(connection)
    if owner:
        raise InUse(f"{path} is being written by process {owner}")
    names = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    order = {"view": 0, "trigger": 1, "table": 2}
    for kind, name, _ in sorted(names, key=lambda row: (order.get(row[0], 9), "VIRTUAL" not in (row[2] or ""))):
        if kind in order:
            quoted = name.replace('"', '""')
            connection.execute(f'DROP {kind} IF EXISTS "{quoted}"')  # also the hidden tables of a virtual one
    return bool(names)


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the database has no table. A recorder that was killed before its first transaction leaves one."""
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def writer_of(connection: sqlite3.Connection) -> int:
    """The pid of the process that is recording into this database; 0 if none is, because it has ended or was killed."""
    try:
        facts = dict(connection.execute("SELECT name, value FROM session"))
    except sqlite3.OperationalError:  # no such table: the recorder was killed before it had made one
        return 0
    return writer_in(facts)


def is_closed(facts: Mapping[str, Any]) -> bool:
    """Whether the recorder has written its last row: the session has ended, or the recording has stopped. facts: the
    rows of the table `session`."""
    return "ended_us" in facts or "stopped" in facts


def writer_in(facts: Mapping[str, Any]) -> int:
    """As `writer_of`, for the rows of the table `session`. A recorder may close the file between the moment at which
    these were read and the look at its process: who finds no writer, and rows that are not closed, reads them again."""
    if is_closed(facts) or not facts.get("pid"):
        return 0
    told = str(facts["pid"])
    if not told.isdecimal() or len(told) > 11:  # somebody has damaged the file
        return 0
    return int(told) if process_started(int(told)) == facts.get("process_started") else 0


def process_started(pid: int) -> str | None:
    """When a process started, in a form that only serves to compare; None if there is no such process. "" where the
    system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    except FileNotFoundError:
        if os.path.exists("/proc/self/stat"):
            return None
    except (OSError, IndexError):
        return ""
    if os.name == "nt":  # there, `os.kill` ends the process
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except (OSError, OverflowError):  # it belongs to somebody else, or this system has no such signal
        return ""
    return ""


class Identity:
    """Which file a path named when it was opened. `changed` tells whether the path still names it."""

    def __init__(self, path: str):
        self.path = path
        self._is = self._look()

    def _look(self) -> tuple[int, int] | None:
        try:
            found: Any = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def changed(self) -> bool:
        """Whether the file was deleted or replaced."""
        return self._look() != self._is


def named(path: str, ending: str) -> str:
    """The path with something before its extension: `run.db`, "2" -> `run-2.db`."""
    stem, extension = os.path.splitext(path)
    return f"{stem}-{ending}{extension}"
