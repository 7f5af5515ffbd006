"""Counters, gauges and histograms: who recorded what, and how to read it back.

The classes are Ray's (`ray.util.metrics`, which see for signatures and checks); what Ray sends to a metrics agent is
kept here, in this process, and can be read by `value`, `quantile`, `snapshot` and `export_text`.

Who records. A metric belongs to the worker that made it, as it would if the worker were a process: the same name in the
driver and in two actors is three tables of series, told apart by `WorkerId`. A pickled metric is made anew where it
arrives. Under one worker, metrics of one name and class share their series.

How long. A registry lasts as long as a session: `reset`, which the runtime calls at shutdown, begins a new one. What
was recorded is gone with the old one, every name is free again, and a metric object that outlives its session goes on
from zero in the next one.

How fast. A record looks its series up by the tags exactly as they were written, and appends the number to a list:
nothing is locked, so a finaliser or a signal handler may record too. Whoever makes the list long adds it up, and so
does whoever reads.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

from miniray.observe.metrics import prometheus
from miniray.observe.metrics.prometheus import CONTENT_TYPE as CONTENT_TYPE
from miniray.observe.metrics.series import BATCH, CounterSeries, GaugeSeries, HistogramSeries, added, interpolated
from miniray.process.context import at_end, current, in_forked_child

DRIVER = "driver"

SystemMetrics = Iterable[tuple[str, str, str, Iterable[tuple[dict[str, str], float]]]]

system_metrics_provider: Callable[[], SystemMetrics] | None = None
"""Set by the state API: the runtime's own metrics, each as (whole family name, type, help, [(labels, value)])."""

session_labels: dict[str, str] = {}
"""Set by the runtime: labels that every sample of `export_text` carries, such as SessionName and NodeAddress."""

_VALID_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_INFINITY = math.inf

_F = TypeVar("_F", bound=Callable[..., Any])
_M = TypeVar("_M", bound="Metric")


class Table:
    """All series of one name and class under one worker. What the first metric was made with counts for all of them."""

    __slots__ = ("owner", "kind", "name", "description", "boundaries", "tag_keys", "series", "retired")

    def __init__(self, owner: str, metric: Metric) -> None:
        self.owner, self.kind, self.name = owner, metric._kind, metric._name
        self.description = metric._description
        self.boundaries = metric._sorted_boundaries()
        self.tag_keys: dict[str, None] = {}  # the union over the metrics that share the table, in order
        self.series: dict[tuple[tuple[str, str], ...], Any] = {}
        self.retired = False  # unregistered: its metrics go on counting, but no page shows it


class Registry:
    """What one session recorded. Everything in it is guarded by the module's `_lock`."""

    __slots__ = ("tables", "claimed")

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str, str], Table] = {}  # by owner, name, kind
        self.claimed: set[str] = set()  # names that the driver's program has made a metric for


class _Attachment:
    """Where a metric records: a registry, a table in it, and the series that were already found, by the tags as given.

    Replaced as a whole when the session or the default tags change: a record that is under way sees one or the other.
    """

    __slots__ = ("registry", "table", "defaults", "known")

    def __init__(self, registry: Registry, table: Table, defaults: dict[str, str]) -> None:
        self.registry, self.table, self.defaults = registry, table, defaults
        self.known: dict[tuple[tuple[str, str], ...], Any] = {}


# Guards registries and their tables, and which attachment a metric has: whatever changes when a name, a series or a
# session is new. A record to a series that is known takes no part. Re-entrant for the sake of finalisers.
_lock = threading.RLock()
_registry = Registry()
_lenient = False
_remaking = threading.local()  # .now: this thread is unpickling a metric


# ------------------------------------------------------------------------------------------------ the metrics


