"""Long runs of the simulated runtime, and its figures.

    python -m tests.runtime.simulated.long_runs chaos --seeds 10000 [--first N]     the chaos programs (tests/runtime/chaos.py)
    python -m tests.runtime.simulated.long_runs speed       schedules a minute, and microseconds for each scheduling point
    python -m tests.runtime.simulated.long_runs memory --seeds 10000                the memory of the process meanwhile

All times are CPU time. Exit status 1: a seed has failed, or a figure is worse than the aim: 2,000 schedules a minute of a
program of ten tasks and two actors, 60 µs for each scheduling point, and no growth.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time

import miniray as ray
from miniray.testing import explore
from miniray.testing.exploring.simulation import Run
from tests.runtime import chaos
from tests.testing.account import Account

SCHEDULES_A_MINUTE = 2_000
POINT_US = 60.0
GROWTH_KB = 1_000  # what the tables of Python's allocator may take
WARM_UP = 500  # runs


@ray.remote
def pay(accounts: list, amount: int) -> int:
    """A call to each of two actors."""
    first = ray.get(accounts[0].pay_in.remote(amount))
    return first + ray.get(accounts[1].pay_in.remote(amount))


def ten_tasks() -> None:
    """Ten tasks and two actors."""
    accounts = [Account.remote(0), Account.remote(0)]
    ray.get([pay.remote(accounts, amount) for amount in range(10)])
    assert ray.get([account.balance.remote() for account in accounts]) == [45, 45]


def chaos_runs(seeds: range) -> bool:
    """Play the seeds. Prints those that fail; returns whether none did."""
    began, failed, steps = time.process_time(), 0, 0
    for number, seed in enumerate(seeds, 1):
        run = Run(functools.partial(chaos.play, seed, chaos.SMALL), seed, max_steps=1_000_000, max_virtual_s=1e7).go()
        steps += run.steps
        if run.error is not None:
            failed += 1
            print(f"seed {seed} failed: {run.error}")
        if not number % 500 or number == len(seeds):
            print(f"{number} seeds, {failed} failed, {steps} steps, {time.process_time() - began:.0f} s", flush=True)
    return not failed


def speed(seeds: range) -> bool:
    """Measure the speed with a program of ten tasks and two actors."""
    explore(ten_tasks, range(20))
    began = time.process_time()
    found = explore(ten_tasks, seeds)
    took = time.process_time() - began
    rate, point_us = found.runs / took * 60, took / found.steps * 1e6
    print(f"{rate:.0f} schedules a minute, {point_us:.1f} µs for each of {found.steps // found.runs} points of a run")
    return rate >= SCHEDULES_A_MINUTE and point_us <= POINT_US


def memory(seeds: range) -> bool:
    """Watch the memory of the process while the program runs again and again."""
    explore(ten_tasks, range(WARM_UP))
    before = resident_kb()
    for start in range(seeds.start, seeds.stop, 1_000):
        found = explore(ten_tasks, range(start, min(start + 1_000, seeds.stop)))
        print(f"{start + found.runs} runs: {resident_kb() - before:+d} kB", flush=True)
    return resident_kb() - before < GROWTH_KB


def resident_kb() -> int:
    """The memory of this process, without what is swapped out."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("chaos", "speed", "memory"))
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.seeds)
    return 0 if {"chaos": chaos_runs, "speed": speed, "memory": memory}[asked.what](seeds) else 1


if __name__ == "__main__":
    sys.exit(main())
