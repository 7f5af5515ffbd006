"""A session is shut down while other threads use it: each call is answered, and nothing of the session is left."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import subprocess
import sys
import threading
import time

import pytest

import miniray as ray
from miniray.exceptions import RaySystemError
from miniray.process import context
from miniray.runtime.threaded import ThreadedRuntime
from tests.runtime.several_nodes import Threads, until


@ray.remote
def one():
    return 1


@ray.remote
def endless(started=None):
    time.sleep(1000)


@ray.remote
def items():
    yield 1
    time.sleep(1000)


class SharedHandler(logging.StreamHandler):
    """A logging handler and a condition that belong to the whole process. came: released just before a task takes
    either lock."""

    def __init__(self):
        super().__init__(io.StringIO())
        self.condition, self.came = threading.Condition(), threading.Semaphore(0)

    def filter(self, record):
        """Called by logging just before it takes the handler's lock."""
        self.came.release()
        return super().filter(record)


@ray.remote
def enters_a_condition():
    shared = logging.getLogger("shared by all").handlers[0]
    shared.came.release()
    with shared.condition:
        return 1


@ray.remote
def logs():
    logging.getLogger("shared by all").error("said by a task")


def in_a_thread(function):
    """Run a function in a thread of the driver. Returns a list that receives the error that ends it, and the thread."""
    errors: list[BaseException] = []

    def run():
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return errors, thread


def the_driver_waits():
    """Return when a thread of the driver is in get or wait."""
    assert until(lambda: bool(context.running().driver_waiters))


@pytest.mark.parametrize(
    "way",
    [lambda ref: ray.get(ref), lambda ref: ray.wait([ref]), lambda ref: ray.get([ref, ref], timeout=1000)],
    ids=["get", "wait", "timed"],
)
def test_a_thread_that_waits_gets_an_error_that_can_be_caught(way):
    """In a thread of the driver it is an Exception that says what happened."""
    ray.init(num_cpus=1)
    ref = endless.remote()
    errors, thread = in_a_thread(lambda: way(ref))
    the_driver_waits()
    ray.shutdown()
    thread.join(20)
    assert [type(error) for error in errors] == [RaySystemError] and "shut down" in str(errors[0])


def test_a_thread_that_waits_for_a_generator_gets_an_error():
    """The generator's next item will never come."""
    ray.init(num_cpus=1)
    stream = items.remote()
    assert ray.get(next(stream)) == 1
    errors, thread = in_a_thread(lambda: next(stream))
    the_driver_waits()
    ray.shutdown()
    thread.join(20)
    assert [type(error) for error in errors] == [RaySystemError]


def test_a_future_gets_an_error():
    """Without one, a thread that waits for the future would wait forever."""
    ray.init(num_cpus=1)
    future = endless.remote().future()
    ray.shutdown()
    with pytest.raises(ValueError, match="shut down"):
        future.result(timeout=20)


def test_await_gets_an_error():
    """In an event loop of the driver, whether it awaits an object or a generator."""

    async def main():
        ray.init(num_cpus=2)
        ref, stream = endless.remote(), items.remote()
        assert await (await stream.__anext__()) == 1

        async def wait_for(awaitable):
            with pytest.raises(ValueError, match="shut down"):
                await awaitable

        waiting = [asyncio.ensure_future(wait_for(ref)), asyncio.ensure_future(wait_for(stream.__anext__()))]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ray.shutdown()
        await asyncio.wait_for(asyncio.gather(*waiting), 20)

    asyncio.run(main())


def test_threads_that_start_and_end_sessions_at_once_leave_nothing_behind(monkeypatch):
    """Each call works or is refused; every worker that was started ends."""
    interval, started = sys.getswitchinterval(), []
    wrong: list[BaseException] = []

    def init(runtime, *args, begin=ThreadedRuntime.__init__):
        begin(runtime, *args)
        runtime.threads = Threads(runtime.threads)
        started.append(runtime.threads)

    monkeypatch.setattr(ThreadedRuntime, "__init__", init)

    def cycle():
        for _ in range(30):
            try:
                ray.init(num_cpus=2, ignore_reinit_error=True)
                ray.get([one.remote() for _ in range(5)])
            except (RaySystemError, ValueError) as error:
                if "shut down" not in str(error):
                    wrong.append(error)
            except BaseException as error:
                wrong.append(error)
            ray.shutdown()

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=cycle) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(interval)
    ray.shutdown()
    assert not wrong and not any(thread.is_alive() for thread in threads)
    assert started and all(left.empty.wait(20) for left in started)


@pytest.mark.slow  # shutdown waits a second for the worker, which cannot be interrupted while it waits for the lock
@pytest.mark.parametrize("end", [ray.cancel, lambda ref: ray.shutdown()], ids=["cancelled", "shut_down"])
@pytest.mark.parametrize("task", [logs, enters_a_condition], ids=["logging", "condition"])
def test_a_task_that_is_ended_where_it_takes_a_lock_of_the_process_leaves_it_free(task, end):
    """The interrupt used to arrive after the lock was taken and before any code was bound to release it. The next
    thread that wanted the lock hung."""
    handler, logger = SharedHandler(), logging.getLogger("shared by all")
    logger.propagate, logger.handlers = False, [handler]
    lock = handler.condition if task is enters_a_condition else handler.lock
    ray.init(num_cpus=1)
    runtime = context.running()
    runtime.threads = left = Threads(runtime.threads)
    lock.acquire()
    ref = task.remote()
    assert handler.came.acquire(timeout=20)
    end(ref)
    lock.release()
    if ray.is_initialized():
        ray.wait([ref], timeout=20)
    ray.shutdown()
    assert left.empty.wait(20), "the task's thread has not ended"
    assert lock.acquire(timeout=1)


LATE = """
import asyncio, atexit, sys, threading, time
ended, answered = threading.Event(), threading.Event()
atexit.register(lambda: ended.set() or answered.wait(20))      # called last, after the end of the session
import miniray as ray

@ray.remote
def endless():
    time.sleep(1000)

async def awaits():
    await ref

def late():
    try:
        if sys.argv[1] == "await":
            asyncio.run(awaits())
        else:
            ended.wait(20)
            ray.get(ref)
    except BaseException as error:
        print(type(error).__name__, flush=True)
        answered.set()
        raise

ray.init(num_cpus=1, log_to_driver=False)
ref = endless.remote()
threading.Thread(target=late, daemon=True).start()
"""


@pytest.mark.parametrize("way", ["get", "await"])
def test_a_daemon_thread_that_outlives_the_program_ends_without_a_word(way):
    """It gets a value, or still awaits one, while the interpreter is about to end. A traceback would look as if the
    program had failed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run([sys.executable, "-c", LATE, way], capture_output=True, text=True, timeout=55, env=env)
    assert (run.stdout, run.stderr, run.returncode) == ("SystemExit\n", "", 0)
