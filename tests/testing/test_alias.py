"""`import ray` imports miniray while the alias is active, and only then."""

from __future__ import annotations

import pickle
import importlib
import importlib.metadata
import importlib.util
import pathlib
import subprocess
import sys
import types

import pytest

import miniray
from miniray.observe.metrics import metrics, registry
from miniray.testing import alias_ray, unalias_ray
from miniray.testing.alias import PORTABILITY

RAY_IS_INSTALLED = importlib.util.find_spec("ray") is not None


@pytest.fixture
def aliased():
    """The alias is active during the test."""
    with alias_ray():
        yield


def imported_ray_modules():
    """The names of all imported modules of a package `ray`."""
    return sorted(name for name in sys.modules if name == "ray" or name.startswith("ray."))


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".util.queue",
        ".util.state",
        ".util.metrics",
        ".util.placement_group",
        ".exceptions",
        ".actor",
        ".remote_function",
        ".runtime_context",
        ".cluster_utils",
        ".cloudpickle",
        ".experimental.tqdm_ray",
    ],
)
def test_modules_are_miniray_s_own(aliased, name):
    """They are the same objects, not copies, and keep their names."""
    module = importlib.import_module(f"ray{name}")
    assert module is importlib.import_module(f"miniray{name}")
    assert module.__name__ == module.__spec__.name == f"miniray{name}"


def test_a_function_is_not_hidden_by_the_module_of_its_name(aliased):
    """`util.placement_group` is both, as in Ray."""
    import ray.util.placement_group

    assert callable(ray.util.placement_group) and callable(miniray.util.placement_group)


