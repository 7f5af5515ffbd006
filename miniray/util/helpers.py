"""`as_completed` and `map_unordered`: iterate over results in the order of completion. Ray:
python/ray/util/helpers.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from miniray import api


def as_completed(
    refs: list[Any], *, chunk_size: int = 10, yield_obj_refs: bool = False, **kwargs: Any
) -> Iterator[Any]:
    """Yield the values of the references in the order in which they become ready.

        for value in as_completed([f.remote(i) for i in range(10)]):
            print(value)

    Args:
        refs: the references.
        chunk_size: wait until this many references are ready, then yield them all.
        yield_obj_refs: yield the references, which are then ready, instead of their values.
        **kwargs: passed to `wait`. With a `timeout` (seconds per chunk), a chunk may be smaller or empty; the remaining
            references are then waited for again.

    Raises ValueError for a chunk_size below 1 and for `num_returns`, at the first `next`. If a reference of a chunk
    holds an error, the iteration raises that error and ends.
    """
    _check(chunk_size, kwargs)
    while refs:
        results, refs = _next_chunk(refs, chunk_size, yield_obj_refs, kwargs)
        yield from results


def map_unordered(
    fn: Any,
    items: Iterable[Any],
    *,
    backpressure_size: int | None = 100,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    **kwargs: Any,
) -> Iterator[Any]:
    """Call fn.remote(item) for each item, and yield the results in the order in which they become ready.

        for value in map_unordered(double, range(1000)):
            print(value)

    Args:
        fn: a remote function, or a method of an actor.
        items: the arguments, one per call.
        backpressure_size: the largest number of calls in flight. At this number, a chunk of results is awaited and
            yielded before the next call is submitted. None means no limit.
        chunk_size, yield_obj_refs, **kwargs: as for `as_completed`.

    Raises ValueError for a backpressure_size below 1, and otherwise as `as_completed` does.
    """
    if backpressure_size is not None and backpressure_size <= 0:
        raise ValueError(f"backpressure_size must be positive, and it is {backpressure_size}")
    _check(chunk_size, kwargs)
    refs: list[Any] = []
    for item in items:
        refs.append(fn.remote(item))
        if backpressure_size is not None and len(refs) >= backpressure_size:
            results, refs = _next_chunk(refs, chunk_size, yield_obj_refs, kwargs)
            yield from results
    yield from as_completed(refs, chunk_size=chunk_size, yield_obj_refs=yield_obj_refs, **kwargs)


def _check(chunk_size: int, kwargs: dict[str, Any]) -> None:
    if not isinstance(chunk_size, int):
        raise TypeError(f"chunk_size must be an integer, not {chunk_size!r}")
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, and it is {chunk_size}")
    if "num_returns" in kwargs:
        raise ValueError("give chunk_size instead of num_returns")


def _next_chunk(
    refs: list[Any], chunk_size: int, yield_obj_refs: bool, kwargs: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    ready, rest = api.wait(refs, num_returns=min(chunk_size, len(refs)), **kwargs)
    return ready if yield_obj_refs else api.get(ready), rest
