"""Signals of a worker: the handlers and timers that a task sets, and the signals that it sends to its own process.

In Ray a worker is a process with a table of signal handlers and with timers of its own; its plain tasks run in its main
thread, where handlers run. Here the process's table belongs to the driver. So while a session runs, the functions of
`signal` work in a task on the table of its worker, and a signal to the own process goes to this table.

Where a handler runs. If the task sends itself a signal, the handler runs at once, as it does in Python. If a timer or
another thread of the worker sends it, Python would interrupt the main thread; here the handler runs on a thread of its
own, while the task goes on. It gets the task's frame, and sees the task's context and the task's thread as the main
thread. If it returns, nothing else happens. If it raises, this very exception is raised in the task, in the user's code
or out of a wait, and never in the middle of our own code (see `runtime.interrupts`). A call into C, such as the wait
for a lock, is not interrupted: the exception is raised when the call returns.

As in Ray's workers, SIGINT is blocked (only `interrupt_main` and `ray.cancel` call its handler), SIGTERM raises
SystemExit(1), and a signal without a handler ends the worker. The calls of async actors, and of actors with several
threads, are not in a main thread, so that they cannot set handlers.
"""

from __future__ import annotations

import _thread
import operator
import os
import signal
import sys
import time
from contextlib import suppress
from contextvars import Context, copy_context
from functools import wraps
from types import FrameType

from . import context, our_code
from .context import Execution, current
from .exits import WorkerExit
from .our_code import stands_in
from .replaced import replace
from .worker_process import MAIN, WorkerProcess, get_ident, here, serving, thread_ends

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

NOT_MAIN = "signal only works in main thread of the main interpreter"  # Python's own texts
NO_HANDLER = "signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object"
HARMLESS = {getattr(signal, name, None) for name in ("SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH")}
IGNORED = {getattr(signal, name, None) for name in ("SIGPIPE", "SIGXFSZ")}  # Python ignores them from the start
REAL = getattr(signal, "ITIMER_REAL", 0)
TIMERS = {
    getattr(signal, f"ITIMER_{name}"): getattr(signal, number)
    for name, number in (("REAL", "SIGALRM"), ("VIRTUAL", "SIGVTALRM"), ("PROF", "SIGPROF"))
    if hasattr(signal, f"ITIMER_{name}")
}


def _terminate(number: int, frame: FrameType | None) -> None:
    """The handler of SIGTERM with which a worker starts."""
    raise SystemExit(1)


class _Resumed(BaseException):
    """Ends `signal.pause` in a task: a handler has returned."""


class Signals:
    """One worker's table. handlers: those that differ from SIG_DFL, by the signal's number. contexts: in which they
    were set. timers: those that run, by Python's number for the kind. wakeup: of `set_wakeup_fd`. pauses: the task is
    in `pause`."""

    def __init__(self) -> None:
        self.handlers: dict[int, Any] = {number: signal.SIG_IGN for number in IGNORED if number is not None}
        self.handlers[signal.SIGINT], self.handlers[signal.SIGTERM] = signal.default_int_handler, _terminate
        self.contexts: dict[int, Context] = {}
        self.timers: dict[int, Timer] = {}
        self.wakeup = -1
        self.pauses = False


class Timer:
    """A timer that runs, on a helper thread. due, clock: when it sends its signal the next time, on which clock."""

    def __init__(self, process: WorkerProcess, which: int, seconds: float, interval: float):
        self.process, self.which, self.interval = process, which, interval
        self.clock = time.monotonic if which == REAL else _clock_of(process.handle.ident)
        self.due = self.clock() + seconds
        self.stopped = _thread.allocate_lock()
        self.stopped.acquire()
        _thread.start_new_thread(self._run, ())

    def left(self) -> float:
        """Seconds until it is due."""
        return max(1e-6, self.due - self.clock())

    def stop(self) -> None:
        """Send no more signals. Called once, by the caller that has removed the timer from its table."""
        self.stopped.release()

    def _run(self) -> None:
        timers = of(self.process).timers
        while not self.stopped.acquire(True, min(self.left(), _thread.TIMEOUT_MAX)):
            try:
                early = self.clock() < self.due  # the worker's thread has not computed all the time
            except OSError:  # the thread has ended
                return
            if early:
                continue
            if self.interval:
                self.due += self.interval
            elif timers.get(self.which) is self:
                del timers[self.which]
            if self.process.handle is None:
                return
            act(self.process, TIMERS[self.which])
            if not self.interval:
                return


def _clock_of(ident: int) -> Callable[[], float]:
    """The time that a thread has computed. ITIMER_VIRTUAL and ITIMER_PROF count that of a process."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    number = time.pthread_getcpuclockid(ident)
    return lambda: time.clock_gettime(number)


def of(process: WorkerProcess) -> Signals:
    """The worker's table."""
    if process.signals is None:
        process.signals = Signals()
    found: Signals = process.signals
    return found