class Metric:
    """What Counter, Gauge and Histogram have in common. As in Ray, a bare Metric can be described and records nothing.

    name: letters, digits, `_` and `:`, not beginning with a digit; any other only warns, and nothing is recorded.
    description: shown by `info` and as the help text of `export_text`. tag_keys: the names of the tags; each record
    must give each of them a value, unless `set_default_tags` did.

    Raises ValueError for an empty name; TypeError for a name that is no text, tag_keys that are no tuple, or a key that
    is no str; AttributeError for a description that is no str. Where Ray would let it pass, raises ValueError when the
    driver made a metric of this name before (see `set_lenient`). Ray: python/ray/util/metrics.py.
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
        self._attachment: _Attachment | None = None  # for good, when nothing is recorded
        if not isinstance(self._tag_keys, tuple):
            raise TypeError(f"tag_keys should be a tuple type, got: {type(self._tag_keys)}")
        for key in self._tag_keys:
            if not isinstance(key, str):
                raise TypeError(f"Tag keys must be str, got {type(key)}.")
        if ":" in name:
            warnings.warn(
                f"Metric name {name} contains a colon. Prometheus keeps colons for its own recording rules, "
                "and a coming version of Ray refuses them.",
                FutureWarning,
                stacklevel=3,
            )

    @property
    def info(self) -> dict[str, Any]:
        """A new dict of name, description, tag_keys and default_tags; of a histogram also its boundaries."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": self._default_tags.copy(),
        }

    def set_default_tags(self: _M, default_tags: dict[str, str]) -> _M:
        """Use these values for tags that a record does not mention, instead of any defaults given before.

        Returns the metric itself. Raises ValueError for a key that is not among tag_keys, TypeError for a value that is
        not a str; the defaults then stay as they were.
        """
        for key, value in default_tags.items():
            if key not in self._tag_keys:
                raise ValueError(f"Unrecognized tag key {key}.")
            if not isinstance(value, str):
                raise TypeError(f"Tag values must be str, got {type(value)}.")
        with _lock:
            self._default_tags = dict(default_tags)
            if (old := self._attachment) is not None:
                self._attachment = _Attachment(old.registry, old.table, self._default_tags)
        return self

    def snapshot(self, all_workers: bool = False) -> list[dict[str, Any]]:
        """Every series of this metric, as rows of the module's `snapshot`.

        all_workers: also those that other workers recorded in metrics of the same name and class.
        """
        with _lock:
            series = [(table, one) for table in self._tables(all_workers) for one in table.series.values()]
        return [_row(table, one) for table, one in series]

    # What follows is how a record finds its series.

    def _series_for(self, tags: dict[str, str] | None) -> Any:
        """The series of these tags, made if need be; None when this metric records nothing. Checks the tags."""
        attachment = self._attachment
        if attachment is None:
            return None
        if attachment.registry is not _registry:
            attachment = self._attach()
        try:
            return attachment.known[tuple(tags.items()) if tags else ()]
        except (KeyError, TypeError):  # a value that cannot be hashed is no str, which is told below
            return self._new_series(attachment, tags)

    def _new_series(self, attachment: _Attachment, tags: dict[str, str] | None) -> Any:
        table, complete = attachment.table, self._complete(attachment.defaults, tags)
        with _lock:
            series = table.series.get(_identity(complete))
            if series is None:
                series = table.series[_identity(complete)] = self._series_type(complete, table.boundaries)
            # Not under undeclared tags, which only the lenient let pass: each new value of theirs would be kept.
            if not tags or tags.keys() <= complete.keys():
                attachment.known[tuple(tags.items()) if tags else ()] = series
        return series

    def _complete(self, defaults: dict[str, str], tags: dict[str, str] | None) -> dict[str, str]:
        """A value for each declared tag, in the declared order, or the error that Ray raises."""
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
        # A plain str even of a subclass, whose own methods would otherwise run while a page is written.
        return {key: str.__str__(given[key]) for key in self._tag_keys}

    def _values(self, tags: dict[str, str] | None, all_workers: bool) -> list[Any]:
        """What was recorded under these tags, one value for each worker that did. Checks the tags as a record does."""
        if self._attachment is None:
            return []
        wanted = _identity(self._complete(self._default_tags, tags))
        with _lock:
            found = [table.series[wanted] for table in self._tables(all_workers) if wanted in table.series]
        return [value for series in found if (value := series.read()) is not None]

    # What follows is where a metric stands in the registry.

    def _register(self) -> None:
        """The last step of making a metric that records, when all that Ray checks was checked."""
        if not self._records:
            return
        if not isinstance(self._description, str):
            raise AttributeError(f"the description of a metric must be str, got {type(self._description)}")
        by_program = self._owner == DRIVER and not getattr(_remaking, "now", False)
        with _lock:
            if by_program and self._name in _registry.claimed and not _is_lenient():
                raise ValueError(
                    f"The driver has registered a metric named {self._name!r} already. Keep the first one and use it "
                    f"everywhere, or call miniray.util.metrics.unregister({self._name!r}) before making another."
                )
            if by_program:
                _registry.claimed.add(self._name)
            self._attach()

    def _attach(self) -> _Attachment:
        """Take this metric's place in the registry of the running session."""
        with _lock:
            old = self._attachment
            table = Table(self._owner, self)
            table.retired = old is not None and old.table.retired
            if not table.retired:
                table = _registry.tables.setdefault((self._owner, self._name, self._kind), table)
            table.tag_keys.update(dict.fromkeys(self._tag_keys))
            self._attachment = _Attachment(_registry, table, self._default_tags)
            return self._attachment

    def _tables(self, all_workers: bool) -> list[Table]:
        """This metric's own table, and those of the same name and class under other workers. Called under `_lock`."""
        if self._attachment is None:
            return []
        if self._attachment.registry is not _registry:
            self._attach()
        own = self._attachment.table
        if not all_workers:
            return [own]
        same = (self._name, self._kind)
        return [own, *(table for key, table in _registry.tables.items() if key[1:] == same and table is not own)]

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

        tags: added to the default tags, and before them in rank. Raises, in this order: TypeError when a tag's value is
        not a str; ValueError that names an undeclared tag (see `set_lenient`); ValueError that names a declared tag
        without value. NaN and infinity are dropped, as by Ray: the sum could not come back from them.
        """
        number = value if type(value) is float else _as_float(value)
        if number <= 0.0:
            raise ValueError(f"value must be >0, got {value}")
        series = self._series_for(tags)
        if series is not None and number < _INFINITY:
            series.pending.append(number)
            if len(series.pending) >= BATCH:
                series.fold()

    def value(self, tags: dict[str, str] | None = None, all_workers: bool = False) -> float:
        """The sum of what this worker's metrics of this name added under these tags; 0.0 before the first.

        tags: as for `inc`. all_workers: the sum over every worker's, and the driver's.
        """
        return sum(self._values(tags, all_workers), 0.0)

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew with the class's own arguments, as by Ray: the copy has no default tags.
        return _remake, (type(self), self._name, self._description, self._tag_keys)


class Gauge(Metric):
    """A number that goes up and down; the last one set stands. Ray: ray.util.metrics.Gauge."""

    _kind, _series_type = "gauge", GaugeSeries

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None) -> None:
        super().__init__(name, description, tag_keys)
        self._register()

    def set(self, value: int | float | None, tags: dict[str, str] | None = None) -> None:
        """Let `value` stand from now on. None is ignored; raises TypeError for what is neither int nor float.

        tags: as for `Counter.inc`.
        """
        if value is None:
            return
        number = value if type(value) is float else _as_float(value)
        series = self._series_for(tags)
        if series is not None:
            series.last = number

    def value(self, tags: dict[str, str] | None = None, all_workers: bool = False) -> float | None:
        """What this worker's metrics of this name last set under these tags; None before the first.

        tags: as for `Counter.inc`. all_workers: the sum over every worker that has set it, and the driver.
        """
        values = self._values(tags, all_workers)
        return sum(values) if values else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, (Gauge, self._name, self._description, self._tag_keys)


class Histogram(Metric):
    """How often observations fell into which bucket. Ray: ray.util.metrics.Histogram.

    boundaries: upper bounds of the buckets, each included in its bucket; above the last there is one more. In any
    order, as Ray takes them; copies, NaN and infinity count for nothing. Raises ValueError when there are none, or
    when one is not above 0 (naming its index); TypeError when they are not numbers.
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

        tags: as for `Counter.inc`. Negative numbers, NaN and infinity are dropped, as by Ray.
        """
        number = value if type(value) is float else _as_float(value)
        series = self._series_for(tags)
        if series is not None and 0.0 <= number < _INFINITY:
            series.pending.append(number)
            if len(series.pending) >= BATCH:
                series.fold()

    def timer(self, tags: dict[str, str] | None = None) -> Timer:
        """Observe how many milliseconds a block or each call of a function takes, also when it raises. Not in Ray.

            with latency.timer({"route": "/"}): ...

            @latency.timer({"route": "/"})
            def handle(): ...

        The tags are checked when the block or the function is entered.
        """
        return Timer(self, tags)

    def value(self, tags: dict[str, str] | None = None, all_workers: bool = False) -> dict[str, Any]:
        """What this worker's metrics of this name observed under these tags: a new dict.

        `count` and `sum` of the observations, both exact, and `buckets`: from each upper boundary, infinity last, to
        the number of observations at or below it. tags: as for `Counter.inc`. all_workers: every worker's together.
        """
        values = self._values(tags, all_workers)
        return added(values or [HistogramSeries({}, self._sorted_boundaries()).read()])

    def quantile(self, q: float, tags: dict[str, str] | None = None, all_workers: bool = False) -> float:
        """The value below which the share `q` of the observations lies, as well as the buckets can tell.

        The observations of a bucket are taken to lie evenly between its boundaries, the first bucket's between 0 and
        the first boundary. NaN without any observation. Where the quantile is above the last boundary, that boundary:
        nothing is known of the values beyond (NaN if there is no finite boundary). q=0 is the lower edge of the first
        bucket in use. Prometheus's histogram_quantile answers so too.

        Raises ValueError unless 0 <= q <= 1, TypeError when q is no number. tags, all_workers: as for `value`.
        """
        if not 0.0 <= _as_float(q) <= 1.0:
            raise ValueError(f"q must be between 0 and 1, got {q}")
        return interpolated(self.value(tags, all_workers), float(q))

    def _sorted_boundaries(self) -> tuple[float, ...]:
        return tuple(sorted({number for b in self.boundaries if (number := float(b)) < math.inf}))

    def __reduce__(self) -> tuple[Any, ...]:
        return _remake, (Histogram, self._name, self._description, self.boundaries, self._tag_keys)


class Timer:
    """What `Histogram.timer` returns: a context manager, and a decorator of functions.

    Decorated coroutine functions and generators are timed from their first step to their end. One object times one
    block at a time, so a block that may be entered twice at once wants a `timer()` of its own each time; a decorator
    sees to that itself.
    """

    __slots__ = ("_histogram", "_tags", "_started")

    def __init__(self, histogram: Histogram, tags: dict[str, str] | None) -> None:
        self._histogram, self._tags = histogram, tags
        self._started: float | None = None

    def __enter__(self) -> Timer:
        if self._started is not None:
            raise RuntimeError("This timer is running already; call timer() again for each block.")
        # Wrong tags are told before the body runs: told after it, they would hide the error that the body raised.
        if self._histogram._records:
            self._histogram._complete(self._histogram._default_tags, self._tags)
        self._started = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._started is not None, "left without having been entered"
        elapsed_ms = (time.perf_counter() - self._started) * 1000.0
        self._started = None
        self._histogram.observe(elapsed_ms, self._tags)

    def __call__(self, function: _F) -> _F:
        """The function, timed at each call. Raises TypeError for an async generator function."""
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


# ------------------------------------------------------------------------------------------- the whole registry


def snapshot() -> list[dict[str, Any]]:
    """Every series that was recorded in this session, sorted by name, type, worker and tags.

    A row is a new dict: `name`, `type` ("counter", "gauge", "histogram"), `description`, `worker_id` ("driver", or the
    worker's id), `tags`, and `value` as the metric's own `value` returns it. A metric without a record has no row.
    """
    with _lock:
        series = [(table, one) for table in _registry.tables.values() for one in table.series.values()]
    rows = [_row(table, one) for table, one in series]
    return sorted(rows, key=lambda row: (row["name"], row["type"], row["worker_id"], sorted(row["tags"].items())))


def export_text(include_system: bool = True) -> str:
    """Everything recorded in this session, in the Prometheus text format 0.0.4 (serve it as `CONTENT_TYPE`).

    Names are Ray's: `ray_` before each, and `_total` behind a counter's. Labels are the tags and, as in Ray, Component
    and WorkerId, and what the runtime knows of the session. Metrics of one name form one family with the union of their
    tags; a tag that one of them lacks is "". include_system: begin with the runtime's own metrics: tasks, actors,
    object store, spills, queue, workers.
    """
    families: list[prometheus.Family] = []
    if include_system and system_metrics_provider is not None:
        for name, kind, help_text, samples in system_metrics_provider():
            labelled = [(prometheus.with_tags(session_labels, labels, kind), value) for labels, value in samples]
            families.append(prometheus.Family(name, kind, help_text, labelled))
    return prometheus.render([*families, *_recorded_families()])


def unregister(metric: str | Metric) -> bool:
    """Take a metric off the pages, and free its name: given as itself, or by the name it has under this worker.

    Returns whether it was registered. Objects that recorded under it keep working for whoever holds them, but neither
    `snapshot` nor `export_text` shows them again.
    """
    with _lock:
        if isinstance(metric, Metric):
            if metric._attachment is None:
                return False
            tables = [metric._attachment.table]
        else:
            owner = _owner()
            tables = [table for key, table in _registry.tables.items() if key[:2] == (owner, metric)]
        found = False
        for table in tables:
            table.retired = True
            key = (table.owner, table.name, table.kind)
            if _registry.tables.get(key) is table:  # not when it is one of a session that has ended
                del _registry.tables[key]
                found = True
                if table.owner == DRIVER:
                    _registry.claimed.discard(table.name)
        return found


def reset() -> None:
    """Begin a new session: called when one has ended.

    Nothing that was recorded before is shown or counted any more, and the driver may register each name again. A metric
    object made before goes on from zero, with its default tags, at its next record; that does not count as registering,
    so the new session's program may still make a metric of that name, and shares the series with it.
    """
    global _registry
    with _lock:
        _registry = Registry()
        session_labels.clear()


def after_fork() -> None:
    """In a forked child: a thread of the parent's may have held the lock, and its session is not the child's."""
    global _lock
    _lock = threading.RLock()
    reset()


at_end.append(reset)
in_forked_child.append(after_fork)


def set_lenient(lenient: bool) -> None:
    """Let undeclared tags (dropped) and names that the driver registers twice (one shared metric) pass, as Ray does.

    The `ray` alias calls this. So does, in effect, MINIRAY_STRICT_METRICS=0 in the environment.
    """
    global _lenient
    _lenient = lenient


def _recorded_families() -> Iterator[prometheus.Family]:
    with _lock:
        tables = sorted(_registry.tables.values(), key=lambda table: (table.name, table.kind, table.owner))
        series = {id(table): list(table.series.values()) for table in tables}
    families: dict[tuple[str, str], list[Table]] = {}
    for table in tables:
        families.setdefault((table.name, table.kind), []).append(table)
    for (name, kind), members in families.items():
        tag_keys = list(dict.fromkeys(key for table in members for key in table.tag_keys))
        samples = []
        for table in members:
            fixed = {"Component": "core_worker", **session_labels, "WorkerId": table.owner}
            for one in series[id(table)]:
                labels = prometheus.with_tags(fixed, {key: one.tags.get(key, "") for key in tag_keys}, kind)
                samples.append((labels, one.read()))
        description = next((table.description for table in members if table.description), "")
        yield prometheus.Family(f"ray_{name}", kind, description, samples)


def _row(table: Table, series: Any) -> dict[str, Any]:
    return {
        "name": table.name,
        "type": table.kind,
        "description": table.description,
        "worker_id": table.owner,
        "tags": series.tags.copy(),
        "value": series.read(),
    }


def _remake(cls: type[_M], *arguments: Any) -> _M:
    """What a pickled metric comes back by. A copy that arrives at the driver is no second registration."""
    _remaking.now = True
    try:
        return cls(*arguments)
    finally:
        _remaking.now = False


def _owner() -> str:
    """Whose metrics are made here and now: the key of the worker that runs this code, or the driver."""
    execution = current.get()
    return DRIVER if execution is None else str(execution.worker.key)


def _is_lenient() -> bool:
    # Asked only where something is about to be refused, so the environment may be read each time.
    return _lenient or os.environ.get("MINIRAY_STRICT_METRICS") == "0"


def _is_unusable(name: str) -> bool:
    """Whether records under this name are dropped; warns if so. Raises ValueError when it is empty."""
    if len(name) == 0:
        raise ValueError("Empty name is not allowed. Give the metric a name.")
    if _VALID_NAME.fullmatch(name):
        return False
    warnings.warn(
        f"Invalid metric name: {name!r}. Nothing is recorded under it: a name is made of letters of a to z, digits, _ "
        "and :, and does not begin with a digit.",
        UserWarning,
        stacklevel=4,
    )
    return True


def _as_float(value: Any) -> float:
    """A bool, int or float, also of a subclass, as plain float; OverflowError for an int beyond floats, as in Ray."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"value must be int or float, got {type(value)}.")
    return float(value)


def _identity(tags: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """What makes tags the same series, whatever their order. To Prometheus, an empty value and no tag are the same."""
    return tuple(sorted(item for item in tags.items() if item[1]))
