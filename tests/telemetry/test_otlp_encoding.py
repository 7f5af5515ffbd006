"""The bodies of OTLP/HTTP: the exact JSON of spans, metrics and values, and the protocol's own parser."""

import base64
import importlib.util
import json
import math
import pathlib
import socket
import subprocess
import time

import pytest

import miniray as ray
from miniray.observe.metrics.prometheus import Family
from miniray.process import context
from miniray.telemetry.config import TelemetryConfig
from miniray.telemetry.export import encoding
from miniray.telemetry.tracing.spans import Event, Span, Status
from miniray.util.metrics import Counter, Gauge, Histogram
from tests.telemetry.otlp_collector import Collector, plain
from tests.telemetry.test_otlp import failing, outer


SPAN = Span(
    0x5B8EFFF798038103D269B633813FC60C,
    0xEEE19B7EC3C1B174,
    0xEEE19B7EC3C1B173,
    "f ray.remote_worker",
    "CONSUMER",
    1544712660000000000,
    1544712661000000000,
    {"ray.pid": "7", "odd": "\ud800\x00"},
    Status("ERROR", "ValueError: boom"),
    (Event("exception", 1544712661000000000, {"exception.type": "ValueError"}),),
    state="a=b",
)


def test_a_span_is_encoded_exactly():
    assert json.loads(encoding.span(SPAN)) == {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "parentSpanId": "eee19b7ec3c1b173",
        "traceState": "a=b",
        "flags": 1,
        "name": "f ray.remote_worker",
        "kind": 5,
        "startTimeUnixNano": "1544712660000000000",
        "endTimeUnixNano": "1544712661000000000",
        "attributes": [
            {"key": "ray.pid", "value": {"stringValue": "7"}},
            {"key": "odd", "value": {"stringValue": "\\ud800\x00"}},
        ],
        "events": [
            {
                "timeUnixNano": "1544712661000000000",
                "name": "exception",
                "attributes": [{"key": "exception.type", "value": {"stringValue": "ValueError"}}],
            }
        ],
        "status": {"code": 2, "message": "ValueError: boom"},
    }


def test_metrics_are_encoded_exactly():
    histogram = {"count": 3, "sum": 7.5, "buckets": {1.0: 1, 2.5: 1, math.inf: 3}}
    points = [("counter", 2.0), ("gauge", math.nan), ("gauge", -math.inf), ("histogram", histogram)]
    made = [encoding.metric(Family("ray_m", kind, "help", [({"a": "b"}, value)]), 1, 2) for kind, value in points]
    common = {
        "attributes": [{"key": "a", "value": {"stringValue": "b"}}],
        "startTimeUnixNano": "1",
        "timeUnixNano": "2",
    }
    named = {"name": "ray_m", "description": "help"}
    assert made == [
        {
            **named,
            "sum": {
                "dataPoints": [{**common, "asDouble": 2.0}],
                "aggregationTemporality": 2,
                "isMonotonic": True,
            },
        },
        {**named, "gauge": {"dataPoints": [{**common, "asDouble": "NaN"}]}},
        {**named, "gauge": {"dataPoints": [{**common, "asDouble": "-Infinity"}]}},
        {
            **named,
            "histogram": {
                "dataPoints": [
                    {
                        **common,
                        "count": "3",
                        "sum": 7.5,
                        "bucketCounts": ["1", "0", "2"],
                        "explicitBounds": [1.0, 2.5],
                    }
                ],
                "aggregationTemporality": 2,
            },
        },
    ]


def test_values_have_the_types_of_the_protocol():
    values = {"text": "a", "flag": True, "whole": 1 << 62, "huge": 1 << 70, "part": 0.5, "other": (1,)}
    assert plain(encoding.attributes(values)) == {
        "text": "a",
        "flag": True,
        "whole": str(1 << 62),
        "huge": float(1 << 70),
        "part": 0.5,
        "other": "(1,)",
    }


def test_many_points_are_sent_in_several_requests():
    families = [Family(f"m{n}", "gauge", "", [({"k": str(i)}, 1.0) for i in range(7_000)]) for n in range(3)]
    families.append(Family("large", "gauge", "", [({"k": str(i)}, 1.0) for i in range(25_000)]))
    counts = [count for _, count in encoding.metrics(families, 1, 2)]
    assert sum(counts) == 46_000 and max(counts) <= encoding.MOST_POINTS