def _here() -> WorkerProcess | None:
    """The calling worker, if it has a thread of its own. None for the driver, and in local_mode, where the task runs on
    the driver's thread and uses the process's own table."""
    process = here()
    return process if process is not None and process.handle is not None else None


def _is_main(process: WorkerProcess) -> bool:
    return serving.get(get_ident()) == (process, MAIN)  # also a thread on which a handler runs


# ---------------------------------------------------------------- what happens at a signal


def send(process: WorkerProcess, number: Any) -> None:
    """A signal is sent to the worker, by itself or by one of its threads. Raises what the system does if there is no
    such signal."""
    number = operator.index(number)
    if not 0 <= number < signal.NSIG:
        raise OSError(22, os.strerror(22))
    if number == signal.SIGINT or number == 0:
        return
    act(process, number)


def act(process: WorkerProcess, number: int, by_python: bool = False) -> None:
    """What the worker's table says about a signal. by_python: it was not sent, but `interrupt_main` was called."""
    signals = of(process)
    handler = signals.handlers.get(number, signal.SIG_DFL)
    if handler == signal.SIG_IGN or handler == signal.SIG_DFL and (by_python or number in HARMLESS):
        return
    if not callable(handler) or process.main_ident == 0:
        end_worker(process, f"SYSTEM_ERROR: it sent signal {int(number)} to itself")
        return
    if signals.wakeup >= 0:
        with suppress(OSError):  # it is full, or closed
            os.write(signals.wakeup, bytes([number]))
    if process.main_ident == get_ident():
        handler(number, _users(sys._getframe()))
    else:
        _thread.start_new_thread(_handle, (process, number, handler))


def _users(frame: FrameType | None) -> FrameType | None:
    """This frame, or if it is one of ours, the innermost of the user's that called it."""
    while frame is not None and frame.f_code.co_filename.startswith(our_code.FOLDER):
        frame = frame.f_back
    return frame


def _handle(process: WorkerProcess, number: int, handler: Any) -> None:
    """On a helper thread: call a handler, and pass on what it raises."""
    handle, runtime = process.handle, context.session
    if handle is None or runtime is None:
        return
    task, frame = handle.user_task, _users(runtime.frames().get(process.main_ident))
    found = of(process).contexts.get(number)
    where = found.copy() if found is not None else Context()
    if task is not None:
        where.run(current.set, Execution(runtime, handle.record, task, handle.space, handle.ident, handle.instance))
    serving[get_ident()] = process, MAIN
    try:
        where.run(handler, number, frame)
        if of(process).pauses:
            raise _Resumed
    except BaseException as error:
        if task is not None:
            runtime.raise_in_task(handle, raises(error), task)
    finally:
        thread_ends()


def raises(error: BaseException) -> Any:
    """An exception class whose call returns this exception. Python makes an asynchronous exception by such a call, and
    before 3.12 compares the class, not the result, with those of `except`; so the class derives from the error's."""

    def new(cls: Any, *args: Any) -> BaseException:
        return error

    cls: Any = type(error)
    try:
        return type(cls)(cls.__name__, (cls,), {"__new__": new, "__module__": cls.__module__, "__slots__": ()})
    except Exception:  # the class does not allow subclasses
        return type(cls.__name__, (BaseException,), {"__new__": new})


def end_worker(process: WorkerProcess, why: str) -> None:
    """End the caller's worker as if its process had died. On the worker's own thread this raises WorkerExit."""
    if serving.get(get_ident(), (None, ""))[0] is process and get_ident() == process.handle.ident:
        raise WorkerExit(why)
    if current.get() is not None and process.main_ident == 0:
        raise WorkerExit(why)
    if context.session is not None and process.handle is not None:
        context.session.crash(process.handle.record, why)


def local_handler(number: int) -> bool:
    """Whether the program has a handler for this signal that a task's signal to itself calls in local_mode: there a
    task's handlers are the process's."""
    if _here() is not None:
        return False
    return signal.getsignal(number) not in (signal.SIG_DFL, None, signal.default_int_handler)


def handles_interrupts(process: WorkerProcess) -> bool:
    """Whether the worker has a handler of SIGINT that is not Python's own."""
    return of(process).handlers[signal.SIGINT] is not signal.default_int_handler


def stop_timers(process: WorkerProcess) -> None:
    """The worker has ended."""
    timers = process.signals.timers if process.signals is not None else {}
    while timers:
        timers.popitem()[1].stop()


# ---------------------------------------------------------------- the functions of `signal`


def _number(number: Any) -> int:
    number = operator.index(number)
    if not 1 <= number < signal.NSIG:
        raise ValueError("signal number out of range")
    return int(number)


