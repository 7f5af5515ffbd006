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
import copyreg
import datetime
import functools
import itertools
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
from . import event_loop, outside
from .baton import BEGINNING_S, Baton, Fiber, RunOver
from .locks import SimLock
from .steps import Step

_saved = replaced.of_a_simulation  # owner (a module, a class, or a module's globals), name, original
_folders: list[str] = []  # for temporary files
_instead: dict[int, Any] = {}  # by id() of the original: its replacement
_by_name: list[tuple[dict[str, Any], str, Any]] = []  # globals, name, original: what `_install_by_name` found
_modules_searched = 0
_baton: Any = None
_simulation: Any = None
EPOCH_S = 1_767_225_600.0 - BEGINNING_S  # add the clock's time to get a Unix time
SLEEPS = Step("sleeps")
SLEEPS_0 = Step("sleeps", (), polls=True)
FIBER = "_miniray_fiber"  # an attribute of a Thread: its fiber

_real_datetime: Any = datetime.datetime
_real_date: Any = datetime.date
_join, _is_alive = threading.Thread.join, threading.Thread.is_alive
_REAL = {name: getattr(time, name) for name in ("time", "monotonic", "localtime", "gmtime", "strftime", "ctime")}


def here() -> Fiber | None:
    """The fiber of the calling thread, if it takes part in a simulation that runs."""
    baton: Baton | None = _baton
    return baton.here() if baton is not None else None


def unix_time() -> float:
    """The simulation's Unix time."""
    return EPOCH_S + float(_baton.read_clock())


# ---------------------------------------------------------------- clocks


def _clock(name: str, offset_s: float, nanoseconds: bool) -> None:
    original = getattr(time, name)

    def clock() -> Any:
        if here() is None:
            return original()
        if nanoseconds:
            return round(offset_s * 1e9) + round(_baton.read_clock() * 1e9)
        return offset_s + _baton.read_clock()

    _put(time, name, clock)


def _clocks_by_number() -> None:
    """`time.clock_gettime`, whose clocks have numbers. Those of the processor's time stay real."""
    offsets = {getattr(time, name): EPOCH_S for name in ("CLOCK_REALTIME", "CLOCK_TAI") if hasattr(time, name)}
    for name in ("CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW", "CLOCK_BOOTTIME", "CLOCK_UPTIME", "CLOCK_UPTIME_RAW"):
        if hasattr(time, name):
            offsets[getattr(time, name)] = 0.0

    def replacement(name: str, nanoseconds: bool) -> None:
        original = getattr(time, name)

        def clock_gettime(number: Any, /) -> Any:
            offset = offsets.get(number) if here() is not None else None
            if offset is None:
                return original(number)
            if nanoseconds:
                return round(offset * 1e9) + round(_baton.read_clock() * 1e9)
            return offset + _baton.read_clock()

        _put(time, name, clock_gettime)

    for name, nanoseconds in (("clock_gettime", False), ("clock_gettime_ns", True)):
        if hasattr(time, name):
            replacement(name, nanoseconds)


def _sleep_function() -> None:
    original = time.sleep

    def sleep(seconds: Any, /) -> None:
        if here() is None or type(seconds) not in (int, float) or not seconds >= 0:
            original(seconds)  # raises the error for a number that is negative or none at all
        elif seconds:
            _baton.point(SLEEPS, by_user=True)
            _baton.block(_baton.time + seconds, f"a sleep of {seconds:g} s")
        else:
            _baton.point(SLEEPS_0, by_user=True)

    _put(time, "sleep", sleep)


def _calendar(name: str, position: int) -> None:
    """A function of `time` whose argument at this position is the current time if it is left out."""
    original = getattr(time, name)

    def function(*args: Any) -> Any:
        if len(args) <= position or args[position] is None:
            if here() is not None:
                now: Any = unix_time()
                args = (*args[:position], now if position == 0 else _REAL["localtime"](now))
        return original(*args)

    _put(time, name, function)


