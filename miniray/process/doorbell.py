"""How a program that was started without preparation hears that somebody asks about its session.

A session keeps neither a thread nor a file nor a socket for this. It only handles one signal, SIGURG, which the system
ignores in a program that does not handle it. The asker makes a socket, sends the signal, and waits for the program to
connect (see `telemetry.stack_socket`). The handler starts a thread that does so. The handler itself runs on the main
thread, maybe in the middle of an event in the core, so it does nothing else.

The program does not notice: `signal.getsignal` returns what it would without us. If the program handles SIGURG itself,
or if its session was started by another thread than the main thread, nobody can ask.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import signal
import threading
import time
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

NUMBER: int = int(getattr(signal, "SIGURG", 0))  # 0 where there is no such signal
_set_handler, _get_handler = _signal.signal, _signal.getsignal  # the originals: a session replaces them
start_real_thread, new_real_lock = _thread.start_new_thread, _thread.allocate_lock  # also while a simulation runs
real_clock = time.monotonic  # this, too
_main_thread = threading.main_thread
_answer: Callable[[], None] = lambda: None


def ring(number: int, frame: FrameType | None) -> None:
    """The handler of the signal."""
    try:
        start_real_thread(_answer, ())
    except (RuntimeError, MemoryError):  # no more threads: the asker gets no answer in time
        return


def install(answer: Callable[[], None]) -> None:
    """Have `answer` called, on a thread of its own, when the signal comes. Does nothing if the program handles the
    signal, and on any thread but the main one."""
    global _answer
    _answer = answer
    if _can_be_set() and _get_handler(NUMBER) == _signal.SIG_DFL:
        _set_handler(NUMBER, ring)


def uninstall() -> None:
    """Restore what was before, unless the program has set a handler meanwhile."""
    if _can_be_set() and _get_handler(NUMBER) is ring:
        _set_handler(NUMBER, _signal.SIG_DFL)


def _can_be_set() -> bool:
    return bool(NUMBER) and _thread.get_ident() == _main_thread().ident


def seen(handler: Any) -> Any:
    """A handler as the program sees it."""
    return _signal.SIG_DFL if handler is ring else handler
