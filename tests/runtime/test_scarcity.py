"""No threads, no descriptors, no memory: a worker that cannot start, or ends by a mistake of ours, has died. Nobody
waits for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import miniray as ray
from miniray.process import context
from miniray.runtime import async_exceptions, inbox, threaded
from miniray.util import state
from tests.runtime.several_nodes import until


@pytest.fixture(autouse=True)
def session():
    ray.init(num_cpus=2, log_to_driver=False)
    yield
    assert ray.get(double.remote(4)) == 8, "the session goes on"
    ray.shutdown()


@ray.remote
def double(x):
    return 2 * x


@ray.remote
class Plain:
    def ask(self):
        return 1


@ray.remote
class Loop:
    async def ask(self):
        return 1


@pytest.mark.parametrize("actor_class", [Plain, Loop])
@pytest.mark.parametrize(
    "error", [RuntimeError("can't start new thread"), OSError(24, "Too many open files"), MemoryError()]
)
@pytest.mark.parametrize("what", ["new_inbox", "new_handle"])
def test_an_actor_whose_thread_cannot_be_started(monkeypatch, actor_class, error, what):
    """Its name is free again, its calls fail, and others can start."""

    def fails(*ignored):
        raise error

    with monkeypatch.context() as scarce:
        scarce.setattr(context.running() if what == "new_inbox" else threaded, what, fails)
        actor = actor_class.options(name="taken").remote()
        with pytest.raises(ray.exceptions.ActorDiedError, match="its thread could not be started"):
            ray.get(actor.ask.remote(), timeout=20)
    for _ in range(2 * threaded.STARTING_AT_A_TIME):
        assert ray.get(actor_class.options(name="taken").remote().ask.remote(), timeout=20) == 1


def test_a_task_whose_worker_cannot_be_started(monkeypatch):
    """It is retried as after a crash, and then fails."""

    def fails(*ignored):
        raise MemoryError

    ray.shutdown()
    ray.init(num_cpus=2, log_to_driver=False)
    with monkeypatch.context() as scarce:
        scarce.setattr(context.running(), "new_inbox", fails)
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            ray.get(double.options(max_retries=2).remote(1), timeout=20)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_thread_that_ends_by_a_mistake_of_ours(monkeypatch, capfd):
    """Its callers get an error, its permit to start goes to the next actor."""
    real = threaded.report

    def fails(*ignored):
        raise MemoryError("there is no memory")

    with monkeypatch.context() as scarce:
        scarce.setattr(threaded, "report", fails)
        actors = [Plain.remote() for _ in range(2 * threaded.STARTING_AT_A_TIME)]
        for actor in actors:
            with pytest.raises(ray.exceptions.ActorDiedError, match="its thread has ended: MemoryError"):
                ray.get(actor.ask.remote(), timeout=20)
    assert threaded.report is real and ray.get(Plain.remote().ask.remote(), timeout=20) == 1
    assert {row.state for row in state.list_actors(limit=100)} == {"DEAD"} or len(state.list_actors(limit=100)) > 8


def test_pipes_take_a_share_of_the_descriptors(monkeypatch):
    """With few descriptors, most workers have an inbox without a pipe."""
    for limit, pipes in (64, 4), (1024, 64), (20, 1), (1 << 20, 64), (-1, 64):  # -1: there is no limit
        monkeypatch.setattr(inbox.os, "sysconf", lambda name, limit=limit: limit)
        assert inbox._pipes_allowed() == pipes


DESCRIPTORS = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
import miniray as ray
ray.init(num_cpus=2, log_to_driver=False)

@ray.remote
class Idle:
    def ask(self):
        return 1

@ray.remote
class Loop:
    async def ask(self):
        return 1

idle = [Idle.remote() for _ in range(40)]
assert ray.get([actor.ask.remote() for actor in idle]) == [1] * 40
loop = Loop.remote()
assert ray.get(loop.ask.remote()) == 1
with open(os.devnull):
    print("there are some left")
ray.shutdown()
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no such limit")
def test_idle_actors_do_not_take_all_descriptors(tmp_path):
    """Forty of them under `ulimit -n 64`: an actor that needs some for its event loop still starts."""
    (tmp_path / "program.py").write_text(DESCRIPTORS)
    run = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert (run.stdout, run.stderr, run.returncode) == ("there are some left\n", "", 0)


def test_ctypes_is_not_imported_under_the_lock(monkeypatch):
    """Without the GIL the import takes seconds beside busy threads, and everybody would wait for it."""
    looks, load = [], async_exceptions.load
    lock = context.running().lock

    def loads():
        looks.append(lock.locked())
        load()

    monkeypatch.setattr(async_exceptions, "_ctypes", None)
    monkeypatch.setattr(async_exceptions, "load", loads)

    @ray.remote
    def busy(started):
        started.append.remote()
        while True:
            pass

    @ray.remote(num_cpus=0)
    class Started:
        def append(self):
            return None

    started = Started.remote()
    ref = busy.remote(started)
    ray.get(started.append.remote())

    assert until(lambda: any(t.t_started and t.spec.name == "busy" for t in context.running().cluster.tasks.values()))
    ray.cancel(ref)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(ref, timeout=20)
    assert looks == [False]
