"""What one session's metrics have recorded: tables of series by worker, name and kind.

A registry lasts as long as a session: the runtime calls `reset` at shutdown, and that begins a new registry. The values
of the old registry are then out of reach, every name is free again, and a metric object that outlives its session
continues from zero in the next one.

`snapshot` and `export_text` read a whole registry. This module does not know the classes of metrics.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ...process.context import at_end, in_forked_child
from . import prometheus
from .series import MOST_SAMPLES

DRIVER = "driver"  # the owner of the driver's metrics; a worker's metrics are owned by its id

Tags = tuple[tuple[str, str], ...]  # names and values, sorted
SystemMetrics = Iterable[tuple[str, str, str, Iterable[tuple[dict[str, str], float]]]]

system_metrics_provider: Callable[[], SystemMetrics] | None = None
"""A hook: returns the runtime's own metrics, each as (whole family name, type, help, [(labels, value)])."""

session_labels: dict[str, str] = {}
"""Labels that every sample of `export_text` carries, such as SessionName and NodeAddress. `reset` clears them."""


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

    __slots__ = ("tables", "driver_names", "closed")

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str, str], Table] = {}  # by owner, name, kind
        self.driver_names: set[str] = set()  # the names for which the driver's program has made a metric
        self.closed = False  # the session has ended: metrics attach to the current registry at their next record


# Guards registries, their tables, and the attachment of each metric to a table: everything that changes when a name, a
# series or a session is new. Recording in a known series does not take the lock. Re-entrant, because a finaliser that
# runs while it is held may record too.
lock = threading.RLock()
current = Registry()


def snapshot() -> list[dict[str, Any]]:
    """Return every series that this session recorded, sorted by name, type, worker and tags.

    A row is a new dict: `name`, `type` ("counter", "gauge", "histogram"), `description`, `worker_id` ("driver", or the
    worker's id), `tags`, and `value` as the metric's own `value` returns it. A metric without a record has no row.
    """
    with lock:
        series = [(table, one) for table in current.tables.values() for one in table.series.values()]
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
        for table in current.tables.values():
            for tags, one in table.series.items():
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
            samples = _added(lists)
        if samples:
            kept = samples[:: -(len(samples) // MOST_SAMPLES + 1)][::-1]  # the last one is always among them
            found.append(Curve(name, kind, description, tags, kept, number))
    return found


def _added(lists: list[list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """The sum of curves that each hold a value until the next one. The last point has the latest time."""
    changes = sorted((at, place, value) for place, samples in enumerate(lists) for at, value in samples)
    values, total = [0.0] * len(lists), []
    for at, place, value in changes:
        values[place] = value
        total.append((at, sum(values)))
    return total


def export_text(include_system: bool = True) -> str:
    """Return everything that this session recorded, in the Prometheus text format 0.0.4 (serve it as `CONTENT_TYPE`).

    Names are Ray's: the prefix `ray_`, and the suffix `_total` for a counter. Labels are the tags, Component and
    WorkerId as in Ray, and `session_labels`. Metrics of one name form one family with the union of their tags; a tag
    that one of them lacks is "". include_system: begin with the runtime's own metrics, if a provider is set.
    """
    families: list[prometheus.Family] = []
    if include_system and system_metrics_provider is not None:
        for name, kind, help_text, samples in system_metrics_provider():
            labelled = [(prometheus.with_tags(session_labels, labels, kind), value) for labels, value in samples]
            families.append(prometheus.Family(name, kind, help_text, labelled))
    return prometheus.render([*families, *_recorded_families()])


def _recorded_families() -> Iterator[prometheus.Family]:
    with lock:
        tables = sorted(current.tables.values(), key=lambda table: (table.name, table.kind, table.owner))
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
