"""What a notebook shows of miniray's objects: HTML tables, in which every text of the user's is escaped.

An object shows itself in a notebook by a method `_repr_html_`. The style is the notebook's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from .escape import escaped

MOST_ROWS = 200  # a notebook keeps its output in its file
MOST_CHARACTERS = 200  # of a cell


class Rows(list[dict[str, Any]]):
    """A list of rows. A notebook shows it as a table; otherwise it is a list."""

    def _repr_html_(self) -> str:
        return table(self)


def table(rows: Iterable[Mapping[str, Any]], caption: str = "") -> str:
    """Rows as a table. A column that is empty in every row is left out."""
    listed = list(rows)
    columns = list(dict.fromkeys(key for row in listed for key in row))
    columns = [key for key in columns if any(row.get(key) not in (None, "", {}, []) for row in listed)]
    return whole_table(columns, listed, caption)


def whole_table(columns: Sequence[str], listed: Sequence[Mapping[str, Any]], caption: str = "") -> str:
    """Rows as a table with these columns."""
    head = "".join(f"<th>{cell(key)}</th>" for key in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell(row.get(key))}</td>" for key in columns) + "</tr>" for row in listed[:MOST_ROWS]
    )
    more = f"<p>and {len(listed) - MOST_ROWS:,} more rows</p>" if len(listed) > MOST_ROWS else ""
    title = f"<caption>{cell(caption)}</caption>" if caption else ""
    return (
        f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
        if listed
        else "<p>(none)</p>"
    )


def facts(pairs: Mapping[str, Any], caption: str = "") -> str:
    """Names and values as a table of two columns."""
    title = f"<caption>{cell(caption)}</caption>" if caption else ""
    body = "".join(f"<tr><th>{cell(key)}</th><td>{cell(value)}</td></tr>" for key, value in pairs.items())
    return f"<table>{title}<tbody>{body}</tbody></table>"


def frame(page: str, height: int = 640) -> str:
    """A whole page inside a notebook, apart from the notebook's own style and script."""
    return (
        f'<iframe title="miniray timeline" style="width:100%;height:{height}px;border:0" '
        f'sandbox="allow-scripts" srcdoc="{escape(page)}"></iframe>'
    )


def cell(value: Any, most: int = MOST_CHARACTERS) -> str:
    """A value as HTML: spelled out, escaped, and cut if it is long."""
    text = "" if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)
    clean = escaped(text[:most])
    return escape(clean if len(text) <= most else clean + "\u2026")
