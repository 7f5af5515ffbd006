"""Ray's tracing: its recorded spans, its startup hook, and OpenTelemetry.

The tests that need opentelemetry-sdk are skipped without it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import miniray as ray
from miniray.telemetry.tracing import bridge, startup
from miniray.util import tracing
from miniray.util.tracing import tracing_helper
from tests.telemetry.traced import trees

REPOSITORY = Path(__file__).resolve().parents[2]
TRACED = REPOSITORY / "tests" / "telemetry" / "traced"
ANSWERS = json.loads((TRACED / "answers.json").read_text(encoding="utf-8"))
needs_opentelemetry = pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry") is None, reason="opentelemetry-sdk is not installed"
)


def run_program(folder: Path, alone: bool, python: str = sys.executable) -> trees.Trees:
    """Run the program of `traced` on miniray, and read its spans."""
    own = {"SPANS_FOLDER": str(folder), "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{TRACED}"}
    own["WITHOUT_OPENTELEMETRY"] = "1" if alone else ""
    command = [python, "-m", "miniray", "run", str(TRACED / "program.py")]
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    found: trees.Trees = json.loads(json.dumps(trees.read(folder)))
    return found


# Steps in which a reading of the records says more than Ray's spans, or has nothing to read.
MORE = {"crash", "crash_once", "restarts", "sys_exit", "unpicklable"}  # these attempts end with an error
LESS = {"bad_arguments", "get_if_exists"}  # a call that was refused, or that has found an actor, has no record
OTHER = {"decorated_method"}  # a method has the name by which it is called; on Ray the attempt has the function's own


def test_the_spans_of_the_records_are_those_of_ray(tmp_path):
    """Without OpenTelemetry. An attempt that Ray loses with its process is a span here."""
    found = run_program(tmp_path, alone=True)
    assert set(found) == set(ANSWERS)
    for step in set(ANSWERS) - MORE - LESS - OTHER:
        assert found[step] == ANSWERS[step], step
    (call,) = found["crash"]
    assert call["children"][0]["status"]["description"].startswith("WORKER_DIED")
    assert [child["status"]["status_code"] for child in found["crash_once"][0]["children"]] == ["ERROR", "UNSET"]
    assert found["bad_arguments"] == []
    assert found["get_if_exists"][0]["children"] == ANSWERS["get_if_exists"][0]["children"][0]["children"]
    assert found["decorated_method"][1]["children"][0]["name"] == "Threaded.decorated ray.remote_worker"


@needs_opentelemetry
def test_opentelemetry_gets_exactly_the_spans_that_ray_makes(tmp_path):
    """Its exporter receives the same spans from real Ray: `python -m tests.telemetry.traced.record`."""
    assert run_program(tmp_path, alone=False) == ANSWERS


def hook_module(monkeypatch, **attributes) -> None:
    """A module `a_hook` with these attributes."""
    module = types.ModuleType("a_hook")
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, "a_hook", module)


def test_a_hook_without_opentelemetry_is_an_import_error(monkeypatch):
    """As in Ray, which names the packages to install. The hook is not imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for hook in ("a_hook:set_up", "no colon"):
        with pytest.raises(ImportError, match="pip install opentelemetry-api opentelemetry-sdk"):
            ray.init(num_cpus=1, _tracing_startup_hook=hook)
        assert not ray.is_initialized()


@pytest.mark.parametrize(
    "hook, message",
    [
        ("no colon", 'Import string "no colon" must be in format "<module>:<attribute>".'),
        (":x", 'Import string ":x" must be in format "<module>:<attribute>".'),
        ("a_hook:", 'Import string "a_hook:" must be in format "<module>:<attribute>".'),
        ("no_such_module_:x", 'Could not import module "no_such_module_".'),
        ("a_hook:missing.x", 'Attribute "missing.x" not found in module "a_hook".'),
        ("a_hook:inner.y", 'Attribute "inner.y" not found in module "a_hook".'),
    ],
)
def test_a_hook_that_does_not_exist_has_rays_error(monkeypatch, hook, message):
    """The class is Ray's, and so are the texts. No session has been started."""
    hook_module(monkeypatch, inner=types.SimpleNamespace(x=1))
    monkeypatch.setattr(startup, "check_installed", lambda: None)
    with pytest.raises(tracing_helper._ImportFromStringError) as raised:
        ray.init(num_cpus=1, _tracing_startup_hook=hook)
    assert str(raised.value) == message and not ray.is_initialized()
    assert not tracing_helper._is_tracing_enabled()


