"""All references to objects, and what the object stores hold, as text. Ray: dashboard/memory_utils.py."""

from __future__ import annotations

import shutil
from datetime import datetime
from typing import Any

from ..escape import for_terminal
from . import book, ray_tables as state
from .query import ListApiOptions
from .ray_rows import ObjectState, StateResource

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
KINDS = ("LOCAL_REFERENCE", "PINNED_IN_MEMORY", "USED_BY_PENDING_TASK", "CAPTURED_IN_OBJECT", "ACTOR_HANDLE")
SUMMARY = "{:<19}  {:<16}  {:<12}  {:<13}  {:<19}  {:<13}"
NARROW = "{:<13} | {:<8} | {:<7} | {:<9} | {:<9} | {:<8} | {:<8} | {:<14} | {:<10}"
WIDE = "{:<15}  {:<5}  {:<6}  {:<22}  {:<14}  {:<8}  {:<6}  {:<18}  {:<56}"
WIDE_FROM = 137  # columns of the terminal; a wider one gets the layout WIDE
NO_LINES = "Lines of the program are not recorded: the call site tells what made an object."
NO_LIMIT = 1 << 62


def entries_of(runtime: Any) -> list[ObjectState]:
    """All references, each with what made its object as its call site."""
    rows = state.list_rows(
        runtime, StateResource.OBJECTS, ListApiOptions(limit=NO_LIMIT), raise_on_missing_output=False
    )
    return state.with_makers(runtime, rows)


def references(
    runtime: Any,
    group_by: str = "NODE_ADDRESS",
    sort_by: str = "OBJECT_SIZE",
    unit: str = "B",
    may_be_wide: bool = True,
    stats_only: bool = False,
    num_entries: int | None = None,
) -> str:
    """The text of `ray memory`.

    group_by: "NODE_ADDRESS" or "STACK_TRACE". sort_by: "PID", "OBJECT_SIZE" or "REFERENCE_TYPE". unit: a key of UNITS.
    may_be_wide: whether a wide terminal gets a wide table. stats_only: only what the object stores hold. num_entries:
    the most entries of a group.
    """
    heading = f"======== Object references status: {datetime.now()} ========"
    if stats_only:
        return f"{heading}\n{stores(book.book_objects(runtime))}\n"
    rows = entries_of(runtime)
    rows.sort(key=lambda row: getattr(row, sort_by.lower()))
    groups: dict[str, list[ObjectState]] = {}
    for row in rows:
        groups.setdefault(row.ip if group_by == "NODE_ADDRESS" else row.call_site, []).append(row)
    grouped, ordered = (name.lower().replace("_", " ") for name in (group_by, sort_by))
    shown = "all" if num_entries is None else num_entries
    lines = [
        heading,
        f"Grouping by {grouped}...        Sorting by {ordered}...        Display {shown} entries per group...",
        "",
        "",
    ]
    wide = may_be_wide and shutil.get_terminal_size((80, 20)).columns > WIDE_FROM
    for key, entries in groups.items():
        lines += [
            f"--- Summary for {grouped}: {for_terminal(key)} ---",
            *summed(entries, unit),
            "",
            f"--- Object references for {grouped}: {for_terminal(key)} ---",
            *entered(entries[:num_entries], unit, wide),
        ]
    return "\n".join([*lines, NO_LINES, "", stores(book.book_objects(runtime)), ""])


def sized(num_bytes: float, unit: str) -> str:
    """A size in the given unit, with the unit's name."""
    return f"{num_bytes / UNITS[unit]} {unit}"


def summed(entries: list[ObjectState], unit: str) -> list[str]:
    """The summary of a group: the number of references of each kind, and the total size of their objects."""
    total = sum(max(0, entry.object_size) for entry in entries)
    cells = [sized(total, unit)]
    for kind in KINDS:
        of_kind = [entry for entry in entries if entry.reference_type == kind]
        cells.append(f"{len(of_kind)}, ({sized(sum(max(0, entry.object_size) for entry in of_kind), unit)})")
    return [
        SUMMARY.format(
            "Mem Used by Objects", "Local References", "Pinned", "Used by task", "Captured in Objects", "Actor Handles"
        ),
        SUMMARY.format(*cells),
    ]


def entered(entries: list[ObjectState], unit: str, wide: bool) -> list[str]:
    """The table of a group, one entry per reference. wide: wrap call sites and states to the width of their columns."""
    layout = WIDE if wide else NARROW
    lines = [
        layout.format(
            "IP Address", "PID", "Type", "Call Site", "Status", "Attempt", "Size", "Reference Type", "Object Ref"
        )
    ]
    for entry in entries:
        status = "-" if entry.task_status == "NIL" else entry.task_status
        cells = [
            entry.ip,
            entry.pid,
            entry.type.capitalize(),
            for_terminal(entry.call_site),
            status,
            entry.attempt_number,
            sized(entry.object_size, unit) if entry.object_size >= 0 else "?",
            entry.reference_type,
            entry.object_id,
        ]
        if not wide:
            lines += ["", layout.format(*cells), ""]
            continue
        sites, states = _broken(str(cells[3]), 22), _broken(str(cells[4]), 12)
        for n in range(max(len(sites), len(states))):
            broken = [sites[n] if n < len(sites) else "", states[n] if n < len(states) else ""]
            lines.append(
                layout.format(*(cells if n == 0 else [""] * 9)[:3], *broken, *(cells if n == 0 else [""] * 9)[5:])
            )
        lines.append("")
    return lines


def _broken(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)] or [""]


def stores(objects: dict[str, Any]) -> str:
    """The lines on all object stores together: what they hold, and what they have spilled and restored."""
    used, capacity, counters = objects["used_bytes"], max(1, objects["capacity_bytes"]), objects["counters"]
    count = sum(store["num_objects"] for store in objects["by_node"].values())
    full = round(100 * used / capacity, 2)
    lines = [
        "--- Aggregate object store stats across all nodes ---",
        f"Plasma memory usage {used >> 20} MiB, {count} objects, {full}% full, {full}% needed",
    ]
    if counters["spilled"]:
        lines.append(f"Spilled {counters['spilled_bytes'] >> 20} MiB, {counters['spilled']} objects")
    if counters["restored"]:
        lines.append(f"Restored {counters['restored_bytes'] >> 20} MiB, {counters['restored']} objects")
    return "\n".join(lines)
