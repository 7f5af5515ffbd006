"""as_completed and map_unordered: chunks, backpressure, refused arguments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import miniray
from miniray.util import as_completed, map_unordered


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    miniray.init(num_cpus=2, log_to_driver=False)
    yield
    miniray.shutdown()


@miniray.remote
def double(x: int) -> int:
    return 2 * x


def test_bad_arguments_are_refused_at_the_first_next():
    """Both functions are generators, so the call itself raises nothing."""
    for results in (
        as_completed([], chunk_size=0),
        as_completed([], num_returns=1),
        map_unordered(double, [], chunk_size=0),
        map_unordered(double, [], num_returns=1),
        map_unordered(double, [], backpressure_size=0),
    ):
        with pytest.raises(ValueError):
            next(results)


def test_a_failure_ends_the_iteration():
    """The error is raised in place of its chunk."""

    @miniray.remote
    def fail() -> None:
        raise KeyError("no")

    results = as_completed([double.remote(1), fail.remote()], chunk_size=1)
    with pytest.raises(KeyError):
        list(results)


def test_backpressure_limits_the_calls_in_flight():
    """The next item is read only after a result has been awaited."""
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10):
            read.append(number)
            yield number

    results = map_unordered(double, items(), backpressure_size=3, chunk_size=1)
    first = next(results)
    assert len(read) == 3
    assert sorted([first, *results]) == [2 * n for n in range(10)]


def test_without_backpressure_all_calls_are_submitted_first():
    """This is backpressure_size=None."""
    assert sorted(map_unordered(double, range(200), backpressure_size=None)) == [2 * n for n in range(200)]


def test_a_timeout_makes_chunks_small_and_loses_nothing():
    """References that were not ready in time are waited for again."""
    assert sorted(as_completed([double.remote(n) for n in range(5)], timeout=0.001)) == [0, 2, 4, 6, 8]