def test_what_the_module_of_a_hook_raises_passes_through(monkeypatch, tmp_path):
    (tmp_path / "bad_hook.py").write_text("import no_such_module_")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(startup, "check_installed", lambda: None)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_"):
        ray.init(num_cpus=1, _tracing_startup_hook="bad_hook:set_up")

    def fails():
        raise ZeroDivisionError

    hook_module(monkeypatch, fails=fails)
    with pytest.raises(ZeroDivisionError):
        ray.init(num_cpus=1, _tracing_startup_hook="a_hook:fails")
    assert not ray.is_initialized()


def test_a_session_that_is_not_traced_imports_nothing_of_it():
    """And one that is traced imports nothing of OpenTelemetry."""
    program = """
import sys
import miniray as ray
ray.init(num_cpus=1)
ray.get(ray.remote(lambda: 1).remote())
print([name for name in sys.modules if "tracing" in name or "opentelemetry" in name])
from miniray.util import tracing
with tracing.start_span("a"):
    ray.get(ray.remote(lambda: 1).remote())
print(len(tracing.spans()), [name for name in sys.modules if "opentelemetry" in name])
"""
    own = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", program], env=own, capture_output=True, text=True, timeout=50)
    assert done.stdout.splitlines() == ["[]", "5 []"], done.stderr


# ------------------------------------------------------------ OpenTelemetry's spans beside ours


@pytest.fixture(scope="module")
def provider() -> Any:
    """OpenTelemetry with an exporter that keeps the spans. It can be set up only once in a process."""
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    made: Any = TracerProvider()
    made.exporter = InMemorySpanExporter()
    made.add_span_processor(SimpleSpanProcessor(made.exporter))
    trace.set_tracer_provider(made)
    return made


@pytest.fixture
def exported(provider) -> Iterator[Any]:
    """A function that returns the exported spans of one test."""
    provider.exporter.clear()
    yield provider.exporter.get_finished_spans
    ray.shutdown()


def start(runtime: str = "threaded", hook: bool = False) -> None:
    """Start a session. hook: with Ray's startup hook."""
    given: dict[str, Any] = {"local_mode": True} if runtime == "local" else {"runtime": runtime}
    ray.init(num_cpus=2, _tracing_startup_hook=do_nothing if hook else None, **given)


def do_nothing() -> None:
    """A startup hook. The provider has been set up already."""


def span(name: str) -> Any:
    """A span that the program opens with OpenTelemetry."""
    from opentelemetry import trace

    return trace.get_tracer("program").start_as_current_span(name)


def current_id() -> int:
    """The id of OpenTelemetry's current span; 0 if there is none."""
    from opentelemetry import trace

    return trace.get_current_span().get_span_context().span_id


@ray.remote
def leaf():
    with span("in leaf"):
        return current_id()


@ray.remote
def nested():
    with span("in nested"):
        return ray.get(leaf.remote())


@ray.remote
class Actor:
    def m(self):
        return ray.get(leaf.remote())

    def stream(self):
        yield ray.get(leaf.remote())
        with span("between items"):
            yield ray.get(leaf.remote())

    @classmethod
    def of_class(cls):
        return ray.get(leaf.remote())


@ray.remote
class AsyncActor:
    async def m(self, name):
        with span(name):
            await asyncio.sleep(0.001)
            return await leaf.remote()

    async def stream(self):
        yield await leaf.remote()


def all_spans(exported: Any) -> dict[int, tuple[int, int | None, str]]:
    """Ours and OpenTelemetry's by id: their trace, their parent and their name."""
    found = {}
    for one in tracing.spans():
        found[one.span_id] = (one.trace_id, one.parent_id, one.name)
    for one in exported():
        ours = (one.context.trace_id, one.parent.span_id if one.parent is not None else None, one.name)
        assert found.setdefault(one.context.span_id, ours)[:2] == ours[:2]
        found[one.context.span_id] = ours
    return found


def paths(exported: Any) -> list[str]:
    """Each span as the names from its trace's first span on: `outer > leaf! > leaf > in leaf`, a call with `!`."""
    found = all_spans(exported)

    def path(span_id: int) -> str:
        trace_id, parent_id, name = found[span_id]
        name = (
            name.rpartition(" ray.")[0].rpartition(".")[2] + "!" * name.endswith("remote") if "ray." in name else name
        )
        if parent_id is None:
            return name
        assert found[parent_id][0] == trace_id
        return f"{path(parent_id)} > {name}"

    return sorted(map(path, found))


