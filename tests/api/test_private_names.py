"""The less public modules of Ray that programs use: `_private`, `_raylet`, `types`, `runtime_env`, annotations."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest

import miniray as ray
import miniray._private.services
import miniray._private.state
import miniray._private.worker
from miniray import _raylet, types
from miniray.runtime_env import RuntimeEnv, RuntimeEnvConfig
from miniray.util.annotations import AnnotationType, Deprecated, DeveloperAPI, PublicAPI, RayDeprecationWarning


@pytest.fixture
def session() -> Iterator[None]:
    ray.init(num_cpus=3, log_to_driver=False)
    yield
    ray.shutdown()


@ray.remote(num_cpus=1)
class Actor:
    """Answers."""

    def ping(self):
        return "pong"


def test_a_plain_import_is_enough():
    """After `import ray`, a program can use `ray._private.services`, as in Ray. Only then is it imported."""
    program = """
import sys, miniray as ray
assert not {"miniray._private.state", "miniray.util.state", "miniray.util.annotations"} & set(sys.modules)
assert ray._private.services.get_node_ip_address() and ray._private.state.actors and ray._private.worker.BaseContext
assert ray._raylet.ObjectRef is ray.types.ObjectRef is ray.ObjectRef and ray.runtime_env.RuntimeEnv
from miniray.util import annotations
assert annotations.PublicAPI
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_other_private_names_are_missing():
    """A program that uses more of Ray's internals gets an AttributeError, not an object that does nothing."""
    with pytest.raises(AttributeError, match="ray_constants"):
        _ = ray._private.ray_constants


def test_references_and_ids_have_their_types_in_raylet(session: None):
    """Libraries check `isinstance(value, ray._raylet.ObjectRef)`; annotations take `ObjectRef[int]`."""
    ref = ray.put(1)
    assert isinstance(ref, _raylet.ObjectRef) and isinstance(ref.task_id(), _raylet.TaskID)
    assert types.ObjectRef[int]


def test_handles_can_be_annotated_with_the_plain_class():
    """Typed programs write `ActorHandle[Adder]`, `ActorClass[Adder]`, `ActorProxy[Adder]`: once a TypeError."""
    for name in (ray.actor.ActorHandle, ray.actor.ActorClass, ray.actor.ActorProxy):
        assert name[Actor.__ray_actor_class__].__args__ == (Actor.__ray_actor_class__,)


def test_the_private_worker_has_the_public_functions():
    """Older programs call `ray._private.worker.get`; `init` returns a BaseContext."""
    worker = miniray._private.worker
    assert worker.get is ray.get and worker.init is ray.init
    with ray.init(num_cpus=1) as context:
        assert isinstance(context, worker.BaseContext)


def test_actors_by_id_with_their_node(session: None):
    """`ray._private.state.actors()` shows living and dead actors, with Ray's old keys."""
    kept, killed = Actor.options(name="bob").remote(), Actor.remote()
    ray.get([kept.ping.remote(), killed.ping.remote()])
    ray.kill(killed)
    rows = miniray._private.state.actors()
    row = rows[kept._actor_id.hex()]
    assert (row["Name"], row["State"], row["EndTime"], row["DeathCause"]) == ("bob", "ALIVE", 0, "")
    assert row["Address"]["NodeID"] == ray.nodes()[0]["NodeID"] and row["StartTime"] > 0
    assert rows[killed._actor_id.hex()]["State"] == "DEAD" and rows[killed._actor_id.hex()]["EndTime"] > 0
    assert miniray._private.state.actors(kept._actor_id.hex()) == row
    assert miniray._private.state.actors("00" * 16) == {}


def test_resources_of_each_node(session: None):
    """Total and available resources by node id. A resource that is used up has no key in the available ones."""
    actors = [Actor.remote() for _ in range(3)]
    ray.get([actor.ping.remote() for actor in actors])
    [(node, total)] = miniray._private.state.total_resources_per_node().items()
    assert node == ray.nodes()[0]["NodeID"] and total["CPU"] == 3.0
    assert "CPU" not in miniray._private.state.available_resources_per_node()[node]


