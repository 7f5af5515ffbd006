"""Soak test: hundreds of thousands of tasks, puts, gets and actor calls through a store of 64 MB. Nothing may grow.

    python -m tests.bench.soak --tasks 200000       as `make soak` does
    python -m tests.bench.soak --foreign            as `make soak FOREIGN=1` does: with foreign code

The program always refers to twice as many bytes of large values as the store holds, so the store spills and restores
values all the time. After every thousand tasks, when nothing runs, the program counts resident memory, threads, file
descriptors, files and records. Memory may grow only until the table of finished tasks and the event log are full. The
table fills early, since it keeps 10,000 tasks (`--records`) instead of 100,000. After the session, threads, descriptors
and files must be as they were before it. Foreign code: finalisers, callbacks of weak references and signal handlers call the
API at every moment (tests/runtime/traps.py). Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import sys
import tempfile
import time
from collections import deque
from typing import Any, Callable

import miniray as ray
from miniray.observe.logs import files
from miniray.process import context
from tests.runtime import traps

STORE = 64_000_000
SIZES = (110_000, 200_000, 400_000, 1_000_000)  # bytes of the large values
BATCH = 1_000  # tasks; of these, in the order of the next line:
LARGE, TAKE, NESTED, FAIL = 20, 40, 20, 5  # return a large value; take one; call a task; fail once and are retried
PUTS, GETS, CALLS, ITEMS = 20, 40, 200, 20  # also in a batch: puts, gets of large values, actor calls, items yielded
RECORDS = 10_000  # finished tasks that the table keeps, dead actors, lines of the event log, workers with logs
WARM_UP = 3  # the warm-up ends after this many times RECORDS tasks, when the table's dict no longer grows either
FLAT_BYTES = 4_000_000  # noise: memory may grow by this much from the first tenth after the warm-up to the last tenth
IDLE = 4  # with foreign code: so many idle workers more or less, of two descriptors each, mean nothing
FLAT_BLOCKS = (
    0.05  # with foreign code: so much the number of Python's memory blocks may grow. Its many threads spread the
)
# large values over as many heaps of the C library, so that resident memory goes up and down by tens of megabytes.
COLUMNS = "tasks", "resident", "blocks", "threads", "fds", "files", "records", "objects", "workers"


@ray.remote
def add(left: int, right: int) -> int:
    """A small task."""
    return left + right


@ray.remote
def make(number: int, size: int) -> bytes:
    """A large value, whose bytes identify it."""
    return bytes([number % 256]) * size


@ray.remote
def first_byte(value: bytes) -> int:
    """A task that takes a large value."""
    return value[0]


@ray.remote
def nested(number: int) -> int:
    """A task that calls another task and waits for it."""
    return ray.get(add.remote(number, 1))


@ray.remote(max_retries=1, retry_exceptions=True)
def fail_once() -> int:
    """A task whose first attempt fails."""
    if context.current.get().task.attempt == 0:
        raise ValueError("once")
    return 1


@ray.remote(num_returns="streaming")
def items(count: int) -> Any:
    """A streaming generator."""
    for number in range(count):
        yield number


@ray.remote
class Counter:
    """An actor class: one actor lives as long as the session, and each batch has another."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, amount: int) -> int:
        """Add to the total, and return it."""
        self.total += amount
        return self.total


class Held:
    """References to large values, with the byte that each value repeats."""

    def __init__(self, most_bytes: int):
        self.most, self.bytes = most_bytes, 0
        self.values: deque[tuple[ray.ObjectRef, int, int]] = deque()

    def add(self, ref: ray.ObjectRef, number: int, size: int) -> None:
        """Hold one more value. Drops the oldest ones when their total size exceeds the limit."""
        self.values.append((ref, number % 256, size))
        self.bytes += size
        while self.bytes > self.most:
            self.bytes -= self.values.popleft()[2]


