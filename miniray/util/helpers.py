"""Results as they are ready, and a remote function over many items. Ray: python/ray/util/helpers.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from miniray import api


def as_completed(
    refs: list[Any], *, chunk_size: int = 10, yield_obj_refs: bool = False, **kwargs: Any
) -> Iterator[Any]:
    """Yield the values of refs as they are ready, chunk_size of them at a time (fewer at the end).

    yield_obj_refs: yield the refs, which are then ready, and not their values. kwargs: passed on to `wait`; with a
    timeout (seconds, for each chunk) a chunk may be smaller or empty, and then the rest is waited for again.
    ValueError for a chunk_size below 1, and for num_returns; both at the first `next`, as this is a generator.
    The first failed ref of a chunk raises its error, and that ends the iteration.
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
    """Call fn.remote(item) for every item, and yield results as they are ready.

    fn: a remote function, or a method of an actor. backpressure_size: so many calls may be under way; then a chunk of
    results is waited for before the next call, which is made only when the iterator is read on. None: no bound.
    The rest, and ValueError for a backpressure_size below 1, as for `as_completed`.
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
        raise ValueError("num_returns follows from chunk_size here: give that instead")


def _next_chunk(
    refs: list[Any], chunk_size: int, yield_obj_refs: bool, kwargs: dict[str, Any]
) -> tuple[list[Any], list[Any]]:
    ready, rest = api.wait(refs, num_returns=min(chunk_size, len(refs)), **kwargs)
    return ready if yield_obj_refs else api.get(ready), rest
