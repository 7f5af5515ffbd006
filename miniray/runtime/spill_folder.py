"""The files of spilled values, and the folder that holds them.

The folder is made together with the first file, with mode 0700, since values may be secret. Shutdown removes it. If the
session crashes, the interpreter's exit handlers remove it, provided that they run. Ray:
python/ray/_private/external_storage.py.
"""

from __future__ import annotations

import _pickle as pickle
import errno
import functools
import os

from ..values.buffers import aligned, is_aligned
from ..values.serialization import Serialized
from .core_lock import core_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

TRIM_AFTER_BYTES = 16_000_000  # after this much has moved to or from files, freed memory is returned to the system


class SpilledFile:
    """The file of a spilled value. `read` returns what was given to `write`.

    length: size of the file in bytes. kind: the type of the stored value. stream: for a Serialized whose file holds its
    pickle stream and its buffers one after the other: (their lengths, which of the buffers are aligned, contained,
    size, form). None for other values: bytes are stored in the file as they are, and anything else is pickled as a
    whole.
    """

    __slots__ = ("path", "length", "kind", "stream")

    def __init__(self, path: str, stored: Any):
        self.path, self.kind, self.length = path, type(stored), 0
        self.stream: tuple[Any, ...] | None = None
        if type(stored) is Serialized and type(stored.data) is bytes:
            lengths = [len(stored.data), *(memoryview(buffer).nbytes for buffer in stored.buffers)]
            aligned = [is_aligned(buffer) for buffer in stored.buffers]
            self.stream = lengths, aligned, stored.contained, stored.size, stored.form

    def write(self, file: Any, stored: Any) -> None:
        """Write the value to its file, which has just been opened. Raises OSError if that fails."""
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
        """The stored value. Raises OSError if the file cannot be read, or does not hold what was written to it."""
        with open(self.path, "rb") as file:
            if os.fstat(file.fileno()).st_size != self.length:
                raise OSError(f"{self.path} is not as long as what was written to it")
            if self.stream is not None:
                lengths, are_aligned, contained, size, form = self.stream
                data = file.read(lengths[0])
                buffers = [_read_aligned(file, n) if a else file.read(n) for n, a in zip(lengths[1:], are_aligned)]
                return Serialized(data, tuple(buffers), contained, size, form)
            if self.kind is bytes:
                return file.read()
            try:
                value = pickle.load(file)
            except Exception as problem:
                raise OSError(f"{self.path} does not hold what was written to it: {problem}") from problem
        return Serialized(*value) if self.kind is Serialized else value

    def delete(self) -> None:
        """Remove the file, unless it is gone already."""
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            return


def _read_aligned(file: Any, length: int) -> memoryview:
    buffer = aligned(length)
    file.readinto(buffer)
    return buffer.toreadonly()


class SpillFolder:
    """The folder of one session's spilled values. All methods may be called from any thread."""

    def __init__(self, parent: str | None = None):
        """parent: the directory in which to make the folder; None for the system's directory for temporary files."""
        self.parent = parent
        self.path: str | None = None
        self.before_write: Any = (
            None  # for fault injection: called with the object's number; what it raises, `write` raises
        )
        self.disk_is_full = False  # the last write failed because the disk was full
        self._lock = core_lock  # guards path, _files and _removed
        self._files = 0  # how many files have been made
        self._moved = 0  # bytes since freed memory was last returned to the system
        self._removed = False

    def write(self, number: int, stored: Any) -> SpilledFile:
        """Write a stored value to a new file. Raises OSError if that fails, and leaves no file behind."""
        file, spilled = self._new_file(number, stored)
        try:
            with file:
                if self.before_write is not None:
                    self.before_write(number)
                spilled.write(file, stored)
        except BaseException as problem:
            self.disk_is_full = isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT)
            spilled.delete()
            raise
        self.disk_is_full = False
        return spilled

    def _new_file(self, number: int, stored: Any) -> tuple[Any, SpilledFile]:
        """Open a new file. Raises OSError once `remove` has run, and then leaves nothing behind."""
        folder = self.path or self._new_folder()
        with self._lock:
            self._files += 1
            path = os.path.join(folder, f"{number:016x}-{self._files}")
        file = open(path, "wb")
        if self._removed:  # perhaps after `remove` had listed the folder
            file.close()
            _remove(folder)
            raise OSError("the session has ended")
        return file, SpilledFile(path, stored)

    def _new_folder(self) -> str:
        import tempfile  # like shutil below, needed only by a session that spills

        if self.parent is not None:
            os.makedirs(self.parent, exist_ok=True)
        made = tempfile.mkdtemp(prefix="miniray-spill-", dir=self.parent)  # mode 0700
        with self._lock:
            if self.path is None and not self._removed:
                self.path = made
            folder = self.path
        if folder != made:  # another thread was faster, or the session has ended
            _remove(made)
        if folder is None:
            raise OSError("the session has ended")
        return folder

    def moved(self, size: int) -> None:
        """Note that `size` bytes have moved to a file or from one, so that about as much memory has been freed. From
        time to time this returns freed memory to the system.

        glibc keeps one heap for each of several threads, and memory that is freed in one heap cannot be used by
        another. A value that a worker made would leave a hole in that worker's heap and come back in its reader's heap.
        The process would grow to several times the store's capacity, although the store holds no more than before.
        """
        self._moved += size  # without a lock: if a count is lost, the memory is returned a little later
        if self._moved >= TRIM_AFTER_BYTES:
            self._moved = 0
            malloc_trim()(0)

    def remove(self) -> None:
        """Remove the folder and everything in it. Later writes fail."""
        with self._lock:
            self._removed = True
            path, self.path = self.path, None
        if path is not None:
            _remove(path)


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def malloc_trim() -> Callable[[int], object]:
    """glibc's function that returns free memory to the system. With another C library: one that does nothing."""
    import ctypes

    try:
        return ctypes.CDLL(None).malloc_trim  # it runs without the GIL, so other threads go on meanwhile
    except (AttributeError, OSError, TypeError):
        return lambda pad: None