class _Kind(type):
    """Of a class that stands in for a real one, its base: values of the real one are its instances. A class that the
    program derives from it is like any other."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.__mro__[1]) if _stands_in(cls) else type.__instancecheck__(cls, value)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.__mro__[1]) if _stands_in(cls) else type.__subclasscheck__(cls, other)


def _stands_in(cls: type) -> bool:
    return "_miniray_stands_in" in vars(cls)


def _datetimes() -> None:
    class SimDate(_real_date, metaclass=_Kind):  # type: ignore[misc]
        _miniray_stands_in = True

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return _real_date(*args, **kwargs) if _stands_in(cls) else super().__new__(cls, *args, **kwargs)

        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(unix_time()) if here() is not None else super().today()

    class SimDatetime(_real_datetime, metaclass=_Kind):  # type: ignore[misc]
        _miniray_stands_in = True

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return _real_datetime(*args, **kwargs) if _stands_in(cls) else super().__new__(cls, *args, **kwargs)

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.fromtimestamp(unix_time(), tz) if here() is not None else super().now(tz)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

        @classmethod
        def utcnow(cls) -> Any:
            now = cls.fromtimestamp(unix_time() if here() is not None else _REAL["time"](), datetime.timezone.utc)
            return now.replace(tzinfo=None)

    for cls, real, name in ((SimDate, _real_date, "date"), (SimDatetime, _real_datetime, "datetime")):
        cls.__name__ = cls.__qualname__ = name
        cls.__module__ = "datetime"
        _replace(datetime, name, cls)
        copyreg.pickle(real, _reduce)  # its own way of pickling names a class that is not found under its name now


def _reduce(value: Any) -> tuple[Any, ...]:
    return _rebuild, (type(value) is _real_datetime, *value.__reduce_ex__(2)[1])


def _rebuild(is_datetime: bool, *args: Any) -> Any:
    return (_real_datetime if is_datetime else _real_date)(*args)


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


def _lock_factory(original: Any) -> Callable[[], Any]:
    def allocate_lock() -> Any:
        if here() is None or _is_outside() or _outlives():
            return original()
        return SimLock(_baton, points=not _of_ours())

    return allocate_lock


def _lock_class(real: Any) -> Any:
    """What stands in for `threading.Lock`, which is a class since Python 3.13."""
    if not isinstance(real, type):
        return _lock_factory(real)

    class Kind(type):
        def __call__(cls) -> Any:
            if here() is None or _is_outside() or _outlives():
                return real()
            return SimLock(_baton, points=not _of_ours())

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
            return type.__instancecheck__(cls, value) or _stands_in(cls) and isinstance(value, (real, in_python))

    class SimpleQueue(in_python, metaclass=Kind):  # type: ignore[misc]
        _miniray_stands_in = True

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if _stands_in(cls) and (here() is None or _of_ours() or _outlives()):
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
        new = baton.start(name, function, args, starter)
        fiber.memory = new.memory = fiber.memory or ("fiber", fiber.number)
        if isinstance(thread, threading.Thread):
            vars(thread)[FIBER] = new
            vars(thread)["_invoke_excepthook"] = _silent_at_the_end(vars(thread).get("_invoke_excepthook"))
        return new.number

    return start


def _silent_at_the_end(hook: Any) -> Callable[[threading.Thread], None]:
    """Stands in for what `threading` calls after an exception: ending a thread with its run is not a mistake."""

    def invoke(thread: threading.Thread) -> None:
        if not isinstance(sys.exc_info()[1], RunOver):
            hook(thread)

    return invoke


def _join_fiber(self: threading.Thread, timeout: float | None = None) -> None:
    fiber = vars(self).get(FIBER)
    if fiber is None and here() is not None and _is_alive(self) and self is not threading.current_thread():
        if not outside.wait(lambda: not _is_alive(self), True, timeout, f"the end of {self.name}"):
            return
    if fiber is not None and here() is not None and here() is not fiber:
        until = None if timeout is None else _baton.time + max(timeout, 0.0)
        if not _baton.join(fiber, until):
            return
    _join(self, timeout)


def _fiber_is_alive(self: threading.Thread) -> bool:
    fiber = vars(self).get(FIBER)
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
    for name, offset in (("time", EPOCH_S), ("monotonic", 0.0), ("perf_counter", 0.0)):
        _clock(name, offset, False)
        _clock(f"{name}_ns", offset, True)
    _clocks_by_number()
    _sleep_function()
    for name, position in (("localtime", 0), ("gmtime", 0), ("ctime", 0), ("strftime", 1)):
        _calendar(name, position)
    _datetimes()
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
    for real in (_real_date, _real_datetime):
        copyreg.dispatch_table.pop(real, None)
    while _folders:
        with contextlib.suppress(OSError):  # not empty: the program's files stay
            os.rmdir(_folders.pop())
    _baton = _simulation = None
    outside.uninstall()
