"""`miniray memory`: all references to objects, and what the object stores hold. Ray: `ray memory`, memory_utils.py."""

from __future__ import annotations

import argparse
import shutil
from datetime import datetime
from typing import Any

from ..observe.state import book, ray_tables as state
from ..observe.escape import for_terminal
from ..observe.state.query import ListApiOptions
from ..observe.state.ray_rows import ObjectState, StateResource
from ._look import accept_address, accept_program, show

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
KINDS = ("LOCAL_REFERENCE", "PINNED_IN_MEMORY", "USED_BY_PENDING_TASK", "CAPTURED_IN_OBJECT", "ACTOR_HANDLE")
SUMMARY = "{:<19}  {:<16}  {:<12}  {:<13}  {:<19}  {:<13}"
NARROW = "{:<13} | {:<8} | {:<7} | {:<9} | {:<9} | {:<8} | {:<8} | {:<14} | {:<10}"
WIDE = "{:<15}  {:<5}  {:<6}  {:<22}  {:<14}  {:<8}  {:<6}  {:<18}  {:<56}"
WIDE_FROM = 137  # columns of the terminal; a wider one gets the layout WIDE
NO_LIMIT = 1 << 62


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `memory`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "memory",
        help="show references to objects, and what the object stores hold",
        description="Show a program's references to objects, and what its object stores hold.",
        usage="miniray memory [options] [-- script.py [args]]",
    )
    parser.add_argument(
        "--group-by",
        choices=("NODE_ADDRESS", "STACK_TRACE"),
        default="NODE_ADDRESS",
        type=str.upper,
        help="print one table per node, or one per call site (default: NODE_ADDRESS)",
    )
    parser.add_argument(
        "--sort-by",
        choices=("PID", "OBJECT_SIZE", "REFERENCE_TYPE"),
        default="OBJECT_SIZE",
        type=str.upper,
        help="sort each table by this column (default: OBJECT_SIZE)",
    )
    parser.add_argument(
        "--units", choices=tuple(UNITS), default="B", type=str.upper, help="the unit of sizes (default: B)"
    )
    parser.add_argument("--no-format", action="store_true", help="print one line per entry on a wide terminal too")
    parser.add_argument("--stats-only", action="store_true", help="show only what the object stores hold")
    parser.add_argument("--num-entries", "--n", type=int, metavar="N", help="show at most N entries per table")
    accept_address(parser)
    accept_program(parser, "shows the references")
    parser.set_defaults(resource=None)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the references."""
    return show(args, lambda runtime: references(runtime, args))


def references(runtime: Any, args: argparse.Namespace) -> str:
    """The text that the command prints."""
    heading = f"======== Object references status: {datetime.now()} ========"
    if args.stats_only:
        return f"{heading}\n{stores(book.book_objects(runtime))}\n"
    rows: list[ObjectState] = state.list_rows(
        runtime, StateResource.OBJECTS, ListApiOptions(limit=NO_LIMIT), raise_on_missing_output=False
    )
    rows.sort(key=lambda row: getattr(row, args.sort_by.lower()))
    groups: dict[str, list[ObjectState]] = {}
    for row in rows:
        groups.setdefault(row.ip if args.group_by == "NODE_ADDRESS" else row.call_site, []).append(row)
    grouped, ordered = (name.lower().replace("_", " ") for name in (args.group_by, args.sort_by))
    shown = "all" if args.num_entries is None else args.num_entries
    lines = [
        heading,
        f"Grouping by {grouped}...        Sorting by {ordered}...        Display {shown} entries per group...",
        "",
        "",
    ]
    wide = not args.no_format and shutil.get_terminal_size((80, 20)).columns > WIDE_FROM
    for key, entries in groups.items():
        lines += [
            f"--- Summary for {grouped}: {for_terminal(key)} ---",
            *summed(entries, args.units),
            "",
            f"--- Object references for {grouped}: {for_terminal(key)} ---",
            *entered(entries[: args.num_entries], args.units, wide),
        ]
    return "\n".join([*lines, "Call sites are not recorded.", "", stores(book.book_objects(runtime)), ""])


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
