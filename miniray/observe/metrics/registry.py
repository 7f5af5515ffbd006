"""What one session's metrics have recorded: tables of series by worker, name and kind.

A registry lasts as long as a session: the runtime calls `reset` at shutdown, and that begins a new registry. The values
of the old registry are then out of reach, every name is free again, and a metric object that outlives its session
continues from zero in the next one.

`snapshot` and `export_text` read a whole registry. This module does not know the classes of metrics.
"""

from __future__ import annotations

import functools
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...ids import worker_hex
from ...process import context
from ...process.context import at_end, in_forked_child
from . import prometheus
from .series import MOST_SAMPLES

DRIVER = "driver"  # the owner of the driver's metrics; a worker's metrics are owned by its id
DRIVER_ID = worker_hex(0)  # what Ray calls the driver on its page
MOST_SERIES = 10_000  # of one metric, unless MINIRAY_METRICS_MAX_SERIES says otherwise

Tags = tuple[tuple[str, str], ...]  # names and values, sorted
SystemMetrics = Iterable[tuple[str, str, str, Iterable[tuple[Mapping[str, str], Any]]]]


def of_the_session(runtime: Any) -> SystemMetrics:
    """A session's own metrics; none if there is no session."""
    if runtime is None:
        return []
    from . import system  # here, since recording needs none of it

    return system.families(runtime)


system_metrics_provider: Callable[[Any], SystemMetrics] | None = of_the_session
"""A hook: returns a session's own metrics, each as (whole family name, type, help, [(labels, value)])."""

session_labels: dict[str, str] = {}
"""Further labels for every sample of `export_text`. `reset` clears them."""


class Table:
    """All series of one name and kind under one worker. The first metric sets the description and the boundaries."""

    __slots__ = ("owner", "kind", "name", "description", "boundaries", "tag_keys", "series", "retired")

    def __init__(self, owner: str, kind: str, name: str, description: str, boundaries: tuple[float, ...]) -> None:
        self.owner, self.kind, self.name = owner, kind, name
        self.description, self.boundaries = description, boundaries
        self.tag_keys: dict[str, None] = {}  # the union over the metrics that share the table, in order
        self.series: dict[Tags, Any] = {}
        self.retired = False  # unregistered: its metrics continue to count, but no page shows them


class Registry:
    """What one session recorded. `lock` guards everything in it."""

    __slots__ = ("tables", "driver_names", "closed", "most_series", "warned")

    def __init__(self) -> None:
        self.most_series = _limit()
        self.warned: set[str] = set()  # names of metrics with too many series
        self.tables: dict[tuple[str, str, str], Table] = {}  # by owner, name, kind
        self.driver_names: set[str] = set()  # the names for which the driver's program has made a metric
        self.closed = False  # the session has ended: metrics attach to the current registry at their next record


def _limit() -> int:
    try:
        return max(2, int(os.environ.get("MINIRAY_METRICS_MAX_SERIES", MOST_SERIES)))
    except ValueError:
        return MOST_SERIES


# Guards registries, their tables, and the attachment of each metric to a table: everything that changes when a name, a
# series or a session is new. Recording in a known series does not take the lock. Re-entrant, because a finaliser that
# runs while it is held may record too. It may also make a metric or a series. So a loop over a table that allocates
# anything runs over a copy: `list(table.values())` and `table.copy()` are single steps, in which no finaliser runs.
lock = threading.RLock()
current = Registry()


def snapshot() -> list[dict[str, Any]]:
    """Return every series that this session recorded, sorted by name, type, worker and tags.

    A row is a new dict: `name`, `type` ("counter", "gauge", "histogram"), `description`, `worker_id` ("driver", or the
    worker's id), `tags`, and `value` as the metric's own `value` returns it. A metric without a record has no row.
    """
    with lock:
        series = [(table, one) for table in list(current.tables.values()) for one in list(table.series.values())]
    rows = [row(table, one) for table, one in series]
    return sorted(rows, key=lambda row: (row["name"], row["type"], row["worker_id"], sorted(row["tags"].items())))


