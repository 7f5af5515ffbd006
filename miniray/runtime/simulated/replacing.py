"""What a simulation replaces in the standard library: clocks, sleeps, locks, threads, event loops, random numbers and
the folder for temporary files.

Each replacement looks at the calling thread. For a thread that takes part it acts on the simulation; for any other it
is the original. A lock that is made while a module is imported is real, since it may outlive the simulation. A module
that has said `from time import time` before the simulation began has the original under a name of its own, as `queue`
has. So all modules are searched for such names, except miniray's: a part of miniray that needs the original keeps it
that way. Classes are replaced by name only in the modules named in `install_in`, since a library may compare types.
"""

from __future__ import annotations

import _thread
import concurrent.futures
import contextlib
import functools
import itertools
import logging
import os
import queue
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from types import MethodType, ModuleType
from typing import Any, Callable

from ...process import context, replaced
from . import clocks, event_loop, outside
from .baton import Baton, Fiber, RunOver
from .clocks import stands_in
from .locks import SimLock
from .steps import Step

_saved = replaced.of_a_simulation  # owner (a module, a class, or a module's globals), name, original
_folders: list[str] = []  # for temporary files
_instead: dict[int, Any] = {}  # by id() of the original: its replacement
_by_name: list[tuple[dict[str, Any], str, Any]] = []  # globals, name, original: what `_install_by_name` found
_modules_searched = 0
_baton: Any = None
_simulation: Any = None
FIBER = "_miniray_fiber"  # an attribute of a Thread: its fiber

_join, _is_alive = threading.Thread.join, threading.Thread.is_alive


def here() -> Fiber | None:
    """The fiber of the calling thread, if it takes part in a simulation that runs."""
    baton: Baton | None = _baton
    return baton.here() if baton is not None else None


# ---------------------------------------------------------------- locks and threads


_OURS = tuple(f"miniray.{name}" for name in ("runtime", "process", "observe", "values", "calls", "session"))


_KEEP = ("miniray", "ray", "pytest", "_pytest", "posix", "nt")  # packages that keep the originals they have by name
_OUTSIDE = "miniray.process.worker_output"  # its thread reads what real child processes write


def _is_outside() -> bool:
    """Whether the function that called a replacement belongs to a module whose threads take no part."""
    return sys._getframe(2).f_globals.get("__name__") == _OUTSIDE


def _of_ours() -> bool:
    """Whether the function that called a replacement belongs to a part of miniray that is not written like a user's
    program."""
    name: str = sys._getframe(2).f_globals.get("__name__") or ""
    return name.startswith(_OURS)


