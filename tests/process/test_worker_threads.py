"""What a task sees of `threading`: its own thread, its worker's threads, and no others."""

from __future__ import annotations

import logging
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import miniray as ray
from miniray.process import context, worker_process
from miniray.process.worker_thread import WorkerThread


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    """Two CPUs, threads."""
    with ray.init(num_cpus=2, log_to_driver=False):
        yield


class Plain:
    """A plain actor, unless it is given more threads."""

    def facts(self) -> tuple[Any, ...]:
        """What it sees of its thread."""
        thread = threading.current_thread()
        return thread.name, thread.daemon, thread is threading.main_thread(), thread.is_alive()

    def names(self) -> list[str]:
        """The threads that it sees."""
        return sorted(thread.name for thread in threading.enumerate())

    def join(self) -> None:
        """Wait for itself."""
        threading.current_thread().join()

    def start(self, event: Any = None) -> tuple[Any, ...]:
        """What a thread that it starts sees, and one that this thread starts."""
        found: list[Any] = []
        main = threading.main_thread()

        def look() -> None:
            here = threading.current_thread()
            found.append((here.daemon, threading.main_thread() is main, here in threading.enumerate()))

        def outer() -> None:
            look()
            inner = threading.Thread(target=look)
            inner.start()
            inner.join()

        thread = threading.Thread(target=outer)
        thread.start()
        thread.join()
        return tuple(found)


class Loop(Plain):
    """An async actor."""

    async def facts(self) -> tuple[Any, ...]:  # type: ignore[override]
        """On the loop."""
        return super().facts()


def test_a_plain_task_and_a_plain_actor_see_the_main_thread_of_a_process():
    """Others see the threads that they have on Ray."""
    assert ray.get(ray.remote(lambda: Plain().facts()).remote()) == ("MainThread", False, True, True)
    assert ray.get(ray.remote(Plain).remote().facts.remote()) == ("MainThread", False, True, True)
    assert ray.get(ray.remote(Loop).remote().facts.remote()) == ("AsyncIO Thread: default", False, False, True)
    several = ray.remote(Plain).options(max_concurrency=2).remote()
    assert ray.get(several.facts.remote())[1:] == (True, False, True)
    assert threading.main_thread() is threading.current_thread()


def test_threads_of_a_task_belong_to_its_worker():
    """They are no daemons, they know the worker's main thread, and so do the threads that they start."""
    actor = ray.remote(Plain).remote()
    assert ray.get(actor.start.remote()) == ((False, True, True),) * 2
    assert ray.get(actor.names.remote()) == ["MainThread"]
    with pytest.raises(RuntimeError, match="cannot join current thread"):
        ray.get(actor.join.remote())


def test_the_driver_sees_no_thread_of_a_worker_and_none_is_left():
    """A program that joins all threads that it sees does not wait for workers."""
    actors = [ray.remote(Plain).options(num_cpus=0).remote() for _ in range(3)]
    assert [name for name, *_ in ray.get([actor.facts.remote() for actor in actors])] == ["MainThread"] * 3
    assert not [thread for thread in threading.enumerate() if isinstance(thread, WorkerThread)]
    handles = [handle for handle in context.running().threads if handle.record.actor is not None]
    idents, ended = {handle.ident for handle in handles}, [handle.done for handle in handles]
    assert len(idents) == 3 and all(isinstance(worker_process.threads[ident], WorkerThread) for ident in idents)
    for actor in actors:
        ray.kill(actor)
    assert all(done.acquire(timeout=60) for done in ended)
    assert not [ident for ident in idents if isinstance(worker_process.threads.get(ident), WorkerThread)]
    assert not idents & set(worker_process.serving)


def test_another_thread_can_wait_for_the_thread_of_an_actor_that_ends():
    """`join` returns, and the thread is not alive any more."""
    actor = ray.remote(Plain).remote()
    ray.get(actor.facts.remote())
    ident = next(handle.ident for handle in context.running().threads if handle.record.actor is not None)
    thread = worker_process.threads[ident]
    ray.kill(actor)
    thread.join(timeout=60)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("kind", ["task", "plain", "several", "loop"])
def test_a_child_that_is_forked_after_a_log_record_ends_well(kind: str):
    """The record asks for the thread. Before Python 3.13 such a child used to end with exit code 1."""

    def fork(self: Any = None) -> int | None:
        logging.getLogger("quiet").warning("said")
        child = multiprocessing.get_context("fork").Process(target=int)
        child.start()
        child.join()
        return child.exitcode

    async def nothing(self: Any) -> None:
        return None

    logging.getLogger("quiet").addHandler(logging.NullHandler())
    logging.getLogger("quiet").propagate = False
    if kind == "task":
        assert ray.get(ray.remote(fork).remote()) == 0
        return
    members = {"fork": fork, **({"nothing": nothing} if kind == "loop" else {})}
    options = {"max_concurrency": 2} if kind == "several" else {}
    actor = ray.remote(type("Forks", (), members)).options(num_cpus=1, **options).remote()
    assert ray.get(actor.fork.remote()) == 0


def test_a_thread_that_a_task_leaves_behind_does_not_hold_up_the_end_of_the_program():
    """On Ray its process would be killed then."""
    program = """if True:
        import threading
        import miniray as ray
        ray.init(num_cpus=1, log_to_driver=False)

        @ray.remote
        class Beats:
            def __init__(self):
                self.thread = threading.Thread(target=threading.Event().wait)
                self.thread.start()
            def daemon(self):
                return self.thread.daemon

        beats = Beats.remote()
        print(ray.get(beats.daemon.remote()))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
