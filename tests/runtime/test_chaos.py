"""A little chaos in every test run. `make chaos N=200` runs whole programs under many seeds."""

from __future__ import annotations

import signal
import sys

import pytest

from miniray.testing.exploring.simulation import Run
from tests.runtime import chaos


def test_results_are_right_and_nothing_is_left_whatever_dies(seed: int):
    """Workers and nodes die and values are lost while three small programs run; every event is checked."""
    found = chaos.play(seed, chaos.SMALL)
    assert found["events"] > 100


def test_chaos_while_python_switches_threads_as_often_as_it_can():
    """The same, while Python switches threads every microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        chaos.play(100, chaos.SMALL)
    finally:
        sys.setswitchinterval(before)


@pytest.mark.watchdog(0)  # it needs the watchdog's signal
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers that send signals")
def test_chaos_while_foreign_code_calls_the_api_at_every_moment():
    """Finalisers, callbacks of weak references and a signal handler call the API. `make chaos FOREIGN=1` runs for longer."""
    found = chaos.play(0, chaos.SMALL, every=20, foreign=True)
    assert found["foreign calls"] > 10


@pytest.mark.parametrize("seed", [*range(5), 2609, 2620])
def test_chaos_in_a_simulation(seed: int):
    """The same on the simulated runtime, where the seed also decides the schedule.

    With 2609 and 2620, a worker that had died reported the drop of references, and no event followed.
    """
    run = Run(lambda: chaos.play(seed, chaos.SMALL), seed, max_steps=1_000_000).go()
    assert run.error is None, run.error
