"""`runtime_env={"env_vars": ...}` in one process: who sees which variables, and what is left after the session."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

import miniray as ray
from miniray.process import environment

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(params=["threaded", "local_mode"])
def session(request):
    """A session of each kind."""
    with ray.init(num_cpus=4, local_mode=request.param == "local_mode", log_to_driver=False):
        yield


def in_place():
    """Whether each of the process's own functions and mappings is replaced."""
    return [
        type(os.environ) is not os._Environ,
        type(os.environb) is not os._Environ,
        *(
            getattr(getattr(function, "__code__", None), "co_filename", None) == environment.__file__
            for function in (os.system, os.execv, subprocess.Popen.__init__, threading.Thread.start)
        ),
    ]


@ray.remote
def see(*names):
    return [os.environ.get(name) for name in names]


@ray.remote
class Meeting:
    """Lets its callers continue when all of them have come."""

    def __init__(self, size):
        self.missing, self.open = size, asyncio.Event()

    async def come(self):
        self.missing -= 1
        if not self.missing:
            self.open.set()
        await self.open.wait()


@ray.remote
def look_twice(meeting):
    before = os.environ["MR_N"]
    ray.get(meeting.come.remote())
    return before, os.environ["MR_N"]


fast = see.options(runtime_env={"env_vars": {"MR_MODE": "fast"}})