RUNTIMES = pytest.mark.parametrize("runtime", ["threaded", "simulated", "local"])


@RUNTIMES
@pytest.mark.parametrize("hook", [False, True])
def test_spans_of_opentelemetry_are_parents_and_children_of_ours(exported, runtime, hook):
    """Of calls, attempts, methods and nested tasks, whether or not it gets Ray's spans as well."""
    start(runtime, hook)
    with span("outer"):
        ray.get(nested.remote())
        ray.get(Actor.remote().m.remote())
    assert paths(exported) == sorted(
        [
            "outer",
            "outer > nested!",
            "outer > nested! > nested",
            "outer > nested! > nested > in nested",
            "outer > nested! > nested > in nested > leaf!",
            "outer > nested! > nested > in nested > leaf! > leaf",
            "outer > nested! > nested > in nested > leaf! > leaf > in leaf",
            "outer > __init__!",
            "outer > __init__! > __init__",
            "outer > m!",
            "outer > m! > m",
            "outer > m! > m > leaf!",
            "outer > m! > m > leaf! > leaf",
            "outer > m! > m > leaf! > leaf > in leaf",
        ]
    )


@RUNTIMES
@pytest.mark.parametrize("hook", [False, True])
def test_async_methods_retries_and_streams(exported, runtime, hook):
    start(runtime, hook)
    actor, other = AsyncActor.remote(), Actor.remote()

    @ray.remote(max_retries=1, retry_exceptions=True)
    def flaky(seen):
        with span("in flaky"):
            if ray.get(seen.add.remote()) == 1:
                raise ValueError("once")

    @ray.remote
    class Seen:
        n = 0

        def add(self):
            self.n += 1
            return self.n

    with span("outer"):
        ray.get([actor.m.remote("x"), actor.m.remote("y")])
        [ray.get(item) for item in actor.stream.options(num_returns="streaming").remote()]
        [ray.get(item) for item in other.stream.options(num_returns="streaming").remote()]
        ray.get(other.of_class.remote())
        ray.get(flaky.remote(Seen.remote()))
    found = paths(exported)
    for name in ("x", "y"):
        assert f"outer > m! > m > {name} > leaf! > leaf > in leaf" in found
    assert found.count("outer > stream! > stream > leaf! > leaf > in leaf") == 2
    assert "outer > stream! > stream > between items > leaf! > leaf > in leaf" in found
    assert "outer > of_class! > of_class > leaf! > leaf > in leaf" in found
    assert found.count("outer > flaky! > flaky > in flaky > add! > add") == 2 and found.count("outer > flaky!") == 1


def test_what_is_exported_has_the_ids_that_the_records_give(exported):
    start(hook=True)
    with span("outer"), tracing.start_span("ours", n=1) as ours:
        ray.get(nested.remote())
        assert f"{current_id():016x}" == ours.traceparent.split("-")[2]
    theirs = {one.context.span_id: one for one in exported()}
    read = tracing.spans()
    of_the_program = {"outer", "in nested", "in leaf"}
    assert {one.span_id for one in read} == {i for i, one in theirs.items() if one.name not in of_the_program}
    for one in read:
        same = theirs[one.span_id]
        assert (one.trace_id, one.parent_id) == (same.context.trace_id, same.parent.span_id)
        assert (one.name, f"SpanKind.{one.kind}", one.attributes) == (same.name, str(same.kind), dict(same.attributes))
    assert theirs[int(ours.traceparent.split("-")[2], 16)].attributes == {"n": "1"}


def test_without_a_hook_a_task_outside_of_any_span_is_in_no_span(exported):
    """As in Ray. What the task opens there begins a trace of OpenTelemetry."""
    start()

    @ray.remote
    def looks():
        return current_id(), tracing.current_traceparent()

    seen, ours = ray.get(looks.remote())
    assert seen == 0 and ours == tracing.spans()[1].traceparent
    assert exported() == ()
    actor = Actor.remote()
    with span("outer"):
        ray.get(actor.m.remote())
    ray.get(actor.m.remote())
    assert [path for path in paths(exported) if path.endswith("in leaf")] == [
        "in leaf",
        "outer > m! > m > leaf! > leaf > in leaf",
    ]


