"""Export by OTLP: each span of a session that has ended arrives once, whatever happened to its task."""

import asyncio
import os
from collections import Counter

import pytest

import miniray as ray
from miniray.telemetry import TelemetryConfig
from miniray.telemetry.export import exporter
from miniray.util import tracing
from tests.telemetry.otlp_collector import Collector, spans


@ray.remote
def leaf(x):
    return x


@ray.remote
def parent(n):
    with tracing.start_span("in parent"):
        return sum(ray.get([leaf.remote(i) for i in range(n)]))


@ray.remote(max_retries=2, retry_exceptions=True)
def flaky(tries):
    if ray.get(tries.next.remote()) % 2:
        raise ValueError


@ray.remote
def items(n):
    yield from range(n)


@ray.remote(max_retries=1)
def crash():
    os._exit(1)


@ray.remote(num_cpus=0)
class Tries:
    def __init__(self):
        self.n = 0

    def next(self):
        self.n += 1
        return self.n


@ray.remote(num_cpus=0)
class Async:
    async def echo(self, x):
        await asyncio.sleep(0)
        return await leaf.remote(x)


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=2)
class Mortal:
    def die(self):
        os._exit(1)

    def live(self):
        pass


@pytest.mark.parametrize("read_s", [0.001, 0.02, 1e9])
def test_every_span_that_has_ended_is_sent_once(read_s, monkeypatch):
    """The exporter looks while tasks run, are retried, crash and restart; or only when all is over."""
    monkeypatch.setattr(exporter, "READ_S", read_s)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "5")
    with Collector() as collector:
        with ray.init(num_cpus=3, telemetry=TelemetryConfig(otlp=collector.url), log_to_driver=False):
            tries, coroutines, mortal = Tries.remote(), Async.remote(), Mortal.remote()
            for n in range(12):
                calls = [parent.remote(3), flaky.remote(tries), coroutines.echo.remote(n), mortal.live.remote()]
                calls += [crash.remote()] if n % 4 == 0 else [mortal.die.remote()] if n % 4 == 2 else []
                list(items.options(num_returns="streaming").remote(2))
                ray.wait(calls, num_returns=len(calls))
            expected = {span.span_id: span.name for span in tracing.spans() if span.end_ns is not None}
        sent = Counter(int(span["spanId"], 16) for span in spans(collector.of("/v1/traces")))
    assert [name for span, name in expected.items() if span not in sent] == []
    assert set(sent.values()) == {1}
