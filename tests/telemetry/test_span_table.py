"""The table `spans` says what the spans of a session say, in a running session and in a file."""

from __future__ import annotations

import json
import os

import pytest

import miniray as ray
from miniray.telemetry.tracing.spans import CONSUMER, INTERNAL, PRODUCER, Span
from miniray.testing import FaultPlan, simulate
from miniray.util import tracing

OF_CLIENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@ray.remote
def leaf(x=1):
    return x


@ray.remote
def parent():
    return ray.get(leaf.remote(2))


def as_rows(found: list[Span]) -> dict[str, dict]:
    """The spans as the table `spans` shows them, by id."""
    return {
        f"{span.span_id:016x}": {
            "trace_id": f"{span.trace_id:032x}",
            "parent_span_id": f"{span.parent_id:016x}" if span.parent_id else None,
            "name": span.name,
            "kind": span.kind,
            "status": span.status.code,
            "status_description": span.status.description or None,
            "attributes_json": span.attributes,
            "events_json": [(event.name, event.attributes) for event in span.events],
            "task_id": span.task_id,
            "attempt_number": span.attempt,
            "ended": span.end_ns is not None,
        }
        for span in found
    }


def from_rows(rows: list[dict]) -> dict[str, dict]:
    """The rows of the table in the same form."""
    found = {}
    for row in rows:
        made = {name: row[name] for name in ("trace_id", "parent_span_id", "name", "kind", "status", "task_id")}
        made |= {name: row[name] for name in ("status_description", "attempt_number")}
        made["attributes_json"] = json.loads(row["attributes_json"])
        made["events_json"] = [(event["name"], event["attributes"]) for event in json.loads(row["events_json"])]
        made["ended"] = row["end_ns"] is not None
        found[row["span_id"]] = made
    return found


def run_everything() -> None:
    """Calls that end in every way, and spans of the program."""

    @ray.remote(max_retries=1, retry_exceptions=True)
    def flaky(seen):
        with tracing.start_span("in flaky", text='"quoted" \\ and é\n'):
            if ray.get(seen.add.remote()) == 1:
                raise ValueError('text: with "quotes", \\, \x1b[31mcolour\x1b[0m,\r\n\tlines and é')

    @ray.remote
    class Seen:
        n = 0

        def add(self):
            self.n += 1
            return self.n

        def leave(self):
            ray.actor.exit_actor()

        def crash(self):
            os._exit(1)

    @ray.remote
    class Bad:
        def __init__(self):
            raise KeyError("k")

    with tracing.extract({"traceparent": OF_CLIENT, "tracestate": "a=1"}):
        ray.get(flaky.remote(Seen.remote()))
    with pytest.raises(KeyError), tracing.start_span("fails"):
        raise KeyError("own")
    bad = Bad.remote()
    failing = [Seen.remote().leave.remote(), Seen.remote().crash.remote(), bad.__ray_ready__.remote()]
    queued = leaf.options(resources={"nothing has": 1}).remote()
    ray.cancel(queued)
    for ref in [*failing, queued]:
        with pytest.raises(ray.exceptions.RayError):
            ray.get(ref)
    ray.get(parent.remote())


def test_the_table_of_spans_says_what_the_spans_say(each_session):
    run_everything()
    rows = ray.sql("select * from spans").rows
    assert from_rows(rows) == as_rows(tracing.spans())
    (joined,) = ray.sql(
        "select c.name as name, p.name as above from spans c join spans p on c.parent_id = p.id "
        "where c.name = 'in flaky' and c.status = 'ERROR'"
    ).rows
    assert joined["above"].endswith("flaky ray.remote_worker")


def test_a_recording_has_the_spans(tmp_path):
    path = tmp_path / "run.db"
    ray.init(num_cpus=2, telemetry=str(path))
    run_everything()
    expected = as_rows(tracing.spans())
    ray.shutdown()
    source = ray.telemetry.open(str(path))
    assert from_rows(source.query("select * from spans").rows) == expected


@ray.remote(max_retries=5, retry_exceptions=True)
def divide(n):
    with tracing.start_span(f"divide {n}"):
        return n if n < 2 else sum(ray.get([divide.remote(n // 2), divide.remote(n - n // 2)]))


@ray.remote(max_restarts=5, max_task_retries=5)
class Counter:
    def add(self, n):
        with tracing.start_span("add"):
            return ray.get(divide.remote(n))

    def stream(self, n):
        for i in range(n):
            yield ray.get(leaf.remote(i))


@ray.remote(max_restarts=5, max_task_retries=5)
class AsyncCounter:
    async def add(self, n):
        with tracing.start_span(f"async {n}"):
            return await divide.remote(n)


def test_spans_are_trees_whatever_crashes(seed: int):
    """Under every schedule: an id belongs to one span, a parent is in its child's trace and not younger, an attempt is
    below its call, and what the program opened is below the attempt that opened it. SQL says the same."""

    def program():
        ray.init(num_cpus=3)
        counters = [Counter.remote(), AsyncCounter.remote()]
        with tracing.start_span("outer"):
            refs = [counter.add.remote(3) for counter in counters for _ in range(2)]
        items = counters[0].stream.options(num_returns="streaming").remote(2)
        assert ray.get([*refs, divide.remote(5)]) == [3, 3, 3, 3, 5]
        assert [ray.get(item) for item in items] == [0, 1]
        found, rows = tracing.spans(), ray.sql("select * from spans").rows
        assert from_rows(rows) == as_rows(found)
        by_id = {span.span_id: span for span in found}
        assert len(by_id) == len(found)
        for span in found:
            if span.parent_id is None:
                continue
            above = by_id[span.parent_id]
            assert above.trace_id == span.trace_id and above.start_ns <= span.start_ns
            if span.kind == CONSUMER:
                assert above.kind == PRODUCER and above.task_id == span.task_id
            elif above.kind == CONSUMER and span.kind == INTERNAL:
                assert (above.task_id, above.attempt) == (span.task_id, span.attempt)
        tops = {span.trace_id: span for span in found if span.parent_id is None}
        assert len(tops) == len({span.trace_id for span in found})
        return len(found)

    assert simulate(program, seed, FaultPlan(crash=0.05, delay=0.2)) >= 70
