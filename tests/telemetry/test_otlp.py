"""Export by OTLP/HTTP: what arrives at a collector, in which form, and what happens if it is away, slow or unwilling."""

import _thread
import base64
import json
import logging
import os
import re
import socket
import subprocess
import sys
import time

import pytest

import miniray as ray
from miniray import telemetry
from miniray.process import context
from miniray.telemetry.config import TelemetryConfig, config_of
from miniray.telemetry.export import encoding, exporter
from miniray.telemetry.export.settings import FLUSH_S, settings_of
from miniray.util import tracing
from miniray.util.metrics import Counter
from tests.telemetry.otlp_collector import Collector, lines, metrics, plain, spans


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("OTEL_", "MINIRAY_OTLP", "MINIRAY_TELEMETRY")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def collector():
    with Collector() as listening:
        yield listening


def exported():
    """The exporter of the running session."""
    return next(one for one in context.session.recorders if isinstance(one, exporter.Exporter))


@ray.remote
def inner():
    print("from inner")
    return 1


@ray.remote
def outer():
    return ray.get(inner.remote())


@ray.remote
def failing():
    raise ValueError("boom")


@ray.remote
def nothing():
    pass


# ------------------------------------------------------------------------------------------------ what arrives


def test_spans_metrics_and_lines_arrive_and_can_be_joined(collector):
    """A line has the trace and the span of the attempt that printed it."""
    with ray.init(num_cpus=2, telemetry=TelemetryConfig(otlp=collector.url), log_to_driver=False):
        ray.get(outer.remote())
        ray.wait([failing.remote()])
        Counter("orders", "orders taken", ("city",)).inc(2, {"city": "paris"})
    made = {span["name"].replace(" ray.", " ").split(".")[-1]: span for span in spans(collector.of("/v1/traces"))}
    assert set(made) == {
        f"{name} {end}" for name in ("inner", "outer", "failing") for end in ("remote", "remote_worker")
    }
    chain = [made[name] for name in ("outer remote", "outer remote_worker", "inner remote", "inner remote_worker")]
    assert len({span["traceId"] for span in chain}) == 1
    assert [span.get("parentSpanId") for span in chain] == [None, *(span["spanId"] for span in chain[:-1])]
    (line,) = lines(collector.of("/v1/logs"))
    assert line["body"] == {"stringValue": "from inner"}
    assert (line["traceId"], line["spanId"]) == (chain[-1]["traceId"], chain[-1]["spanId"])
    assert int(chain[-1]["startTimeUnixNano"]) <= int(line["timeUnixNano"]) <= int(chain[-1]["endTimeUnixNano"])
    assert plain(line["attributes"])["ray.task_name"] == "inner"
    found = metrics(collector.of("/v1/metrics")[-1])
    (point,) = found["ray_orders"]["sum"]["dataPoints"]
    assert point["asDouble"] == 2.0 and plain(point["attributes"])["city"] == "paris"
    assert found["ray_orders"]["sum"]["isMonotonic"] and found["ray_orders"]["sum"]["aggregationTemporality"] == 2
    assert "ray_tasks" in found
    failed = made["failing remote_worker"]
    assert failed["status"]["code"] == 2 and "boom" in failed["status"]["message"]
    assert plain(failed["events"][0]["attributes"])["exception.type"] == "ValueError"


def test_each_request_names_the_program(collector, monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=a%2Cb,broken")
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        session = ray.get_runtime_context().get_session_name()
        ray.get(nothing.remote())
    (resource,) = {json.dumps(body["resourceSpans"][0]["resource"]) for body in collector.of("/v1/traces")}
    values = plain(json.loads(resource)["attributes"])
    assert values["service.name"] == "shop" and values["team"] == "a,b"
    assert values["service.instance.id"] == session
    assert values["process.pid"] == str(os.getpid()), "a whole number of 64 bits is text"


def test_spans_are_sent_while_the_session_runs(collector, monkeypatch):
    """Without waiting for the end: every delay, and as soon as a batch is full."""
    monkeypatch.setattr(exporter, "READ_S", 0.01)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "10")
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        ray.get(nothing.remote())
        assert len(spans(collector.wait_for("/v1/traces"))) == 2
        collector.wait_for("/v1/metrics", 3)
        monkeypatch.undo()
    assert len(spans(collector.of("/v1/traces"))) == 2, "nothing is sent twice"


