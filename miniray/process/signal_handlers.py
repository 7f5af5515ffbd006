"""Signal handlers: they run in the user's code or in a wait, never in the middle of an event in the core.

Python runs a signal handler on the main thread, between any two steps. A handler in the middle of `.remote()` would
find the core's lock taken by its own thread, and wait for it forever; one that raised, as the handler of Ctrl-C does,
would leave the tables half changed. So while a session runs, one handler of ours, `_on_signal`, stands in front of all
handlers of the program. If the main thread is in the user's code or in a wait, it calls the program's handler, and what
that raises comes out there. If the main thread is inside a call of ours, the signal is postponed: a helper thread sends
it again until the main thread is found outside. In a loop that does nothing but call us this could take long, so the
most frequent calls begin with a look at `postponed`. Several signals of one number may become one meanwhile, as signals
do.

The program does not notice. `signal.signal` and `signal.getsignal` take and return the program's handlers, also by
names that were imported before the session, since the functions behind both are replaced. SIG_IGN and SIG_DFL stay what
they are. `asyncio.run` still installs its own handler for Ctrl-C, which cancels the main coroutine; the empty function
that `loop.add_signal_handler` installs is left alone, since the loop hears of a signal in another way, and would hear
of it twice.

SIGTERM ends the program in order, as under Ray: while a session runs its handler raises SystemExit, so that `finally`
blocks and exit handlers run. As under Ray, a handler that the program has set before is passed over until the session
ends; one that it sets during the session is called instead.

Only the main thread can set handlers. A session that another thread starts changes none.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import os
import signal
import sys
import threading
from functools import wraps
from types import FrameType

from . import doorbell, our_code
from .context import current
from .our_code import enters_user_code
from .replaced import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

    Handler = Callable[[int, Optional[FrameType]], Any]

LIBRARY = os.path.dirname(os.__file__) + os.sep
INSTALLED = os.path.join(LIBRARY, "site-packages") + os.sep
PACKAGE = __name__.partition(".")[0]
RETRY_S = 0.001

_signal_signal, _signal_getsignal = _signal.signal, _signal.getsignal
_start_new_thread, _allocate_lock = _thread.start_new_thread, _thread.allocate_lock  # a simulation replaces them
_main_thread = threading.main_thread  # the original: `threads` replaces it while a session runs


class Watched:
    """A signal of which `_on_signal` is the handler.

    handler: the program's, as it believes to have installed it. postponed: the program's handler must still be called.
    resent: the helper has sent the signal again, and `_on_signal` has not been called since. ignored: the signal that
    was sent again is not needed any longer, since the handler was called meanwhile. busy: the program's handler
    runs. process: the process in which a signal was last postponed.
    """

    def __init__(self, number: int, handler: Handler):
        self.number, self.handler = number, handler
        self.resent = self.ignored = self.busy = False
        self.process = 0


watched: dict[int, Watched] = {}  # every signal whose handler is `_on_signal`, by number
postponed: dict[int, Watched] = {}  # those of them for which a signal was postponed
# what Ctrl-C or SIGTERM last raised in a task on the main thread (local_mode)
ended_in_task: BaseException | None = None
exits_by: signal.Signals | None = None  # the signal that has asked the program to end, while a session ran
_helping = False  # the helper thread runs
_sending = _thread.RLock()  # held while a signal is sent again, and while one is taken out of `postponed`
_core_lock: Any = None  # since the first session
_before_sigterm: Any = None  # the program's handler of SIGTERM before the session


def install(lock: Any) -> None:
    """Stand in front of the program's handlers, if this is the main thread. Undone by `uninstall`.

    lock: the core's lock.
    """
    global _before_sigterm, _core_lock
    _core_lock = lock
    replace(_signal, "signal", _set)
    replace(_signal, "getsignal", _get)
    if not _on_main_thread():
        return
    for number in signal.valid_signals():
        handler = _signal_getsignal(number)
        if handler is not _on_signal and callable(
            doorbell.seen(handler)
        ):  # ours is there if the last session ended on another thread
            _set(number, handler)
    before = _get(signal.SIGTERM)
    if before is not _exit and before is not None:  # None: C code has set a handler, which could not be restored
        _before_sigterm = _set(signal.SIGTERM, _exit)


def uninstall() -> None:
    """Restore the program's handlers, if this is the main thread. A signal that is still postponed keeps ours."""
    if not _on_main_thread():
        return
    if _get(signal.SIGTERM) is _exit and signal.SIGTERM not in postponed:
        _set(signal.SIGTERM, _before_sigterm)
    for number, state in watched.copy().items():
        if number not in postponed and _signal_getsignal(number) is _on_signal:
            _settle(state)
            _signal_signal(number, state.handler)
            del watched[number]