@pytest.mark.parametrize(
    "statement",
    [
        "import ray.util.placement_group",
        "import ray; ray.util.placement_group",
        "from ray.util.placement_group import placement_group",
        "from ray.util import ActorPool",
    ],
)
def test_the_function_is_not_hidden_in_a_fresh_interpreter_either(statement):
    """Whichever import comes first, the imports after it find the same function."""
    program = (
        f"from miniray.testing import alias_ray\nalias_ray()\n{statement}\n"
        "import ray, ray.util.placement_group, miniray.util\n"
        "from ray.util.placement_group import placement_group\n"
        "assert ray.util.placement_group is placement_group is miniray.util.placement_group, ray.util.placement_group\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=pathlib.Path(__file__).resolve().parents[2])


def test_every_form_of_import(aliased):
    """All import statements that programs use give miniray's objects."""
    import ray
    import ray.util.queue
    from ray.util import ActorPool
    from ray.util.queue import Queue

    assert ray is miniray and ray.util.queue.Queue is Queue
    assert ActorPool is importlib.import_module("miniray.util").ActorPool


@pytest.mark.parametrize(
    "statement",
    [
        "import ray.data",
        "from ray import tune",
        "from ray.train import ScalingConfig",
        "import ray.serve.handle",
        "import ray.nonsense",
    ],
)
def test_a_missing_module_is_an_error_that_names_the_portability_page(aliased, statement):
    """The error is ModuleNotFoundError, as if the module were not installed."""
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'ray\.\w+.*portability") as refused:
        exec(statement, {})
    assert refused.value.name.startswith("ray.")


def test_the_portability_page_exists():
    """It names Ray's libraries."""
    page = pathlib.Path(__file__).resolve().parents[2] / PORTABILITY
    assert "ray.data" in page.read_text(encoding="utf-8")


def test_a_missing_library_is_the_same_error_as_an_attribute(aliased):
    """`ray.data` raises AttributeError with the same message; other names have Python's usual message."""
    import ray

    assert not hasattr(ray, "data")
    with pytest.raises(AttributeError, match="portability"):
        ray.data.range(3)
    with pytest.raises(AttributeError, match="^module 'miniray' has no attribute 'nonsense'$"):
        assert ray.nonsense
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        exec("from ray import nonsense", {})


def test_a_program_runs(aliased):
    """A program with `import ray` runs, and catches Ray's errors."""
    namespace = {}
    exec(
        "import ray\nfrom ray.exceptions import RayTaskError\n@ray.remote\ndef f(): raise ValueError('no')\n", namespace
    )
    with miniray.init(num_cpus=1), pytest.raises(namespace["RayTaskError"]):
        miniray.get(namespace["f"].remote())


def test_the_end_of_the_alias_restores_everything():
    """The import system and miniray are as before, and `import ray` fails if Ray is not installed."""
    before, finders, getattr_before = imported_ray_modules(), list(sys.meta_path), miniray.__getattr__
    with alias_ray():
        import ray.util.queue  # noqa: F401
    assert imported_ray_modules() == before and sys.meta_path == finders
    assert miniray.__getattr__ is getattr_before
    if not RAY_IS_INSTALLED:
        with pytest.raises(ModuleNotFoundError, match="^No module named 'ray'$"):
            importlib.import_module("ray")


def test_the_modules_of_a_real_ray_are_set_aside_and_restored(monkeypatch):
    """While the alias is active they are not in sys.modules; afterwards they are."""
    real, part = types.ModuleType("ray"), types.ModuleType("ray.part")
    for module in (real, part):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with alias_ray():
        assert importlib.import_module("ray") is miniray
        assert "ray.part" not in sys.modules
    assert (sys.modules["ray"], sys.modules["ray.part"]) == (real, part)


def test_the_alias_ends_with_the_last_unalias_ray():
    """So a fixture that uses the alias does not end the alias of a run with --miniray."""
    alias_ray()
    with alias_ray():
        pass
    assert importlib.import_module("ray") is miniray
    unalias_ray()
    with pytest.raises(RuntimeError, match="not active"):
        unalias_ray()


def test_metrics_are_as_lenient_as_ray_s_under_the_alias():
    """They accept an undeclared tag, and refuse it again afterwards."""
    counter = metrics.Counter("alias_test_total", tag_keys=("known",))
    try:
        with alias_ray():
            counter.inc(tags={"known": "y", "unknown": "x"})
        with pytest.raises(ValueError):
            counter.inc(tags={"known": "y", "unknown": "x"})
    finally:
        registry.reset()


def test_the_version_is_that_of_the_ray_that_miniray_follows():
    """Libraries check it in `ray.__version__`, or in the metadata of installed packages."""
    own = miniray.__version__
    with alias_ray():
        import ray

        assert ray.__version__ == importlib.metadata.version("ray") == miniray.__ray_version__ != own
        assert importlib.metadata.metadata("ray")["Name"] == "ray" and importlib.metadata.version("pytest")
        assert "ray" in {found.metadata["Name"] for found in importlib.metadata.distributions()}
    assert miniray.__version__ == own


def test_exceptions_name_the_module_that_the_program_imports(aliased):
    """The name of their module is in tracebacks, and in the text of a task that lacks an argument."""
    import ray  # type: ignore[import-not-found]
    from ray.exceptions import RayTaskError

    ray.init(num_cpus=2)
    try:

        @ray.remote
        def first():
            raise ValueError("no")

        @ray.remote
        def second(value):
            return value

        with pytest.raises(ValueError) as caught:
            ray.get(second.remote(first.remote()))
    finally:
        ray.shutdown()
    assert "ray.exceptions.RayTaskError: ray::first()" in str(caught.value)
    assert "miniray.exceptions" not in str(caught.value)
    assert RayTaskError.__module__ == type(caught.value).__module__ == "ray.exceptions"
    assert pickle.loads(pickle.dumps(RayTaskError)) is RayTaskError


def test_without_the_alias_exceptions_are_miniray_s():
    """Also the class that was made for the error of a task, and is still in use."""
    from miniray.exceptions import RayTaskError

    dual = type(RayTaskError("f", "", ValueError("no")).as_instanceof_cause())
    with alias_ray():
        assert RayTaskError.__module__ == dual.__module__ == "ray.exceptions"
    assert RayTaskError.__module__ == dual.__module__ == "miniray.exceptions"
