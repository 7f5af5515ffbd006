"""`miniray demo`: do some real work, and report what ran.

The demo ranks the names that the source files of Python's standard library define. Tasks read the files in batches, an
actor adds up their counts, and one task fails once on purpose, so that the report has a retry to show.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from typing import Any

from ..observe.escape import for_terminal
from ._grammar import Command
from ._text import size, table

FILES_PER_TASK = 25
LONGEST_BYTES = 2_000_000
"""A larger file is data in the form of Python; its task would be a straggler."""
SHOWN = 12  # names in the printed ranking

_DEFINITION = re.compile(rb"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+([A-Za-z_]\w*)", re.M)


# ---------------------------------------------------------------- what the tasks do


def count_names(paths: list[str], saboteur: Any = None) -> dict[str, int]:
    """How often the files define each name.

    saboteur: an actor that decides whether this attempt fails with an OSError.
    """
    import miniray as ray

    if saboteur is not None and ray.get(saboteur.should_fail.remote()):
        raise OSError("injected by the demo: the disk took a nap")
    counts: Counter[bytes] = Counter()
    for path in paths:
        with open(path, "rb") as file:
            counts.update(_DEFINITION.findall(file.read()))
    return {name.decode("ascii"): count for name, count in counts.items()}


class Tally:
    """Adds up counts. It runs as an actor, so the counts of all tasks arrive one after the other."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, counts: dict[str, int]) -> int:
        """Add the counts of one batch. Returns its number of definitions."""
        self.counts.update(counts)
        return sum(counts.values())

    def ranking(self, length: int) -> tuple[list[tuple[str, int]], int]:
        """The most frequent names with their counts, and the number of different names."""
        return self.counts.most_common(length), len(self.counts)


class Saboteur:
    """Makes one attempt fail. It runs as an actor, so it remembers this across attempts and workers."""

    def __init__(self) -> None:
        self.has_struck = False

    def should_fail(self) -> bool:
        """True for the first caller, false for every later one."""
        first, self.has_struck = not self.has_struck, True
        return first


def source_files(folder: str) -> list[str]:
    """The Python files below a folder, in a fixed order, without installed packages and very large files."""
    found = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in ("site-packages", "dist-packages", "__pycache__"))
        found += [os.path.join(base, name) for name in sorted(files) if name.endswith(".py")]
    return [path for path in found if os.path.isfile(path) and os.path.getsize(path) <= LONGEST_BYTES]


# ---------------------------------------------------------------- the account


def work(paths: list[str]) -> tuple[int, list[tuple[str, int]], int, list[Any]]:
    """Count in tasks, and add up in an actor.

    Returns the number of definitions, the ranking, the number of different names, and handles and references: as long
    as the caller holds them, the actors and objects appear in the report.
    """
    import miniray as ray

    tally, saboteur = ray.remote(Tally).remote(), ray.remote(Saboteur).remote()
    count = ray.remote(max_retries=2, retry_exceptions=[OSError])(count_names)
    batches = [paths[i : i + FILES_PER_TASK] for i in range(0, len(paths), FILES_PER_TASK)]
    unlucky = len(batches) // 2
    counted = [count.remote(batch, saboteur if i == unlucky else None) for i, batch in enumerate(batches)]
    added = [tally.add.remote(ref) for ref in counted]
    definitions = sum(ray.get(added))
    ranking, names = ray.get(tally.ranking.remote(SHOWN))
    return definitions, ranking, names, [tally, saboteur, counted, added]


