"""The figures of chapter 14 about the programs in examples/bugs.

    python -m tests.testing.bugs_measured find          how many runs until `explore` finds each bug: the median of 20
                                                        explorations, with "random" and with "pct"
    python -m tests.testing.bugs_measured fixed         each fix under 10,000 seeds (--runs N)
    python -m tests.testing.bugs_measured exhaustive    each fix in every schedule, where there are not too many
    python -m tests.testing.bugs_measured threads       how many of 1,000 runs with real threads show each bug (--runs N)

Words after the first choose programs: `find 04 07`. Exit status 1: a bug was not found, or a fix failed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from types import ModuleType

import miniray as ray
from miniray.testing import ExplorationFailure, explore
from tests.testing.test_concurrency_bugs import BUGS, loaded

EXPLORATIONS = 20
SEEDS = 1000  # of one exploration


def find(module: ModuleType, runs: int) -> tuple[str, bool]:
    """Search for the bug, again and again, each time with other seeds."""
    texts, all_found = [], True
    for strategy in "random", "pct":
        took = []
        for number in range(EXPLORATIONS):
            seeds = range(number * SEEDS, (number + 1) * SEEDS)
            try:
                explore(module.buggy, seeds, strategy, getattr(module, "FAULTS", None), shrink=False)
            except ExplorationFailure as failure:
                took.append(failure.runs)
        all_found &= len(took) == EXPLORATIONS
        texts.append(
            f"{strategy}: found in {len(took)} of {EXPLORATIONS}, median {statistics.median(took or [0]):g}, "
            f"at most {max(took, default=0)}"
        )
    return "; ".join(texts), all_found


def fixed(module: ModuleType, runs: int) -> tuple[str, bool]:
    """Run the fix."""
    found = explore(module.fixed, range(runs or 10_000), faults=getattr(module, "FAULTS", None))
    return f"{found.runs} runs passed, {found.distinct} different schedules", True


def exhaustive(module: ModuleType, runs: int) -> tuple[str, bool]:
    """Run the fix in every schedule. With faults, the schedules under one seed prove nothing about another."""
    if hasattr(module, "FAULTS"):
        return "left out: it has faults", True
    found = explore(module.fixed, strategy="exhaustive", max_schedules=runs or 10_000)
    return f"{'covered' if found.covered else 'NOT covered'} by {found.runs} runs and {found.pruned} pruned ones", True


def threads(module: ModuleType, runs: int) -> tuple[str, bool]:
    """Run the program with the bug on the threaded runtime."""
    failed = 0
    for _ in range(runs or 1_000):
        ray.init(num_cpus=4, log_to_driver=False, on_deadlock="raise")
        try:
            module.buggy()
        except Exception:
            failed += 1
        finally:
            ray.shutdown()
    return f"{failed} of {runs or 1_000} runs failed", True


WHAT: dict[str, Callable[[ModuleType, int], tuple[str, bool]]] = {
    "find": find,
    "fixed": fixed,
    "exhaustive": exhaustive,
    "threads": threads,
}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--runs", type=int, default=0, help="of each program")
    parser.add_argument("programs", nargs="*", help="parts of their names")
    asked = parser.parse_intermixed_args()  # programs may come after an option
    bad = 0
    for path in BUGS:
        if asked.programs and not any(word in path.stem for word in asked.programs):
            continue
        began = time.process_time()
        try:
            text, is_good = WHAT[asked.what](loaded(path), asked.runs)
        except ExplorationFailure as failure:
            text, is_good = f"FAILED: {failure}", False
        bad += not is_good
        print(f"{path.stem}: {text} ({time.process_time() - began:.1f} s of CPU time)", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
