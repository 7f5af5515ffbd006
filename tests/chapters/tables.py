"""The page of the book with the tables of a recording. It is made from the schema."""

from __future__ import annotations

from miniray.telemetry.schema.ddl import Table
from miniray.telemetry.schema import BY_NAME

PAGE = "chapters/15_telemetry/tables.md"

HEAD = """# The tables

This page is made from `miniray.telemetry.schema`; `make refresh` updates it. [Chapter 15](README.md#sql) explains how to
ask. Times that end in `_us` are microseconds since the epoch, and ids are Ray's hexadecimal texts. Columns that end in
`_json` hold JSON: `resources_total_json ->> '$.CPU'` reads a value of it (with an older SQLite, `json_extract`). Columns
without an ending like `_id` that are called after a thing (`task`, `actor`, `worker`, `node`) hold miniray's own number
of it; joins by numbers are fast.
"""

PARTS = {
    "In Ray's words": lambda name, table: not table.text.startswith("Monarch") and not name.startswith("_"),
    "In Monarch's words": lambda name, table: table.text.startswith("Monarch"),
    "How it is stored": lambda name, table: name.startswith("_"),
}
NOTES = {
    "In Monarch's words": "The queries of Monarch's documentation run unchanged. `actors` and `spans`, above, have the "
    "columns of both. Monarch's table `nodes` is called `monarch_nodes` here.",
    "How it is stored": "Programs read the views above. These tables are narrow, because they get a row for each task: "
    "they hold numbers in place of names.",
}


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for title, wanted in PARTS.items():
        lines.append(f"## {title}\n")
        if title in NOTES:
            lines.append(f"{NOTES[title]}\n")
        for name in sorted(BY_NAME):
            table = BY_NAME[name]
            if wanted(name, table):
                lines += _described(name)
    return "\n".join(lines)


def _described(name: str) -> list[str]:
    table = BY_NAME[name]
    text = table.text.removeprefix("Monarch: ")
    text = text[0].upper() + text[1:]
    key = f" Key: {', '.join(f'`{column}`' for column in table.key)}." if isinstance(table, Table) else ""
    lines = [f"### {name}\n", f"{text}{key}\n", "| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| `{c.name}` | {c.type} | {c.unit} | {_cell(c.text)} |" for c in table.columns]
    return [*lines, ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
