"""Bad calls are refused as Ray refuses them: the class of the error, the moment, a text that names the argument; and the
session goes on as if they had not been made.

The tables are in `bad_calls_core` and `bad_calls_util`; how they were recorded is told in `bad_arguments`.
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
    """A session, and the names that the lines use."""
    miniray.init(num_cpus=8, log_to_driver=False)
    yield names(miniray)
    miniray.shutdown()


@pytest.mark.parametrize("bad", CALLS, ids=lambda bad: f"{bad.before}; {bad.call}".removeprefix("; "))
def test_a_bad_call_is_refused_as_in_ray(known: dict[str, Any], bad: BadCall):
    """And the next good ones are answered."""
    error = bad.raised(known)
    assert type(error).__name__ == bad.error, f"{bad.call} raised {error!r}"
    assert bad.word in str(error)
    assert miniray.get(known["f"].remote(1)) == 1
    assert miniray.get(known["a"].m.remote()) == 1


def test_there_are_many_lines():
    """A table that is not read would pass every test."""
    assert len(CALLS) > 450 and len({call[:2] for call in CALLS}) == len(CALLS)