def test_nothing_is_in_place_until_a_variable_is_asked_for_nor_after_the_session(session):
    """A runtime environment without variables needs no replacement either."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "pip" has no effect, which is said once per process
        packages_only = see.options(runtime_env={"pip": ["x"]})
    ray.get(packages_only.remote())
    assert in_place() == [False] * 6
    ray.get(fast.remote())
    assert in_place() == [True] * 6
    ray.shutdown()
    assert in_place() == [False] * 6


def test_the_process_s_own_environment_is_never_touched(session, monkeypatch):
    """Neither as the driver sees it in Python, nor as C code and programs that the driver starts see it."""
    monkeypatch.setenv("MR_DROPPED", "here")

    @ray.remote(runtime_env={"env_vars": {"MR_MODE": "fast"}})
    def changes():
        os.environ["MR_SET"] = "1"
        del os.environ["MR_DROPPED"]
        return "MR_DROPPED" in os.environ, sorted(name for name in os.environ if name.startswith("MR_"))

    assert ray.get(changes.remote()) == (False, ["MR_MODE", "MR_SET"])
    assert [name for name in os.environ if name.startswith("MR_")] == ["MR_DROPPED"]
    seen = subprocess.run(["env"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "MR_DROPPED=here" in seen and "MR_MODE" not in seen and "MR_SET" not in seen


def test_each_task_begins_afresh_and_an_actor_keeps_its_changes(session):
    """Even if one thread runs both, one after the other."""

    @ray.remote(runtime_env={"env_vars": {"MR_N": "0"}})
    def count():
        os.environ["MR_N"] += "1"
        return os.environ["MR_N"]

    @ray.remote(runtime_env={"env_vars": {"MR_N": "0"}})
    class Counts:
        def count(self):
            os.environ["MR_N"] += "1"
            return os.environ["MR_N"]

    assert [ray.get(count.remote()) for _ in range(3)] == ["01"] * 3
    counts = Counts.remote()
    assert [ray.get(counts.count.remote()) for _ in range(3)] == ["01", "011", "0111"]


def test_tasks_that_run_side_by_side_see_their_own_variables():
    """Each task waits in the middle until all have looked once."""
    with ray.init(num_cpus=4):
        meeting = Meeting.remote(4)
        refs = [look_twice.options(runtime_env={"env_vars": {"MR_N": str(n)}}).remote(meeting) for n in range(4)]
        assert ray.get(refs) == [(str(n), str(n)) for n in range(4)]


def test_all_threads_of_an_actor_share_its_variables():
    """The first thread that looks makes them. Threads that the actor starts see them too, and so do threads that these
    start."""
    with ray.init(num_cpus=1):

        @ray.remote(runtime_env={"env_vars": {"MR_N": "0"}}, max_concurrency=3)
        class Shares:
            def set(self, value):
                os.environ["MR_N"] = value

            def get(self):
                with ThreadPoolExecutor(1) as pool:
                    return os.environ["MR_N"], pool.submit(lambda: pool.submit(os.getenv, "MR_N")).result().result()

        shares = Shares.remote()
        ray.get([shares.set.remote("1")])
        assert ray.get([shares.get.remote() for _ in range(6)]) == [("1", "1")] * 6


def test_later_changes_by_the_driver_are_seen_unless_a_variable_hides_them(session, monkeypatch):
    """As usual in one process; on Ray a running worker would not see the change."""
    ray.get(fast.remote())
    monkeypatch.setenv("MR_LATER", "set")
    monkeypatch.setenv("MR_MODE", "slow")
    assert ray.get(fast.remote("MR_MODE", "MR_LATER")) == ["fast", "set"]
    assert ray.get(see.remote("MR_MODE", "MR_LATER")) == ["slow", "set"]


def test_every_operation_of_the_mapping(session):
    """It is the same object, with everything that os.environ can do. `monkeypatch` in a task affects that task only."""

    @ray.remote(runtime_env={"env_vars": {"MR_A": "a", "MR_B": "b"}})
    def ways():
        own = {name: value for name, value in os.environ.items() if name.startswith("MR_")}
        assert len(os.environ) == len(list(os.environ)) == len(dict(os.environ)) == len(os.environ.copy())
        assert (
            os.environ.setdefault("MR_A", "x") == "a"
            and os.environ.pop("MR_B") == "b"
            and os.environ.pop("MR_B", 1) == 1
        )
        assert (os.environ | {"MR_C": "c"})["MR_C"] == "c" and "MR_C" not in os.environ
        os.environ.update(MR_D="d")
        os.environb[b"MR_E"] = b"e"
        assert os.path.expandvars("$MR_A/${MR_D}/$MR_E") == "a/d/e" and "'MR_E': 'e'" in repr(os.environ)
        assert copy.copy(os.environ)["MR_D"] == "d"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MR_A", "patched")
            patch.delenv("MR_D")
            assert [os.getenv("MR_A"), os.getenv("MR_D")] == ["patched", None]
        assert [os.getenv("MR_A"), os.getenv("MR_D")] == ["a", "d"]
        for bad in ("", "x"), ("A=B", "x"), ("A", "\0"):
            with pytest.raises(ValueError):
                os.environ[bad[0]] = bad[1]
        for bad in (1, "x"), ("x", 1):
            with pytest.raises(TypeError):
                os.environ[bad[0]] = bad[1]
        with pytest.raises(KeyError, match="MR_NONE"):
            del os.environ["MR_NONE"]
        return own

    assert ray.get(ways.remote()) == {"MR_A": "a", "MR_B": "b"}


def test_programs_get_a_copy_however_they_are_started(session):
    """Also if `env` is a positional argument. If it is given, the program gets exactly that."""

    @ray.remote(runtime_env={"env_vars": {"MR_A": "a"}})
    def started(words=("sh", "-c", "printf %s $MR_A")):
        by_position = subprocess.Popen(words, -1, None, None, subprocess.PIPE, None, None, True, False, None, None)
        given = subprocess.run(words, env={"PATH": os.environ["PATH"]}, stdout=subprocess.PIPE, check=True)
        return (
            subprocess.check_output(words),
            by_position.communicate()[0],
            given.stdout,
            os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", "test $MR_A = a"]),
            os.system("kill -9 $$"),
        )

    assert ray.get(started.remote()) == (b"a", b"a", b"", 0, 9)


@pytest.mark.parametrize("variables", [{"": "x"}, {"A=B": "x"}, {"A": "x\0"}, {"A\0": "x"}, {"A": "\ud8ff"}])
def test_a_variable_that_no_process_can_have_is_refused_at_once(variables):
    """On Ray such a task waits forever for a worker that cannot start."""
    with pytest.raises(ValueError):
        see.options(runtime_env={"env_vars": variables})
    with pytest.raises(ValueError):
        ray.init(runtime_env={"env_vars": variables})
    assert not ray.is_initialized()


def test_a_function_first_called_under_variables_is_not_bound_to_them(session):
    """The function's specification is made once per session, but not from the environment that its first caller happens
    to have."""

    @ray.remote
    def calls():
        return ray.get(see.remote("MR_MODE")), ray.get(Sees.remote().see.remote())

    @ray.remote
    class Sees:
        def see(self):
            return os.environ.get("MR_MODE")

    inherits = calls.options(runtime_env={"env_vars": {"MR_MODE": "fast"}})
    under, plain = (["fast"], "fast"), ([None], None)
    assert ray.get([inherits.remote(), calls.remote(), inherits.remote()]) == [under, plain, under]
    assert ray.get(see.remote("MR_MODE")) == [None]


def test_two_threads_that_ask_first_replace_it_only_once(session):
    """Otherwise the end of the session would restore the first replacement instead of the original."""
    with ThreadPoolExecutor(8) as pool:
        assert ray.get(list(pool.map(lambda _: fast.remote("MR_MODE"), range(16)))) == [["fast"]] * 16
    ray.shutdown()
    assert in_place() == [False] * 6 and environment.layer() is None