def test_a_large_number_of_spans_is_sent_in_batches(collector):
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        ray.get([nothing.remote() for _ in range(600)])
        told = exported()
        assert telemetry.export_stats().keys() == {"traces", "metrics", "logs"}
    bodies = collector.of("/v1/traces")
    assert [len(spans([body])) for body in bodies] == [512, 512, 176]
    assert len({span["spanId"] for span in spans(bodies)}) == 1200
    assert told.stats()["traces"]["sent"] == 1200 and told.stats()["traces"]["dropped"] == 0


def test_every_attempt_is_a_span(collector, tmp_path):
    @ray.remote(max_retries=1, retry_exceptions=True)
    def flaky():
        if not (tmp_path / "tried").exists():
            (tmp_path / "tried").touch()
            raise ValueError

    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        ray.get(flaky.remote())
    call, first, second = spans(collector.of("/v1/traces"))
    assert first["parentSpanId"] == second["parentSpanId"] == call["spanId"]
    assert first["status"]["code"] == 2 and "status" not in second


def test_a_constructor_that_runs_again_has_one_more_span(collector):
    """The actor restarts after the spans of its first start were made."""

    @ray.remote(max_restarts=1, max_task_retries=1)
    class Phoenix:
        def ping(self):
            pass

    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        calls = exported().signals["traces"].source
        actor = Phoenix.remote()
        ray.get(actor.ping.remote())
        calls.read()
        first = [json.loads(one) for one in calls.take(100).items]
        ray.kill(actor, no_restart=False)
        ray.get(actor.ping.remote())
    made = [span for span in spans(collector.of("/v1/traces")) if "__init__" in span["name"]]
    (call, attempt) = [span for span in first if "__init__" in span["name"]]
    assert [span["parentSpanId"] for span in made] == [call["spanId"]]
    assert made[0]["name"] == attempt["name"] and made[0]["spanId"] != attempt["spanId"]


def test_a_task_that_rebuilds_a_value_has_one_more_span(collector):
    @ray.remote
    def make():
        return b"x" * 200_000

    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        calls = exported().signals["traces"].source
        value = make.remote()
        ray.get(value)
        calls.read()
        assert len(calls.take(100).items) == 2
        session = context.session
        (lost,) = session.cluster.objects.values()
        session.tell(session.cluster.lose_object, lost)
        ray.get(value)
    assert len(spans(collector.of("/v1/traces"))) == 1


def test_the_program_s_own_spans_are_sent(collector):

    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        with tracing.start_span("a step", size="3"):
            ray.get(nothing.remote())
    made = {span["name"]: span for span in spans(collector.of("/v1/traces"))}
    own = made["a step"]
    assert own["kind"] == 1 and plain(own["attributes"])["size"] == "3"
    assert [span.get("parentSpanId") for span in made.values() if span["kind"] == 4] == [own["spanId"]]


def test_requests_are_compressed_and_carry_the_headers_if_asked_for(collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url + "/base/")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret,x-a=b")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-only=metrics")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", collector.url + "/mine")
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    monkeypatch.setenv("MINIRAY_OTLP", "1")
    with ray.init(num_cpus=1):
        ray.get(inner.remote())
    sent = {path: {key.lower(): value for key, value in headers.items()} for path, headers, _ in collector.requests}
    assert set(sent) == {"/base/v1/traces", "/mine"}
    assert all(headers["content-encoding"] == "gzip" for headers in sent.values())
    assert all(headers["content-type"] == "application/json" for headers in sent.values())
    assert sent["/base/v1/traces"]["authorization"] == "Bearer secret"
    assert sent["/mine"]["x-only"] == "metrics" and "authorization" not in sent["/mine"]


# ------------------------------------------------------------------------------------------------ switched on and off


