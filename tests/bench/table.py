"""The table of targets, measured: the ratio of each workload to its peer, and what the ratio should be at most.

    python -m tests.bench.table                             as `make table` does
    python -m tests.bench.table --python /opt/py313/bin/python --runs 3

Each figure is the median of several runs; a run is the median of its rounds, as in `bench.py`. A machine on which other
programs run gives no figures of this kind. So the CPU time of all others is measured for each row, and a row is marked
and does not count if others used more than a tenth of a CPU. Linux only: it reads /proc/stat.

The package is compiled first. Otherwise, where PYTHONDONTWRITEBYTECODE is set, the start of a process would include the
compilation of miniray each time, which an installed package never needs.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.bench import ROOT, Column, Options, measure
from tests.bench.workloads import WORKLOADS

MOST_OF_OTHERS = 0.1
"""CPUs that other programs may use while a row is measured."""


@dataclass(frozen=True)
class Target:
    """The most that a workload may take as a multiple of its peer's time, before Python 3.12 and from then on.

    pinned: all threads on one CPU. Otherwise the ratio of a round trip depends on where the kernel places the threads.
    """

    workload: str
    most: float
    most_since_312: float
    pinned: bool = False

    @property
    def name(self) -> str:
        """How the table calls it."""
        return f"{self.workload}, one CPU" if self.pinned else self.workload


TARGETS = (
    Target("task_async", 0.6, 0.8),
    Target("fan", 0.6, 0.8),
    Target("task_list", 0.8, 1.1),
    Target("actor_async", 6.5, 7.0),
    Target("task_sync", 1.0, 1.0, pinned=True),
    Target("nested", 1.6, 1.6, pinned=True),
    Target("actor_sync", 1.4, 1.4, pinned=True),
    Target("chain_1k", 1.2, 1.2, pinned=True),
    Target("task_sync", 1.0, 1.0),
    Target("actor_sync", 1.0, 1.0),
    Target("actors_1000", 1.0, 1.0),
    Target("queued_100k", 0.8, 0.8),
    Target("put_1KB", 2.0, 2.0),
    Target("startup", 1.4, 1.4),
    Target("task_recorded", 1.05, 1.05),
)


@dataclass
class Figure:
    """What the runs of one target gave. others: the most CPUs that other programs used in one of them."""

    target: Target
    most: float
    ratios: list[float]
    others: float

    @property
    def ratio(self) -> float:
        """The median of the runs."""
        return statistics.median(self.ratios)

    @property
    def counts(self) -> bool:
        """Whether the machine was idle enough."""
        return self.others <= MOST_OF_OTHERS

    def line(self) -> str:
        """The row of the table."""
        runs = " ".join(f"{ratio:.2f}" for ratio in self.ratios)
        verdict = "not idle" if not self.counts else "holds" if self.ratio <= self.most else "MISSED"
        return f"{self.target.name:22} {self.ratio:6.2f} {self.most:6.2f}  {verdict:9} {self.others:6.2f}  ({runs})"


@contextmanager
def on_one_cpu(pinned: bool) -> Iterator[None]:
    """Start the processes inside the block on one CPU, if `pinned`."""
    before = os.sched_getaffinity(0)
    if pinned:
        os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def busy_seconds() -> float:
    """The CPU time of everything on this machine since it started."""
    fields = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, *interrupts = map(int, fields[:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """The CPU time of this process, and of those it has started that have ended."""
    kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def ratio(target: Target, python: str, rounds: int) -> tuple[float, float]:
    """Measure once: the ratio, and how many CPUs others used meanwhile."""
    run = WORKLOADS[target.workload]
    columns = [Column(f"{name}@{python}", Options(rounds)) for name in (run.peer, "miniray")]
    began, busy, own = time.monotonic(), busy_seconds(), own_seconds()
    with on_one_cpu(target.pinned):
        table = measure(columns, [run], Options(rounds))
    others = (busy_seconds() - busy - (own_seconds() - own)) / (time.monotonic() - began)
    return statistics.median(table.ratios(run, columns[1])), max(0.0, others)


def is_since_312(python: str) -> bool:
    """Whether this interpreter is 3.12 or later."""
    return subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 12))"]).returncode == 0


def compile_package(python: str) -> None:
    """Write the byte code of miniray and of this benchmark for this interpreter."""
    folders = [str(ROOT / "miniray"), str(ROOT / "tests" / "bench")]
    subprocess.run([python, "-m", "compileall", "-q", *folders], check=True)


def figure(target: Target, python: str, runs: int, rounds: int) -> Figure:
    """Measure a target in several runs."""
    found = [ratio(target, python, rounds) for _ in range(runs)]
    most = target.most_since_312 if is_since_312(python) else target.most
    return Figure(target, most, [one for one, _ in found], max(others for _, others in found))


def main() -> int:
    """The command. Exit code 1 if a target is missed, 2 if the machine was not idle."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.table", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="the interpreter to measure (default: this one)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3, help="in each run")
    asked = parser.parse_args()
    compile_package(asked.python)
    print(f"{asked.python}: {asked.runs} runs of {asked.rounds} rounds")
    print(f"{'workload':22} {'ratio':>6} {'most':>6}  {'':9} {'others':>6}  runs", flush=True)
    found = []
    for target in TARGETS:
        found.append(figure(target, asked.python, asked.runs, asked.rounds))
        print(found[-1].line(), flush=True)
    if not all(one.counts for one in found):
        return 2
    return int(any(one.ratio > one.most for one in found))


if __name__ == "__main__":
    sys.exit(main())
