"""Ray's tracing: its recorded spans, its startup hook, and OpenTelemetry.

The tests that need opentelemetry-sdk are skipped without it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import miniray as ray
from miniray.telemetry.tracing import startup
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
LESS = {"bad_arguments"}  # a call that was refused has no record


def test_the_spans_of_the_records_are_those_of_ray(tmp_path):
    """Without OpenTelemetry. An attempt that Ray loses with its process is a span here."""
    found = run_program(tmp_path, alone=True)
    assert set(found) == set(ANSWERS)
    for step in set(ANSWERS) - MORE - LESS:
        assert found[step] == ANSWERS[step], step
    (call,) = found["crash"]
    assert call["children"][0]["status"]["description"].startswith("WORKER_DIED")
    assert [child["status"]["status_code"] for child in found["crash_once"][0]["children"]] == ["ERROR", "UNSET"]
    assert found["bad_arguments"] == []


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
