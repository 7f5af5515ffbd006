"""A stand-in for a worker, for tests of serialisation: it loads, calls and stores like a worker, on the test's own
thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from miniray.process.context import current
from miniray.values.serialization import Space, capture, deserialize, serialize


def turn(value: Any) -> Any:
    """The value as the driver would get it back."""
    return deserialize(serialize(value))


@contextmanager
def inside(space: Space) -> Iterator[None]:
    """Run the block as if a worker with this space ran it."""
    token = current.set(SimpleNamespace(space=space))  # type: ignore[arg-type]
    try:
        yield
    finally:
        current.reset(token)


def call(space: Space, function: Any, *values: Any) -> Any:
    """Do what a worker does for one task: load the function, load the arguments, call, store the result."""
    captured = capture(function)
    stored = [serialize(value) for value in values]
    with inside(space):
        loaded = captured.load(space)
        result = serialize(loaded(*[deserialize(value) for value in stored]))
    return deserialize(result)