def account(wall_s: float, cpu_s: float) -> list[str]:
    """The lines of the report, read from the tables of the running session.

    wall_s, cpu_s: elapsed time and the process's CPU time, in seconds.
    """
    from miniray import state as own
    from miniray.util import state

    attempts = state.list_tasks(detail=True, limit=10_000)
    summary = state.summarize_tasks()["cluster"]["summary"]
    spent: dict[str, list[float]] = {}
    for row in attempts:
        created, started, ended = row.creation_time_ms, row.start_time_ms, row.end_time_ms
        waited, ran = spent.setdefault(row.name, [0.0, 0.0])
        if created is not None and started is not None and ended is not None:
            spent[row.name] = [waited + (started - created) / 1e3, ran + (ended - started) / 1e3]
    tasks = [
        (entry["func_or_class_name"], task_state, count)
        for entry in summary.values()
        for task_state, count in sorted(entry["state_counts"].items())
    ]
    store = own.summarize_objects()
    objects = state.summarize_objects()["cluster"]
    actors = state.list_actors(limit=10_000, detail=True)
    failures = [row for row in attempts if row.error_type]
    busy = sum(ran for _, ran in spent.values())
    lines = ["Tasks (each attempt counts)", *table(("name", "state", "attempts"), tasks), ""]
    for row in failures:
        reason = (row.error_message or "no message").strip().splitlines()[-1]
        lines.append(
            f"  attempt {row.attempt_number} of {for_terminal(row.name)} failed ({row.error_type}: "
            f"{for_terminal(reason)}) and was retried"
        )
    lines += [
        "",
        "Actors",
        *table(("class", "state", "restarts"), [(row.class_name, row.state, row.num_restarts) for row in actors]),
        "",
        "Objects",
        f"  {objects['total_objects']} referenced, {size(objects['total_size_mb'] * 2**20)} in total; "
        f"{size(store['used_bytes'])} of that in the object store, which holds {size(store['capacity_bytes'])}; "
        "smaller values stay with their owner",
        "",
        "Time",
        f"  {wall_s:.2f} s elapsed, {cpu_s:.2f} s of CPU time: {cpu_s / wall_s:.2f} cores on average",
        f"  {busy:.2f} s inside the tasks' functions: {busy / wall_s:.1f} tasks at a time on average",
        *table(
            ("sums by function", "ran s", "waited s"),
            [(name, ran, waited) for name, (waited, ran) in sorted(spent.items(), key=lambda item: -item[1][1])],
        ),
    ]
    return lines


# ---------------------------------------------------------------- the command


def add_parser(subparsers: Any) -> Command:
    """Declare `demo`."""
    parser: Command = subparsers.add_parser(
        "demo",
        help="run a sample workload and report what ran",
        description="Rank the names that Python's standard library defines, with tasks and an actor, and report what "
        "ran: tasks, retries, actors, objects, times, and a timeline.",
    )
    parser.add_argument(
        "--path",
        metavar="DIR",
        default=sysconfig.get_paths()["stdlib"],
        help="read the Python files in this folder (default: the standard library's)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="write timeline.json and timeline.html to this folder (default: a new temporary folder)",
    )
    parser.add_argument(
        "--num-cpus", type=int, metavar="N", help="CPUs of the session (default: those of this machine)"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Do the work and print the report. Returns 1 if the folder has no Python files."""
    import miniray as ray

    paths = source_files(args.path)
    if not paths:
        print(f"miniray demo: no Python files below {for_terminal(args.path)}", file=sys.stderr)
        return 1
    num_bytes = sum(os.path.getsize(path) for path in paths)
    print(f"Names defined in {len(paths):,} Python files ({size(num_bytes)}) below {for_terminal(args.path)}\n")
    try:
        folder = args.output or tempfile.mkdtemp(prefix="miniray-demo-")
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        print(f"Error: {for_terminal(args.output)} cannot be made: {error.strerror}", file=sys.stderr)
        return 1
    started, cpu_started = time.perf_counter(), time.process_time()
    ray.init(num_cpus=args.num_cpus)
    try:
        definitions, ranking, names, kept = work(paths)
        wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
        print("\n".join(table(("name", "defined"), ranking)))
        print(f"  … {names:,} names, defined {definitions:,} times\n")
        print("\n".join(account(wall_s, cpu_s)))
        print("\nTimeline")
        for name in ("timeline.json", "timeline.html"):
            path = os.path.join(folder, name)
            ray.timeline(path)
            print(f"  {for_terminal(path)}  ({size(os.path.getsize(path))})")
        del kept
    finally:
        ray.shutdown()
    return 0
