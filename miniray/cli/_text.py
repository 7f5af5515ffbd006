"""Tables and sizes as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..observe.amounts import binary_size
from ..observe.escape import cells, for_terminal, padded


def size(num_bytes: float) -> str:
    """Bytes in the largest binary unit that gives at least one: `1.50MiB`, `12B`."""
    number, unit = binary_size(num_bytes)
    return f"{int(number)}B" if unit == "B" else f"{number:.2f}{unit}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "  ") -> list[str]:
    """The lines of a table: two spaces between columns, numbers aligned right, other cells left and escaped."""
    filled = [list(row) for row in rows]
    numeric = [all(isinstance(row[i], (int, float)) for row in filled) for i in range(len(header))]
    filled_cells = [
        [f"{v:,}" if isinstance(v, int) else f"{v:,.2f}" if isinstance(v, float) else for_terminal(v) for v in row]
        for row in filled
    ]
    lines = [list(header), *filled_cells]
    widths = [max(cells(row[i]) for row in lines) for i in range(len(header))]
    return [
        indent + "  ".join(padded(cell, width, right) for cell, width, right in zip(row, widths, numeric)).rstrip()
        for row in lines
    ]