def test_the_standard_variables_alone_export_nothing(collector, monkeypatch):
    """They may be set for another program. miniray exports only for a program that asks it to."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1")
    for asked in (None, False):
        with ray.init(num_cpus=1, telemetry=asked):
            ray.get(nothing.remote())
    assert collector.requests == []
    assert config_of(None, os.environ) is None


@pytest.mark.parametrize(
    "text, otlp", [("1", True), ("true", True), ("0", None), ("", None), ("http://a:1", "http://a:1")]
)
def test_a_variable_switches_export_on(text, otlp):
    made = config_of(None, {"MINIRAY_OTLP": text})
    assert (made and made.otlp) == otlp
    assert config_of(False, {"MINIRAY_OTLP": text}) is None
    assert config_of(TelemetryConfig(otlp=False), {"MINIRAY_OTLP": text}) is None
    if otlp:
        assert config_of("run.db", {"MINIRAY_OTLP": text}).otlp == otlp


def test_a_disabled_sdk_exports_nothing(collector, monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        ray.get(nothing.remote())
        assert context.session.recorders == [] and telemetry.export_stats() == {}
    assert collector.requests == []


def test_an_endpoint_that_is_none_is_refused_before_anything_starts(monkeypatch):
    for wrong in ("localhost:4318", "ftp://a/b", "file:///etc/passwd", "http://", "http://a:port", "http://a/?q=1"):
        with pytest.raises(ValueError):
            TelemetryConfig(otlp=wrong)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", wrong)
        with pytest.raises(ValueError):
            ray.init(telemetry=TelemetryConfig(otlp=True))
        assert not ray.is_initialized()
    with pytest.raises(TypeError):
        TelemetryConfig(otlp=4318)


def test_a_simulated_session_is_not_exported(collector, caplog):
    with ray.init(runtime="simulated", telemetry=TelemetryConfig(otlp=collector.url)):
        ray.get(nothing.remote())
    assert collector.requests == [] and "it is simulated" in caplog.text


def test_the_package_is_not_imported_unless_it_is_used():
    code = (
        "import sys, miniray as ray\n"
        "with ray.init(num_cpus=1):\n"
        "    ray.get(ray.remote(lambda: 1).remote())\n"
        "print([name for name in sys.modules if name.startswith(('miniray.telemetry', 'urllib.request', 'http'))])\n"
    )
    environ = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environ, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_settings_are_those_of_the_specification():
    read = settings_of({})
    assert {name: to.url for name, to in read.destinations.items()} == {
        name: f"http://localhost:4318/v1/{name}" for name in ("traces", "metrics", "logs")
    }
    assert read.metric_interval_s == 60 and read.delay_s == 5 and read.batch == 512
    assert read.resource["service.name"] == "unknown_service:python"
    read = settings_of(
        {
            "OTEL_EXPORTER_OTLP_TIMEOUT": "2500",
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "100",
            "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "https://logs.example",
            "OTEL_BSP_MAX_QUEUE_SIZE": "7",
            "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE": "3",
        }
    )
    assert read.destinations["metrics"].timeout_s == 2.5 and read.destinations["traces"].timeout_s == 0.1
    assert read.destinations["logs"].url == "https://logs.example/"
    assert read.queue == 7 and read.log_batch == 3


def test_a_variable_with_a_bad_value_is_said_and_ignored(caplog):
    with caplog.at_level(logging.WARNING):
        read = settings_of(
            {
                "OTEL_BSP_MAX_QUEUE_SIZE": "many",
                "OTEL_EXPORTER_OTLP_TIMEOUT": "0",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_COMPRESSION": "brotli",
                "OTEL_EXPORTER_OTLP_HEADERS": "secret without a key,a=b%0d%0aevil:1,c=d",
            }
        )
    assert read.queue == 65_536 and read.destinations["traces"].timeout_s == 10
    assert dict(read.destinations["traces"].headers) == {"c": "d"}
    assert "secret" not in caplog.text and "evil" not in caplog.text, "a header may hold a password"
    for word in ("OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_EXPORTER_OTLP_TIMEOUT", "http/json", "brotli"):
        assert word in caplog.text
    assert "secret" not in repr(settings_of({"OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret"}))


def test_a_password_in_the_address_becomes_a_header():
    """urllib would take it for a part of the host's name. Nothing that is shown has it."""
    (to,) = {
        to.url: to
        for to in settings_of({}, "http://me:p%40ss@a.example:1/x").destinations.values()
        if "traces" in to.url
    }.values()
    assert to.url == "http://a.example:1/x/v1/traces"
    assert to.headers == {"Authorization": "Basic " + base64.b64encode(b"me:p@ss").decode()}
    own = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=mine"}
    assert settings_of(own, "http://me:p@a").destinations["logs"].headers == {"authorization": "mine"}


@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "1 / 0"])
def test_a_program_that_just_ends_is_exported(collector, ending):
    code = "import miniray as ray\nray.init(num_cpus=1)\nray.get(ray.remote(lambda: 1).remote())\n" + ending
    environ = {**os.environ, "MINIRAY_OTLP": collector.url}
    subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, timeout=60)
    assert len(spans(collector.of("/v1/traces"))) == 2


