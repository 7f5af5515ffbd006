"""The answer to a query, and the error of one that has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...observe import notebook
from ...observe.amounts import count
from ...observe.escape import cells, cut, escaped, padded

MOST_SHOWN = 20  # rows of a repr
WIDEST = 48  # cells of a column of a repr


class QueryError(Exception):
    """A statement was refused, is wrong, or took too long. The text says which, and what to do."""


@dataclass(repr=False)
class Result:
    """The rows of a query. Iterating over it gives the rows; `result["rows"]` is the same as `result.rows`.

    columns: their names, in order; a name that comes twice gets a number. rows: dicts. truncated: whether there are
    more rows than `limit`. complete: whether the tables that the statement reads have everything that happened; reason:
    what is missing, "" if nothing.
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

    def __getitem__(self, name: str) -> Any:
        """The field of this name, as in the dicts that Monarch's query client returns."""
        if name not in ("columns", "rows", "truncated", "complete", "reason"):
            raise KeyError(name)
        return getattr(self, name)

    def notes(self) -> list[str]:
        """Sentences about what the rows do not show."""
        said = ["There are more rows than the limit."] if self.truncated else []
        return said if self.complete else [*said, f"Incomplete: {self.reason}"]

    def __repr__(self) -> str:
        """A table for people: the first rows, and what is missing."""
        shown = [[shown_value(row[name]) for name in self.columns] for row in self.rows[:MOST_SHOWN]]
        names = [escaped(name) for name in self.columns]
        widths = [
            min(WIDEST, max([cells(name)] + [cells(row[place]) for row in shown])) for place, name in enumerate(names)
        ]
        right = [
            all(isinstance(row[name], (int, float)) for row in self.rows[:MOST_SHOWN]) and bool(self.rows)
            for name in self.columns
        ]
        lines = [_line(names, widths, right), "  ".join("-" * width for width in widths)]
        lines += [_line(row, widths, right) for row in shown]
        if len(self.rows) > MOST_SHOWN:
            lines.append(f"... {count(len(self.rows) - MOST_SHOWN, 'more row')}")
        if not self.rows:
            lines.append("(no rows)")
        return "\n".join([*lines, *self.notes()])

    def _repr_html_(self) -> str:
        """What a notebook shows. Every text is escaped."""
        rows = [{name: shown_value(value) for name, value in row.items()} for row in self.rows]
        notes = "".join(f"<p>{notebook.cell(note, 1_000)}</p>" for note in self.notes())
        return notebook.whole_table(self.columns, rows) + notes


def shown_value(value: Any) -> str:
    """A value as text in one line: NULL as nothing, bytes in hexadecimal digits."""
    if value is None:
        return ""
    if isinstance(value, float):
        if 1e5 <= abs(value) < 1e16:  # such as a time since 1970: whole, and to the microsecond
            return f"{value:.6f}".rstrip("0").rstrip(".")
        return f"{value:.6g}"
    return value.hex() if isinstance(value, bytes) else escaped(str(value))


def _line(texts: list[str], widths: list[int], right: list[bool]) -> str:
    line = [padded(cut(text, width), width, side) for text, width, side in zip(texts, widths, right)]
    return "  ".join(line).rstrip()