def _outlives() -> bool:
    """Whether what the calling thread makes now may outlive the simulation, because it is importing a module."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


PUTS_ITEM = Step("puts an item into a queue", ["queues"])
LOOKS_AT_QUEUE = Step("looks at a queue", ["queues"], polls=True)
LOOKS_AT_EVENT = Step("looks at an event", ["events"], polls=True)
LOOKS_AT_THREAD = Step("looks at a thread", ["threads"], polls=True)
RUNS = Step("runs", ["threads"])
ENDS = Step("ends", ["threads"])


def _look(step: Step) -> None:
    """A point, if the calling thread takes part: another thread may notice the step, or change what it looks at."""
    if here() is not None:
        _baton.point(step, by_user=True)


def _is_set(original: Any) -> Callable[[Any], bool]:
    """What stands in for `threading.Event.is_set`, which takes no lock."""

    def is_set(self: Any) -> bool:
        if sys._getframe(1).f_globals.get("__name__") != "threading" and not _of_ours():
            _look(LOOKS_AT_EVENT)
        return bool(original(self))

    return is_set


def _lock_factory(original: Any) -> Callable[[], Any]:
    def allocate_lock() -> Any:
        if here() is None or _is_outside() or _outlives():
            return original()
        return _new_lock(sys._getframe(1))

    return allocate_lock


_MAKE_STARTED = threading.Event.__init__.__code__, threading.Thread.__init__.__code__


def _new_lock(maker: Any) -> SimLock:
    """A lock. maker: the frame that makes it. That of the event for which `Thread.start` waits makes no points: nobody
    but the new thread sets it."""
    code = maker.f_code
    if code is _WAIT:
        return SimLock(_baton, is_waiter=True)
    is_started = code is _MAKE_STARTED[0] and maker.f_back.f_code is _MAKE_STARTED[1]
    name: str = maker.f_globals.get("__name__") or ""
    return SimLock(_baton, points=not is_started and not name.startswith(_OURS))


_WAIT = threading.Condition.wait.__code__


def _lock_class(real: Any) -> Any:
    """What stands in for `threading.Lock`, which is a class since Python 3.13."""
    if not isinstance(real, type):
        return _lock_factory(real)

    class Kind(type):
        def __call__(cls) -> Any:
            if here() is None or _is_outside() or _outlives():
                return real()
            return _new_lock(sys._getframe(1))

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, (SimLock, real))

    class Lock(metaclass=Kind):
        def __init_subclass__(cls) -> None:
            raise TypeError("type '_thread.lock' is not an acceptable base type")

    Lock.__module__, Lock.__name__, Lock.__qualname__ = real.__module__, real.__name__, real.__qualname__
    return Lock


def _rlock() -> Any:
    if here() is None or _of_ours() or _outlives():
        return _original(threading, "RLock")()
    return threading._PyRLock()  # type: ignore[attr-defined]


def _simple_queue() -> type:
    """The class that stands in for `queue.SimpleQueue`."""
    real: Any = queue.SimpleQueue
    in_python: Any = queue._PySimpleQueue  # type: ignore[attr-defined]

    class Kind(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return type.__instancecheck__(cls, value) or stands_in(cls) and isinstance(value, (real, in_python))

    class SimpleQueue(in_python, metaclass=Kind):  # type: ignore[misc]
        """The class in Python uses a semaphore, whose lock makes points, after it has changed its items."""

        _miniray_stands_in = True

        def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
            _look(PUTS_ITEM)
            super().put(item, block, timeout)

        def empty(self) -> bool:
            _look(LOOKS_AT_QUEUE)
            return bool(super().empty())

        def qsize(self) -> int:
            _look(LOOKS_AT_QUEUE)
            return int(super().qsize())

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if stands_in(cls) and (here() is None or _of_ours() or _outlives()):
                return real()
            return super().__new__(cls)

    SimpleQueue.__module__, SimpleQueue.__qualname__ = real.__module__, real.__qualname__
    return SimpleQueue


def _thread_starter(original: Any) -> Callable[..., Any]:
    def start(function: Any, *rest: Any, **options: Any) -> Any:
        fiber = here()
        if fiber is None or _is_outside():
            return original(function, *rest, **options)
        args = rest[0] if rest else ()  # `_start_joinable_thread` has none
        if len(rest) > 1:
            function = functools.partial(function, **rest[1])
        thread = getattr(function, "__self__", None)
        baton: Baton = _baton
        starter = None
        if options:  # `_start_joinable_thread(function, handle=..., daemon=...)`
            starter = lambda run, arguments: original(lambda: run(*arguments), **options)
        name = f"thread {thread.name}" if isinstance(thread, threading.Thread) else "a thread"
        new = baton.start(name, _ending_at_a_point(function), args, starter)
        fiber.memory = new.memory = fiber.memory or ("fiber", fiber.number)
        if isinstance(thread, threading.Thread):
            vars(thread)[FIBER] = new
            vars(thread)["run"] = functools.partial(_run, thread, vars(thread).get("run"))
            vars(thread)["_invoke_excepthook"] = _silent_at_the_end(vars(thread).get("_invoke_excepthook"))
        return new.number

    return start


def _ending_at_a_point(function: Callable[..., Any]) -> Callable[..., None]:
    """The function of a new thread. Its end is a step: others notice it who look whether the thread is alive."""

    def run(*args: Any) -> None:
        function(*args)
        _look(ENDS)

    return run


def _run(thread: threading.Thread, own: Callable[[], Any] | None) -> None:
    """Stands in for a thread's `run`. The thread that has started it waits until it has begun, and may go on from here.
    own: what the program has set as this thread's `run`."""
    if own is None:
        del vars(thread)["run"]
    else:
        vars(thread)["run"] = own
    _look(RUNS)
    thread.run()


# ---------------------------------------------------------------- errors of threads that are ended with their run


def _run_ends() -> bool:
    """Whether the run has ended, and its threads are being ended. What they raise then is not the program's mistake: a
    call fails, for instance, because the session has ended."""
    return _baton is not None and (_baton.over or _baton.cleans_up)


def _silent_at_the_end(hook: Any) -> Callable[[Any], None]:
    """Stands in for what is called after an exception that nobody has caught: `Thread._invoke_excepthook`, or
    `sys.unraisablehook`."""

    def invoke(about: Any) -> None:
        if not _run_ends() and not isinstance(sys.exc_info()[1], RunOver):
            hook(about)

    return invoke


class _SilentAtTheEnd:
    """Stands in for the logger of `concurrent.futures`, which is told of errors in callbacks."""

    def __init__(self, logger: logging.Logger):
        self._logger = logger
        self._nowhere = logging.Logger(logger.name, logging.CRITICAL + 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nowhere if _run_ends() else self._logger, name)


