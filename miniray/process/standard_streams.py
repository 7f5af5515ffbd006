"""Standard output and error in a process where many workers write: who writes decides where the text goes.

In Ray each worker is a process with its own `sys.stdout`. Here all share one, so while a session runs, a *door* stands
in its place. It looks at `context.current`: what the driver writes goes to the driver's stream, what a task writes goes
to the session's logs. Three things make that hold whatever the program does with `sys.stdout`:

- `print`, `input` and the interpreter itself find the stream in `sys.__dict__`; there stands the door, always.
- Everything else reads and sets the attribute `sys.stdout`. While a door is open the `sys` module has a class in which
  that is a property. On the driver it gives and takes the driver's own stream, unwrapped: in `redirect_stdout(buffer)`,
  or in a test with capsys, `sys.stdout` is what was put there, and tasks' lines reach it too. In a task it gives the
  worker's stream, and what a task sets there is set for its worker alone.
- `logging.StreamHandler` keeps the stream it was made with. Its attribute `stream` becomes a descriptor likewise: a
  handler that holds the driver's screen writes to the worker's stream while a task logs.

Replacing `sys.stdout` once would not do: the next `redirect_stdout` puts the replacement out of play until it ends, and
a task that runs meanwhile would print past us. Checking at the start of each task costs every task, and misses those
that run already. When the last door closes, `sys` and `logging` are as they were. Ray: configure_log_file,
log_monitor.py.
"""

from __future__ import annotations

import importlib
import io
import logging
import sys
import threading
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from .context import Execution, current

NAMES = ("stdout", "stderr")


class Outlet(Protocol):
    """Where one worker's text goes. redirected: what its tasks have set `sys.stdout` or `sys.stderr` to, by name."""

    redirected: dict[str, Any]

    def write(self, execution: Execution, name: str, text: str) -> None:
        """Take what a task wrote; name is "stdout" or "stderr"."""


class _Nowhere:
    """The outlet of a worker that is dead: in Ray its process would be gone."""

    redirected: dict[str, Any] = {}

    def write(self, execution: Execution, name: str, text: str) -> None:
        """Drop it."""


NOWHERE: Outlet = _Nowhere()


class WorkerStream:
    """What `sys.stdout` or `sys.stderr` is in a task: a text file that can only be written to, as in Ray's workers."""

    encoding, errors, newlines, mode = "utf-8", "backslashreplace", None, "w"
    closed, line_buffering, write_through = False, True, False

    def __init__(self, door: "Door"):
        self._door = door
        self.name = f"<{door.name}>"
        self.buffer = _WorkerBytes(self)

    def write(self, text: str) -> int:
        """Write text for the task that calls; for the driver, when it is called outside of one."""
        return self._door.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of them."""
        for line in lines:
            self._door.write(line)

    def flush(self) -> None:
        """Nothing is held back but a line that has not ended."""

    def close(self) -> None:
        """The worker's streams stay open."""

    def isatty(self) -> bool:
        """False: a worker writes to a log."""
        return False

    def readable(self) -> bool:
        """False."""
        return False

    def writable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """False."""
        return False

    def reconfigure(self, **options: Any) -> None:
        """Accepted, and changes nothing: the encoding is the log's."""

    def fileno(self) -> int:
        """The driver's descriptor, for a subprocess to inherit. Raises io.UnsupportedOperation when it has none."""
        return self._door.target.fileno()

    def __reduce__(self):
        raise TypeError("cannot pickle '_io.TextIOWrapper' object")  # what Ray's workers have there, and say


io.TextIOBase.register(WorkerStream)


class _WorkerBytes:
    """`sys.stdout.buffer` in a task: UTF-8 that is written as text. Half a character is kept until its rest comes."""

    def __init__(self, stream: WorkerStream):
        self.raw = stream
        self._decode = getincrementaldecoder("utf-8")("backslashreplace").decode

    def write(self, data: bytes) -> int:
        """Write bytes; returns how many."""
        self.raw.write(self._decode(bytes(data)))
        return len(data)

    def flush(self) -> None:
        """Nothing is held back."""