def batch(start: int, chance: random.Random, held: Held, counter: Any) -> None:
    """Run a thousand tasks, with their puts, gets and actor calls, and check each result."""
    for number in range(start, start + PUTS):
        size = chance.choice(SIZES)
        held.add(ray.put(bytes([number % 256]) * size), number, size)
    for number in range(start, start + LARGE):
        size = chance.choice(SIZES)
        held.add(make.remote(number, size), number, size)
    taken = [chance.choice(held.values) for _ in range(TAKE)]
    firsts = [first_byte.remote(ref) for ref, _, _ in taken]
    small = [add.remote(number, 1) for number in range(BATCH - LARGE - TAKE - 2 * NESTED - FAIL - 1)]
    deep = [nested.remote(number) for number in range(NESTED)]
    failing = [fail_once.remote() for _ in range(FAIL)]
    own = Counter.remote()
    calls = [counter.add.remote(1) for _ in range(CALLS // 2)] + [own.add.remote(1) for _ in range(CALLS // 2)]
    yielded = [ray.get(ref) for ref in items.remote(ITEMS)]
    for ref, byte, size in [chance.choice(held.values) for _ in range(GETS)]:
        value = ray.get(ref)
        assert value[0] == byte and len(value) == size
    assert ray.get(firsts) == [byte for _, byte, _ in taken]
    assert ray.get(small) == [number + 1 for number in range(len(small))]
    assert ray.get(deep) == [number + 1 for number in range(NESTED)]
    assert ray.get(failing) == [1] * FAIL and yielded == list(range(ITEMS))
    assert ray.get(calls[-1]) == CALLS // 2


def count(tasks: int) -> dict[str, int]:
    """Count everything that could grow, after the references that the program has dropped are accounted for."""
    runtime = context.running()
    with runtime.locked() as cluster:
        tables = {
            "records": len(cluster.tasks),
            "objects": len(cluster.objects),
            "workers": len(cluster.workers),
            "finished": len(cluster.tasks) + cluster.dropped["tasks"],
            "events_dropped": cluster.dropped["events"],
            "actors_dropped": cluster.dropped["actors"],
        }
    folder = runtime.spill.path
    return {"tasks": tasks, **of_the_process(), "files": len(os.listdir(folder)) if folder else 0, **tables}


def keep_little(runtime: Any, records: int) -> None:
    """Let the tables and logs of finished things be full early: of each, this many entries are kept. Foreign code makes
    an actor every few calls, and by default as many dead actors are kept as in Ray, 100,000."""
    cluster = runtime.cluster
    cluster.history.limit = cluster.actor_manager.dead_kept = records
    cluster.worker_pool.dead_kept = min(records, cluster.worker_pool.dead_kept)
    cluster.events.events, cluster.totals.most_names = deque(maxlen=records), records
    runtime.waits = deque(maxlen=records)
    files.MOST_WORKERS = records


def of_the_process() -> dict[str, int]:
    """The process's resident bytes, threads and file descriptors."""
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "resident": resident,
        "blocks": sys.getallocatedblocks(),
        "threads": len(os.listdir("/proc/self/task")),
        "fds": len(os.listdir("/proc/self/fd")),
    }


def soak(
    tasks: int,
    store: int = STORE,
    records: int = RECORDS,
    seed: int = 0,
    tell: Callable[[dict[str, int]], None] = lambda row: None,
    foreign: bool = False,
    minutes: float = math.inf,
) -> tuple[list[dict[str, int]], dict[str, int]]:
    """Run this many tasks. records: the most finished things that a table or log keeps. tell: called with each row.
    foreign: with foreign code that calls the API at every moment, except while everything is counted. minutes: fewer
    tasks if they take longer.

    Returns the rows, one for each thousand tasks, and the store's counters. Raises AssertionError if a result is wrong,
    or if something is left after the session.
    """
    chance, end = random.Random(seed), time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="miniray-soak-") as folder:
        before, most_logs = of_the_process(), files.MOST_WORKERS
        ray.init(num_cpus=2, object_store_memory=store, object_spilling_directory=folder, log_to_driver=False)
        try:
            runtime = context.running()
            keep_little(runtime, records)
            held, counter, rows = Held(2 * store), Counter.remote(), []
            with traps.everywhere(seed) if foreign else contextlib.nullcontext() as stress:
                for start in range(0, tasks, BATCH):
                    batch(start, chance, held, counter)
                    with stress.pause() if stress else contextlib.nullcontext():
                        rows.append(count(start + BATCH))
                    tell(rows[-1])
                    if time.monotonic() > end:
                        break
            stats = runtime.head.store.stats()
        finally:
            ray.shutdown()
            files.MOST_WORKERS = most_logs
        after = of_the_process()
        assert os.listdir(folder) == [], "files are left"
    assert after["threads"] <= before["threads"], f"{after['threads'] - before['threads']} threads are left"
    assert after["fds"] <= before["fds"], f"{after['fds'] - before['fds']} file descriptors are left"
    return rows, stats


