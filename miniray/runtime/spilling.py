"""Spilling: values that do not fit into the object store stand in files until they are needed again.

The folder is made with the first file (mode 0700, since values may be secret) and is gone after shutdown, also after a crash
of the session, as far as the interpreter gets to run its exit handlers. Ray: python/ray/_private/external_storage.py.
"""
from __future__ import annotations

import errno
import os
import pickle
import threading
from typing import Any

from .serialization import Serialized


def is_stream(stored: Any) -> bool:
    """Whether a stored value is a pickle stream with buffers, rather than plain things."""
    return type(stored) is Serialized and type(stored.data) is bytes


class SpilledFile:
    """Where a spilled value is. Reading gives back what was stored."""

    __slots__ = ("path", "contained", "size", "lengths", "form")

    def __init__(self, path: str, stored: Any):
        self.path = path
        self.lengths: list[int] | None = None       # of the stream and each buffer; None for a value pickled as a whole
        if is_stream(stored):
            self.contained, self.size, self.form = stored.contained, stored.size, stored.form
            self.lengths = [len(stored.data), *(memoryview(buffer).nbytes for buffer in stored.buffers)]

    def read(self) -> Any:
        """The stored value. OSError when the file cannot be read."""
        with open(self.path, "rb") as file:
            if self.lengths is None:
                kind, value = pickle.load(file)
                return Serialized(*value) if kind else value
            parts = [file.read(length) for length in self.lengths]
        if [len(part) for part in parts] != self.lengths:
            raise OSError(f"{self.path} is shorter than what was written to it")
        return Serialized(parts[0], tuple(parts[1:]), self.contained, self.size, self.form)

    def delete(self) -> None:
        """Remove the file; one that is gone already is as good."""
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            return


class SpillFolder:
    """The folder of one session's spilled values."""

    def __init__(self, parent: str | None = None):
        """parent: where to make the folder; None for the system's place for temporary files."""
        self.parent = parent
        self.path: str | None = None
        self.before_write: Any = None           # a fault to inject: called with the object's number, may raise
        self.disk_is_full = False               # the last write failed for want of space
        self._lock = threading.Lock()
        self._files = 0
        self._removed = False

    def write(self, number: int, stored: Any) -> SpilledFile:
        """Write a stored value to a new file. OSError when that fails; nothing is left then."""
        file, spilled = self._new_file(number, stored)
        try:
            with file:
                if self.before_write is not None:
                    self.before_write(number)
                if is_stream(stored):
                    file.write(stored.data)
                    for buffer in stored.buffers:
                        file.write(buffer)
                elif type(stored) is Serialized:
                    pickle.dump((True, (stored.data, (), (), stored.size, stored.form)), file, 5)
                else:
                    pickle.dump((False, stored), file, 5)
        except BaseException as problem:
            self.disk_is_full = isinstance(problem, OSError) and problem.errno == errno.ENOSPC
            spilled.delete()
            raise
        self.disk_is_full = False
        return spilled

    def _new_file(self, number: int, stored: Any) -> tuple[Any, SpilledFile]:
        """An open file, made under the lock: `remove` finds it, and none is made after that."""
        with self._lock:
            if self._removed:
                raise OSError("the session has ended")
            if self.path is None:
                import tempfile             # as shutil below: only a session that spills needs it
                self.path = tempfile.mkdtemp(prefix="miniray-spill-", dir=self.parent)   # mode 0700
            self._files += 1
            path = os.path.join(self.path, f"{number:016x}-{self._files}")
            return open(path, "wb"), SpilledFile(path, stored)

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        with self._lock:
            self._removed = True
            path, self.path = self.path, None
        if path is not None:
            import shutil
            shutil.rmtree(path, ignore_errors=True)