def test_a_session_may_be_recorded_and_exported_at_once(collector, tmp_path):
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(tmp_path / "run.db", otlp=collector.url)):
        ray.get(nothing.remote())
    assert len(spans(collector.of("/v1/traces"))) == 2
    rows = telemetry.open(tmp_path / "run.db").query("select name, state from tasks").rows
    assert [row["state"] for row in rows] == ["FINISHED"]


def test_many_sessions_leave_nothing_behind(collector):
    """Neither threads nor connections."""
    for _ in range(3):
        with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
            ray.get(nothing.remote())
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0, _thread._count()
    for _ in range(10):
        with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
            ray.get(nothing.remote())
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0, _thread._count()
    assert after[0] <= before[0] + 5 and after[1] <= before[1] + 5, (before, after)
    assert len(spans(collector.of("/v1/traces"))) == 26


def test_local_mode_is_exported(collector):
    with ray.init(local_mode=True, telemetry=TelemetryConfig(otlp=collector.url)):
        ray.get(nothing.remote())
    assert len(spans(collector.of("/v1/traces"))) == 2 and collector.of("/v1/metrics")


# ------------------------------------------------------------------------------------------------ unwilling collectors


def flaky_session(collector, *answers, calls=1):
    """A session whose first requests of traces get these answers. Returns its exporter."""
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        told = exported()
        del told.signals["metrics"], told.signals["logs"]
        collector.answers.extend(answers)
        ray.get([nothing.remote() for _ in range(calls)])
    return told


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_request_is_repeated_if_the_collector_is_busy(collector, status):
    """The same bytes again, after the pause that the collector asks for."""
    told = flaky_session(collector, (status, {"Retry-After": "0"}, b""), (status, {"Retry-After": "0"}, b""))
    first, second, third = collector.of("/v1/traces")
    assert first == second == third
    assert told.stats()["traces"] == {
        "sent": 2,
        "rejected": 0,
        "dropped": 0,
        "waiting": 0,
        "requests": 3,
        "failures": 2,
        "last_error": told.signals["traces"].why,
    }


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 413, 500])
def test_a_request_that_is_refused_is_not_repeated(collector, status, caplog):
    """It is dropped, counted and said once. A redirect is a refusal: it would send the headers to another host."""
    told = flaky_session(collector, *[(status, {"Location": collector.url + "/elsewhere"}, b"no")] * 2, calls=600)
    assert len(collector.requests) == 3
    assert told.stats()["traces"]["dropped"] == 1024 and told.stats()["traces"]["sent"] == 176
    assert [
        record.message
        for record in caplog.records
        if f"HTTP {status}" in record.message and "to http" in record.message
    ]
    assert sum("what it refuses is dropped" in record.message for record in caplog.records) == 1
    assert sum("1,024 calls and spans were dropped" in record.message for record in caplog.records) == 1


def test_what_a_collector_rejects_is_counted(collector, caplog):
    answer = {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "too old"}}
    told = flaky_session(collector, (200, {}, json.dumps(answer).encode()))
    stats = told.stats()["traces"]
    assert (stats["sent"], stats["rejected"], stats["dropped"], stats["requests"]) == (1, 1, 0, 1)
    assert "too old" in caplog.text


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not json",
        b"[]",
        b"[" * 60_000,
        b'{"partialSuccess": 3}',
        b'{"partialSuccess": {"rejectedSpans": "x"}}',
        b'{"partialSuccess": {"rejectedSpans": 1e400}}',
        b'{"partialSuccess": {"rejectedSpans": -5}}',
    ],
)
def test_an_answer_of_another_form_counts_as_taken(collector, answer):
    told = flaky_session(collector, (200, {}, answer))
    assert told.stats()["traces"]["sent"] == 2