def growth(rows: list[dict[str, int]], column: str) -> float:
    """The growth of a column: its mean over the last tenth of the rows, minus its mean over the first tenth."""
    tenth = max(1, len(rows) // 10)
    return (sum(row[column] for row in rows[-tenth:]) - sum(row[column] for row in rows[:tenth])) / tenth


def main(arguments: list[str]) -> int:
    """The command line. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=200_000, help="run this many tasks (default: 200,000)")
    parser.add_argument("--store", type=float, default=STORE, help="the size of the object store, in bytes")
    parser.add_argument("--records", type=int, default=RECORDS, help="keep this many finished tasks (default: 10,000)")
    parser.add_argument("--seed", type=int, default=0, help="the seed of all random choices (default: 0)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="end after so many minutes")
    parser.add_argument("--foreign", action="store_true", help="foreign code calls the API at every moment")
    options = parser.parse_args(arguments)
    every = max(1, options.tasks // BATCH // 20)
    print("".join(f"{name:>10}" for name in COLUMNS) + "   (resident in MB)")

    def tell(row: dict[str, int]) -> None:
        if row["tasks"] // BATCH % every == 0:
            print(
                "".join(f"{row[name] / 1e6:10.1f}" if name == "resident" else f"{row[name]:10}" for name in COLUMNS),
                flush=True,
            )

    began = time.perf_counter()
    rows, stats = soak(
        options.tasks, int(options.store), options.records, options.seed, tell, options.foreign, options.minutes
    )
    foreign = f"{traps.num_calls()} foreign calls, " if options.foreign else ""
    print(
        f"{time.perf_counter() - began:.0f} s; {foreign}"
        + ", ".join(f"{name} {value}" for name, value in stats.items())
    )
    warm = [row for row in rows if row["finished"] > WARM_UP * options.records and row["events_dropped"]]
    if options.foreign:
        warm = [row for row in warm if row["actors_dropped"]]
    if len(warm) < 2:
        print("the warm-up did not end: run more tasks, or keep fewer records")
        return 2
    grown = {name: growth(warm, name) for name in COLUMNS[1:]}
    print(
        f"growth after the warm-up, over {len(warm) * BATCH} tasks: "
        + ", ".join(
            f"{name} {value / 1e6:.2f} MB" if name == "resident" else f"{name} {value:.1f}"
            for name, value in grown.items()
        )
    )
    steady = (
        grown["resident"] < FLAT_BYTES if not options.foreign else grown["blocks"] < FLAT_BLOCKS * warm[0]["blocks"]
    )
    idle = IDLE if options.foreign else 1
    flat = steady and grown["threads"] < idle and grown["fds"] < 2 * idle
    print("nothing grows" if flat else "something grows")
    return 0 if flat else 1


if __name__ == "__main__":
    from tests.bench.soak import main as imported_main  # the tasks must belong to an importable module, not to __main__

    sys.exit(imported_main(sys.argv[1:]))
