"""The schema of a recording: tables and views as data.

The DDL, `information_schema`, the reference page of the book and the names in error messages are made from TABLES and
VIEWS. A stored table has the rows that `rows.py` and `collector.py` make. A view says the same things in Ray's
vocabulary, or in Monarch's.

Times are integers: microseconds since the epoch. Ids are Ray's hexadecimal texts. A column that ends in `_json` holds
JSON. Numbers of tasks, actors, objects, workers and nodes are miniray's own (see `ids`); they make fast joins.
"""

from __future__ import annotations

from .ddl import Table, View
from .monarch_views import MONARCH_VIEWS
from .ray_views import RAY_VIEWS
from .span_view import SPANS
from .stored_tables import SEARCH, TABLES

__all__ = ["BY_NAME", "STEPS", "TABLES", "VERSION", "VIEWS"]

VERSION = 1
"""Of the schema. A file with another version is opened, and `complete` says that it is of another version."""

STEPS = ("PENDING_ARGS_AVAIL", "PENDING_NODE_ASSIGNMENT", "SUBMITTED_TO_WORKER", "RUNNING", None)
"""The rows of `_states`."""

VIEWS: tuple[View, ...] = (*RAY_VIEWS, SPANS, *MONARCH_VIEWS)
BY_NAME: dict[str, Table | View] = {
    **{table.name: table for table in TABLES},
    **{view.name: view for view in VIEWS},
    SEARCH.name: SEARCH,
}
