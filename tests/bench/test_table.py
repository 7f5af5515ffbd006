"""The table of targets: what it says of a machine that is busy, and the ratios that need no idle machine."""

from __future__ import annotations

import os
import sys
import time

import pytest

from tests.bench.table import TARGETS, Figure, Target, busy_seconds, on_one_cpu, own_seconds, ratio
from tests.bench.test_growth import keeps_within
from tests.bench.workloads import WORKLOADS, spin

WIDE = 1.3
pytestmark = pytest.mark.skipif(not os.path.exists("/proc/stat"), reason="the table needs Linux")


@pytest.mark.slow  # measures in processes of their own
@pytest.mark.watchdog(300)
@pytest.mark.parametrize("target", [t for t in TARGETS if t.pinned], ids=lambda target: target.workload)
def test_a_round_trip_on_one_cpu_costs_little_more_than_it_should(target):
    """Both sides share the CPU with whatever else runs, so that the ratio needs no idle machine."""
    keeps_within(WIDE * target.most, lambda: ratio(target, sys.executable, rounds=1)[0])


def test_every_target_is_a_workload_with_a_peer():
    assert all(WORKLOADS[target.workload].peer for target in TARGETS)


@pytest.mark.parametrize(
    ("ratios", "others", "verdict"),
    [([0.9, 1.0, 1.9], 0.02, "holds"), ([0.9, 1.1, 1.2], 0.02, "MISSED"), ([0.1, 0.1, 0.1], 0.3, "not idle")],
)
def test_the_median_decides_and_a_busy_machine_counts_for_nothing(ratios, others, verdict):
    assert verdict in Figure(Target("fan", 1.0, 1.0), 1.0, ratios, others).line()


def test_the_cpus_are_given_back():
    before = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), on_one_cpu(True):
        assert len(os.sched_getaffinity(0)) == 1
        raise ZeroDivisionError
    assert os.sched_getaffinity(0) == before


def test_the_work_of_this_process_is_not_that_of_others():
    busy, own, end = busy_seconds(), own_seconds(), time.thread_time() + 0.2
    while time.thread_time() < end:
        spin(1000)
    assert own_seconds() - own >= 0.2
    assert busy_seconds() - busy >= 0.1  # counted in hundredths of a second
