"""What is asked of the state API: options, filters, limits, and what is refused.

A question is checked in two places, as in Ray: the caller's side refuses what has a wrong shape (ValueError), whoever
answers refuses what does not fit the table (RayStateApiException). Ray: util/state/common.py,
dashboard/state_api_utils.py.
"""

from __future__ import annotations

import binascii
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .ray_rows import DEFAULT_LIMIT, DEFAULT_RPC_TIMEOUT

Filter = tuple[str, str, Any]
TRUE, FALSE = {"True", "true", "1"}, {"False", "false", "0"}


class RayStateApiException(Exception):
    """The state API could not answer: a filter, a limit or an id does not fit the table, or rows are missing."""


class ServerUnavailable(RayStateApiException):
    """Nobody answers for the tables. Not raised here, where the tables are at hand; programs may catch it."""


class DataSourceUnavailable(Exception):
    """A part of the tables cannot be reached. Not raised here; programs may catch it."""


def max_limit() -> int:
    """The largest limit that is accepted: 10,000 as in Ray, or what RAY_MAX_LIMIT_FROM_API_SERVER says."""
    return int(os.environ.get("RAY_MAX_LIMIT_FROM_API_SERVER", 10_000))


# ------------------------------------------------------------ the shape of a question


def whole_number(name: str, value: Any) -> int:
    """value as an int, for what is one or says one. ValueError for anything else, also for None and 2.5."""
    if isinstance(value, int) or isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        with suppress(ValueError):
            return int(value)
    raise ValueError(f"{name} must be a whole number, not {value!r}")


def yes_or_no(name: str, value: Any) -> bool:
    """value as a bool, for what is one or says one. ValueError for anything else."""
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    text = value.lower() if isinstance(value, str) else ""
    if text in ("true", "t", "yes", "y", "on", "1"):
        return True
    if text in ("false", "f", "no", "n", "off", "0"):
        return False
    raise ValueError(f"{name} must be True or False, not {value!r}")


def checked_filters(filters: Any, values: tuple[type, ...] = (str, bool, int, float)) -> list[Filter]:
    """Filters as a list of (column, "=" or "!=", value). ValueError for another shape or predicate."""
    if filters is None:
        return []
    if isinstance(filters, (str, bytes, Mapping)) or not isinstance(filters, Iterable):
        raise ValueError(f"filters must be a list of (column, predicate, value), not {filters!r}")
    checked: list[Filter] = []
    for item in filters:
        if not isinstance(item, (tuple, list)) or len(item) != 3:
            raise ValueError(
                f"The given filter has incorrect input type, {item!r}. Provide (key, predicate, value) tuples."
            )
        key, predicate, value = item
        if not isinstance(key, str) or not isinstance(predicate, str) or not isinstance(value, values):
            raise ValueError(
                f"The given filter has incorrect input type, {item!r}. The key and the predicate are "
                "text, the value is text, a number or a bool."
            )
        if predicate not in ("=", "!="):
            raise ValueError(f"Unsupported filter predicate {predicate} is given. Available predicates: =, !=.")
        checked.append((key, predicate, value))
    return checked


@dataclass
class ListApiOptions:
    """What a list is asked for. Raises ValueError for what is of the wrong shape.

    timeout: accepted for Ray's sake; the answer is computed at once.
    """

    limit: int = DEFAULT_LIMIT
    timeout: int = DEFAULT_RPC_TIMEOUT
    detail: bool = False
    filters: list[Filter] | None = None
    exclude_driver: bool = True
    server_timeout_multiplier: float = 0.8

    def __post_init__(self) -> None:
        self.limit = whole_number("limit", self.limit)
        self.timeout = whole_number("timeout", self.timeout)
        self.detail = yes_or_no("detail", self.detail)
        self.filters = checked_filters(self.filters)

    def has_conflicting_filters(self) -> bool:
        """Whether two filters want one column to equal two values, which no row can; says so with a UserWarning."""
        wanted: dict[str, Any] = {}
        for key, predicate, value in self.filters or ():
            if predicate == "=" and wanted.setdefault(key, value) != value:
                warnings.warn(
                    f"There are multiple '=' filters with the same key '{key}' but different values "
                    f"'{wanted[key]}' & '{value}'. Empty result set will be returned",
                    UserWarning,
                    stacklevel=4,
                )
                return True
        return False


