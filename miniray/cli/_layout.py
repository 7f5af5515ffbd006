"""Rows as text: the tables of Ray's command line, and YAML. Control characters in names are escaped."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from ..observe.escape import cells, cut, for_terminal, padded, spelled
from ..observe.state.short_ids import short

_PLAIN = re.compile(r"[A-Za-z0-9_./<(+~$^;\\][ -~]*")
_NOT_TEXT = re.compile(
    r"(?i)null|true|false|yes|no|on|off|y|n|~|[-+]?0[xob][0-9a-f_]+|[-+]?\.(inf|nan)|=|<<"
    r"|[-+]?[0-9][0-9_]*(\.[0-9_]*)?(e[-+]?[0-9]+)?|[-+]?\.[0-9_]+(e[-+]?[0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(:[0-9]+)+(\.[0-9_]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*"
)
"""Text that YAML would read as a number, a time, a bool or null unless it is quoted."""
LONGEST_CELL, SHORTEST_CELL = 40, 8  # of a table that does not fit into its terminal
LONGEST_NUMBER = 18  # digits; a longer row of digits is an id


def plain_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    rule: bool = False,
    numbers_right: bool = True,
    floats: str | Callable[[float], str] = ".3f",
) -> str:
    """Lay out a table as tabulate does: row numbers in front, two spaces between columns, cells of several lines.

    rule: put a line of dashes under the headers. numbers_right: align columns that hold only numbers, or strings of
    digits, to the right. floats: the format of a float, or a function that makes its text.
    """
    filled = [[str(i), *[_cell(value, floats) for value in row]] for i, row in enumerate(rows)]
    values = [[i, *row] for i, row in enumerate(rows)]
    names = ["", *headers]
    right = [numbers_right and all(_numeric(row[i]) for row in values) for i in range(len(names))]
    widths = [
        max([len(name) + 2] + [cells(line) for row in filled for line in row[i].split("\n")])
        for i, name in enumerate(names)
    ]
    out = [_line(names, widths, right)]
    if rule:
        out.append("  ".join("-" * width for width in widths))
    for row in filled:
        lines = [cell.split("\n") for cell in row]
        height = max(len(cell) for cell in lines)
        out += [_line([cell[n] if n < len(cell) else "" for cell in lines], widths, right) for n in range(height)]
    return "\n".join(out)


def fitted(
    headers: Sequence[str], rows: Sequence[Sequence[Any]], width: int, useful: str, whole: str = "--format table"
) -> tuple[str, str]:
    """Lay out a table for a terminal. width: cells in a line of the terminal. useful: the headers from the most useful
    to the least; those before the bar are always shown. whole: the option that shows everything.

    Returns the table, and a note about the columns that it does not show ("" if it shows all). If the whole table fits,
    it is shown as it is. Otherwise ids are shortened, columns with one value in all rows, or with the cells of another
    column, move into the note, and the most useful of the rest are shown. Cells that are still too wide are cut.
    """
    table = plain_table(headers, rows)
    if _width(table) <= width:
        return table, ""
    must, _, more = (part.strip() for part in useful.partition("|"))
    order = [headers.index(name) for name in (*must.split(), *more.split()) if name in headers]
    rest = [n for n in range(len(headers)) if n not in order]
    order += sorted(rest, key=lambda n: headers[n].endswith("_ID"))
    always = [headers.index(name) for name in must.split() if name in headers]
    short_rows = [[short(value) if isinstance(value, str) else value for value in row] for row in rows]
    same = [n for n in order if n not in always and len(rows) > 1 and all(row[n] == rows[0][n] for row in rows)]
    twins = {
        n: next(other for other in order if all(row[n] == row[other] for row in rows))
        for n in order
        if n not in always and n not in same
    }

    def laid(columns: list[int], longest: int) -> str:
        narrow = [[_cut(row[n], longest) for n in columns] for row in short_rows]
        return plain_table([headers[n] for n in columns], narrow)

    chosen, longest = list(always), LONGEST_CELL
    while _width(laid(chosen, longest)) > width and longest > SHORTEST_CELL:
        longest -= 1
    for n in order:
        if n not in chosen and n not in same and twins.get(n, n) == n and _width(laid([*chosen, n], longest)) <= width:
            chosen.append(n)
    hidden = [n for n in order if n not in chosen]
    values = ", ".join(f"{headers[n]} {_cell(short_rows[0][n], '.3f') or '(empty)'}" for n in hidden if n in same)
    alike = ", ".join(f"{headers[n]} (as {headers[twins[n]]})" for n in hidden if twins.get(n, n) != n)
    names = ", ".join(headers[n] for n in hidden if n not in same and twins.get(n, n) == n)
    note = [
        *[f"The same in every row: {values}"] * bool(values),
        *[f"Hidden columns: {', '.join(filter(None, (alike, names)))}"] * bool(alike or names),
        f"Ids are short; `miniray get` accepts them. `{whole}` shows all columns and whole ids.",
    ]
    return laid(chosen, longest), "\n".join(
        textwrap.fill(" ".join(line.split()), width, subsequent_indent="    ", break_long_words=False) for line in note
    )


def _cut(value: Any, longest: int) -> Any:
    return cut(_cell(value, ".3f"), longest) if isinstance(value, str) else value


def _width(table: str) -> int:
    return max(map(cells, table.split("\n")))


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    return "  ".join(padded(cell, width, to_right) for cell, width, to_right in zip(row, widths, right)).rstrip()


def _numeric(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, (int, float))
        and not isinstance(value, bool)
        or isinstance(value, str)
        and len(value) <= LONGEST_NUMBER
        and value.isascii()
        and value.isdigit()
    )


def _cell(value: Any, floats: str | Callable[[float], str]) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return yaml(value, indent=2, sort=True).rstrip("\n") if value else "{}"
    if isinstance(value, float):
        return format(value, floats) if isinstance(floats, str) else floats(value)
    return for_terminal(value)


# ------------------------------------------------------------ YAML


def yaml_document(value: Any) -> str:
    """A complete YAML document, in the form in which Ray's command line prints rows."""
    return f"---\n{yaml(value, indent=4)}...\n"