class Door:
    """What stands in `sys.__dict__` in place of a standard stream.

    target: the driver's own stream as it is now, None when it has none. first: what it was when the door was opened.
    face: what the stream is in tasks. find_outlet: who takes the text of an execution, None while no session is there.
    """

    find_outlet: Callable[[Execution], Outlet | None] | None = None  # the class's: the same for both streams

    def __init__(self, name: str, target: Any):
        self.name, self.target, self.first = name, target, target
        self.face = WorkerStream(self)

    @staticmethod
    def outlet(execution: Execution | None) -> Outlet | None:
        """Who takes what this execution writes; None for the driver's own."""
        return None if execution is None or Door.find_outlet is None else Door.find_outlet(execution)

    def write(self, text: str) -> int:
        """Write for whoever calls. TypeError when text is no str."""
        execution = current.get()
        outlet = self.outlet(execution)
        if outlet is None or execution is None:
            stream = self.target if _doors.get(self.name) is self else getattr(sys, self.name)
            if stream is None:
                return len(text)
            return stream.write(text) if above_bars is None else above_bars(stream, text)
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        stream = outlet.redirected.get(self.name, self.face)
        if stream is self.face:
            outlet.write(execution, self.name, text)
        elif stream is not None:
            return stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream of whoever calls."""
        stream = self.seen()
        if stream is not None:
            stream.flush()

    def seen(self) -> Any:
        """What `sys.stdout` is for whoever asks."""
        outlet = self.outlet(current.get())
        return self.target if outlet is None else outlet.redirected.get(self.name, self.face)

    def replace(self, stream: Any) -> None:
        """`sys.stdout = stream`, by whoever calls."""
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
    """`stream` of every logging.StreamHandler: what is the driver's screen becomes in a task the worker's stream."""

    def __get__(self, handler: logging.StreamHandler | None, owner: type) -> Any:
        if handler is None:
            return self
        try:
            stream = handler.__dict__["stream"]
        except KeyError:
            raise AttributeError(f"'{owner.__name__}' object has no attribute 'stream'") from None
        if stream is not None and current.get() is not None:
            for name in NAMES:
                door = _doors.get(name)
                if door is not None and (
                    stream is door.target or stream is door.first or stream is getattr(sys, f"__{name}__")
                ):
                    return door.seen()
        return stream

    def __set__(self, handler: logging.StreamHandler, stream: Any) -> None:
        if isinstance(stream, WorkerStream):  # a handler made in a task outlives it: it holds the screen itself
            stream = driver_stream(stream._door.name)
        handler.__dict__["stream"] = stream


_lock = threading.Lock()  # guards opening and closing; the rest reads single references
_holders: list[object] = []  # whoever needs the doors open: a session, bars on a terminal
_session: object = None  # the holder whose workers are told apart
_doors: dict[str, Door] = {}
_sys_class: type = type(sys)
above_bars: Callable[[Any, str], int] | None = None
"""How to write while progress bars stand on the terminal: set by `bars`; called with the stream and the text."""


def open_doors(holder: object, find_outlet: Callable[[Execution], Outlet | None] | None = None) -> None:
    """Put the doors in place, if they are not; they stay until each holder has closed them.

    find_outlet: given by a session: who takes the text of an execution, None for one whose text is the driver's own.
    """
    global _session, _sys_class
    with _lock:
        if not _holders:
            _sys_class = type(sys)
            _doors.update((name, Door(name, sys.__dict__.get(name))) for name in NAMES)
            sys.__dict__.update(_doors)
            attributes: dict[str, Any] = {name: _attribute(door) for name, door in _doors.items()}
            # Who pickles functions that use `sys` sends modules by name, and knows them by their exact type.
            attributes["__reduce__"] = lambda module: (importlib.import_module, ("sys",))
            # importlib makes every new module by calling type(sys): those are to be plain ones.
            attributes["__new__"] = lambda cls, name, doc=None: _sys_class(name, doc)
            sys.__class__ = type("module", (_sys_class,), attributes)
        _holders.append(holder)
        if find_outlet is not None:
            _session, Door.find_outlet = holder, find_outlet
            setattr(logging.StreamHandler, "stream", _HandlerStream())  # noqa: B010 - a checker knows it as a stream


def after_fork() -> None:
    """In a forked child: a thread of the parent's may have held the lock."""
    global _lock
    _lock = threading.Lock()


def _attribute(door: Door) -> property:
    return property(
        lambda module: door.seen(), lambda module, stream: door.replace(stream), lambda module: door.replace(None)
    )


def close_doors(holder: object) -> None:
    """A holder needs them no more. The last one takes them away; streams that the program set meanwhile stay set."""
    global _session
    with _lock:
        _holders.remove(holder)
        if _session is holder:
            _session = Door.find_outlet = None
            delattr(logging.StreamHandler, "stream")  # noqa: B043
        if not _holders:
            sys.__class__ = _sys_class
            sys.__dict__.update((name, door.target) for name, door in _doors.items())
            _doors.clear()


def driver_stream(name: str) -> Any:
    """The driver's stream as it is now, also when a task asks."""
    door = _doors.get(name)
    return door.target if door is not None else getattr(sys, name)


def write_to_driver(name: str, text: str) -> bool:
    """Write whole lines to the driver's stream, in one piece. Returns whether that could be done.

    A screen that is gone, closed or refuses must not fail the task that printed: its text is in the log all the same.
    What the stream's encoding lacks is written as escapes.
    """
    stream = driver_stream(name)
    if stream is None:
        return False
    token = current.set(None)  # a stream that is user code, and prints, prints for the driver
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
        current.reset(token)


def _write(stream: Any, text: str) -> None:
    if above_bars is None:
        stream.write(text)
    else:
        above_bars(stream, text)
