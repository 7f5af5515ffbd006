"""`import ray` gives miniray while the alias is in force, and never otherwise."""

from __future__ import annotations

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
    """The alias, for one test."""
    with alias_ray():
        yield


def names_of_ray():
    """What is imported of a package `ray`."""
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
    """Not copies: a class is the same whichever way it was imported. What they call themselves stays."""
    module = importlib.import_module(f"ray{name}")
    assert module is importlib.import_module(f"miniray{name}")
    assert module.__name__ == module.__spec__.name == f"miniray{name}"


def test_a_function_is_not_hidden_by_the_module_of_its_name(aliased):
    """`util.placement_group` is both, in Ray as here."""
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
def test_nor_is_it_where_nothing_was_imported_before(statement):
    """In a fresh interpreter, whichever statement comes first; those that follow find the same."""
    program = (
        f"from miniray.testing import alias_ray\nalias_ray()\n{statement}\n"
        "import ray, ray.util.placement_group, miniray.util\n"
        "from ray.util.placement_group import placement_group\n"
        "assert ray.util.placement_group is placement_group is miniray.util.placement_group, ray.util.placement_group\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=pathlib.Path(__file__).resolve().parents[2])


def test_every_form_of_import(aliased):
    """As programs write them."""
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
def test_what_miniray_does_not_have_is_named_with_the_page(aliased, statement):
    """ModuleNotFoundError, as if it were not installed."""
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'ray\.\w+.*portability") as refused:
        exec(statement, {})
    assert refused.value.name.startswith("ray.")


def test_the_page_that_is_named_is_there():
    """It says what to do about what is missing."""
    page = pathlib.Path(__file__).resolve().parents[2] / PORTABILITY
    assert "ray.data" in page.read_text(encoding="utf-8")


def test_a_library_s_attribute_is_missing_with_the_same_words(aliased):
    """`hasattr` can be asked; other names are plainly not there."""
    import ray

    assert not hasattr(ray, "data")
    with pytest.raises(AttributeError, match="portability"):
        ray.data.range(3)
    with pytest.raises(AttributeError, match="^module 'miniray' has no attribute 'nonsense'$"):
        assert ray.nonsense
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        exec("from ray import nonsense", {})


def test_a_program_runs(aliased):
    """As it would with miniray's own name."""
    namespace = {}
    exec(
        "import ray\nfrom ray.exceptions import RayTaskError\n@ray.remote\ndef f(): raise ValueError('no')\n", namespace
    )
    with miniray.init(num_cpus=1), pytest.raises(namespace["RayTaskError"]):
        miniray.get(namespace["f"].remote())


def test_afterwards_ray_is_what_it_was():
    """Where Ray is not installed, not there; the import system and miniray are as before."""
    found, path, own = names_of_ray(), list(sys.meta_path), miniray.__getattr__
    with alias_ray():
        import ray.util.queue  # noqa: F401
    assert names_of_ray() == found and sys.meta_path == path
    assert miniray.__getattr__ is own
    if not RAY_IS_INSTALLED:
        with pytest.raises(ModuleNotFoundError, match="^No module named 'ray'$"):
            importlib.import_module("ray")


def test_a_real_ray_that_was_imported_is_set_aside_and_comes_back(monkeypatch):
    """Who holds it keeps it."""
    real, part = types.ModuleType("ray"), types.ModuleType("ray.part")
    for module in (real, part):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with alias_ray():
        assert importlib.import_module("ray") is miniray
        assert "ray.part" not in sys.modules
    assert (sys.modules["ray"], sys.modules["ray.part"]) == (real, part)


def test_it_is_taken_back_as_often_as_it_was_asked_for():
    """So that a fixture in a run with --miniray does not end it."""
    alias_ray()
    with alias_ray():
        pass
    assert importlib.import_module("ray") is miniray
    unalias_ray()
    with pytest.raises(RuntimeError, match="not in force"):
        unalias_ray()


def test_metrics_are_as_lenient_as_ray_s_meanwhile():
    """An undeclared tag passes there."""
    counter = metrics.Counter("alias_test_total", tag_keys=("known",))
    try:
        with alias_ray():
            counter.inc(tags={"known": "y", "unknown": "x"})
        with pytest.raises(ValueError):
            counter.inc(tags={"known": "y", "unknown": "x"})
    finally:
        registry.reset()


def test_the_version_is_that_of_the_ray_whose_answers_are_given():
    """Libraries ask `ray.__version__`, or the metadata of what is installed, whether Ray is new enough."""
    own = miniray.__version__
    with alias_ray():
        import ray

        assert ray.__version__ == importlib.metadata.version("ray") == miniray.__ray_version__ != own
        assert importlib.metadata.metadata("ray")["Name"] == "ray" and importlib.metadata.version("pytest")
        assert "ray" in {found.metadata["Name"] for found in importlib.metadata.distributions()}
    assert miniray.__version__ == own
