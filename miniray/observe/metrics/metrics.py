"""Counters, gauges and histograms.

The classes are Ray's (`ray.util.metrics`; see there for signatures and checks). Ray sends the values to a metrics
agent; miniray keeps them in this process, where `value`, `quantile`, `snapshot` and `export_text` read them.

Ownership. A metric belongs to the worker that made it, as it would if the worker were a process. The same name in the
driver and in two actors makes three tables of series, which differ in their `WorkerId`. A pickled metric is remade by
the worker that unpickles it. Metrics of one name and class under one worker share their series.

Lifetime. The values last as long as the session, see `registry`.

Cost. A record looks up its series by the tags exactly as they were given, and appends the number to a list. It takes no
lock, so finalisers and signal handlers may record too. The numbers are added up when the list is long, and when the
series is read. Some records also note the time and the value, for the curves on the timeline's page (`series.Sampled`).
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from ...process import context
from ...process.worker_process import caller
from . import registry
from .registry import DRIVER, Registry, Table, Tags
from .series import BATCH, CounterSeries, GaugeSeries, HistogramSeries, added, interpolated

_VALID_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_INFINITY = math.inf

_F = TypeVar("_F", bound=Callable[..., Any])
_M = TypeVar("_M", bound="Metric")


class _Attachment:
    """Where a metric records: a registry, a table in it, and the known series, by the tags as they were given.

    A change of the session or of the default tags replaces the whole attachment, so that a concurrent record sees
    either the old one or the new one.
    """

    __slots__ = ("registry", "table", "defaults", "known")

    def __init__(self, registry: Registry, table: Table, defaults: dict[str, str]) -> None:
        self.registry, self.table, self.defaults = registry, table, defaults
        self.known: dict[tuple[tuple[str, str], ...], Any] = {}


OVERFLOWING: Tags = (("\0", "overflow"),)  # the key of a table's overflow series; no record can have these tags
_lenient = False
_remaking = threading.local()  # .now: this thread is unpickling a metric


def _check_ascii(*texts: str) -> None:
    """Raise UnicodeEncodeError, a ValueError, for text that is not ASCII: as in Ray, metrics have no other."""
    for text in texts:
        text.encode("ascii")


class Metric:
    """The base class of Counter, Gauge and Histogram. As in Ray, a bare Metric has an `info` and records nothing.

    name: letters, digits, `_` and `:`, not beginning with a digit. Any other name only warns, and then nothing is
    recorded. description: shown by `info`, and as the help text of `export_text`. tag_keys: the names of the tags; each
    record must give a value for each of them, unless `set_default_tags` did.

    Raises ValueError for an empty name; TypeError if the name is not a str, tag_keys is not a tuple, or a key is not a
    str; AttributeError if the description is not a str; UnicodeEncodeError for a description or a key beyond ASCII.
    Unlike Ray, raises ValueError if the driver already made a metric of this name (see `set_lenient`).

    Ray: python/ray/util/metrics.py.
    """

    _kind = ""  # "counter", "gauge" or "histogram"
    _series_type: Any = None

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        self._records = not _is_unusable(name)
        self._name = name
        self._description = description
        self._tag_keys: tuple[str, ...] = tag_keys or ()
        self._default_tags: dict[str, str] = {}
        self._owner = _owner()
        self._attachment: _Attachment | None = None  # stays None if this metric records nothing
        if not isinstance(self._tag_keys, tuple):
            raise TypeError(f"tag_keys should be a tuple type, got: {type(self._tag_keys)}")
        for key in self._tag_keys:
            if not isinstance(key, str):
                raise TypeError(f"Tag keys must be str, got {type(key)}.")
        if ":" in name:
            warnings.warn(
                f"Metric name {name} contains a colon. Prometheus reserves colons for recording rules, "
                "and a future version of Ray will refuse them.",
                FutureWarning,
                stacklevel=3,
            )

    @property
    def info(self) -> dict[str, Any]:
        """A new dict of name, description, tag_keys and default_tags; a histogram adds its boundaries."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": self._default_tags.copy(),
        }

    def _repr_html_(self) -> str:
        """What a notebook shows: every series of the metric."""
        from ..notebook import table  # only a notebook needs it

        rows = [{**row["tags"], "worker": row["worker_id"], "value": row["value"]} for row in self.snapshot(True)]
        return table(rows, f"{self._kind} {self._name}: {self._description}".rstrip(": "))

    def set_default_tags(self: _M, default_tags: dict[str, str]) -> _M:
        """Use these values for tags that a record does not mention. They replace all earlier defaults.

        Returns the metric itself. Raises ValueError for a key that is not among tag_keys, and TypeError for a value
        that is not a str; the defaults then stay as they were.
        """
        for key, value in default_tags.items():
            if key not in self._tag_keys:
                raise ValueError(f"Unrecognized tag key {key}.")
            if not isinstance(value, str):
                raise TypeError(f"Tag values must be str, got {type(value)}.")
        with registry.lock:
            self._default_tags = dict(default_tags)
            if (old := self._attachment) is not None:
                self._attachment = _Attachment(old.registry, old.table, self._default_tags)
        return self

    def snapshot(self, all_workers: bool = False) -> list[dict[str, Any]]:
        """Return every series of this metric, as rows like those of `registry.snapshot`.

        all_workers: include the series of other workers' metrics of the same name and class.
        """
        with registry.lock:
            series = [(table, one) for table in self._tables(all_workers) for one in list(table.series.values())]
        return [registry.row(table, one) for table, one in series]

    # ------------------------------------------------------------ from a record to its series

    def _series_for(self, tags: dict[str, str] | None) -> Any:
        """Check the tags and find or make their series; None if this metric records nothing."""
        attachment = self._attachment
        if attachment is None:
            return None
        if attachment.registry.closed:
            attachment = self._attach()
        try:
            return attachment.known[tuple(tags.items()) if tags else ()]
        except (KeyError, TypeError):  # a value without a hash is not a str; the check below reports it
            return self._new_series(attachment, tags)

    def _new_series(self, attachment: _Attachment, tags: dict[str, str] | None) -> Any:
        table, complete = attachment.table, self._complete(attachment.defaults, tags)
        with registry.lock:
            identity = _identity(complete)
            series = table.series.get(identity)
            if series is None and len(table.series) >= attachment.registry.most_series - 1:
                return self._overflow_series(attachment)
            if series is None:
                series = table.series[identity] = self._series_type(complete, table.boundaries)
            # Do not remember undeclared tags, which pass only in lenient mode: `known` would grow with every value.
            if not tags or tags.keys() <= complete.keys():
                attachment.known[tuple(tags.items()) if tags else ()] = series
        return series

    def _overflow_series(self, attachment: _Attachment) -> Any:
        """The series of everything that has no series of its own, since the metric has too many. `lock` is held.

        Its tags are all empty. `known` does not remember what leads here: it would grow with every new set of tags.
        """
        table = attachment.table
        series = table.series.get(OVERFLOWING)
        if series is None:
            series = self._series_type(dict.fromkeys(self._tag_keys, ""), table.boundaries)
            series.overflows = True
            table.series[OVERFLOWING] = series
            registry.warn_of_overflow(self._name, attachment.registry.most_series, 5)
        return series

    def _complete(self, defaults: dict[str, str], tags: dict[str, str] | None) -> dict[str, str]:
        """Return a value for each declared tag, in the declared order; raise Ray's errors if that is not possible."""
        if tags:
            for value in tags.values():
                if not isinstance(value, str):
                    raise TypeError(f"Tag values must be str, got {type(value)}.")
            undeclared = [key for key in tags if key not in self._tag_keys]
            if undeclared and not _is_lenient():
                raise ValueError(
                    f"Undeclared tag key(s): {','.join(map(str, undeclared))}. The metric {self._name!r} was made with "
                    f"tag_keys={self._tag_keys!r}; name every tag there."
                )
        given = {**defaults, **tags} if tags else defaults
        missing = [key for key in self._tag_keys if key not in given]
        if missing:
            raise ValueError(f"Missing value for tag key(s): {','.join(missing)}.")
        for key, value in given.items():
            _check_ascii(key, value)
        # Turn a subclass of str into a plain str, so that its own methods do not run while a page is written.
        return {key: str.__str__(given[key]) for key in self._tag_keys}

    def _values(self, tags: dict[str, str] | None, all_workers: bool) -> list[Any]:
        """Check the tags as a record does, and return one value for each worker that recorded under them."""
        if self._attachment is None:
            return []
        wanted = _identity(self._complete(self._default_tags, tags))
        with registry.lock:
            recorded = [table.series[wanted] for table in self._tables(all_workers) if wanted in table.series]
        return [value for series in recorded if (value := series.read()) is not None]

    # ------------------------------------------------------------ the metric's place in the registry

    def _register(self) -> None:
        """Register the metric, if it records: the last step of a constructor, after all of Ray's checks."""
        if not self._records:
            return
        if not isinstance(self._description, str):
            raise AttributeError(f"the description of a metric must be str, got {type(self._description)}")
        _check_ascii(self._description, *self._tag_keys)
        by_program = self._owner == DRIVER and not getattr(_remaking, "now", False)
        with registry.lock:
            if by_program and self._name in registry.current.driver_names and not _is_lenient():
                raise ValueError(
                    f"The driver has already registered a metric named {self._name!r}. Keep the first one and use it "
                    f"everywhere, or call miniray.util.metrics.unregister({self._name!r}) before making another."
                )
            if by_program:
                registry.current.driver_names.add(self._name)
            self._attach()

    def _attach(self) -> _Attachment:
        """Attach this metric to its table in the current registry. An unregistered metric gets a table of its own."""
        with registry.lock:
            old = self._attachment
            table = Table(self._owner, self._kind, self._name, self._description, self._sorted_boundaries())
            table.retired = old is not None and old.table.retired
            if not table.retired:
                table = registry.current.tables.setdefault((self._owner, self._name, self._kind), table)
            table.tag_keys.update(dict.fromkeys(self._tag_keys))
            self._attachment = _Attachment(registry.current, table, self._default_tags)
            return self._attachment

    def _tables(self, all_workers: bool) -> list[Table]:
        """This metric's table, then other workers' tables of the same name and class. Called under `registry.lock`."""
        if self._attachment is None:
            return []
        if self._attachment.registry.closed:
            self._attach()
        own = self._attachment.table
        if not all_workers:
            return [own]
        same = (self._name, self._kind)
        tables = registry.current.tables.copy()
        return [own, *(table for key, table in tables.items() if key[1:] == same and table is not own)]

    def _sorted_boundaries(self) -> tuple[float, ...]:
        return ()


