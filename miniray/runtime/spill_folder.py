"""The files of spilled values, and the folder that they are in.

The folder is made with the first file (mode 0700, since values may be secret). It is gone after shutdown, also after a crash
of the session, if the interpreter gets to run its exit handlers. Ray: python/ray/_private/external_storage.py.
"""

from __future__ import annotations

import errno
import functools
import os
import pickle
import threading
from typing import Any, Callable

from ..values.serialization import Serialized

GIVE_BACK_BYTES = 16_000_000  # that go to files or come from them, until the memory that was freed is given back


class SpilledFile:
    """Where a spilled value is. Reading gives back what was stored.

    length: bytes of the file. stream: what makes a Serialized of a pickle stream and its buffers, and their lengths; None for
    bytes, which stand in the file as they are, and for everything else, which is pickled as a whole.
    """

    __slots__ = ("path", "length", "kind", "stream")

    def __init__(self, path: str, stored: Any):
        self.path, self.kind, self.length = path, type(stored), 0
        self.stream: tuple | None = None
        if type(stored) is Serialized and type(stored.data) is bytes:
            lengths = [len(stored.data), *(memoryview(buffer).nbytes for buffer in stored.buffers)]
            self.stream = lengths, stored.contained, stored.size, stored.form

    def write(self, file: Any, stored: Any) -> None:
        """Write the value to its file, which has just been opened. OSError when that fails."""
        if self.stream is not None:
            file.write(stored.data)
            for buffer in stored.buffers:
                file.write(buffer)
        elif self.kind is bytes:
            file.write(stored)
        elif self.kind is Serialized:
            pickle.dump((stored.data, (), (), stored.size, stored.form), file, 5)
        else:
            pickle.dump(stored, file, 5)
        self.length = file.tell()

    def read(self) -> Any:
        """The stored value. OSError when the file cannot be read, or does not hold what was written to it."""
        with open(self.path, "rb") as file:
            if os.fstat(file.fileno()).st_size != self.length:
                raise OSError(f"{self.path} is not as long as what was written to it")
            if self.stream is not None:
                lengths, contained, size, form = self.stream
                parts = [file.read(length) for length in lengths]
                return Serialized(parts[0], tuple(parts[1:]), contained, size, form)
            if self.kind is bytes:
                return file.read()
            try:
                value = pickle.load(file)
            except Exception as problem:
                raise OSError(f"{self.path} does not hold what was written to it: {problem}") from problem
        return Serialized(*value) if self.kind is Serialized else value

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
        self.before_write: Any = None  # a fault to inject: called with the object's number, may raise
        self.disk_is_full = False  # the last write failed for want of space
        self._lock = threading.Lock()
        self._files = 0
        self._moved = 0
        self._removed = False

    def write(self, number: int, stored: Any) -> SpilledFile:
        """Write a stored value to a new file. OSError when that fails; nothing is left then."""
        file, spilled = self._new_file(number, stored)
        try:
            with file:
                if self.before_write is not None:
                    self.before_write(number)
                spilled.write(file, stored)
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
                import tempfile  # as shutil below: only a session that spills needs it

                if self.parent is not None:
                    os.makedirs(self.parent, exist_ok=True)
                self.path = tempfile.mkdtemp(prefix="miniray-spill-", dir=self.parent)  # mode 0700
            self._files += 1
            path = os.path.join(self.path, f"{number:016x}-{self._files}")
            return open(path, "wb"), SpilledFile(path, stored)

    def moved(self, size: int) -> None:
        """So many bytes have gone to a file, or have come from one, and the memory of as many others is free.

        glibc keeps a heap for each of several threads, and what is freed in one is of no use to another. A value that a worker
        made would leave a hole in that worker's heap and come back in its reader's: memory would grow to several times the
        capacity with no more in the store than before.
        """
        self._moved += size  # without a lock: a count that is lost makes it a little later
        if self._moved >= GIVE_BACK_BYTES:
            self._moved = 0
            malloc_trim()(0)

    def remove(self) -> None:
        """Remove the folder and all that is in it."""
        with self._lock:
            self._removed = True
            path, self.path = self.path, None
        if path is not None:
            import shutil

            shutil.rmtree(path, ignore_errors=True)


@functools.cache
def malloc_trim() -> Callable[[int], object]:
    """glibc's function that gives back to the system whatever is free; one that does nothing with another C library."""
    import ctypes

    try:
        return ctypes.CDLL(None).malloc_trim  # it runs without the GIL: the other threads go on meanwhile
    except (AttributeError, OSError, TypeError):
        return lambda pad: None
