"""`runtime_env={"env_vars": ...}` in one process: what changes for whom, and what is left when the session is over."""

from __future__ import annotations

import asyncio
import copy
import os
import subprocess
import threading
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
    """Whether anything stands in for the process's own."""
    return [
        type(os.environ) is not os._Environ,
        type(os.environb) is not os._Environ,
        *(
            hasattr(thing, "__wrapped__")
            for thing in (os.system, os.execv, threading.Thread.start, subprocess.Popen.__init__)
        ),
    ]


@ray.remote
def see(*names):
    return [os.environ.get(name) for name in names]


@ray.remote
class Meeting:
    """Lets those who come go on when all are there."""

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
    """A runtime environment without variables needs nothing either."""
    ray.get(see.options(runtime_env={"pip": ["x"]}).remote())
    assert in_place() == [False] * 6
    ray.get(fast.remote())
    assert in_place() == [True] * 6
    ray.shutdown()
    assert in_place() == [False] * 6


def test_the_process_s_own_environment_is_never_touched(session, monkeypatch):
    """Neither what Python shows the driver of it, nor what C code and the programs that the driver starts see."""
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


def test_each_task_begins_anew_and_an_actor_keeps_what_it_has_set(session):
    """A thread that runs both one after the other makes no difference."""

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


def test_tasks_side_by_side_see_each_its_own():
    """Each waits in the middle until all have looked once."""
    with ray.init(num_cpus=4):
        meeting = Meeting.remote(4)
        refs = [look_twice.options(runtime_env={"env_vars": {"MR_N": str(n)}}).remote(meeting) for n in range(4)]
        assert ray.get(refs) == [(str(n), str(n)) for n in range(4)]


def test_all_threads_of_an_actor_share_its_variables():
    """The first that looks makes them; a thread of the actor's own starting sees them too, and passes them on."""
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


def test_what_the_driver_sets_later_is_seen_where_nothing_stands_over_it(session, monkeypatch):
    """As everywhere in one process; on Ray a worker that runs already would not see it."""
    ray.get(fast.remote())
    monkeypatch.setenv("MR_LATER", "set")
    monkeypatch.setenv("MR_MODE", "slow")
    assert ray.get(fast.remote("MR_MODE", "MR_LATER")) == ["fast", "set"]
    assert ray.get(see.remote("MR_MODE", "MR_LATER")) == ["slow", "set"]


def test_every_way_of_the_mapping(session):
    """It is the same object, with all that os.environ can do; `patch` and `monkeypatch` in a task stay in it."""

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
    """Also with `env` among the arguments by position, or given: then it is what was given."""

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
def test_what_no_process_can_have_is_refused_at_once(variables):
    """On Ray such a task waits for ever for a worker that cannot start."""
    with pytest.raises(ValueError):
        see.options(runtime_env={"env_vars": variables})
    with pytest.raises(ValueError):
        ray.init(runtime_env={"env_vars": variables})
    assert not ray.is_initialized()


def test_a_function_first_called_under_variables_is_not_bound_to_them(session):
    """Its specification is made once for each session, but not out of what its first caller happens to inherit."""

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


def test_two_threads_that_ask_first_put_it_in_place_once(session):
    """Or the end of the session would leave the first one's in place."""
    with ThreadPoolExecutor(8) as pool:
        assert ray.get(list(pool.map(lambda _: fast.remote("MR_MODE"), range(16)))) == [["fast"]] * 16
    ray.shutdown()
    assert in_place() == [False] * 6 and environment.layer() is None