def _enum(handler: Any) -> Any:
    return signal.Handlers(handler) if handler in (0, 1) and isinstance(handler, int) else handler


def _signal(process: WorkerProcess, number: Any, handler: Any) -> Any:
    if not _is_main(process):
        raise ValueError(NOT_MAIN)
    number = _number(number)
    if not callable(handler) and handler not in (signal.SIG_IGN, signal.SIG_DFL):
        raise TypeError(NO_HANDLER)
    if number in (getattr(signal, "SIGKILL", 0), getattr(signal, "SIGSTOP", 0)):
        raise OSError(22, os.strerror(22))
    signals = of(process)
    before = signals.handlers.get(number, signal.SIG_DFL)
    signals.handlers[number], signals.contexts[number] = _enum(handler), copy_context()
    return before


def _getsignal(process: WorkerProcess, number: Any) -> Any:
    return of(process).handlers.get(_number(number), signal.SIG_DFL)


def _setitimer(process: WorkerProcess, which: Any, seconds: Any, interval: Any = 0.0) -> tuple[float, float]:
    seconds, interval = _seconds(seconds), _seconds(interval)
    if which not in TIMERS or seconds < 0 or interval < 0:
        raise signal.ItimerError(22, os.strerror(22))
    timers = of(process).timers
    before, timer = _getitimer(process, which), timers.pop(which, None)
    if timer is not None:
        timer.stop()
    if seconds:
        timers[which] = Timer(process, which, seconds, interval)
    return before


def _seconds(value: Any) -> float:
    return value if isinstance(value, float) else float(operator.index(value))


def _getitimer(process: WorkerProcess, which: Any) -> tuple[float, float]:
    if which not in TIMERS:
        raise signal.ItimerError(22, os.strerror(22))
    timer = of(process).timers.get(which)
    return (timer.left(), timer.interval) if timer is not None else (0.0, 0.0)


def _alarm(process: WorkerProcess, seconds: Any) -> int:
    left, _ = _setitimer(process, REAL, operator.index(seconds) % 2**32)
    return max(1, int(left + 0.5)) if left else 0


def _pause(process: WorkerProcess) -> None:
    execution, signals = current.get(), of(process)
    signals.pauses = True
    try:
        assert execution is not None
        execution.runtime.sleep(execution, 9e7)
    except _Resumed:
        return
    finally:
        signals.pauses = False


def _set_wakeup_fd(process: WorkerProcess, fd: int, *, warn_on_full_buffer: bool = True) -> int:
    if not _is_main(process):
        raise ValueError(f"set_wakeup_fd{NOT_MAIN.removeprefix('signal')}")
    signals = of(process)
    before, signals.wakeup = signals.wakeup, fd
    return before


def _raise_signal(process: WorkerProcess, number: Any) -> None:
    send(process, number)


def _interrupt_main(process: WorkerProcess, number: int = signal.SIGINT) -> None:
    act(process, _number(number), by_python=True)


def _put(module: Any, name: str, own: Callable[..., Any], when: Callable[..., bool] = lambda *args: True) -> None:
    """Replace a function: in a worker, `own` is called with the worker in front of the arguments. when: whether these
    arguments concern it, otherwise the original is called."""
    if not hasattr(module, name):
        return
    original = getattr(module, name)

    @stands_in
    @wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        process = _here()
        if process is None or not when(process, *args):
            return original(*args, **kwargs)
        return own(process, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = module.__name__
    replace(module, name, function)


def _has_main(process: WorkerProcess, *args: Any) -> bool:
    return process.main_ident != 0  # otherwise the original raises Python's error, since no such thread is the main one


def install() -> None:
    """Replace the functions that have to do with signals, until `replaced.restore_all` restores them."""
    _put(signal, "signal", _signal, _has_main)
    _put(signal, "getsignal", _getsignal)
    _put(signal, "setitimer", _setitimer)
    _put(signal, "getitimer", _getitimer)
    _put(signal, "alarm", _alarm)
    _put(signal, "pause", _pause, lambda process: _is_main(process) and get_ident() == process.main_ident)
    _put(signal, "set_wakeup_fd", _set_wakeup_fd, _has_main)
    _put(signal, "siginterrupt", lambda process, number, flag: None)
    _put(signal, "raise_signal", _raise_signal)
    _put(signal, "pthread_kill", lambda process, ident, number: send(process, number), _to_worker)
    _put(
        os,
        "kill",
        lambda process, pid, number: send(process, number),
        lambda process, pid, number: pid in (0, os.getpid()),
    )
    _put(_thread, "interrupt_main", _interrupt_main)


def _to_worker(process: WorkerProcess, ident: Any, number: Any) -> bool:
    return ident in (process.main_ident, process.handle.ident, get_ident())
