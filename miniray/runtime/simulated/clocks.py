"""The clocks of a simulation: what stands in for the functions of `time` that tell the time or wait, and for the
classes `date` and `datetime`. See `replacing`."""

from __future__ import annotations

import copyreg
import datetime
import operator
import time
from typing import Any, Callable

from .baton import BEGINNING_S, Baton, Fiber
from .steps import Step

EPOCH_S = 1_767_225_600.0 - BEGINNING_S  # add the clock's time to get a Unix time
TOO_LONG_S = 2**63 / 10**9  # Python counts nanoseconds in 64 bits, and refuses what does not fit
SLEEPS = Step("sleeps")
SLEEPS_0 = Step("sleeps", (), polls=True)
_real_datetime: Any = datetime.datetime
_real_date: Any = datetime.date
_REAL = {name: getattr(time, name) for name in ("time", "monotonic", "localtime", "gmtime", "strftime", "ctime")}
_baton: Any = None
_replace: Callable[[Any, str, Any], None]
_put: Callable[[Any, str, Any], None]


def install(replace: Callable[[Any, str, Any], None], put: Callable[[Any, str, Any], None], baton: Baton) -> None:
    """Replace the clocks. replace, put: as `replacing._replace` and `_put`."""
    global _baton, _replace, _put
    _baton, _replace, _put = baton, replace, put
    for name, offset in (("time", EPOCH_S), ("monotonic", 0.0), ("perf_counter", 0.0)):
        _clock(name, offset, False)
        _clock(f"{name}_ns", offset, True)
    _clocks_by_number()
    _sleep_function()
    for name, position in (("localtime", 0), ("gmtime", 0), ("ctime", 0), ("strftime", 1)):
        _calendar(name, position)
    _datetimes()


def uninstall() -> None:
    """Forget the simulation."""
    global _baton
    for real in (_real_date, _real_datetime):
        copyreg.dispatch_table.pop(real, None)
    _baton = None


def _here() -> Fiber | None:
    baton: Baton | None = _baton
    return baton.here() if baton is not None else None


def unix_time() -> float:
    """The simulation's Unix time."""
    return EPOCH_S + float(_baton.read_clock())


def _clock(name: str, offset_s: float, nanoseconds: bool) -> None:
    original = getattr(time, name)

    def clock() -> Any:
        if _here() is None:
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
            offset = offsets.get(number) if _here() is not None else None
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
        is_number = isinstance(seconds, float) or hasattr(type(seconds), "__index__")
        if _here() is None or not is_number:
            original(seconds)  # raises the error for what is no number
            return
        length = float(seconds) if isinstance(seconds, float) else operator.index(seconds)
        if not 0 <= length < TOO_LONG_S:
            original(length)  # raises the error for a number that is negative, NaN or too large
        elif length:
            _baton.point(SLEEPS, by_user=True)
            _baton.block(_baton.time + length, f"a sleep of {length:g} s")
        else:
            _baton.point(SLEEPS_0, by_user=True)

    _put(time, "sleep", sleep)


def _calendar(name: str, position: int) -> None:
    """A function of `time` whose argument at this position is the current time if it is left out."""
    original = getattr(time, name)

    def function(*args: Any) -> Any:
        if len(args) <= position or args[position] is None:
            if _here() is not None:
                now: Any = unix_time()
                args = (*args[:position], now if position == 0 else _REAL["localtime"](now))
        return original(*args)

    _put(time, name, function)


class _Kind(type):
    """Of a class that stands in for a real one, its base: values of the real one are its instances. A class that the
    program derives from it is like any other."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.__mro__[1]) if stands_in(cls) else type.__instancecheck__(cls, value)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.__mro__[1]) if stands_in(cls) else type.__subclasscheck__(cls, other)


def stands_in(cls: type) -> bool:
    """Whether this class stands in for a real one."""
    return "_miniray_stands_in" in vars(cls)


def _datetimes() -> None:
    class SimDate(_real_date, metaclass=_Kind):  # type: ignore[misc]
        _miniray_stands_in = True

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return _real_date(*args, **kwargs) if stands_in(cls) else super().__new__(cls, *args, **kwargs)

        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(unix_time()) if _here() is not None else super().today()

    class SimDatetime(_real_datetime, metaclass=_Kind):  # type: ignore[misc]
        _miniray_stands_in = True

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return _real_datetime(*args, **kwargs) if stands_in(cls) else super().__new__(cls, *args, **kwargs)

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.fromtimestamp(unix_time(), tz) if _here() is not None else super().now(tz)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

        @classmethod
        def utcnow(cls) -> Any:
            now = cls.fromtimestamp(unix_time() if _here() is not None else _REAL["time"](), datetime.timezone.utc)
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
