"""Standard output and error in a process where many workers write: the writer decides where the text goes.

In Ray each worker is a process with its own `sys.stdout`. Here all workers share one, so while a session runs, a *door*
stands in its place. The door looks at `context.current`: the driver's text goes to the driver's stream, and the text of
a task, and of the threads that it has started, to the session's logs. Three measures keep this true whatever the
program does with `sys.stdout`:

- `print`, `input` and the interpreter itself find the stream in `sys.__dict__`, where the door always is.
- Everything else reads and sets the attribute `sys.stdout`. While a door is open, the `sys` module has a class in which
  this attribute is a property. On the driver the property gets and sets the driver's own stream, unwrapped: in
  `redirect_stdout(buffer)`, or in a test with capsys, `sys.stdout` is the object that was put there, and the tasks'
  lines reach it too. In a task the property gets the worker's stream, and a stream that the task sets is set for its
  worker alone.
- `logging.StreamHandler` keeps the stream with which it was made. Its attribute `stream` becomes a descriptor in the
  same way: a handler that holds the driver's screen writes to the worker's stream while a task logs.

Replacing `sys.stdout` once would not be enough: the next `redirect_stdout` would disable the replacement until it ends,
and a task that runs meanwhile would print past us. A check at the start of each task would cost every task time, and
would miss the tasks that are already running. When the last door closes, `sys` and `logging` are as they were before.
Ray: configure_log_file, log_monitor.py.
"""

from __future__ import annotations

import importlib
import io
import sys
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable

from .context import Execution, current
from .late_imports import no_longer, when_imported
from .worker_output import NAMES
from .worker_process import STAMP, WorkerProcess, get_ident, serving, threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from typing import Any, Protocol
else:
    Protocol = object


class Outlet(Protocol):
    """Where one worker's text goes. redirected: streams that its tasks have set as "stdout" or "stderr", by name."""

    redirected: dict[str, Any]

    def write(self, execution: Execution | None, name: str, text: str) -> None:
        """Take text that a task wrote; None: a thread that a task has started. name: "stdout" or "stderr"."""

    def descriptors(self) -> tuple[int, int] | None:
        """The file descriptors to which the worker's children write; None: those of the process."""


class _Nowhere:
    """The outlet of a dead worker, whose process would be gone in Ray. Drops everything."""

    redirected: dict[str, Any] = {}

    def write(self, execution: Execution | None, name: str, text: str) -> None:
        """Drop the text."""

    def descriptors(self) -> None:
        """Nobody has opened any."""


NOWHERE: Outlet = _Nowhere()


class WorkerStream:
    """`sys.stdout` or `sys.stderr` as a task sees it: a write-only text file, as in Ray's workers."""

    encoding, errors, newlines, mode = "utf-8", "strict", None, "a"
    closed, line_buffering, write_through = False, True, False

    def __init__(self, door: "Door"):
        self._door = door
        self.name = f"<{door.name}>"
        self.buffer = _WorkerBytes(self)

    def write(self, text: str) -> int:
        """Write text for the calling task, or for the driver if no task calls. Returns the number of characters."""
        return self._door.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the lines, without adding line ends."""
        for line in lines:
            self._door.write(line)

    def flush(self) -> None:
        """Does nothing: only an unfinished line is held back, until it ends or the task does."""

    def close(self) -> None:
        """Does nothing: a task cannot close its worker's stream."""

    def isatty(self) -> bool:
        """Whether the stream is a terminal. It is not: a worker writes to a log."""
        return False

    def readable(self) -> bool:
        """Whether the stream can be read. It cannot."""
        return False

    def writable(self) -> bool:
        """Whether the stream can be written to. It always can."""
        return True

    def read(self, size: int = -1) -> str:
        """Refused, as by every file that is open for writing."""
        raise io.UnsupportedOperation("not readable")

    readline = readlines = read

    def seekable(self) -> bool:
        """Whether the stream has a position that can be set. It has not."""
        return False

    def reconfigure(self, **options: Any) -> None:
        """Accepted, but changes nothing: the log determines the encoding."""

    def fileno(self) -> int:
        """A descriptor for a subprocess: of the worker's log, or of the driver's stream. Raises io.UnsupportedOperation
        if there is none."""
        ends = descriptors()
        number: int = self._door.target.fileno() if ends is None else ends[NAMES.index(self._door.name)]
        return number

    def __reduce__(self) -> Any:
        raise TypeError(
            "cannot pickle '_io.TextIOWrapper' object"
        )  # the type of this stream in Ray's workers, and its error


io.TextIOBase.register(WorkerStream)