def test_the_protocol_s_own_parser_accepts_every_body():
    """opentelemetry-proto parses strictly: an unknown field, or a number in place of text, is an error."""
    json_format = pytest.importorskip("google.protobuf.json_format")
    services = pytest.importorskip("opentelemetry.proto.collector")
    assert services is not None
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    hostile = '"} 1\n\\evil{\x1b[31m\x00☃\u202e</script>'
    with (
        Collector() as collector,
        ray.init(num_cpus=2, telemetry=TelemetryConfig(otlp=collector.url), log_to_driver=False),
    ):
        ray.get(outer.options(name=hostile).remote())
        ray.wait([failing.remote()])
        Counter("c", "d", ("a",)).inc(1, {"a": '"\n\\\x00'})
        Histogram("h", boundaries=[0.1, 1]).observe(0.5)
        for value in (math.nan, math.inf, -1.5):
            Gauge(f"g{abs(value)}".replace(".", "_")).set(value)

    def in_base64(value):
        """OTLP writes ids as hexadecimal, other JSON of Protocol Buffers as base64."""
        if isinstance(value, list):
            return [in_base64(one) for one in value]
        if isinstance(value, dict):
            ids = ("traceId", "spanId", "parentSpanId")
            return {
                key: base64.b64encode(bytes.fromhex(one)).decode() if key in ids else in_base64(one)
                for key, one in value.items()
            }
        return value

    kinds = {
        "/v1/traces": ExportTraceServiceRequest,
        "/v1/metrics": ExportMetricsServiceRequest,
        "/v1/logs": ExportLogsServiceRequest,
    }
    assert {path for path, _, _ in collector.requests} == set(kinds)
    for path, _, body in collector.requests:
        parsed = json_format.Parse(json.dumps(in_base64(body)), kinds[path]())
        again = json_format.MessageToDict(parsed, use_integers_for_enums=True)
        assert _without_defaults(again) == _without_defaults(in_base64(body))


KEPT = ("asDouble", "sum", "intValue", "boolValue")  # these are written even if they are zero


def _without_defaults(value):
    """The value without empty texts, lists and zeros, which Protocol Buffers do not write."""
    if isinstance(value, list):
        return [_without_defaults(one) for one in value]
    if isinstance(value, dict):
        kept = {key: _without_defaults(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one not in ("", "0", [], 0, False) or key in KEPT}
    return value


def test_a_real_collector_takes_everything(tmp_path):
    """rotel (of PyPI) is a collector of OTLP; here it receives, and prints what it has received."""
    rotel = importlib.util.find_spec("rotel")
    if rotel is None or rotel.origin is None:
        pytest.skip("rotel is not installed")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        http, grpc = (f"127.0.0.1:{server.getsockname()[1]}" for server in (one, other))
    words = ["start", "--otlp-http-endpoint", http, "--otlp-grpc-endpoint", grpc, "--exporter", "blackhole"]
    words += ["--pid-file", str(tmp_path / "pid"), "--log-file", str(tmp_path / "log")]
    words += [word for signal in ("traces", "metrics", "logs") for word in ("--debug-log", signal)]
    agent = pathlib.Path(rotel.origin).parent / "rotel-agent"
    with open(tmp_path / "out", "wb") as out:
        process = subprocess.Popen([agent, *words, "--debug-log-verbosity", "detailed"], stdout=out, stderr=out)
    try:
        config = TelemetryConfig(otlp=f"http://{http}")
        with ray.init(num_cpus=2, telemetry=config, log_to_driver=False):
            until = time.monotonic() + 30
            while not _answers(http) and time.monotonic() < until:
                pass
            ray.get([outer.remote() for _ in range(300)])
            ray.wait([failing.remote()])
            Counter("c", "d", ("a",)).inc(1, {"a": '"\n\\'})
            Gauge("g").set(math.nan)
            told = next(iter(context.session.recorders))
        stats = told.stats()
    finally:
        process.terminate()
        process.wait()
    assert stats["traces"]["sent"] == 1202 and stats["logs"]["sent"] == 300 and stats["metrics"]["sent"] > 50
    assert not any(one["failures"] or one["rejected"] or one["dropped"] for one in stats.values())
    seen = (tmp_path / "out").read_bytes()
    assert seen.count(b"outer ray.remote_worker") == 300 and b"boom" in seen and b"ray_tasks" in seen


def _answers(address):
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
