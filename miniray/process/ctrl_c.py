"""Ctrl-C: KeyboardInterrupt is raised in the user's code or in a wait, never in the middle of an event in the core.

Python runs a signal handler between any two steps of the main thread. If the handler raised in the middle of
`.remote()`, the core's lock would stay held or its tables half changed, and the session would be lost. So while the
main thread is inside a call of ours, the interrupt is postponed: a helper thread sends the signal again until the
handler finds the main thread in a place where it may raise.

Only Python's own handler is replaced, and the program does not notice: `signal.getsignal` still returns Python's
handler. So `asyncio.run` still installs its own handler, which cancels the main coroutine. If the program sets a
handler during the session, our handler calls it at once; only an exception that it raises is postponed. A handler that
the program set before the session is not replaced.
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
behind: Handler = signal.default_int_handler  # the handler that the program believes to be installed; ours calls it
postponed: object | None = None  # a new object for each interrupt that was postponed; None once it has been raised
resent = False  # the signal was sent again, and our handler has not been called for it yet
already_raised = False  # the postponed interrupt was raised in the meantime, so the resent signal must be ignored
_sending = _thread.allocate_lock()  # held while the signal is sent again, and while `postponed` is cleared
in_task = False  # the last KeyboardInterrupt was raised in a task on the main thread, in local_mode


def install() -> None:
    """Replace the handler of Ctrl-C, if it is still Python's own and this is the main thread."""
    global behind
    # Our handler may still be installed, if the last session ended on a thread that could not restore the other.
    if _getsignal(signal.SIGINT) is not _on_interrupt:
        behind = signal.default_int_handler
    signal.__dict__.update(signal=_set, getsignal=_get)
    _replace(signal.default_int_handler, _on_interrupt)


def uninstall() -> None:
    """Restore the program's handler, unless a postponed interrupt is still to be raised."""
    signal.__dict__.update(signal=_signal, getsignal=_getsignal)
    if postponed is None:
        _replace(_on_interrupt, behind)


def _replace(old: Any, new: Any) -> None:
    if threading.current_thread() is threading.main_thread() and _getsignal(signal.SIGINT) is old:
        _signal(signal.SIGINT, new)


@wraps(_signal)
def _set(number: Any, handler: Any) -> Any:
    """Stands in for `signal.signal`. Python's handler, and any that takes its place, goes to `behind`."""
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
    """Stands in for `signal.getsignal`: returns the handler that the program has set."""
    handler = _getsignal(number)
    return behind if handler is _on_interrupt else handler


def interrupt() -> None:
    """Raise KeyboardInterrupt at once. Called on the main thread."""
    global in_task
    _clear_postponed()
    in_task = current.get() is not None
    raise KeyboardInterrupt


def _clear_postponed() -> None:
    global postponed, already_raised
    with _sending:
        postponed, already_raised = None, resent


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    """Our handler of SIGINT: raise or call the program's handler, or postpone the interrupt."""
    global postponed, resent, already_raised
    resent = False  # this is the resent signal, or a new one that arrived together with it
    if already_raised:
        already_raised = False
        return
    if not inside(frame):
        if behind is signal.default_int_handler:
            interrupt()
        _clear_postponed()
        behind(number, frame)
        if _blocks_a_loop(frame):
            raise KeyboardInterrupt
    elif postponed is None and _wants_to_raise(number, frame):
        postponed = object()
        _thread.start_new_thread(_resend_until_raised, (threading.get_ident(), postponed))


def _blocks_a_loop(frame: FrameType | None) -> bool:
    """Whether a `get` or `wait` blocks the event loop of `asyncio.run`. The handler of `asyncio.run` has just cancelled
    the main coroutine, but the coroutine would not notice before the wait is over; so the wait must be interrupted as
    well."""
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
    """Whether the program's handler raises KeyboardInterrupt. Python's own does, and is not called; any other handler
    is called to find out. The handler of asyncio raises from the second time on."""
    if behind is signal.default_int_handler:
        return True
    try:
        behind(number, frame)
    except KeyboardInterrupt:
        return True
    return False


def _resend_until_raised(ident: int, this: object) -> None:
    """On a helper thread: send the signal to the main thread again and again, until the interrupt `this` has been
    raised.

    The signal is not sent again before our handler has been called for the last one. On a slow machine the handler
    would otherwise be called several times afterwards, as if the user had pressed the keys again.
    """
    global postponed, resent
    never = _thread.allocate_lock()
    never.acquire()
    never.acquire(True, RETRY_S)
    while postponed is this:
        if _getsignal(signal.SIGINT) is not _on_interrupt:  # the program's handler has taken over; it is called once
            postponed = None
            _send(ident)
            return
        with _sending:
            if postponed is this and not resent:
                resent = True
                _send(ident)
        never.acquire(True, RETRY_S)


def _send(ident: int) -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(ident, signal.SIGINT)  # unlike interrupt_main, this also ends a wait for a lock
    else:
        _thread.interrupt_main()


def _after_fork() -> None:
    """In a forked child: the helper thread does not exist there, and the parent's Ctrl-C is not meant for the child."""
    global postponed, _sending, resent, already_raised
    postponed, _sending, resent, already_raised = None, _thread.allocate_lock(), False, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def inside(frame: FrameType | None) -> bool:
    """Whether the innermost frame outside of the standard library is a call of ours that must not be interrupted."""
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
