"""Tracing: the spans of a session, their parents, and the context that travels beside the arguments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import miniray as ray
from miniray.process import context
from miniray.telemetry.tracing.spans import CONSUMER, PRODUCER, Span, spans


@pytest.fixture(params=["threaded", "simulated", "local"])
def session(request) -> Iterator[None]:
    """A session of each runtime."""
    local = request.param == "local"
    ray.init(num_cpus=2, local_mode=local, runtime="threaded" if local else request.param)
    yield
    ray.shutdown()


def tree(found: list[Span], parent: int | None = None) -> list:
    """The spans below one, as nested lists of names."""
    return [[span.name, *tree(found, span.span_id)] for span in found if span.parent_id == parent]


def read() -> list[Span]:
    return list(spans(context.session))


@ray.remote
def leaf(x=1):
    return x


@ray.remote
def parent():
    return ray.get(leaf.remote(2))


def test_a_call_is_a_producer_and_its_attempt_a_consumer(session):
    ray.get(leaf.remote())
    call, attempt = read()
    assert (call.name, call.kind) == (f"{__name__}.leaf ray.remote", PRODUCER)
    assert (attempt.name, attempt.kind) == (f"{__name__}.leaf ray.remote_worker", CONSUMER)
    assert call.parent_id is None and attempt.parent_id == call.span_id and attempt.trace_id == call.trace_id
    assert call.start_ns <= attempt.start_ns <= attempt.end_ns


def test_nested_calls_are_children_of_the_attempt_that_made_them(session):
    ray.get(parent.remote())
    ray.get(leaf.remote())
    found = read()
    f, g = f"{__name__}.parent", f"{__name__}.leaf"
    assert tree(found) == [
        [f"{f} ray.remote", [f"{f} ray.remote_worker", [f"{g} ray.remote", [f"{g} ray.remote_worker"]]]],
        [f"{g} ray.remote", [f"{g} ray.remote_worker"]],
    ]
    assert len({span.trace_id for span in found}) == 2