def row(table: Table, series: Any) -> dict[str, Any]:
    """One series of a table, as a row of `snapshot`."""
    return {
        "name": table.name,
        "type": table.kind,
        "description": table.description,
        "worker_id": table.owner,
        "tags": series.tags.copy(),
        "value": series.read(),
    }


class Curve(NamedTuple):
    """The values of one metric under one set of tag values over time, with those of all workers together.

    samples: time on the runtime's clock, and value: the sum over the workers for a counter or a gauge, an observation
    for a histogram. They are a part of all values, see `series.Sampled`. number: how many records a histogram counted.
    """

    name: str
    kind: str
    description: str
    tags: dict[str, str]
    samples: list[tuple[float, float]]
    number: int


def curves(now: float) -> list[Curve]:
    """Return a curve for each metric and set of tag values, by name. now: the time on the runtime's clock."""
    groups: dict[tuple[str, str, Tags], list[tuple[Table, Any]]] = {}
    with lock:
        for table in list(current.tables.values()):
            for tags, one in table.series.copy().items():
                groups.setdefault((table.name, table.kind, tags), []).append((table, one))
    found = []
    for (name, kind, _), members in sorted(groups.items(), key=lambda item: item[0]):
        description = next((table.description for table, _ in members if table.description), "")
        tags = members[0][1].tags.copy()
        lists = [one.samples.copy() for _, one in members]
        number = 0
        if kind == "histogram":
            samples = sorted(sample for samples in lists for sample in samples)
            number = sum(one.read()["count"] for _, one in members)
        else:
            for samples, (_, one) in zip(lists, members):
                last = one.read()
                if last is not None:
                    samples.append((now, last))
            samples = summed(lists)
        if samples:
            kept = samples[:: -(len(samples) // MOST_SAMPLES + 1)][::-1]  # the last one is always among them
            found.append(Curve(name, kind, description, tags, kept, number))
    return found


def summed(lists: list[list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """The sum of curves that each hold a value until the next one. The last point has the latest time."""
    changes = sorted((at, place, value) for place, samples in enumerate(lists) for at, value in samples)
    values, total = [0.0] * len(lists), []
    for at, place, value in changes:
        values[place] = value
        total.append((at, sum(values)))
    return total


def export_text(include_system: bool = True, format: str = "prometheus", runtime: Any = None) -> str:
    """Return everything that this session recorded as text. Serve it as `CONTENT_TYPES[format]`.

    Names are Ray's: the prefix `ray_`, and the suffix `_total` for a counter. Labels are the tags, and Ray's labels
    Component, NodeAddress, SessionName, Version and WorkerId. Metrics of one name form one family with the union of
    their tags; a tag that one of them lacks is "". No family has more series than `MOST_SERIES`.

    include_system: begin with Ray's metrics about itself, if a session runs. format: "prometheus" (the text format
    0.0.4) or "openmetrics" (1.0.0); ValueError for another one. runtime: the session, for a caller that looks at one
    that is just ending, or the session in a recording (`telemetry.recording.restore`); by default the running one.
    """
    return prometheus.render(families(include_system, runtime), format)


def export_page(accept: str | None = None, include_system: bool = True, runtime: Any = None) -> tuple[str, str]:
    """The Content-Type and the text that answer a scraper. accept: its Accept header; None if it has sent none.
    Otherwise as `export_text`."""
    format = prometheus.negotiated(accept)
    return prometheus.CONTENT_TYPES[format], export_text(include_system, format, runtime)


def families(include_system: bool = True, runtime: Any = None) -> list[prometheus.Family]:
    """Every metric with its samples now: the session's own first, then the program's. The names are the page's, without
    the suffix of counters. The arguments are those of `export_text`."""
    found: list[prometheus.Family] = []
    runtime = context.session if runtime is None else runtime
    if include_system and system_metrics_provider is not None:
        for name, kind, help_text, samples in system_metrics_provider(runtime):
            labelled = [({**session_labels, **labels}, value) for labels, value in samples]
            found.append(prometheus.Family(name, kind, help_text, labelled))
    found += _recorded_families(runtime)
    for number, family in enumerate(found):
        found[number] = _capped(family)
    return found


def _capped(family: prometheus.Family) -> prometheus.Family:
    samples = list(family.samples)
    most = current.most_series
    if len(samples) > most:
        warn_of_overflow(family.name, most, 4)
    return prometheus.capped(family._replace(samples=samples), most)


def warn_of_overflow(name: str, most: int, stacklevel: int) -> None:
    """Warn, once for each metric of a session, that it has too many series. stacklevel: of the program's line, as seen
    from here."""
    with lock:
        if name in current.warned:
            return
        current.warned.add(name)
    warnings.warn(
        f"The metric {name} has more than {most:,} series. All further ones are counted together, in the series with "
        "the label otel_metric_overflow. Use tags with few values, or set MINIRAY_METRICS_MAX_SERIES.",
        RuntimeWarning,
        stacklevel=stacklevel + 1,
    )


def _places(runtime: Any) -> tuple[dict[str, str], Callable[[str], str]]:
    """The labels of a session, and a function from a worker's id to the address of its node."""
    if runtime is None:
        return {}, lambda worker_id: ""
    from . import system

    return system.session_labels(runtime), functools.partial(system.address_of, runtime)


def _recorded_families(runtime: Any) -> Iterator[prometheus.Family]:
    common, address_of = _places(runtime)
    found = getattr(runtime, "metric_tables", current.tables)  # a session in a recording has its own
    with lock:
        tables = sorted(found.values(), key=lambda table: (table.name, table.kind, table.owner))
        series = {id(table): list(table.series.values()) for table in tables}
    by_name: dict[tuple[str, str], list[Table]] = {}
    for table in tables:
        by_name.setdefault((table.name, table.kind), []).append(table)
    for (name, kind), members in by_name.items():
        tag_keys = list(dict.fromkeys(key for table in members for key in table.tag_keys))
        samples = []
        for table in members:
            worker_id = DRIVER_ID if table.owner == DRIVER else table.owner
            place = {"NodeAddress": address_of(worker_id)} if common else {}
            fixed = {"Component": "core_worker", **place, **common, **session_labels, "WorkerId": worker_id}
            names = prometheus.tag_names(fixed, tag_keys)
            for one in series[id(table)]:
                value = one.read()
                if value is None:  # a gauge whose first value is just being set
                    continue
                labels = fixed.copy()
                for key, label in names.items():
                    labels[label] = one.tags.get(key, "")
                if one.overflows:
                    labels.update(prometheus.OVERFLOW)
                samples.append((labels, value))
        description = next((table.description for table in members if table.description), "")
        yield prometheus.Family(f"ray_{name}", kind, description, samples)


def retire(tables: list[Table]) -> bool:
    """Take tables off the pages and free their names. Called under `lock`. Returns whether one was registered."""
    any_registered = False
    for table in tables:
        table.retired = True
        key = (table.owner, table.name, table.kind)
        if current.tables.get(key) is table:  # a table of an earlier session is not registered any longer
            del current.tables[key]
            any_registered = True
            if table.owner == DRIVER:
                current.driver_names.discard(table.name)
    return any_registered


def reset() -> None:
    """Begin a new registry: called when a session has ended.

    Nothing that was recorded before is shown or counted any longer, and the driver may register each name again. An
    older metric object continues from zero, with its default tags, at its next record. That record does not register
    the name: the new session's program may still make a metric of that name, and the two share their series.
    """
    global current
    with lock:
        current.closed = True
        current = Registry()
        session_labels.clear()


def after_fork() -> None:
    """Start afresh in a forked child: a thread of the parent may have held the lock, and the session is not its own."""
    global lock
    lock = threading.RLock()
    reset()


at_end.append(reset)
in_forked_child.append(after_fork)