def test_baggage_and_headers(exported):
    from opentelemetry import baggage
    from opentelemetry import context as otel_context

    start()

    @ray.remote
    def looks():
        return dict(baggage.get_all()), dict(tracing.inject({}))

    @ray.remote
    def passes_on():
        return ray.get(looks.remote())

    token = otel_context.attach(baggage.set_baggage("user", "ann b"))
    try:
        with span("outer"):
            seen, headers = ray.get(passes_on.remote())
        alone, _ = ray.get(passes_on.remote())
    finally:
        otel_context.detach(token)
    assert seen == alone == {"user": "ann b"} and headers["baggage"] == "user=ann+b"
    (outer,) = exported()
    assert headers["traceparent"].split("-")[1] == f"{outer.context.trace_id:032x}"
    client = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with tracing.extract({"traceparent": client, "tracestate": "a=1", "baggage": "k=v"}):
        assert f"{current_id():016x}" == "00f067aa0ba902b7" and baggage.get_all() == {"k": "v"}
        seen, headers = ray.get(looks.remote())
    assert seen == {"k": "v"} and headers["traceparent"][:36] == client[:36] and headers["tracestate"] == "a=1"
    assert current_id() == 0 and ray.get(looks.remote())[0] == {}


def test_a_sampler_that_takes_nothing(exported, provider, monkeypatch):
    """The exporter gets nothing; the records are read all the same, and the context is passed on with its flag."""
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    monkeypatch.setattr(provider, "sampler", ALWAYS_OFF)
    monkeypatch.setattr(provider, "_tracers", {}, raising=False)
    start(hook=True)
    header = ray.get(ray.remote(lambda: tracing.current_traceparent()).remote())
    assert exported() == () and not int(header[-2:], 16) & 1 and len(tracing.spans()) == 2
    assert tracing.spans()[1].traceparent[:52] == header[:52]


def test_a_session_after_one_with_a_hook_makes_no_spans(exported):
    start(hook=True)
    assert tracing_helper._is_tracing_enabled()
    ray.shutdown()
    assert not tracing_helper._is_tracing_enabled()
    start()
    ray.get(ray.remote(lambda: 1).remote())
    assert exported() == ()


def test_opentelemetry_may_be_imported_after_init(tmp_path):
    program = """
import miniray as ray
ray.init(num_cpus=1)
ray.get(ray.remote(lambda: 1).remote())
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
@ray.remote
def looks():
    return trace.get_current_span().get_span_context().trace_id
with trace.get_tracer("x").start_as_current_span("outer") as outer:
    print(ray.get(looks.remote()) == outer.get_span_context().trace_id)
"""
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
    own = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", program], env=own, capture_output=True, text=True, timeout=50)
    assert done.stdout == "True\n", done.stderr


def test_the_hook_of_rays_documentation(tmp_path):
    """It writes each span as a line of JSON to /tmp/spans. The alias finds it under Ray's name."""
    pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
    program = tmp_path / "program.py"
    program.write_text(
        "import os, ray\n"
        'ray.init(num_cpus=1, _tracing_startup_hook="ray.util.tracing.setup_local_tmp_tracing:setup_tracing")\n'
        "ray.get(ray.remote(lambda: 1).remote())\n"
        "print(os.getpid())\n"
    )
    own = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "miniray", "run", str(program)]
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=50)
    written = Path(f"/tmp/spans/{int(done.stdout)}.txt")
    lines = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    written.unlink()
    assert [line["name"] for line in lines] == ["__main__.<lambda> ray.remote", "__main__.<lambda> ray.remote_worker"]
    assert lines[1]["parent_id"] == lines[0]["context"]["span_id"]


def test_opentelemetry_that_cannot_be_used_does_no_harm(exported, monkeypatch, capsys):
    """A library may have imported a part of it, and the rest cannot be imported."""
    monkeypatch.setattr(bridge, "Bridge", lambda runtime: 1 / 0)
    start()
    said = capsys.readouterr().out
    assert "does not reach tasks" in said and "ZeroDivisionError" in said
    with tracing.start_span("ours") as ours:
        ray.get(leaf.remote())
        assert tracing.inject({})["traceparent"] == ours.traceparent
    ray.shutdown()
    with pytest.raises(ZeroDivisionError):
        start(hook=True)
