"""as_completed and map_unordered: chunks, bounds, refusals."""

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


def test_refusals_come_with_the_first_next():
    """Both are generators: the call itself refuses nothing."""
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
    """Its error is raised where its chunk would have come."""

    @miniray.remote
    def fail() -> None:
        raise KeyError("no")

    results = as_completed([double.remote(1), fail.remote()], chunk_size=1)
    with pytest.raises(KeyError):
        list(results)


def test_no_more_calls_than_the_bound_are_made():
    """The next item is read when a result was waited for."""
    read: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10):
            read.append(number)
            yield number

    results = map_unordered(double, items(), backpressure_size=3, chunk_size=1)
    first = next(results)
    assert len(read) == 3
    assert sorted([first, *results]) == [2 * n for n in range(10)]


def test_without_a_bound_all_calls_are_made_first():
    """backpressure_size=None."""
    assert sorted(map_unordered(double, range(200), backpressure_size=None)) == [2 * n for n in range(200)]


def test_a_timeout_makes_chunks_small_and_loses_nothing():
    """A chunk for which time was not enough is waited for again."""
    assert sorted(as_completed([double.remote(n) for n in range(5)], timeout=0.001)) == [0, 2, 4, 6, 8]