def yaml(value: Any, indent: int = 4, sort: bool = False) -> str:
    """Dicts, lists, strings, numbers, bools and None as YAML in block style; any other value as its str()."""
    return "".join(line + "\n" for line in _block(value, indent, sort))


def _block(value: Any, indent: int, sort: bool) -> list[str]:
    if isinstance(value, dict) and value:
        lines: list[str] = []
        for key in sorted(value, key=str) if sort else value:
            lines += _entry(_scalar(key), value[key], indent, sort)
        return lines
    if isinstance(value, (list, tuple)) and value:
        lines = []
        for item in value:
            first, *rest = _block(item, indent, sort)
            lines += ["-" + " " * (indent - 1) + first, *(" " * indent + line for line in rest)]
        return lines
    return [_scalar(value)]


def _entry(key: str, value: Any, indent: int, sort: bool) -> list[str]:
    inner = _block(value, indent, sort)
    if isinstance(value, dict) and value:
        return [f"{key}:", *(" " * indent + line for line in inner)]
    if isinstance(value, (list, tuple)) and value:
        return [f"{key}:", *inner]  # a list is not indented further than its key
    return [f"{key}: {inner[0]}"]


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        text = repr(value)
        if "n" in text:  # inf, -inf, nan
            return text.replace("inf", ".inf").replace("nan", ".nan")
        return text.replace("e", ".0e") if "." not in text else text
    if isinstance(value, (dict, list, tuple)):
        return "{}" if isinstance(value, dict) else "[]"
    return _text(str(value))


def _text(text: str) -> str:
    """A string, quoted if YAML would read it as something else, and escaped if it is not printable ASCII."""
    if not text.isascii() or not text.isprintable():
        return '"' + "".join(_escaped(one) for one in text) + '"'
    if (
        _PLAIN.fullmatch(text)
        and not _NOT_TEXT.fullmatch(text)
        and ": " not in text
        and " #" not in text
        and not text.endswith((":", " "))
    ):
        return text
    return "'" + text.replace("'", "''") + "'"


def _escaped(one: str) -> str:
    known = {'"': '\\"', "\x1b": "\\e", "\0": "\\0"}.get(one)
    if known:
        return known
    escape = spelled(one)
    return escape[:2] + escape[2:].upper()  # YAML has Python's escapes; PyYAML writes their digits in upper case
