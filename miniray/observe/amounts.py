"""Amounts in texts for people: sizes in bytes, and counts with their noun."""

from __future__ import annotations

BINARY_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def binary_size(num_bytes: float, largest: str = "TiB") -> tuple[float, str]:
    """A size as a number and its unit: the largest binary unit that gives at least one, but none above `largest`."""
    allowed = BINARY_UNITS[[unit for unit, _ in BINARY_UNITS].index(largest) :]
    return next(((num_bytes / scale, unit) for unit, scale in allowed if num_bytes >= scale), (num_bytes, "B"))


def count(number: int, noun: str) -> str:
    """A number and its noun, in the plural unless the number is one: `1 task`, `12,000 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def count_verb(number: int, noun: str, verb: str) -> str:
    """A number, its noun and a verb, which is given as for one: `1 row is`, `2 rows are`."""
    return f"{count(number, noun)} {verb if number == 1 else MORE_THAN_ONE[verb]}"


MORE_THAN_ONE = {"is": "are", "was": "were", "has": "have"}


def rows_are(number: int | str, of: str) -> str:
    """So many rows of something, with the verb: `1 row of tasks is`, `some rows of tasks are`. of: "" for none."""
    one = number == 1
    shown = f"{number:,}" if isinstance(number, int) else number
    return f"{shown} row{'' if one else 's'}{f' of {of}' if of else ''} {'is' if one else 'are'}"