class Counter(Metric):
    """A number that only goes up. Ray: ray.util.metrics.Counter."""

    _kind, _series_type = "counter", CounterSeries

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        super().__init__(name, description, tag_keys)
        self._register()

    def inc(self, value: int | float = 1.0, tags: dict[str, str] | None = None) -> None:
        """Add `value`. Raises TypeError unless it is an int or a float, ValueError unless it is above 0.

        tags: override the default tags. The errors, in this order: TypeError if a tag's value is not a str; ValueError
        with the name of an undeclared tag (see `set_lenient`); ValueError with the name of a declared tag without a
        value; UnicodeEncodeError for a tag beyond ASCII. NaN and infinity are dropped, as in Ray, because the sum could
        not recover from them.
        """
        number = value if type(value) is float else _as_float(value)
        if number <= 0.0:
            raise ValueError(f"value must be >0, got {value}")
        series = self._series_for(tags)
        if series is not None and number < _INFINITY:
            series.pending.append(number)
            if len(series.pending) >= BATCH:
                series.fold()
            session = context.session
            if session is not None and (now := session.now()) >= series.due:
                series.sample(now, series.read())

    def value(self, tags: dict[str, str] | None = None, all_workers: bool = False) -> float:
        """Return the sum that this worker's metrics of this name added under these tags; 0.0 before the first record.

        tags: as for `inc`. all_workers: the sum over all workers and the driver.
        """
        return sum(self._values(tags, all_workers), 0.0)

    def __reduce__(self) -> tuple[Any, ...]:
        # Remade from the class's own arguments, as in Ray: the copy has no default tags.
        return _remake, (type(self), self._name, self._description, self._tag_keys)


