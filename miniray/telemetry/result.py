"""The answer to a query, and the error of one that has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


class QueryError(Exception):
    """A statement was refused, is wrong, or took too long. The text says which, and what to do."""


@dataclass
class Result:
    """The rows of a query.

    columns: their names, in order; a name that comes twice gets a number. rows: dicts. truncated: whether there are
    more rows than `limit`. complete: whether the tables have everything that happened; reason: what is missing, "" if
    nothing.
    """

    columns: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    truncated: bool = False
    complete: bool = True
    reason: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)