def test_no_more_is_rejected_than_was_sent(collector):
    told = flaky_session(collector, (200, {}, b'{"partialSuccess": {"rejectedSpans": "1%s"}}' % (b"0" * 30)))
    stats = told.stats()["traces"]
    assert (stats["sent"], stats["rejected"], stats["dropped"]) == (0, 2, 0)


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_dead_collector_is_said_once_and_everything_is_counted(caplog):
    """The end of the session does not wait for it."""
    began = time.monotonic()
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=f"http://user:secret@127.0.0.1:{closed_port()}")):
        told = exported()
        ray.get([nothing.remote() for _ in range(1000)])
    assert time.monotonic() - began < FLUSH_S
    stats = told.stats()
    assert stats["traces"]["sent"] == 0
    assert stats["traces"]["dropped"] == 512 + (1000 - 256), "the spans of a request, and calls that no request has"
    texts = [record.message for record in caplog.records]
    assert sum("Export of traces to http://127.0.0.1" in text for text in texts) == 1
    assert sum("were dropped" in text for text in texts) == 1 and "secret" not in caplog.text


def test_a_queue_has_a_bound_and_the_rest_is_counted_without_a_look(monkeypatch):
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
    monkeypatch.setattr(exporter, "READ_S", 1e9)
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=f"http://127.0.0.1:{closed_port()}")):
        calls = exported().signals["traces"].source
        ray.get([nothing.remote() for _ in range(60)])
        calls.read()
        assert len(calls) == 60 and calls.dropped == 0
        ray.get([nothing.remote() for _ in range(60)])
        calls.read()
        assert len(calls) == 100 and calls.dropped == 20
        ray.get([nothing.remote() for _ in range(60)])
        calls.read()
        assert len(calls) == 100 and calls.dropped == 80
        assert len(calls.take(10).items) == 10 and len(calls) == 95


def test_lines_have_a_bound_too(monkeypatch):
    @ray.remote
    def chatty():
        print("\n".join(map(str, range(30))))

    monkeypatch.setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "20")
    monkeypatch.setattr(exporter, "READ_S", 1e9)
    with ray.init(num_cpus=1, log_to_driver=False, telemetry=TelemetryConfig(otlp=f"http://127.0.0.1:{closed_port()}")):
        ray.get(chatty.remote())
        waiting = exported().signals["logs"].source
        assert (len(waiting), waiting.dropped) == (20, 10)
        assert [json.loads(one)["body"]["stringValue"] for one in waiting.take(2).items] == ["0", "1"]


def test_a_call_that_has_not_ended_waits_for_its_end(collector):
    queue = ray.util.queue.Queue

    @ray.remote(num_cpus=0)
    def held(box):
        box.get()

    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        calls = exported().signals["traces"].source
        box = queue()
        running, other = held.remote(box), held.remote(box)
        calls.read()
        box.put(None)
        ray.wait([running, other])
    ended = [span for span in spans(collector.of("/v1/traces")) if "held" in span["name"] and span["kind"] == 5]
    assert len(ended) == 1, "one was waiting when the session ended, so it has no end"


def test_a_collector_that_does_not_answer_holds_the_end_for_a_limited_time(collector, monkeypatch, caplog):
    monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "200")
    collector.hold.clear()
    began = time.monotonic()
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        told = exported()
        ray.get(nothing.remote())
    assert 0.1 < time.monotonic() - began < 5
    assert told.stats()["traces"]["sent"] == 0 and "were dropped" in caplog.text


def test_an_error_of_ours_ends_the_export_and_not_the_program(collector, monkeypatch, caplog):
    monkeypatch.setattr(encoding, "span", lambda one: 1 / 0)
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        assert ray.get(inner.remote()) == 1
    assert "ZeroDivisionError" in caplog.text and "the program goes on" in caplog.text


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_exports_nothing(collector):
    with ray.init(num_cpus=1, telemetry=TelemetryConfig(otlp=collector.url)):
        told = exported()
        ray.get(nothing.remote())
        child = os.fork()
        if not child:
            told.finish()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert collector.requests == []
    assert len(spans(collector.of("/v1/traces"))) == 2


@pytest.mark.parametrize("url", ["http://localhost:99999", "http://[::1", "nonsense", "ftp://host"])
@pytest.mark.parametrize(
    "variable", ["MINIRAY_OTLP", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"]
)
def test_a_wrong_endpoint_is_named_with_its_variable(monkeypatch, variable, url):
    """An impossible port used to give an error that named neither the variable nor the URL."""
    monkeypatch.setenv("MINIRAY_OTLP", "1")
    monkeypatch.setenv(variable, url)
    with pytest.raises(ValueError, match=f"^{variable} must be a URL .*{re.escape(url)}"):
        ray.init(num_cpus=1)
    assert not ray.is_initialized()