class Gauge(Metric):
    """A number that goes up and down; its value is the last one set. Ray: ray.util.metrics.Gauge."""

    _kind, _series_type = "gauge", GaugeSeries

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        super().__init__(name, description, tag_keys)
        self._register()

    def set(self, value: int | float | None, tags: dict[str, str] | None = None) -> None:
        """Set the value. Ignores None; raises TypeError unless `value` is an int or a float.

        tags: as for `Counter.inc`.
        """
        if value is None:
            return
        number = value if type(value) is float else _as_float(value)
        series = self._series_for(tags)
        if series is not None:
            series.last = number
            session = context.session
            if session is not None and (now := session.now()) >= series.due:
                series.sample(now, number)

    def value(self, tags: dict[str, str] | None = None, all_workers: bool = False) -> float | None:
        """Return the value that this worker's metrics of this name last set under these tags; None before the first.

        tags: as for `Counter.inc`. all_workers: the sum over all workers that have set it, and the driver.
        """
        values = self._values(tags, all_workers)
        return sum(values) if values else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, (Gauge, self._name, self._description, self._tag_keys)


class Histogram(Metric):
    """Counts of observations by bucket. Ray: ray.util.metrics.Histogram.

    boundaries: the upper bounds of the buckets, in any order, as in Ray. A bound belongs to its bucket; one more bucket
    lies above the last bound. Duplicates, NaN and infinity are ignored. Raises ValueError if there are no boundaries,
    or if one is not above 0 (with its index); TypeError if they are not numbers.
    """

    _kind, _series_type = "histogram", HistogramSeries

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: Sequence[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(name, description, tag_keys)
        if boundaries is None or len(boundaries) == 0:
            raise ValueError('The boundaries argument should be provided, as in Histogram("name", boundaries=[1, 10])')
        for index, boundary in enumerate(boundaries):
            if boundary <= 0:
                raise ValueError(f"Invalid `boundaries` argument at index {index}, {boundaries}: each must be above 0.")
        self.boundaries = boundaries
        self._register()

    @property
    def info(self) -> dict[str, Any]:
        """A new dict of name, description, tag_keys, default_tags and boundaries."""
        return {**super().info, "boundaries": self.boundaries}

    def observe(self, value: int | float, tags: dict[str, str] | None = None) -> None:
        """Count `value` in its bucket. Raises TypeError unless it is an int or a float.

        tags: as for `Counter.inc`. Negative numbers, NaN and infinity are dropped, as in Ray.
        """
        number = value if type(value) is float else _as_float(value)
        series = self._series_for(tags)
        if series is not None and 0.0 <= number < _INFINITY:
            series.pending.append(number)
            if len(series.pending) >= BATCH:
                series.fold()
            session = context.session
            if session is not None and (now := session.now()) >= series.due:
                series.sample(now, number)

    def timer(self, tags: dict[str, str] | None = None) -> Timer:
        """Observe the milliseconds that a block or each call of a function takes, even if it raises. Not in Ray.

            with latency.timer({"route": "/"}): ...

            @latency.timer({"route": "/"})
            def handle(): ...

        The tags are checked on entry to the block or the function.
        """
        return Timer(self, tags)

    def value(self, tags: dict[str, str] | None = None, all_workers: bool = False) -> dict[str, Any]:
        """Return what this worker's metrics of this name observed under these tags, as a new dict.

        `count` and `sum` of the observations are exact. `buckets` maps each upper boundary, infinity last, to the
        number of observations at or below it. tags: as for `Counter.inc`. all_workers: add up all workers.
        """
        values = self._values(tags, all_workers)
        return added(values or [HistogramSeries({}, self._sorted_boundaries()).read()])

    def quantile(self, q: float, tags: dict[str, str] | None = None, all_workers: bool = False) -> float:
        """Estimate from the buckets the value below which the share `q` of the observations lies.

        The estimate spreads the observations of a bucket evenly between its boundaries; the first bucket begins at 0.
        It is NaN without observations. A quantile above the last boundary is that boundary, since nothing is known of
        the values beyond it (NaN if there is no finite boundary). q=0 is the lower edge of the first bucket in use.
        Prometheus's histogram_quantile gives the same answers.

        Raises ValueError unless 0 <= q <= 1, TypeError if q is not a number. tags, all_workers: as for `value`.
        """
        if not 0.0 <= _as_float(q) <= 1.0:
            raise ValueError(f"q must be between 0 and 1, got {q}")
        return interpolated(self.value(tags, all_workers), float(q))

    def _sorted_boundaries(self) -> tuple[float, ...]:
        return tuple(sorted({number for b in self.boundaries if (number := float(b)) < math.inf}))

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, (Histogram, self._name, self._description, self.boundaries, self._tag_keys)


Counter.__module__ = Gauge.__module__ = Histogram.__module__ = "miniray.util.metrics"  # where Ray has them


class Timer:
    """The result of `Histogram.timer`: a context manager, and a decorator of functions.

    Decorated coroutine functions and generators are timed from their first step to their end. One object times one
    block at a time: a block that may be entered concurrently needs a new `timer()` each time. A decorated function
    makes a new one for each call.
    """

    __slots__ = ("_histogram", "_tags", "_started")

    def __init__(self, histogram: Histogram, tags: dict[str, str] | None) -> None:
        self._histogram, self._tags = histogram, tags
        self._started: float | None = None

    def __enter__(self) -> Timer:
        if self._started is not None:
            raise RuntimeError("This timer is already running; call timer() again for each block.")
        # Report wrong tags before the body runs; afterwards, they would hide an error that the body raised.
        if self._histogram._records:
            self._histogram._complete(self._histogram._default_tags, self._tags)
        self._started = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._started is not None, "exit without enter"
        elapsed_ms = (time.perf_counter() - self._started) * 1000.0
        self._started = None
        self._histogram.observe(elapsed_ms, self._tags)

    def __call__(self, function: _F) -> _F:
        """Return the function with each of its calls timed. Raises TypeError for an async generator function."""
        if inspect.isasyncgenfunction(function):
            raise TypeError("An async generator cannot be timed by a decorator; use `with` inside it.")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def timed(*args: Any, **kwargs: Any) -> Any:
                with Timer(self._histogram, self._tags):
                    return await function(*args, **kwargs)

        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def timed(*args: Any, **kwargs: Any) -> Any:
                with Timer(self._histogram, self._tags):
                    return (yield from function(*args, **kwargs))

        else:

            @functools.wraps(function)
            def timed(*args: Any, **kwargs: Any) -> Any:
                with Timer(self._histogram, self._tags):
                    return function(*args, **kwargs)

        return cast(_F, timed)


def unregister(metric: str | Metric) -> bool:
    """Take a metric off the pages, and free its name.

    metric: the object, or a name under the worker that runs this code. Returns whether the metric was registered. Its
    objects continue to work, but neither `snapshot` nor `export_text` shows them again.
    """
    with registry.lock:
        if isinstance(metric, Metric):
            if metric._attachment is None:
                return False
            return registry.retire([metric._attachment.table])
        owner = _owner()
        tables = registry.current.tables.copy()
        return registry.retire([table for key, table in tables.items() if key[:2] == (owner, metric)])


def set_lenient(lenient: bool) -> None:
    """Be as lenient as Ray: drop undeclared tags, and let the driver register a name twice (as one shared metric).

    The `ray` alias calls this function. MINIRAY_STRICT_METRICS=0 in the environment has the same effect.
    """
    global _lenient
    _lenient = lenient


def _remake(cls: type[_M], *arguments: Any) -> _M:
    """Unpickle a metric. A copy that arrives at the driver does not count as a second registration."""
    _remaking.now = True
    try:
        return cls(*arguments)
    finally:
        _remaking.now = False


def _owner() -> str:
    """The owner of a metric that is made now: the key of the worker that runs this code, or the driver."""
    execution = caller()
    return DRIVER if execution is None else str(execution.worker.key)


def _is_lenient() -> bool:
    # Called only before an error is raised, so reading the environment each time is cheap enough.
    return _lenient or os.environ.get("MINIRAY_STRICT_METRICS") == "0"


def _is_unusable(name: str) -> bool:
    """Whether records under this name are dropped; if so, warn. Raises ValueError for an empty name."""
    if len(name) == 0:
        raise ValueError("Empty name is not allowed. Give the metric a name.")
    if _VALID_NAME.fullmatch(name):
        return False
    warnings.warn(
        f"Invalid metric name: {name!r}. The metric will be discarded: nothing is recorded. A name consists of the "
        "letters a to z, digits, _ and :, and does not begin with a digit.",
        UserWarning,
        stacklevel=4,
    )
    return True


def _as_float(value: Any) -> float:
    """Convert an int, float or bool to a plain float. Raises TypeError otherwise; OverflowError for a huge int."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"value must be int or float, got {type(value)}.")
    return float(value)


def _identity(tags: dict[str, str]) -> Tags:
    """The key of a series, independent of the order of tags. Like Prometheus, take an empty value for a missing tag."""
    return tuple(sorted(item for item in tags.items() if item[1]))