def _join_fiber(self: threading.Thread, timeout: float | None = None) -> None:
    fiber = vars(self).get(FIBER)
    if fiber is None and here() is not None and _is_alive(self) and self is not threading.current_thread():
        if not outside.wait(lambda: not _is_alive(self), True, timeout, f"the end of {self.name}"):
            return
    if fiber is not None and here() is not None and here() is not fiber:
        if timeout is not None and timeout <= 0:
            _baton.point(LOOKS_AT_THREAD, by_user=True)
            if not fiber.is_over:
                return
        until = None if timeout is None else _baton.time + max(timeout, 0.0)
        if not _baton.join(fiber, until):
            return
    _join(self, timeout)


def _fiber_is_alive(self: threading.Thread) -> bool:
    fiber = vars(self).get(FIBER)
    if fiber is not None and fiber is not here() and sys._getframe(1).f_globals.get("__name__") != "threading":
        _look(LOOKS_AT_THREAD)
    return _is_alive(self) if fiber is None or not fiber.is_over else False


# ---------------------------------------------------------------- sets of threads and futures


_NUMBER = "_miniray_number"  # an attribute of a Thread or Future that the simulation has made


def _numbered(cls: Any, numbers: Iterator[int]) -> None:
    """Let the hash of an instance that is made in the simulation be a number in place of its address. An executor joins
    its threads in the order of a set, and `as_completed` returns futures in this order."""
    original, original_hash = cls.__init__, cls.__hash__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **options: Any) -> None:
        if here() is not None:
            vars(self)[_NUMBER] = next(numbers)
        original(self, *args, **options)

    def __hash__(self: Any) -> int:
        number: int | None = vars(self).get(_NUMBER)
        return number if number is not None else int(original_hash(self))

    _replace(cls, "__init__", __init__)
    _replace(cls, "__hash__", __hash__)


def _futures() -> None:
    """`wait` and `as_completed` lock all futures, in the order of their addresses."""
    locked: Any = concurrent.futures._base._AcquireFutures
    original = locked.__init__

    def __init__(self: Any, futures: Any) -> None:
        original(self, futures)
        if here() is not None:
            self.futures.sort(key=lambda future: vars(future).get(_NUMBER, 0))

    _replace(locked, "__init__", __init__)
    _replace(concurrent.futures._base, "LOGGER", _SilentAtTheEnd(concurrent.futures._base.LOGGER))
    executors = sys.modules.get("concurrent.futures.thread")
    if executors is not None:  # its threads have the executor's number in their names
        _replace(executors.ThreadPoolExecutor, "_counter", itertools.count().__next__)


# ---------------------------------------------------------------- fork

_forking: Fiber | None = None


def _before_fork() -> None:
    """The calling thread forks. The child has no other thread, so nobody there could give the baton back. `threading`
    takes locks in the child before any function of ours is called; so the thread leaves the simulation already now."""
    global _forking
    _forking = here()
    if _forking is not None:
        _forking.ident = 0


def _forked() -> None:
    """In the parent: the thread takes part again."""
    global _forking
    if _forking is not None:
        _forking.ident = _thread.get_ident()
        _forking = None


def _in_the_child() -> None:
    """In the child there is no simulation: its clocks are real, and its threads are real threads."""
    global _forking
    _forking = None
    if _baton is not None:
        _baton.forked = True
        _folders.clear()  # they are the parent's
        _simulation.forked()
        uninstall()
        context.simulation = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_forked, after_in_child=_in_the_child)


# ---------------------------------------------------------------- random numbers


def _random_bytes() -> None:
    original = os.urandom

    def urandom(size: int, /) -> bytes:
        return original(size) if here() is None else bytes(_simulation.stream().randbytes(size))

    _put(os, "urandom", urandom)
    if hasattr(os, "getrandom"):
        real = os.getrandom

        def getrandom(size: int, flags: int = 0) -> bytes:
            return real(size, flags) if here() is None else bytes(_simulation.stream().randbytes(size))

        _put(os, "getrandom", getrandom)
    if hasattr(random, "_urandom"):
        _replace(random, "_urandom", urandom)
    seed_method = random.Random.seed

    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        if a is None and here() is not None and type(self) is random.Random:
            a = _simulation.stream().getrandbits(64)
        seed_method(self, a, version)

    _replace(random.Random, "seed", seed)


def _numbers_of_uuids() -> None:
    """`uuid1`, `uuid6` and `uuid7` avoid the last time that they had: it may be of an earlier run."""
    module = sys.modules.get("uuid")
    for name in ("_last_timestamp", "_last_timestamp_v6", "_last_timestamp_v7"):
        if hasattr(module, name):
            _saved.append((module, name, getattr(module, name)))
            setattr(module, name, None)


# ---------------------------------------------------------------- temporary files


