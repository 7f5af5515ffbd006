"""The engine behind both doors to the state of a session: it selects records, orders them and builds rows.

A *door* is a set of tables (`Table`), one for each resource. `ray_tables.py` answers like Ray's `ray.util.state`;
`book.py` answers with the plain dicts of `miniray.state`. Both use the two functions here, `list_rows` and `get_rows`.

One call takes one snapshot: it reads the records while it holds the runtime's lock once, so an answer is current at the
moment when `get` returns, and no two rows contradict each other. Filters read records. Rows are built last, and only
for the records that are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...core.cluster import Cluster
from .lookup import find
from .query import Column, Filter, RayStateApiException, matcher
from .ray_rows import StateResource
from .task_columns import Look

Build = Callable[[list[Any], Look, bool], list[Any]]


@dataclass
class Table:
    """One resource, as one door shows it. Entries are records, or whatever else `entries` makes of the core's tables.

    id_column: the column that `get` compares with an id; "" if rows have no id.
    columns: what filters know of each column, by its name.
    entries: every entry, in any order, in a list that the engine may sort. The caller holds the lock.
    build: makes the rows of some entries. Its third argument says whether to fill the columns of details too.
    order: the sort key of an entry; None to keep the order of `entries`.
    entries_of: the entries of the record that `find` returned for an id, [] for a record of another resource. None if
        `find` does not know this resource, and `get` must search `id_column` instead.
    frozen: whether entries never change again, so that the engine may read them after it has released the lock.
    dropped_as: the name under which the core counts the dropped records of this resource.
    first: the first so many entries in the table's order, found without a look at all of them. None, or an answer of
        None, if that is not possible. The caller holds the lock.
    """

    resource: StateResource
    id_column: str
    columns: Mapping[str, Column]
    entries: Callable[[Cluster], list[Any]]
    build: Build
    order: Callable[[Any], Any] | None = None
    entries_of: Callable[[Any], list[Any]] | None = None
    frozen: bool = False
    dropped_as: str = ""
    first: Callable[[Cluster, int], list[Any] | None] | None = None


class Answer(NamedTuple):
    """found: how many entries passed the filters, before the limit, if the caller asked for it. dropped: how many
    records of this resource the core has dropped because its table was full."""

    rows: list[Any]
    found: int
    dropped: int


def list_rows(
    runtime: Any,
    table: Table,
    filters: list[Filter],
    limit: int | None = None,
    detail: bool = True,
    counts: bool = True,
) -> Answer:
    """The rows that pass every filter, in the table's order, at most `limit` of them.

    runtime: the running session, whose lock the caller does not hold. filters: already checked for their shape. counts:
    whether the caller needs to know how many were found. If records were dropped, they are counted anyway.
    Raises RayStateApiException for a negative limit and for a filter that does not fit the table.
    """
    if limit is not None and limit < 0:
        raise RayStateApiException(f"limit must be 0 or more, not {limit}")
    look = Look(runtime)
    passes = matcher(filters, table.columns, look)

    def select(entries: list[Any]) -> tuple[list[Any], int]:
        if passes is not None:
            entries = [entry for entry in entries if passes(entry)]
        if table.order is not None:
            entries.sort(key=table.order)
        return table.build(entries if limit is None else entries[:limit], look, detail), len(entries)

    with runtime.locked() as cluster:
        dropped = cluster.dropped.get(table.dropped_as, 0)
        if not counts and not dropped and passes is None and limit is not None and table.first is not None:
            first = table.first(cluster, limit)
            if first is not None:
                return Answer(table.build(first, look, detail), len(first), 0)
        entries = table.entries(cluster)
        if not table.frozen:
            return Answer(*select(entries), dropped)
    return Answer(*select(entries), dropped)


def get_rows(runtime: Any, table: Table, id: str) -> Answer:
    """The rows with this id, with all details: several for a task with several attempts, if the table lists those."""
    if table.entries_of is None:
        return list_rows(runtime, table, [(table.id_column, "=", id)])
    look = Look(runtime)
    with runtime.locked() as cluster:
        record = find(cluster, id)
        rows = table.build(table.entries_of(record), look, True) if record is not None else []
    return Answer(rows, len(rows), 0)
