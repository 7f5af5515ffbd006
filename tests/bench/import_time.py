"""What `import miniray` costs, beside importing the standard-library modules that it uses.

    python -m tests.bench.import_time [--rounds 20] [--modules]

Each number is the median over fresh interpreters, the kinds in turn, with byte code on disk as after an installation. "used" are
the modules of the standard library that were not there before. The second line is for a program that also asks for `init` and
`remote`, which miniray imports only then. Wall time and CPU time, in ms: on a machine with other work the latter says more.
--modules: what each module of miniray takes by itself.
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
MUST_MS, MUST_TIMES = 60.0, 1.3
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
    """Medians in milliseconds, each of the statement and of importing what it uses. modules: how many those are."""

    wall: tuple[float, float]
    cpu: tuple[float, float]
    modules: int

    @property
    def times(self) -> float:
        """How many times what it uses, in CPU time."""
        return self.cpu[0] / self.cpu[1]


class Interpreters:
    """Fresh ones, one after the other."""

    def __init__(self, cache: str):
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": cache}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, code: str, *options: str) -> subprocess.CompletedProcess[str]:
        """What one says to this."""
        return subprocess.run(
            [sys.executable, *options, "-c", code], env=self.environment, capture_output=True, text=True, check=True
        )

    def cost(self, statement: str, rounds: int = 20) -> Cost:
        """What a statement costs."""
        used = self.run(USED.format(statement=statement)).stdout.split()  # and the byte code is there
        kinds = statement, f"import {', '.join(used)}"
        times: list[list[list[float]]] = [[], []]
        for _ in range(rounds):
            for found, kind in zip(times, kinds):
                found.append([1000 * float(number) for number in self.run(TIMED.format(statement=kind)).stdout.split()])
        wall, cpu = ([statistics.median(pair[clock] for pair in found) for found in times] for clock in (0, 1))
        return Cost((wall[0], wall[1]), (cpu[0], cpu[1]), len(used))

    def self_times(self, statement: str) -> list[tuple[float, str]]:
        """Milliseconds of each of miniray's modules by itself, the longest first: medians of five."""
        found: dict[str, list[float]] = {}
        for _ in range(5):
            for line in self.run(statement, "-X", "importtime").stderr.splitlines():
                own, _, name = line.removeprefix("import time:").split("|")
                if name.strip().startswith("miniray"):
                    found.setdefault(name.strip(), []).append(int(own) / 1000)
        return sorted(((statistics.median(times), name) for name, times in found.items()), reverse=True)


@contextmanager
def interpreters() -> Iterator[Interpreters]:
    """With a folder of byte code of their own."""
    with tempfile.TemporaryDirectory(prefix="import-time-") as cache:
        yield Interpreters(cache)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="What import miniray costs.")
    parser.add_argument("--rounds", type=int, default=20, help="fresh interpreters of each kind (20)")
    parser.add_argument("--modules", action="store_true", help="show what each module of miniray takes")
    asked = parser.parse_args()
    with interpreters() as fresh:
        for statement in IMPORT, FIRST_USE:
            cost = fresh.cost(statement, asked.rounds)
            print(
                f"{statement}\n    wall {cost.wall[0]:5.1f} ms, CPU {cost.cpu[0]:5.1f} ms; the {cost.modules} modules that it "
                f"uses {cost.wall[1]:5.1f} and {cost.cpu[1]:5.1f} ms: {cost.times:.2f} times"
            )
            if asked.modules:
                for own, name in fresh.self_times(statement):
                    print(f"    {own:6.2f} ms  {name}")
    print(f"musts: {MUST_MS:g} ms, {MUST_TIMES} times")


if __name__ == "__main__":
    main()