def _temporary_files() -> None:
    """Give the run a new folder for temporary files. Their names come from the seed, so that they would be those of the
    files which an earlier run has left in the usual folder."""
    folder = tempfile.mkdtemp(prefix="miniray-simulated-")
    for name, value in (("tempdir", folder), ("_name_sequence", None)):
        if hasattr(tempfile, name):
            _saved.append((tempfile, name, getattr(tempfile, name)))
            setattr(tempfile, name, value)
    _folders.append(folder)


# ---------------------------------------------------------------- all of them


def _original(owner: Any, name: str) -> Any:
    return next(value for place, key, value in _saved if place is owner and key == name)


def _replace(owner: Any, name: str, value: Any) -> None:
    original = getattr(owner, name)
    _saved.append((owner, name, original))
    _instead.setdefault(id(original), value)
    setattr(owner, name, value)


def _put(module: Any, name: str, function: Any) -> None:
    """Replace a built-in function. The replacement has its name, so that it travels by reference, like the original.

    It is a bound method. Like a built-in function, and unlike one of Python, it stays what it is as an attribute of a
    class: a call of `self.clock()` after `clock = time.monotonic` passes no `self`.
    """

    def method(place: replaced.Place, *args: Any, **options: Any) -> Any:
        return function(*args, **options)

    _name_like(method, module, name)
    _replace(module, name, MethodType(method, replaced.Place(module)))


def _name_like(function: Any, module: Any, name: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = module.__name__, getattr(module, name).__doc__


def _put_function(module: Any, name: str, function: Any) -> None:
    """The same as a plain function, for one that looks at its caller."""
    _name_like(function, module, name)
    _replace(module, name, function)


def install(simulation: Any) -> None:
    """Replace everything, for the threads of this simulation."""
    global _baton, _simulation
    _temporary_files()  # first: the folder's own name must not come from the seed
    _simulation, _baton = simulation, simulation.baton
    clocks.install(_replace, _put, simulation.baton)
    _put_function(_thread, "allocate_lock", _lock_factory(_thread.allocate_lock))
    _replace(threading, "_allocate_lock", _lock_factory(threading._allocate_lock))  # type: ignore[attr-defined]
    _replace(threading, "Lock", _lock_class(threading.Lock))
    _replace(threading, "RLock", _rlock)
    _replace(queue, "SimpleQueue", _simple_queue())
    _put_function(_thread, "start_new_thread", _thread_starter(_thread.start_new_thread))
    for name in ("_start_new_thread", "_start_joinable_thread"):
        if hasattr(threading, name):
            _replace(threading, name, _thread_starter(getattr(threading, name)))
    _replace(threading.Thread, "join", _join_fiber)
    _replace(threading.Thread, "is_alive", _fiber_is_alive)
    _replace(sys, "unraisablehook", _silent_at_the_end(sys.unraisablehook))
    _replace(threading.Event, "is_set", _is_set(threading.Event.is_set))
    if hasattr(threading, "_counter"):  # of the threads' names
        _replace(threading, "_counter", itertools.count(1).__next__)
    _futures()
    numbers = itertools.count(1)
    _numbered(threading.Thread, numbers)
    _numbered(concurrent.futures.Future, numbers)
    _random_bytes()
    _numbers_of_uuids()
    event_loop.install(_replace, simulation.baton)
    outside.install(_replace, _put, simulation.baton)
    _install_by_name()


def _install_by_name() -> None:
    """Replace what modules have imported by name."""
    global _modules_searched
    if len(sys.modules) != _modules_searched:
        _modules_searched = len(sys.modules)
        _by_name[:] = [
            (vars(module), name, value)
            for key, module in list(sys.modules.items())
            if type(module) is ModuleType and key.partition(".")[0] not in _KEEP
            for name, value in list(vars(module).items())
            if id(value) in _instead and (not isinstance(value, type) or value is _thread.LockType)
        ]
    for names, name, original in _by_name:
        if names.get(name) is original:
            _saved.append((names, name, original))
            names[name] = _instead[id(original)]
    scheduler: Any = getattr(sys.modules.get("sched"), "scheduler", None)
    if scheduler is not None:  # its clocks are default arguments
        _replace(scheduler.__init__, "__defaults__", (time.monotonic, time.sleep))


def install_in(names: dict[str, Any]) -> None:
    """Replace what a module has imported by name before the simulation began. names: its globals."""
    for name, value in list(names.items()):
        instead = _instead.get(id(value))
        if instead is not None and value is not instead:
            _saved.append((names, name, value))
            names[name] = instead


def uninstall() -> None:
    """Restore everything."""
    global _baton, _simulation
    while _saved:
        owner, name, original = _saved.pop()
        if type(owner) is dict:
            owner[name] = original
        else:
            setattr(owner, name, original)
    _instead.clear()
    clocks.uninstall()
    while _folders:
        with contextlib.suppress(OSError):  # not empty: the program's files stay
            os.rmdir(_folders.pop())
    _baton = _simulation = None
    outside.uninstall()