class _WorkerFile(io.RawIOBase):
    """What `sys.stdout.buffer.raw` is in a task: the file that the worker writes to."""

    mode = "ab"

    def __init__(self, stream: WorkerStream):
        self._stream = stream
        self.name = stream.name
        self._decode = getincrementaldecoder("utf-8")("backslashreplace").decode

    def write(self, data: Any) -> int:
        """Write UTF-8 bytes as text. Keeps an incomplete character until it is complete. Returns the number of
        bytes."""
        with memoryview(data) as view:  # raises TypeError for what is not bytes-like, as a file does
            written = bytes(view)
        self._stream.write(self._decode(written))
        return len(written)

    def fileno(self) -> int:
        """The descriptor of the driver's stream, for a subprocess. Raises io.UnsupportedOperation if there is none."""
        return self._stream.fileno()

    def writable(self) -> bool:
        """Whether it can be written to. It always can."""
        return True

    def close(self) -> None:
        """Does nothing: a task cannot close its worker's stream."""


class _WorkerBytes(io.BufferedWriter):
    """`sys.stdout.buffer` in a task. It has no buffer of its own, since many tasks use it: bytes are written at
    once."""

    raw: _WorkerFile

    def __init__(self, stream: WorkerStream):
        super().__init__(_WorkerFile(stream))

    def write(self, data: Any) -> int:
        """Write bytes. Returns how many there were."""
        return self.raw.write(data)

    def detach(self) -> Any:
        """Refused: the stream belongs to all tasks of the session."""
        raise io.UnsupportedOperation("a task cannot detach its worker's stream")

    def close(self) -> None:
        """Does nothing: a task cannot close its worker's stream."""


class Door:
    """The object that takes the place of a standard stream in `sys.__dict__`.

    target: the driver's own stream at present, None if it has none. first: the driver's stream when the door was
    opened. face: the stream as tasks see it. find_outlet: returns the outlet for the text of an execution, or of a
    thread that a worker's task has started, or None if the driver's stream takes it; itself None while no session runs.
    It belongs to the class, since both streams share it.
    """

    find_outlet: Callable[[Execution | WorkerProcess], Outlet | None] | None = None

    def __init__(self, name: str, target: Any):
        self.name, self.target, self.first = name, target, target
        self.face = WorkerStream(self)

    @staticmethod
    def outlet(execution: Execution | None) -> Outlet | None:
        """The outlet for the text of this execution, or if there is none, of the calling thread; None if the text goes
        to the driver's stream."""
        find = Door.find_outlet
        if find is None:
            return None
        if execution is not None:
            return find(execution)
        ident = get_ident()
        process: WorkerProcess | None = getattr(threads.get(ident), STAMP, None)
        # A worker's own thread outside of tasks is not meant, nor a thread that shows a line on the driver's screen.
        return None if process is None or ident in serving or ident in _showing else find(process)

    def write(self, text: str) -> int:
        """Write for the caller, a task or the driver. Returns the number of characters. Raises TypeError for bytes."""
        execution = current.get()
        outlet = self.outlet(execution)
        if outlet is None:
            stream = self.target if _doors.get(self.name) is self else getattr(sys, self.name)
            if stream is None:
                return len(text)
            written: int = stream.write(text) if above_bars is None else above_bars(stream, text)
            return written
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        stream = outlet.redirected.get(self.name, self.face)
        if stream is self.face:
            if not text.isascii():
                text.encode()  # raises UnicodeEncodeError for a lone surrogate, as a worker's log does in Ray
            outlet.write(execution, self.name, text)
        elif stream is not None:
            redirected: int = stream.write(text)
            return redirected
        return len(text)

    def flush(self) -> None:
        """Flush the caller's stream."""
        stream = self.seen()
        if stream is not None:
            stream.flush()

    def seen(self) -> Any:
        """The stream that the caller sees as `sys.stdout` or `sys.stderr`; None if there is none."""
        outlet = self.outlet(current.get())
        return self.target if outlet is None else outlet.redirected.get(self.name, self.face)

    def replace(self, stream: Any) -> None:
        """Carry out `sys.stdout = stream` for the caller: for a task's worker, or for the driver."""
        outlet = self.outlet(current.get())
        if outlet is None:
            self.target = self.first if isinstance(stream, WorkerStream) else stream
        elif stream is self.face:
            outlet.redirected.pop(self.name, None)
        elif outlet is not NOWHERE:
            outlet.redirected[self.name] = stream

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.seen(), attribute)  # `input` asks for fileno, encoding and errors


class _HandlerStream:
    """`stream` of every logging.StreamHandler. In a task it is the worker's stream instead of the driver's screen."""

    def __get__(self, handler: logging.StreamHandler[Any] | None, owner: type) -> Any:
        if handler is None:
            return self
        try:
            stream = handler.__dict__["stream"]
        except KeyError:
            raise AttributeError(f"'{owner.__name__}' object has no attribute 'stream'") from None
        if stream is not None and Door.outlet(current.get()) is not None:
            for name in NAMES:
                door = _doors.get(name)
                if door is not None and (
                    stream is door.target or stream is door.first or stream is getattr(sys, f"__{name}__")
                ):
                    return door.seen()
        return stream

    def __set__(self, handler: logging.StreamHandler[Any], stream: Any) -> None:
        if isinstance(
            stream, WorkerStream
        ):  # a handler that a task makes may outlive the task, so it keeps the driver's stream
            stream = driver_stream(stream._door.name)
        handler.__dict__["stream"] = stream


