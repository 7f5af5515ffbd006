"""Random events under many seeds: no invariant breaks, everything is given back, and a seed always plays the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.ahead import ahead, processors
from tests.core.random_events import digest, play

EVENTS = 5_000  # under each seed: 100,000 in a plain run, five million in `make seeds`


def play_one(seed: int) -> None:
    """All of a seed's events."""
    play(seed, EVENTS)


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Callable[[int], None]]:
    """Plays a seed; all of them are played at once, on every CPU."""
    with ahead(request.session, "test_nothing_breaks_and_nothing_is_left", play_one, processors()) as found:
        yield found


def test_nothing_breaks_and_nothing_is_left(seed, played):
    """Submit, finish, fail, crash, cancel, kill, nodes, groups, references, spills: every invariant is checked after every event.
    At the end every resource is back, no object is left, and every task is over."""
    played(seed)


@pytest.mark.slow  # starts two interpreters, one for each hash seed
def test_a_seed_plays_the_same_every_time():
    """Its events and the actions that follow: twice here, and in two processes whose hashes of text differ."""
    once, again = ([digest(play(seed, 500)) for seed in range(4)] for _ in range(2))
    assert once == again
    for hash_seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-m", "tests.core.random_events", "--seeds", "4", "--events", "500"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout.split()[1::2] == once
