"""Planted mistakes can be planted, and the simulation notices one. `make planted` tries all of them."""

from __future__ import annotations

import pytest

from tests.runtime.simulated.planted.mistakes import MISTAKES
from tests.runtime.simulated.planted.programs import PROGRAMS, first_seed
from tests.runtime.simulated.planted.run import ROOT, noticed, planted


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.what for mistake in MISTAKES])
def test_a_mistake_can_be_planted(mistake):
    """The text that it replaces is still in the core. If a change of the core has moved it, change the mistake, too."""
    text = (ROOT / "miniray" / "core" / mistake.file).read_text(encoding="utf-8")
    compile(planted(mistake, text), mistake.file, "exec")


def test_there_are_twenty():
    """At least, and all have names of their own."""
    assert len({mistake.what for mistake in MISTAKES}) == len(MISTAKES) >= 20


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_notice_nothing_without_a_mistake(name):
    """Under three seeds."""
    assert first_seed(name, 3) is None


@pytest.mark.slow
def test_a_lost_wake_up_is_noticed():
    """By the first seed of each program. Starts a program."""
    assert all(hit is not None for hit in noticed(MISTAKES[0], 1).values())
