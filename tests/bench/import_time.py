"""The time of `import miniray`, compared with importing the executor of threads of the standard library.

    python -m tests.bench.import_time [--rounds 20] [--modules]

Each number is the median over fresh interpreters, in which the two imports run in turn, with byte code on disk as after
an installation. The second statement also needs `init` and `remote`, which miniray imports on first use. Wall time and
CPU time are in ms; on a busy machine, CPU time says more. --modules also shows the time of each module of miniray by
itself.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMPORT, FIRST_USE = "import miniray", "import miniray; miniray.init; miniray.remote"
PEER = "from concurrent.futures import ThreadPoolExecutor"
MUST_MS = 10.0  # wall time of the first statement
MUST_TIMES = {IMPORT: 0.15, FIRST_USE: 2.2}  # CPU time as a multiple of the peer's
TIMED = """
import time
wall, cpu = time.perf_counter(), time.process_time()
{statement}
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


class Cost(NamedTuple):
    """Medians in milliseconds, as pairs: of the statement, and of the peer's import."""

    wall: tuple[float, float]
    cpu: tuple[float, float]

    @property
    def times(self) -> float:
        """The statement's CPU time as a multiple of the peer's."""
        return self.cpu[0] / self.cpu[1]


class Interpreters:
    """Runs code in fresh interpreters, one after the other. cache: the folder for their byte code."""

    def __init__(self, cache: str):
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, code: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run code in a fresh interpreter. Raises CalledProcessError if it fails."""
        return subprocess.run(
            [sys.executable, *options, "-c", code], env=self.environment, capture_output=True, text=True, check=True
        )

    def cost(self, statement: str, rounds: int = 20) -> Cost:
        """Measure the cost of a statement."""
        kinds = statement, PEER
        for kind in kinds:
            self.run(kind)  # writes the byte code
        times: list[list[list[float]]] = [[], []]
        for _ in range(rounds):
            for found, kind in zip(times, kinds):
                found.append([1000 * float(number) for number in self.run(TIMED.format(statement=kind)).stdout.split()])
        wall, cpu = ([statistics.median(pair[clock] for pair in found) for found in times] for clock in (0, 1))
        return Cost((wall[0], wall[1]), (cpu[0], cpu[1]))

    def self_times(self, statement: str) -> list[tuple[float, str]]:
        """(milliseconds, name) of each miniray module by itself, the slowest first. Each number is a median of five."""
        found: dict[str, list[float]] = {}
        for _ in range(5):
            for line in self.run(statement, "-X", "importtime").stderr.splitlines():
                own, _, name = line.removeprefix("import time:").split("|")
                if name.strip().startswith("miniray"):
                    found.setdefault(name.strip(), []).append(int(own) / 1000)
        return sorted(((statistics.median(times), name) for name, times in found.items()), reverse=True)


@contextmanager
def interpreters() -> Iterator[Interpreters]:
    """Interpreters with their own temporary folder for byte code."""
    with tempfile.TemporaryDirectory(prefix="import-time-") as cache:
        yield Interpreters(cache)


def main() -> None:
    """The command line: measure, and print the figures."""
    parser = argparse.ArgumentParser(description="Measure the time of `import miniray`.")
    parser.add_argument("--rounds", type=int, default=20, help="interpreters of each kind (default: 20)")
    parser.add_argument("--modules", action="store_true", help="show the time of each module of miniray")
    asked = parser.parse_args()
    with interpreters() as fresh:
        for statement in IMPORT, FIRST_USE:
            cost = fresh.cost(statement, asked.rounds)
            print(
                f"{statement}\n    wall {cost.wall[0]:5.1f} ms, CPU {cost.cpu[0]:5.1f} ms; the executor: "
                f"{cost.wall[1]:5.1f} and {cost.cpu[1]:5.1f} ms; CPU ratio {cost.times:.2f}, at most "
                f"{MUST_TIMES[statement]}"
            )
            if asked.modules:
                for own, name in fresh.self_times(statement):
                    print(f"    {own:6.2f} ms  {name}")
    print(f"the first takes at most {MUST_MS:g} ms of wall time")


if __name__ == "__main__":
    main()
