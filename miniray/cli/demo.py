"""`miniray demo`: a real piece of work, and an account of what ran.

It ranks the names that the Python standard library's own source files define: tasks read the files in batches, an actor
adds their counts up, and one task is made to fail once so that a retry can be seen.
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
from ._text import size, table

FILES_PER_TASK = 25
LONGEST_BYTES = 2_000_000
"""A larger file is data that happens to be Python; one of them would be a task that all others wait for."""
SHOWN = 12

_DEFINITION = re.compile(rb"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+([A-Za-z_]\w*)", re.M)


# ---------------------------------------------------------------- what the tasks do


def count_names(paths: list[str], mischief: Any = None) -> dict[str, int]:
    """How often the files define each name. Given an actor to ask, it fails when the answer is that it should."""
    import miniray as ray

    if mischief is not None and ray.get(mischief.strikes.remote()):
        raise OSError("injected: the disk took a nap")
    counts: Counter[bytes] = Counter()
    for path in paths:
        with open(path, "rb") as file:
            counts.update(_DEFINITION.findall(file.read()))
    return {name.decode("ascii"): count for name, count in counts.items()}


class Tally:
    """Adds counts up. As an actor it is the one place that all of them pass, one after the other."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, counts: dict[str, int]) -> int:
        """Take one batch in; returns how many definitions it had."""
        self.counts.update(counts)
        return sum(counts.values())

    def ranking(self, length: int) -> tuple[list[tuple[str, int]], int]:
        """The most frequent names with their counts, and how many different names there are."""
        return self.counts.most_common(length), len(self.counts)


class Mischief:
    """Makes one attempt fail. As an actor it remembers, whichever worker asks."""

    def __init__(self) -> None:
        self.struck = False

    def strikes(self) -> bool:
        """True for the first who asks, and never again."""
        first, self.struck = not self.struck, True
        return first


def source_files(folder: str) -> list[str]:
    """The Python files below a folder in a fixed order, without what pip installed and without giants."""
    found = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in ("site-packages", "dist-packages", "__pycache__"))
        found += [os.path.join(base, name) for name in sorted(files) if name.endswith(".py")]
    return [path for path in found if os.path.isfile(path) and os.path.getsize(path) <= LONGEST_BYTES]


# ---------------------------------------------------------------- the account


def work(paths: list[str]) -> tuple[int, list[tuple[str, int]], int, list[Any]]:
    """Count in tasks, add up in an actor.

    Returns how many definitions there are, the ranking, how many different names, and what keeps the objects alive.
    """
    import miniray as ray

    tally, mischief = ray.remote(Tally).remote(), ray.remote(Mischief).remote()
    count = ray.remote(max_retries=2, retry_exceptions=[OSError])(count_names)
    batches = [paths[i : i + FILES_PER_TASK] for i in range(0, len(paths), FILES_PER_TASK)]
    unlucky = len(batches) // 2
    counted = [count.remote(batch, mischief if i == unlucky else None) for i, batch in enumerate(batches)]
    added = [tally.add.remote(ref) for ref in counted]
    definitions = sum(ray.get(added))
    ranking, names = ray.get(tally.ranking.remote(SHOWN))
    return definitions, ranking, names, [tally, mischief, counted, added]


def account(wall_s: float, cpu_s: float) -> list[str]:
    """What the tables say of the session that is open now."""
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
            f"{for_terminal(reason)}) and was tried again"
        )
    lines += [
        "",
        "Actors",
        *table(("class", "state", "restarts"), [(row.class_name, row.state, row.num_restarts) for row in actors]),
        "",
        "Objects",
        f"  {objects['total_objects']} referenced, {size(objects['total_size_mb'] * 2**20)} in all; "
        f"{size(store['used_bytes'])} of it in the object store of {size(store['capacity_bytes'])}, "
        "the rest too small for it",
        "",
        "Time",
        f"  {wall_s:.2f} s by the clock, {cpu_s:.2f} s of CPU: {cpu_s / wall_s:.2f} cores on average",
        f"  tasks were inside their functions for {busy:.2f} s in all, {busy / wall_s:.1f} of them at a time",
        *table(
            ("where it went (sums)", "ran s", "waited s"),
            [(name, ran, waited) for name, (waited, ran) in sorted(spent.items(), key=lambda item: -item[1][1])],
        ),
    ]
    return lines


# ---------------------------------------------------------------- the command


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `demo`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "demo", help="count names in the standard library's source with tasks and an actor, and account for it"
    )
    parser.add_argument(
        "--path",
        metavar="DIR",
        default=sysconfig.get_paths()["stdlib"],
        help="whose Python files to read (the standard library's)",
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="where to write timeline.json and timeline.html (a new folder)"
    )
    parser.add_argument("--num-cpus", type=int, metavar="N", help="CPUs of the session (those of this machine)")
    return parser


def run(args: argparse.Namespace) -> int:
    """Do the work and print the account. Exit code 1 when there is nothing to read."""
    import miniray as ray

    paths = source_files(args.path)
    if not paths:
        print(f"miniray demo: no Python files below {for_terminal(args.path)}", file=sys.stderr)
        return 1
    num_bytes = sum(os.path.getsize(path) for path in paths)
    print(f"Names defined in {len(paths):,} Python files ({size(num_bytes)}) below {for_terminal(args.path)}\n")
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
            path = os.path.join(args.output or tempfile.mkdtemp(prefix="miniray-demo-"), name)
            args.output = os.path.dirname(path)
            ray.timeline(path)
            print(f"  {for_terminal(path)}  ({size(os.path.getsize(path))})")
        del kept
    finally:
        ray.shutdown()
    return 0
