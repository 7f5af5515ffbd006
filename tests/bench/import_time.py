"""The time of `import miniray`, compared with importing only the standard-library modules that it uses.

    python -m tests.bench.import_time [--rounds 20] [--modules]

Each number is the median over fresh interpreters, in which the two kinds of import run in turn, with byte code on disk
as after an installation. The modules that miniray uses are those of the standard library that were not imported before.
The second statement also needs `init` and `remote`, which miniray imports on first use. Wall time and CPU time are in
ms; on a busy machine, CPU time says more. --modules also shows the time of each module of miniray by itself.
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
MUST_MS, MUST_TIMES = 60.0, 1.3  # the limits: wall time in ms, and CPU time as a multiple of that of the modules used
IMPORT, FIRST_USE = "import miniray", "import miniray; miniray.init; miniray.remote"
USED = """
import sys
before = set(sys.modules)
{statement}
print(*sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in sys.stdlib_module_names))
"""
TIMED = """
import time
wall, cpu = time.perf_counter(), time.process_time()
{statement}
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


class Cost(NamedTuple):
    """Medians in milliseconds, as pairs: of the statement, and of importing the modules it uses.

    modules: their number.
    """

    wall: tuple[float, float]
    cpu: tuple[float, float]
    modules: int

    @property
    def times(self) -> float:
        """The statement's CPU time as a multiple of that of the modules it uses."""
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
        used = self.run(USED.format(statement=statement)).stdout.split()  # this run also writes the byte code
        kinds = statement, f"import {', '.join(used)}"
        times: list[list[list[float]]] = [[], []]
        for _ in range(rounds):
            for found, kind in zip(times, kinds):
                found.append([1000 * float(number) for number in self.run(TIMED.format(statement=kind)).stdout.split()])
        wall, cpu = ([statistics.median(pair[clock] for pair in found) for found in times] for clock in (0, 1))
        return Cost((wall[0], wall[1]), (cpu[0], cpu[1]), len(used))

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
                f"{statement}\n    wall {cost.wall[0]:5.1f} ms, CPU {cost.cpu[0]:5.1f} ms; the {cost.modules} modules "
                f"that it uses: {cost.wall[1]:5.1f} and {cost.cpu[1]:5.1f} ms; CPU ratio {cost.times:.2f}"
            )
            if asked.modules:
                for own, name in fresh.self_times(statement):
                    print(f"    {own:6.2f} ms  {name}")
    print(f"limits: wall {MUST_MS:g} ms, CPU ratio {MUST_TIMES}")


if __name__ == "__main__":
    main()
