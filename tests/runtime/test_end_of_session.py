"""A session is shut down while other threads use it: each gets an answer, and nothing of the session stays behind."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
import threading
import time

import pytest

import miniray as ray
from miniray.exceptions import RaySystemError


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
    """A handler of logging, which belongs to the whole process, and a condition that does."""

    def __init__(self):
        super().__init__(io.StringIO())
        self.condition = threading.Condition()


@ray.remote
def enters_a_condition():
    with logging.getLogger("shared by all").handlers[0].condition:
        return 1


@ray.remote
def logs():
    logging.getLogger("shared by all").error("said by a task")


def in_a_thread(function):
    """Run a function in a thread of the driver; a list that gets the error it ends with, and the thread."""
    errors: list[BaseException] = []

    def run():
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return errors, thread


def until(condition):
    """Wait until something that another thread does is so."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize(
    "way",
    [lambda ref: ray.get(ref), lambda ref: ray.wait([ref]), lambda ref: ray.get([ref, ref], timeout=1000)],
    ids=["get", "wait", "timed"],
)
def test_a_thread_that_waits_gets_an_error_that_can_be_caught(way):
    """An Exception that says what happened, in the driver's own threads."""
    ray.init(num_cpus=1)
    ref = endless.remote()
    errors, thread = in_a_thread(lambda: way(ref))
    until(lambda: ray.api.context.session.driver_waiters)
    ray.shutdown()
    thread.join(20)
    assert [type(error) for error in errors] == [RaySystemError] and "shut down" in str(errors[0])


def test_a_generator_that_is_waited_for_ends_with_an_error():
    """Its next item will never come."""
    ray.init(num_cpus=1)
    stream = items.remote()
    assert ray.get(next(stream)) == 1
    errors, thread = in_a_thread(lambda: next(stream))
    until(lambda: ray.api.context.session.driver_waiters)
    ray.shutdown()
    thread.join(20)
    assert [type(error) for error in errors] == [RaySystemError]


def test_a_future_gets_an_error():
    """Whoever waits for it would wait for ever."""
    ray.init(num_cpus=1)
    future = endless.remote().future()
    ray.shutdown()
    with pytest.raises(ValueError, match="shut down"):
        future.result(timeout=20)


def test_await_gets_an_error():
    """In an event loop of the driver, for an object and for a generator."""

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


def test_threads_that_start_and_end_sessions_at_once_leave_nothing_behind():
    """Each call works or is refused; every worker that was started ends."""
    before, interval = (
        len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0,
        sys.getswitchinterval(),
    )
    wrong: list[BaseException] = []

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
    if before:
        until(lambda: len(os.listdir("/proc/self/task")) <= before)


@pytest.mark.slow  # shutdown waits a second for the worker, which cannot be interrupted while it waits for the lock
@pytest.mark.parametrize("end", [ray.cancel, lambda ref: ray.shutdown()], ids=["cancelled", "shut_down"])
@pytest.mark.parametrize(
    "task, waits_in",
    [(logs, (logging.Handler.acquire, logging.Handler.handle)), (enters_a_condition, (threading.Condition.__enter__,))],
    ids=["logging", "condition"],
)
def test_a_task_that_is_ended_where_it_takes_a_lock_of_the_process_leaves_it_free(task, waits_in, end):
    """The interrupt came when the lock was taken and before anybody was bound to release it: whoever took it next hung."""
    handler, logger = SharedHandler(), logging.getLogger("shared by all")
    logger.propagate, logger.handlers = False, [handler]
    lock = handler.condition if task is enters_a_condition else handler.lock
    ray.init(num_cpus=1)
    lock.acquire()
    ref = task.remote()
    until(
        lambda: any(
            frame.f_code in [function.__code__ for function in waits_in] for frame in sys._current_frames().values()
        )
    )
    workers = list(ray.api.context.session.threads)
    end(ref)
    lock.release()
    until(lambda: all(handle.user_task is None for handle in workers))
    free: list[bool] = []
    thread = threading.Thread(target=lambda: free.append(lock.acquire(timeout=1)))
    thread.start()
    thread.join()
    ray.shutdown()
    assert free == [True]