def _on_main_thread() -> bool:
    return _thread.get_ident() == _main_thread().ident


@wraps(_signal_signal)
def _set(number: Any, handler: Any, /) -> Any:
    """Stands in for `signal.signal`."""
    before = _get(number)
    state = watched.get(int(number))
    if state is not None and _on_main_thread():
        _settle(state)
    if not callable(handler) or _is_loops(handler):
        _signal_signal(number, handler)
        with _sending:  # a signal may have been postponed since `_settle`
            watched.pop(int(number), None)
            postponed.pop(int(number), None)
        return before
    _signal_signal(number, _on_signal)  # raises if the program may not do this; then nothing has changed
    if state is None:
        state = watched[int(number)] = Watched(int(number), handler)
    state.handler = handler
    return before


def _settle(state: Watched) -> None:
    """Another handler is about to be set. A signal that was postponed came before, so its handler is called now. A
    signal that was sent again must not find the new handler, which may be SIG_DFL.
    """
    if state.number in postponed:
        _call(state, sys._getframe(2))
    if state.resent:
        os.getppid()  # a signal that was sent earlier has been delivered when a system call returns


@wraps(_signal_getsignal)
def _get(number: Any, /) -> Any:
    """Stands in for `signal.getsignal`: returns the handler that the program has set."""
    handler = doorbell.seen(_signal_getsignal(number))
    return watched[int(number)].handler if handler is _on_signal else handler


def _is_loops(handler: Any) -> bool:
    """Whether this is the empty function that asyncio installs: C code tells the loop of the signal."""
    unix = sys.modules.get("asyncio.unix_events")
    return unix is not None and handler is getattr(unix, "_sighandler_noop", None)


def _exit(number: int, frame: FrameType | None) -> None:
    """The handler of SIGTERM while a session runs."""
    global exits_by
    exits_by = signal.Signals(number)
    _raise(SystemExit(number))


EXIT = _exit.__code__  # for code that looks in a traceback for the handler of SIGTERM


def handler_of(number: int) -> Any:
    """The program's handler of a signal, in a session or not."""
    return _get(number)


def exchange(number: int, handler: Handler) -> Any:
    """Let the main thread call another handler, in a session or not, and return the one before. Does nothing, and
    returns None, if the program does not handle this signal. A signal that is postponed stays so, and calls the new
    handler.

    The session's own handler of SIGTERM stays, since it ends with the session.
    """
    before = doorbell.seen(_signal_getsignal(number))
    state = watched.get(number) if before is _on_signal else None
    if state is not None:
        before = state.handler
    if not callable(before) or before is _exit or _is_loops(before):
        return None
    if state is not None:
        state.handler = handler
    else:
        _signal_signal(number, handler)
    return before


def restore_afterwards(number: int, stand_in: Handler, handler: Any) -> None:
    """Let the session's end restore a handler in place of another one that stood in for it when the session began."""
    global _before_sigterm
    if number == signal.SIGTERM and _before_sigterm is stand_in:
        _before_sigterm = handler


def _raise(error: BaseException) -> None:
    global ended_in_task
    if current.get() is not None:
        ended_in_task = error
    raise error


def call_postponed() -> None:
    """Call the handlers of the signals that were postponed, if this is the main thread. Called outside of the core,
    where a call of ours begins or a task has ended.
    """
    if not _on_main_thread():
        return
    for state in list(postponed.values()):
        _call(state, sys._getframe(1))


def _on_signal(number: int, frame: FrameType | None) -> None:
    """The handler of all signals that the program handles: call the program's handler, or postpone the signal."""
    state = watched.get(number)
    if state is None:
        return
    state.resent = False  # this is the resent signal, or a new one that arrived together with it
    if state.ignored:
        state.ignored = False
    elif inside(frame) or state.busy and number != signal.SIGINT and _waits(frame):
        _postpone(state)
    else:
        _call(state, frame)


@enters_user_code
def _call(state: Watched, frame: FrameType | None) -> None:
    with _sending:
        postponed.pop(state.number, None)
        state.ignored = state.resent
    handler = state.handler
    if handler is signal.default_int_handler:
        _raise(KeyboardInterrupt())
    outer, state.busy = state.busy, True
    try:
        handler(state.number, frame)
    finally:
        state.busy = outer
    if state.number == signal.SIGINT and _blocks_a_loop(handler, frame):
        raise KeyboardInterrupt


def _waits(frame: FrameType | None) -> bool:
    """Whether the main thread is in a wait of ours. If the handler of this signal waits there, a signal that arrives
    faster than the handler ends would otherwise call it once more inside itself, and so on without an end."""
    while frame is not None and _of_the_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame is not None and frame.f_code in our_code.waits


