"""Random events under many seeds: no invariant breaks, everything is returned, and a seed always plays the same."""

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
    """Play all events of a seed."""
    play(seed, EVENTS)


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Callable[[int], None]]:
    """Plays a seed. All seeds are played ahead, on every CPU."""
    with ahead(request.session, "test_nothing_breaks_and_nothing_is_left", play_one, processors()) as found:
        yield found


def test_nothing_breaks_and_nothing_is_left(seed, played):
    """Every invariant is checked after every event.

    Tasks are submitted, return, raise, crash and are cancelled; actors are killed; nodes and groups come and go;
    references are dropped; values are spilled. At the end every resource is free, no object is left, and every task is
    over.
    """
    played(seed)


# Seeds that failed once, with the reason. Of these, the core was right each time, and the search did not know the
# situation; of the last ones, the core was wrong.
FAILED_ONCE = {
    37: "the owner of a call died; the call's code waited for a later call of the same actor, which had no place to run",
    149: "a dead worker reported late; a reference that the program had dropped before was reported in the same event",
    120: "an actor's generator waited for the driver to take an item; `cancel` does not interrupt a method",
    44: "an actor was revived to rebuild a value, and died at once: the call waited in its queue forever",
    83: "a call with two values, both taken by one task, was counted off twice: the actor kept its arguments forever",
}


@pytest.mark.slow  # thousands of events, each with a check of all invariants
@pytest.mark.parametrize("number", FAILED_ONCE)
def test_a_seed_that_failed_once_passes(number: int) -> None:
    """Each of them now plays to its end."""
    play(number, EVENTS)


@pytest.mark.slow  # starts two interpreters, one for each hash seed
def test_a_seed_plays_the_same_every_time():
    """Its events, and the actions that follow, are the same every time.

    Each seed is played twice here, and once in each of two processes whose hashes of text differ.
    """
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
