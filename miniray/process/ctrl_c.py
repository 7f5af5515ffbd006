"""Ctrl-C: a KeyboardInterrupt comes out of the user's code or out of a wait, never out of the middle of an event in the core.

Python runs a signal's handler between any two steps of the main thread. One that raises in the middle of `.remote()` would leave
the core's lock held or its tables half changed, and the session could only be thrown away. So while the main thread is
inside a call of ours, the interrupt is put off until it is not.

Only Python's own handler is replaced, and nobody sees that it was: `signal.getsignal` tells of Python's, so that `asyncio.run` puts
its own in place, which cancels the main coroutine. A handler that is set during the session is called behind ours, at once; only
what it raises is put off. One that was set before has other plans, and is left alone.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from functools import wraps
from types import FrameType
from typing import Any, Callable, Optional

from . import our_code
from .context import current

LIBRARY = os.path.dirname(os.__file__) + os.sep
INSTALLED = os.path.join(LIBRARY, "site-packages") + os.sep
RETRY_S = 0.001

Handler = Callable[[int, Optional[FrameType]], Any]
_signal, _getsignal = signal.signal, signal.getsignal
behind: Handler = signal.default_int_handler  # what the program takes for the handler; called where it may be
put_off: object | None = None  # one for each interrupt that was put off; None when it has been raised
on_its_way = False  # it was sent once more, and the main thread has not heard of that yet
overtaken = False  # and it was raised meanwhile: that is not to be raised again
_sending = (
    _thread.allocate_lock()
)  # held while it is sent, and while it is noted that there is nothing to send any more
in_task = False  # what was interrupted is a task on the main thread, in local_mode


def install() -> None:
    """Take Ctrl-C over, if it is still Python's and this is the main thread."""
    global behind
    if _getsignal(signal.SIGINT) is not _on_interrupt:  # a session that ended on another thread could not give it back
        behind = signal.default_int_handler
    signal.__dict__.update(signal=_set, getsignal=_get)
    _replace(signal.default_int_handler, _on_interrupt)


def uninstall() -> None:
    """Give Ctrl-C back to whoever has it behind us, unless an interrupt is still to be raised."""
    signal.__dict__.update(signal=_signal, getsignal=_getsignal)
    if put_off is None:
        _replace(_on_interrupt, behind)


def _replace(old: Any, new: Any) -> None:
    if threading.current_thread() is threading.main_thread() and _getsignal(signal.SIGINT) is old:
        _signal(signal.SIGINT, new)


@wraps(_signal)
def _set(number: Any, handler: Any) -> Any:
    """`signal.signal`: what is set in place of Python's handler, or is Python's, stands behind ours."""
    global behind
    ours = (
        number == signal.SIGINT
        and callable(handler)
        and (handler is signal.default_int_handler or _getsignal(number) is _on_interrupt)
    )
    before = _get(number)
    _signal(number, _on_interrupt if ours else handler)
    if ours:
        behind = handler
    return before


@wraps(_getsignal)
def _get(number: Any) -> Any:
    """`signal.getsignal`: what the program has set itself."""
    handler = _getsignal(number)
    return behind if handler is _on_interrupt else handler


def interrupt() -> None:
    """Raise the KeyboardInterrupt here and now. To be called on the main thread."""
    global in_task
    _put_off_no_more()
    in_task = current.get() is not None
    raise KeyboardInterrupt


def _put_off_no_more() -> None:
    global put_off, overtaken
    with _sending:
        put_off, overtaken = None, on_its_way


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    global put_off, on_its_way, overtaken
    on_its_way = False  # it is this one, or came together with it
    if overtaken:
        overtaken = False
        return
    if not inside(frame):
        if behind is signal.default_int_handler:
            interrupt()
        _put_off_no_more()
        behind(number, frame)
        if _blocks_a_loop(frame):
            raise KeyboardInterrupt
    elif put_off is None and _wants_to_raise(number, frame):
        put_off = object()
        _thread.start_new_thread(_again, (threading.get_ident(), put_off))


def _blocks_a_loop(frame: FrameType | None) -> bool:
    """Whether a `get` or `wait` stands where `asyncio.run` should go on: it has cancelled the main coroutine now, which nobody
    would find out before that is over."""
    while frame is not None and frame.f_code not in our_code.parks and _of_the_library(frame.f_code.co_filename):
        frame = frame.f_back
    runner = getattr(getattr(behind, "func", None), "__self__", None)
    asyncio = sys.modules.get("asyncio")
    return (
        frame is not None
        and frame.f_code in our_code.parks
        and asyncio is not None
        and isinstance(runner, getattr(asyncio, "Runner", ()))
    )


def _wants_to_raise(number: int, frame: FrameType | None) -> bool:
    """Whether the handler would raise here: Python's own does; any other is called. asyncio's does at the second time."""
    if behind is signal.default_int_handler:
        return True
    try:
        behind(number, frame)
    except KeyboardInterrupt:
        return True
    return False


def _again(ident: int, this: object) -> None:
    """Interrupt the main thread once more, and again until it is found where it can be interrupted. Never before it has heard of
    the last time: on a machine that is slow it would hear of the others afterwards, as if the key had been pressed again."""
    global put_off, on_its_way
    never = _thread.allocate_lock()
    never.acquire()
    never.acquire(True, RETRY_S)
    while put_off is this:
        if _getsignal(signal.SIGINT) is not _on_interrupt:  # somebody else's handler now: it hears of it once
            put_off = None
            _interrupt(ident)
            return
        with _sending:
            if put_off is this and not on_its_way:
                on_its_way = True
                _interrupt(ident)
        never.acquire(True, RETRY_S)


def _interrupt(ident: int) -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(ident, signal.SIGINT)  # which also ends the wait for a lock
    else:
        _thread.interrupt_main()


def _after_fork() -> None:
    """The thread that would try again is not in the child, and its parent's Ctrl-C not its own."""
    global put_off, _sending, on_its_way, overtaken
    put_off, _sending, on_its_way, overtaken = None, _thread.allocate_lock(), False, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def inside(frame: FrameType | None) -> bool:
    """Whether the innermost code that is not the standard library's is a call of ours that must come to its end."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(our_code.FOLDER):
            return frame.f_code not in our_code.waits and not name.startswith(our_code.AS_USERS)
        if not _of_the_library(name):
            return False
        frame = frame.f_back
    return False


def _of_the_library(name: str) -> bool:
    return name.startswith("<frozen") or name.startswith(LIBRARY) and not name.startswith(INSTALLED)
