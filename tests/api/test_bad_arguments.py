"""Bad calls are refused as in Ray: with an error of the same class, at the same moment, whose text names the argument.

The session continues as if the call had not been made. The tables are in `bad_calls_core` and `bad_calls_util`; they
were recorded from real Ray, see `bad_arguments`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import miniray
from tests.api.bad_arguments import BadCall, bad_calls, names

CALLS = list(bad_calls())


@pytest.fixture(scope="module")
def known() -> Iterator[dict[str, Any]]:
    """The names that the lines use, in a running session."""
    miniray.init(num_cpus=8, log_to_driver=False)
    yield names(miniray)
    miniray.shutdown()


@pytest.mark.parametrize("bad", CALLS, ids=lambda bad: f"{bad.before}; {bad.call}".removeprefix("; "))
def test_a_bad_call_is_refused_as_in_ray(known: dict[str, Any], bad: BadCall):
    """The error is Ray's, and the next good calls succeed."""
    error = bad.raised(known)
    assert type(error).__name__ == bad.error, f"{bad.call} raised {error!r}"
    assert bad.word in str(error)
    assert miniray.get(known["f"].remote(1)) == 1
    assert miniray.get(known["a"].m.remote()) == 1


def test_there_are_many_lines():
    """An empty table would pass every test."""
    assert len(CALLS) > 450 and len({call[:2] for call in CALLS}) == len(CALLS)
