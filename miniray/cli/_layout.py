"""Rows as text: the tables of Ray's command line, and YAML. Control characters in names are escaped."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from ..observe.escape import for_terminal, spelled

_PLAIN = re.compile(r"[A-Za-z0-9_./<(+~$^;\\][ -~]*")
_NOT_TEXT = re.compile(
    r"(?i)null|true|false|yes|no|on|off|y|n|~|[-+]?0[xob][0-9a-f_]+|[-+]?\.(inf|nan)|=|<<"
    r"|[-+]?[0-9][0-9_]*(\.[0-9_]*)?(e[-+]?[0-9]+)?|[-+]?\.[0-9_]+(e[-+]?[0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(:[0-9]+)+(\.[0-9_]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*"
)
"""Text that YAML would read as a number, a time, a bool or null unless it is quoted."""
LONGEST_NUMBER = 18  # digits; a longer row of digits is an id


def plain_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[Any]],
    rule: bool = False,
    numbers_right: bool = True,
    floats: str = ".3f",
) -> str:
    """Lay out a table as tabulate does: row numbers in front, two spaces between columns, cells of several lines.

    rule: put a line of dashes under the headers. numbers_right: align columns that hold only numbers, or strings of
    digits, to the right. floats: the format of a float.
    """
    cells = [[str(i), *[_cell(value, floats) for value in row]] for i, row in enumerate(rows)]
    values = [[i, *row] for i, row in enumerate(rows)]
    names = ["", *headers]
    right = [numbers_right and all(_numeric(row[i]) for row in values) for i in range(len(names))]
    widths = [
        max([len(name) + 2] + [len(line) for row in cells for line in row[i].split("\n")])
        for i, name in enumerate(names)
    ]
    out = [_line(names, widths, right)]
    if rule:
        out.append("  ".join("-" * width for width in widths))
    for row in cells:
        lines = [cell.split("\n") for cell in row]
        height = max(len(cell) for cell in lines)
        out += [_line([cell[n] if n < len(cell) else "" for cell in lines], widths, right) for n in range(height)]
    return "\n".join(out)


def fitted(headers: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> tuple[list[int], str]:
    """Choose the columns that fit a terminal. width: columns of the terminal.

    Returns the indices of the columns to print, and a note about the hidden ones ("" if there are none). The first
    column is never hidden. Columns with one value in all rows are hidden first, then ids other than the row's own, then
    the rest, each group from right to left. A hidden column comes back if it fits after all.
    """
    same = {n for n in range(len(headers)) if len(rows) > 1 and all(row[n] == rows[0][n] for row in rows)}

    def fits(columns: list[int]) -> bool:
        table = plain_table([headers[n] for n in columns], [[row[n] for n in columns] for row in rows])
        return max(map(len, table.split("\n"))) <= width

    shown, hidden = list(range(len(headers))), []
    for column in sorted(shown[1:], key=lambda n: (0 if n in same else 1 if headers[n].endswith("_ID") else 2, -n)):
        if fits(shown):
            break
        shown.remove(column)
        hidden.append(column)
    for column in reversed(hidden):
        more = sorted([*shown, column])
        shown = more if fits(more) else shown
    hidden = [n for n in range(len(headers)) if n not in shown]
    values = ", ".join(f"{headers[n]} {_cell(rows[0][n], '.3f') or '(empty)'}" for n in hidden if n in same)
    names = ", ".join(headers[n] for n in hidden if n not in same)
    note = [f"The same in every row: {values}"] * bool(values) + [f"Hidden columns: {names}"] * bool(names)
    return shown, "\n".join(
        textwrap.fill(" ".join(line.split()), width, subsequent_indent="    ", break_long_words=False)
        for line in [*note, *["`--format table` shows all columns."] * bool(note)]
    )


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    return "  ".join(
        cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in zip(cells, widths, right)
    ).rstrip()


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


def _cell(value: Any, floats: str) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return yaml(value, indent=2, sort=True).rstrip("\n") if value else "{}"
    if isinstance(value, float):
        return format(value, floats)
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
