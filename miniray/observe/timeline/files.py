"""Writes a file of the timeline so that no reader ever sees half of it; the suffix of its name decides the form."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import IO, Any

_temporary = count(1)


def is_page(filename: str | os.PathLike[str]) -> bool:
    """Whether the name asks for the page: a browser would show a trace under that name as text."""
    return os.fsdecode(filename).lower().endswith((".html", ".htm"))


def write_whole(filename: str | os.PathLike[str], pieces: Iterable[str]) -> None:
    """Write a file of UTF-8 text, whole or not at all; compressed if its name ends in .gz. Raises OSError, which names
    `filename`."""
    name = os.fsdecode(filename)
    if not name:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    path, compressed = os.path.realpath(name), name.lower().endswith(".gz")
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    try:
        if mode is not None and not stat.S_ISREG(mode):  # a pipe or /dev/stdout; a folder raises here, as it should
            with open(path, "wb") as raw, _text(raw, compressed) as file:
                file.writelines(pieces)
            return
        beside = os.path.join(os.path.dirname(path), f".miniray-{os.getpid()}-{next(_temporary)}.tmp")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, name) from None
    try:
        with open(descriptor, "wb") as raw, _text(raw, compressed) as file:
            file.writelines(pieces)
        if mode is not None:
            os.chmod(beside, stat.S_IMODE(mode))
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


@contextmanager
def _text(raw: IO[bytes], compressed: bool) -> Iterator[io.TextIOWrapper]:
    """A text file over a binary one, which stays open."""
    packed: Any = raw
    if compressed:
        import gzip

        # Level 3 halves the time of the usual 9 and makes the file a fifth larger. Without a name and a time, equal
        # traces are equal files.
        packed = gzip.GzipFile(filename="", mode="wb", compresslevel=3, fileobj=raw, mtime=0)
    text = io.TextIOWrapper(packed, encoding="utf-8", newline="\n")
    try:
        yield text
        text.flush()
    finally:
        text.detach()
        if compressed:
            packed.close()