def test_a_runtime_env_is_a_dict_of_what_was_asked_for():
    """As in Ray, packages become a dict, empty settings are dropped, and unknown ones are kept."""
    env = RuntimeEnv(env_vars={"A": "1"}, pip=["x"], plugin={"p": 1}, config={"setup_timeout_seconds": 9, "other": 1})
    assert env == {
        "env_vars": {"A": "1"},
        "pip": {"packages": ["x"], "pip_check": False},
        "plugin": {"p": 1},
        "config": {"setup_timeout_seconds": 9, "eager_install": True, "log_files": []},
        "_ray_commit": ray.__commit__,
    }
    assert (env.env_vars(), env.working_dir(), env.py_modules()) == ({"A": "1"}, "", [])
    assert RuntimeEnv(env_vars={}, pip=[]) == {}
    env.set("env_vars", {"B": "2"})
    assert RuntimeEnv.deserialize(env.serialize()) == pickle.loads(pickle.dumps(env)) == env.to_dict() == env


def test_only_an_environment_that_ray_would_send_as_json_imports_json():
    """The import takes milliseconds, which each session once spent."""
    program = """
import sys, miniray as ray
ray.init(num_cpus=1, log_to_driver=False)
f = ray.remote(runtime_env={"env_vars": {"A": "1"}})(lambda: 1)
assert ray.get(f.remote()) == 1 and "json" not in sys.modules
f.options(runtime_env={"pip": ["x"]})
assert "json" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_packages_from_a_requirements_file(tmp_path):
    """Instead of a list of packages, `pip` takes the name of a requirements file."""
    path = tmp_path / "requirements.txt"
    path.write_text("# tools\nrequests==2\n\nnumpy\n")
    assert RuntimeEnv(pip=str(path))["pip"]["packages"] == ["# tools", "requests==2", "", "numpy"]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"pip": ["x"], "conda": "y"}, ValueError),
        ({"working_dir": "/no/such/folder"}, ValueError),
        ({"pip": "/no/such/file"}, ValueError),
        ({"env_vars": {"A": 1}}, TypeError),
        ({"pip": 3}, TypeError),
        ({"config": 3}, TypeError),
        ({"config": {"setup_timeout_seconds": 0}}, ValueError),
    ],
)
def test_a_runtime_env_that_makes_no_sense_is_refused(given, error):
    """The class of the error is Ray's."""
    with pytest.raises(error):
        RuntimeEnv(**given)


def test_a_task_takes_a_runtime_env(session: None):
    """The option takes a RuntimeEnv as well as a plain dict, and the task can read it."""

    @ray.remote(runtime_env=RuntimeEnv(env_vars={"A": "1"}, config=RuntimeEnvConfig()))
    def told():
        return ray.get_runtime_context().runtime_env["env_vars"]

    assert ray.get(told.remote()) == {"A": "1"}


def test_annotations_mark_and_leave_a_note():
    """The decorators work bare and with arguments. A stable public API gets no note."""

    @PublicAPI
    def stable():
        """Words."""

    @PublicAPI(stability="beta", api_group="Loops")
    def beta():
        """Words.

        More words.
        """

    @DeveloperAPI
    class ForDevelopers:
        pass

    assert (stable.__doc__, stable._annotated, stable._annotated_type) == (
        "Words.",
        "stable",
        AnnotationType.PUBLIC_API,
    )
    words, note = (
        next(line for line in beta.__doc__.splitlines() if text in line)
        for text in ("More words.", "**PublicAPI (beta):**")
    )
    assert words.index("More") == note.index("**")  # aligned in every version: Python 3.13 removes the indentation
    assert beta._annotated_api_group == "Loops"
    assert "**DeveloperAPI:**" in ForDevelopers.__doc__
    with pytest.raises(AssertionError):
        PublicAPI(stability="shaky")


def test_deprecated_apis_warn_if_asked_to():
    """With warning=True, calls and new objects warn. Otherwise only the docstring changes."""

    @Deprecated(message="use new()", warning=True)
    def old():
        return 1

    @Deprecated(warning=True)
    class Old:
        def __init__(self, x):
            self.x = x

    @Deprecated
    def silent():
        return 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert (old(), Old(3).x, silent()) == (1, 3, 2)
    assert [warning.category for warning in caught] == [RayDeprecationWarning, RayDeprecationWarning]
    assert "use new()" in str(caught[0].message) and caught[0].filename == __file__
    assert "DEPRECATED" in silent.__doc__