def _blocks_a_loop(handler: Any, frame: FrameType | None) -> bool:
    """Whether a `get` or `wait` blocks the event loop of `asyncio.run`. The handler of `asyncio.run` has just cancelled
    the main coroutine, but the coroutine would not notice before the wait is over; so the wait must be interrupted as
    well."""
    while frame is not None and frame.f_code not in our_code.parks and _of_the_library(frame.f_code.co_filename):
        frame = frame.f_back
    runner = getattr(getattr(handler, "func", None), "__self__", None)
    asyncio = sys.modules.get("asyncio")
    return (
        frame is not None
        and frame.f_code in our_code.parks
        and asyncio is not None
        and isinstance(runner, getattr(asyncio, "Runner", ()))
    )


def _postpone(state: Watched) -> None:
    """Have the helper send the signal again. Takes no lock: the main thread may hold it at this moment."""
    global _helping
    state.process = os.getpid()
    postponed[state.number] = state
    if not _helping:
        _helping = True
        try:
            _start_new_thread(_resend, (_main_thread().ident,))
        except (RuntimeError, MemoryError):  # no more threads: the next signal of this kind calls the handler
            _helping = False


def _resend(ident: Any) -> None:
    """On the helper thread: send the postponed signals to the main thread again and again, until none is postponed.

    A signal is not sent again before our handler has been called for the last one. On a slow machine the handler would
    otherwise be called several times afterwards, as if the user had pressed the keys again.
    """
    global _helping
    never = _allocate_lock()
    never.acquire()
    while True:
        while postponed:
            never.acquire(True, RETRY_S)
            # A copy in one step. A list of the items would allocate each, and so may run a finaliser in the middle.
            for number, state in postponed.copy().items():
                with _sending:
                    if number not in postponed:
                        continue
                    handler = _signal_getsignal(number)
                    if handler is not _on_signal:  # another handler has taken over: it is called once
                        del postponed[number]
                        if callable(handler):  # SIG_DFL would end the process, although the signal came before it
                            _send(ident, number)
                    elif not state.resent:
                        state.resent = True
                        _send(ident, number)
        _helping = False
        if not postponed:  # otherwise a signal was postponed after the loop, and the main thread counted on us
            return
        _helping = True


def _send(ident: int, number: Any) -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(ident, number)  # unlike interrupt_main, this also ends a wait for a lock
    else:
        _thread.interrupt_main(number)


def _after_fork() -> None:
    """In a forked child: the helper thread does not exist there, and the parent's signals are not meant for the
    child.
    """
    global _sending, _helping, exits_by
    _sending, _helping, exits_by = _thread.RLock(), False, None
    for state in watched.values():
        state.resent = state.ignored = False
        if postponed.pop(state.number, None) is not None and state.process == os.getpid():
            _postpone(state)  # it came in the child, before this function was called


_masks: dict[int, Any] = {}  # of the threads that are forking: the signals that were blocked before


def _before_fork() -> None:
    """SIGTERM ends a child at once, as it does without a session. Python forgets a signal that arrives before the child
    has finished its hooks, if there is a handler in Python; so it waits until the program's own setting is back."""
    if _signal_getsignal(signal.SIGTERM) is _on_signal:
        _masks[_thread.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def forked() -> None:
    """After a fork, in the parent, and in the child when the session's hooks are removed: deliver signals again."""
    mask = _masks.pop(_thread.get_ident(), None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=forked, after_in_child=_after_fork)


def inside(frame: FrameType | None) -> bool:
    """Whether the main thread must not be interrupted: it is inside by a `with` statement on the core's lock, or the
    innermost frame outside of the standard library is a call of ours."""
    if _core_lock is not None and _core_lock.owner == _thread.get_ident():
        return True  # also where the library's parts that count as user code read the tables
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(our_code.FOLDER) and frame.f_code not in our_code.stand_ins:
            return frame.f_code not in our_code.waits and not name.startswith(our_code.AS_USERS)
        if not _counts_as_librarys(frame, name):
            return False
        frame = frame.f_back
    return False


def _counts_as_librarys(frame: FrameType, name: str) -> bool:
    if _of_the_library(name) or frame.f_code in our_code.stand_ins:
        return True
    return name == "<string>" and _is_generated(frame)


def _is_generated(frame: FrameType) -> bool:
    """Whether this is a function that the standard library has made from a string: the constructor of a namedtuple, or
    a method of a dataclass of ours. What follows `python -c` is a <string>, too."""
    module = str(frame.f_globals.get("__name__"))
    return module.startswith("namedtuple_") or module.partition(".")[0] == PACKAGE


def _of_the_library(name: str) -> bool:
    return name.startswith("<frozen") or name.startswith(LIBRARY) and not name.startswith(INSTALLED)
