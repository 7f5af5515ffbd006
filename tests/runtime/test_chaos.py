"""Chaos, a little of it in every run: `make chaos N=200` plays whole programs under many seeds."""

from __future__ import annotations

import sys

import pytest

from tests.runtime import chaos


@pytest.mark.parametrize("seed", range(10))
def test_results_are_right_and_nothing_is_left_whatever_dies(seed: int):
    """Workers and nodes die and values are lost while three small programs run; invariants are checked after every
    event."""
    found = chaos.play(seed, chaos.SMALL)
    assert found["events"] > 100


def test_chaos_among_threads_that_change_as_often_as_they_can():
    """The same with a switch interval of a microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        chaos.play(100, chaos.SMALL)
    finally:
        sys.setswitchinterval(before)
