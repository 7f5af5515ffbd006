"""Questions to the state API: options, filters, limits, and which of them are refused.

A question is checked twice, as in Ray. The caller's side refuses a wrong shape (ValueError); the side that answers
refuses a filter or limit that does not fit the table (RayStateApiException). Ray: util/state/common.py,
dashboard/state_api_utils.py.
"""

from __future__ import annotations

import binascii
import os
import string
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .ray_rows import DEFAULT_LIMIT, DEFAULT_RPC_TIMEOUT

Filter = tuple[str, str, Any]
TRUE, FALSE = {"True", "true", "1"}, {"False", "false", "0"}


class RayStateApiException(Exception):
    """The state API cannot answer: a filter, a limit or an id does not fit the table, or rows are missing."""


class ServerUnavailable(RayStateApiException):
    """No server answers. Never raised here, where the tables are in this process; programs may catch it."""


class DataSourceUnavailable(Exception):
    """A source of rows cannot be reached. Never raised here; programs may catch it."""


for _error in RayStateApiException, ServerUnavailable, DataSourceUnavailable:
    _error.__module__ = "miniray.util.state.exception"  # where Ray has them: a traceback shows it


def max_limit() -> int:
    """The largest limit that is accepted: RAY_MAX_LIMIT_FROM_API_SERVER if it is set, otherwise 10,000 as in Ray."""
    return int(os.environ.get("RAY_MAX_LIMIT_FROM_API_SERVER", 10_000))


# ------------------------------------------------------------ the shape of a question


def whole_number(name: str, value: Any) -> int:
    """The value as an int, if it is a whole number or the text of one. ValueError otherwise, also for None and 2.5."""
    if isinstance(value, int) or isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        with suppress(ValueError):
            return int(value)
    raise ValueError(f"{name} must be a whole number, not {value!r}")


def yes_or_no(name: str, value: Any) -> bool:
    """The value as a bool, if it is one, is 0 or 1, or is a word for one. ValueError otherwise."""
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    text = value.lower() if isinstance(value, str) else ""
    if text in ("true", "t", "yes", "y", "on", "1"):
        return True
    if text in ("false", "f", "no", "n", "off", "0"):
        return False
    raise ValueError(f"{name} must be True or False, not {value!r}")


def checked_filters(filters: Any, values: tuple[type, ...] = (str, bool, int, float)) -> list[Filter]:
    """Filters as a list of (column, "=" or "!=", value). ValueError for any other shape or predicate.

    values: the types that a value may have.
    """
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
        # Bytes count as text, as in Ray. If they are not UTF-8, decoding raises a ValueError.
        key, predicate, value = (part.decode() if isinstance(part, bytes) else part for part in item)
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
    """The arguments of a list. Raises ValueError for an argument of the wrong shape.

    timeout, exclude_driver, server_timeout_multiplier: accepted because Ray has them, and ignored.
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
        """Whether two filters ask one column to equal two different values. If so, no row can match: a UserWarning."""
        wanted: dict[str, Any] = {}
        for key, predicate, value in self.filters or ():
            if predicate == "=" and key not in wanted:
                wanted[key] = value
            elif predicate == "=" and wanted[key] != value:
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
    """The arguments of a get. Raises ValueError unless the timeout is a whole number. All are ignored."""

    timeout: int = DEFAULT_RPC_TIMEOUT
    server_timeout_multiplier: float = 0.8

    def __post_init__(self) -> None:
        self.timeout = whole_number("timeout", self.timeout)


@dataclass
class SummaryApiOptions:
    """The arguments of a summary. Raises ValueError for an argument of the wrong shape. All are ignored."""

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
    """Raise RayStateApiException unless the text is hexadecimal and has `size` bytes."""
    try:
        length = len(binascii.unhexlify(text))
    except ValueError as problem:
        raise RayStateApiException(f"{text!r} is not an id: {problem}") from None
    if length != size:
        raise RayStateApiException(f"{text!r} is not an id: ID string needs to have length {size}, got {length}")


@dataclass(slots=True)
class Column:
    """One column, as filters see it.

    kind: how a cell is compared. "int" and "bool" compare numbers; "any" compares text as text, and any other value
    with `==`; every other kind compares text, without regard to case.
    read: the cell of an entry, for a Look.
    sparse: whether an empty cell is missing rather than None. No filter matches a missing cell, not even "!=".
    """

    kind: str
    filterable: bool
    read: Callable[[Any, Any], Any]
    sparse: bool = False


def matcher(filters: list[Filter], columns: Mapping[str, Column], look: Any) -> Callable[[Any], bool] | None:
    """A function that tells whether an entry passes every filter; None when there are no filters.

    Cells are compared before any row is built. As in Ray, a column that cannot be filtered is refused when the first
    entry reaches this filter, so it is never refused for an empty table. A value that does not fit the column's kind is
    refused at once. Both raise RayStateApiException.
    """
    tests = [_test(key.lower(), predicate == "=", value, columns) for key, predicate, value in filters]
    if not tests:
        return None
    if len(tests) == 1:
        only = tests[0]
        return lambda entry: only(entry, look)

    def passes_all(entry: Any) -> bool:
        for test in tests:  # all() with a generator would be slower, and there may be a hundred thousand entries
            if not test(entry, look):
                return False
        return True

    return passes_all


def _test(name: str, equal: bool, wanted: Any, columns: Mapping[str, Column]) -> Callable[[Any, Any], bool]:
    column = columns.get(name)
    if column is None or not column.filterable:
        names = sorted(known for known, other in columns.items() if other.filterable)

        def refuse(entry: Any, look: Any) -> bool:
            raise RayStateApiException(
                f"The given filter column {name} is not supported. Enter filters with "
                f"--filter key=value or --filter key!=value. Supported filter columns: {names}"
            )

        return refuse
    read, sparse = column.read, column.sparse
    if column.kind in ("int", "bool"):
        value = _number(name, column.kind, str(wanted))

        def same_number(entry: Any, look: Any) -> bool:
            cell = read(entry, look)
            return (cell == value) is equal and not (sparse and cell is None)

        return same_number
    if column.kind == "any" and not isinstance(wanted, str):
        return lambda entry, look: (read(entry, look) == wanted) is equal
    text = str(wanted).lower()
    folded = _fold(str(wanted))

    def same_text(entry: Any, look: Any) -> bool:
        cell = read(entry, look)
        if isinstance(cell, str):
            # The first comparison is the fast one; what it finds equal may differ in letters beyond ASCII.
            return (cell.lower() == text and _fold(cell) == folded) is equal
        return not equal and not (sparse and cell is None)

    return same_text


_LOWER = {ord(letter): ord(letter.lower()) for letter in string.ascii_uppercase}


def _fold(text: str) -> str:
    """The text with its ASCII letters in lower case: Ray's filters distinguish the cases of all other letters."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


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