@dataclass
class GetApiOptions:
    """How one row is asked for. Raises ValueError for a timeout that is no whole number."""

    timeout: int = DEFAULT_RPC_TIMEOUT
    server_timeout_multiplier: float = 0.8

    def __post_init__(self) -> None:
        self.timeout = whole_number("timeout", self.timeout)


@dataclass
class SummaryApiOptions:
    """How a summary is asked for. Raises ValueError for what is of the wrong shape."""

    timeout: int = DEFAULT_RPC_TIMEOUT
    filters: list[Filter] | None = None
    summary_by: str | None = None

    def __post_init__(self) -> None:
        self.timeout = whole_number("timeout", self.timeout)
        if self.timeout <= 0:
            raise ValueError(f"the timeout of a summary must be above 0, not {self.timeout}")
        self.filters = checked_filters(self.filters)


# ------------------------------------------------------------ filters on records


def check_id(text: str, size: int) -> None:
    """RayStateApiException when text cannot be an id of so many bytes."""
    try:
        length = len(binascii.unhexlify(text))
    except ValueError as problem:
        raise RayStateApiException(f"{text!r} is not an id: {problem}") from None
    if length != size:
        raise RayStateApiException(f"{text!r} is not an id: ID string needs to have length {size}, got {length}")


@dataclass(slots=True)
class Column:
    """One column as filters see it. kind: "int", "bool", "str" ... read: gives the cell for a record and a Look.

    sparse: a cell without value is not there at all, which is not the same as None: no filter matches it, not even
    "!=".
    """

    kind: str
    filterable: bool
    read: Callable[[Any, Any], Any]
    sparse: bool = False


def matcher(filters: list[Filter], columns: Mapping[str, Column], look: Any) -> Callable[[Any], bool] | None:
    """A function that says whether a record passes every filter, None when there are no filters.

    Cells are compared before any row is built. A column that cannot be filtered is refused only when a record comes as
    far as this filter, so never for an empty table, as in Ray.
    """
    tests = [_test(key.lower(), predicate == "=", value, columns) for key, predicate, value in filters]
    if not tests:
        return None
    if len(tests) == 1:
        only = tests[0]
        return lambda record: only(record, look)
    return lambda record: all(test(record, look) for test in tests)


def _test(name: str, equal: bool, wanted: Any, columns: Mapping[str, Column]) -> Callable[[Any, Any], bool]:
    column = columns.get(name)
    if column is None or not column.filterable:
        names = sorted(known for known, other in columns.items() if other.filterable)

        def refuse(record: Any, look: Any) -> bool:
            raise RayStateApiException(
                f"The given filter column {name} is not supported. Enter filters with "
                f"--filter key=value or --filter key!=value. Supported filter columns: {names}"
            )

        return refuse
    read, sparse = column.read, column.sparse
    if column.kind in ("int", "bool"):
        value = _number(name, column.kind, str(wanted))

        def same(record: Any, look: Any) -> bool:
            cell = read(record, look)
            return (cell == value) is equal and not (sparse and cell is None)

        return same
    text = str(wanted).lower()

    def alike(record: Any, look: Any) -> bool:
        cell = read(record, look)
        if isinstance(cell, str):
            return (cell.lower() == text) is equal
        return not equal and not (sparse and cell is None)

    return alike


def _number(column: str, kind: str, text: str) -> int | bool:
    if kind == "bool":
        if text in TRUE:
            return True
        if text in FALSE:
            return False
        raise RayStateApiException(
            f"Invalid filter `--filter {column} {text}` for a boolean type column. Please "
            f"provide `--filter {column} [True|true|1]` for True or "
            f"`--filter {column} [False|false|0]` for False."
        )
    try:
        return int(text)
    except ValueError:
        raise RayStateApiException(
            f"Invalid filter `--filter {column} {text}` for a int type column. Please provide "
            f"an integer filter `--filter {column} [int]`"
        ) from None