def descriptors() -> tuple[int, int] | None:
    """The file descriptors that are standard output and error for the caller's worker and its children; None: those of
    the process."""
    outlet = Door.outlet(current.get())
    return None if outlet is None else outlet.descriptors()


_showing: set[int] = set()  # idents of the threads that are in `write_to_driver`
_lock = threading.RLock()  # held while doors are opened and closed; all other code reads single references
_holders: list[object] = []  # the objects that need the doors: sessions, and progress bars on a terminal
_session: object = None  # the holder that has set `Door.find_outlet`
_doors: dict[str, Door] = {}
_sys_class: type = type(sys)
above_bars: Callable[[Any, str], int] | None = None
"""How to write above progress bars on the terminal; set by `progress_bars`. Called with the stream and the text."""


def open_doors(holder: object, find_outlet: Callable[[Execution | WorkerProcess], Outlet | None] | None = None) -> None:
    """Put the doors in place, unless they are. They stay until each holder has called `close_doors`.

    find_outlet: given by a session; see Door.
    """
    global _session, _sys_class
    with _lock:
        if not _holders:
            _sys_class = type(sys)
            _doors.update((name, Door(name, sys.__dict__.get(name))) for name in NAMES)
            sys.__dict__.update(_doors)
            attributes: dict[str, Any] = {name: _attribute(door) for name, door in _doors.items()}
            # A library that pickles functions sends modules by name, but recognises a module by its exact type.
            attributes["__reduce__"] = lambda module: (importlib.import_module, ("sys",))
            # importlib makes each new module by calling type(sys). New modules must be plain modules.
            attributes["__new__"] = lambda cls, name, doc=None: _sys_class(name, doc)
            if sys.version_info >= (3, 14):
                attributes["__getattr__"] = _missing
            sys.__class__ = type("module", (_sys_class,), attributes)
        _holders.append(holder)
        if find_outlet is not None:
            _session, Door.find_outlet = holder, find_outlet
            when_imported("logging", _lead_handlers)


def _has_descriptor(logging_module: Any) -> bool:
    """Whether the handlers have our `stream`. A module that another thread is importing may have no handlers yet."""
    return "stream" in vars(getattr(logging_module, "StreamHandler", object))


def _lead_handlers(module: Any) -> None:
    """Let the handlers of `logging` write to the stream of the task that logs."""
    if not _has_descriptor(module):
        setattr(module.StreamHandler, "stream", _HandlerStream())  # noqa: B010 - to mypy it is a stream


def after_fork() -> None:
    """In a forked child: a thread of the parent may have held the lock, and is not there to release it."""
    global _lock
    _lock = threading.RLock()


def _attribute(door: Door) -> property:
    return property(
        lambda module: door.seen(), lambda module, stream: door.replace(stream), lambda module: door.replace(None)
    )


def _missing(module: Any, name: str) -> Any:
    """`__getattr__` of the module `sys`, with Python's error. Since Python 3.14, code that runs often reads a module's
    attributes from its `__dict__`, and so passes by the properties above, unless the module's class has this method."""
    raise AttributeError(f"module 'sys' has no attribute {name!r}", name=name, obj=module)


def close_doors(holder: object) -> None:
    """The holder no longer needs the doors. When the last holder calls this, they are removed; streams that the program
    has set meanwhile stay set."""
    global _session
    with _lock:
        _holders.remove(holder)
        if _session is holder:
            _session = Door.find_outlet = None
            module = no_longer("logging")
            if module is not None and _has_descriptor(module):
                delattr(module.StreamHandler, "stream")  # noqa: B043
        if not _holders:
            sys.__class__ = _sys_class
            sys.__dict__.update((name, door.target) for name, door in _doors.items())
            _doors.clear()


def driver_stream(name: str) -> Any:
    """The driver's stream at present, even if a task asks. name: "stdout" or "stderr"."""
    door = _doors.get(name)
    return door.target if door is not None else getattr(sys, name)


def write_to_driver(name: str, text: str) -> bool:
    """Write whole lines to the driver's stream, in one piece. Returns whether that succeeded. Never raises an
    Exception.

    A stream that is closed, or fails, must not fail the task that printed; its text is in the log anyway. Characters
    that the stream's encoding lacks are written as escapes.
    """
    stream = driver_stream(name)
    if stream is None:
        return False
    # If the stream is user code and prints something itself, it prints for the driver.
    token, ident = current.set(None), get_ident()
    inside = ident in _showing
    _showing.add(ident)
    try:
        try:
            _write(stream, text)
        except UnicodeEncodeError:
            encoding = getattr(stream, "encoding", None) or "utf-8"
            _write(stream, text.encode(encoding, "backslashreplace").decode(encoding))
        return True
    except Exception:
        return False
    finally:
        if not inside:
            _showing.discard(ident)
        current.reset(token)


def _write(stream: Any, text: str) -> None:
    if above_bars is None:
        stream.write(text)
    else:
        above_bars(stream, text)
