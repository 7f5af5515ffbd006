"""Signal handlers and timers of a task, where the recorded cases cannot look: inside waits, across calls, at the end."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import miniray as ray
from miniray.process import context

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    """Four CPUs, threads."""
    with ray.init(num_cpus=4, log_to_driver=False):
        yield


class Late(Exception):
    """What the handlers raise."""


def limit(wait: Any, seconds: float = 0.05) -> tuple[Any, ...]:
    """Wait under a time limit: whether the very exception that the handler raised came out."""
    raised = Late("too late", 1)

    def handler(number: int, frame: Any) -> None:
        raise raised

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        wait()
    except Late as error:
        return error is raised, type(error) is Late, sys.exc_info()[1] is raised
    return ("not raised",)


@ray.remote
def never() -> None:
    """It runs until the session ends."""
    time.sleep(1000)


@ray.remote
def limited(how: str) -> tuple[Any, ...]:
    """A task with a time limit."""
    if how == "get":
        return limit(lambda: ray.get(never.remote()))
    if how == "wait":
        return limit(lambda: ray.wait([never.remote()]))
    if how == "sleep":
        return limit(lambda: time.sleep(1000))

    def loop() -> None:
        while True:
            time.sleep(0)

    return limit(loop)


@pytest.mark.parametrize("how", ["get", "wait", "sleep", "loop"])
def test_an_exception_of_a_handler_comes_out_of_the_wait(how: str):
    """At once, as the very object. On Ray, `get` and `wait` then raise a SystemError."""
    assert ray.get(limited.remote(how)) == (True, True, True)


def test_a_class_that_allows_no_subclass_can_be_raised_too():
    """The exception is made by a class of its own then."""

    class Final(Exception):
        def __init_subclass__(cls) -> None:
            raise TypeError("no subclasses")

    @ray.remote
    def raising() -> str:
        def handler(number: int, frame: Any) -> None:
            raise Final("raised")

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            time.sleep(1000)
        except BaseException as error:
            return str(error)
        return "not raised"

    assert ray.get(raising.remote()) == "raised"


def test_tables_of_workers_are_their_own_and_the_driver_s_is_untouched():
    """Two actors and the driver have three handlers of one signal."""
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:

        @ray.remote(num_cpus=0)
        class Counts:
            def __init__(self) -> None:
                self.count = 0
                signal.signal(signal.SIGUSR1, self.more)

            def more(self, number: int, frame: Any) -> None:
                self.count += 1

            def send(self, times: int) -> int:
                for _ in range(times):
                    os.kill(os.getpid(), signal.SIGUSR1)
                return self.count

        counts = [Counts.remote() for _ in range(2)]
        assert ray.get([actor.send.remote(times) for actor, times in zip(counts, (2, 3))]) == [2, 3]
        assert not seen
        os.kill(os.getpid(), signal.SIGUSR1)
        assert seen == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_timer_ends_with_its_worker_and_reaches_nobody_else():
    """Each timer has a helper thread, which ends too."""

    @ray.remote(num_cpus=0)
    class Armed:
        def arm(self) -> bool:
            signal.signal(signal.SIGALRM, lambda number, frame: None)
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            return signal.getitimer(signal.ITIMER_REAL)[1] == 0.001

    actor = Armed.remote()
    assert ray.get(actor.arm.remote())
    handle = next(handle for handle in context.running().threads if handle.record.actor is not None)
    process, done = handle.process, handle.done
    assert len(process.signals.timers) == 1
    ray.kill(actor)
    assert done.acquire(timeout=60)
    assert not process.signals.timers and process.handle is None


def test_interrupt_main_by_a_thread_of_a_task_hits_the_task():
    """The usual time limit by a Timer. It used to interrupt the driver."""

    @ray.remote
    def interrupted() -> str:
        threading.Timer(0.05, _thread.interrupt_main).start()
        try:
            time.sleep(1000)
        except KeyboardInterrupt:
            return "interrupted"
        return "not interrupted"

    assert ray.get(interrupted.remote()) == "interrupted"


def test_a_thread_of_a_task_that_ends_the_process_ends_the_worker():
    """It used to end the program."""

    @ray.remote(max_retries=0)
    def ends(how: str) -> None:
        def end() -> None:
            with suppress(SystemExit):  # this ends the thread; pytest would warn
                if how == "exit":
                    os._exit(1)
                os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=end).start()
        time.sleep(1000)

    for how in ("exit", "kill"):
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            ray.get(ends.remote(how))


def test_a_time_limit_by_computing_time():
    """ITIMER_PROF counts the time that the worker's thread computes, not the time that it sleeps."""

    @ray.remote
    def busy() -> tuple[bool, str]:
        def handler(number: int, frame: Any) -> None:
            raise Late(signal.Signals(number).name)

        signal.signal(signal.SIGPROF, handler)
        begun = time.thread_time()
        signal.setitimer(signal.ITIMER_PROF, 0.05)
        try:
            while True:
                sum(range(100))
        except Late as error:
            return time.thread_time() - begun >= 0.05, str(error)

    assert ray.get(busy.remote()) == (True, "SIGPROF")


def test_nothing_is_replaced_after_the_session():
    """The original functions are back."""
    names = ["alarm", "setitimer", "getitimer", "pause", "set_wakeup_fd", "raise_signal", "pthread_kill"]
    functions = [(signal, name) for name in names] + [(os, "kill"), (_thread, "interrupt_main")]
    assert all(hasattr(getattr(module, name), "__wrapped__") for module, name in functions)
    ray.shutdown()
    assert not any(hasattr(getattr(module, name), "__wrapped__") for module, name in functions)


@pytest.mark.parametrize("how", ["cancel", "alarm"])
def test_an_exception_comes_out_of_an_event_loop_that_sleeps(how: str):
    """The loop sleeps in C code until its next timer. Since Python 3.11 `asyncio.run` has a handler for the first."""

    @ray.remote(max_retries=0)
    def runs(started: Any) -> tuple[Any, ...]:
        import asyncio

        async def main() -> None:
            started.put(None)
            await asyncio.sleep(1000)

        return limit(lambda: asyncio.run(main()), 0.05 if how == "alarm" else 1000)

    started = ray.util.queue.Queue()
    ref = runs.remote(started)
    started.get()
    if how == "alarm":
        assert ray.get(ref) == (True, True, True)
    else:
        ray.cancel(ref)
        with pytest.raises(ray.exceptions.TaskCancelledError):
            ray.get(ref)


def test_in_local_mode_a_tasks_handler_is_called_when_it_signals_itself(session: None):
    """The handlers are the process's there. The task used to end as if nobody handled the signal."""
    ray.shutdown()

    @ray.remote(max_retries=0)
    def handled(send: Any) -> list[int]:
        seen: list[int] = []
        before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
        try:
            send()
        finally:
            signal.signal(signal.SIGUSR1, before)
        return seen

    with ray.init(num_cpus=1, local_mode=True):
        assert ray.get(handled.remote(lambda: os.kill(os.getpid(), signal.SIGUSR1))) == [signal.SIGUSR1]
        assert ray.get(handled.remote(lambda: signal.raise_signal(signal.SIGUSR1))) == [signal.SIGUSR1]
        with pytest.raises(ray.exceptions.WorkerCrashedError):
            ray.get(ray.remote(lambda: signal.raise_signal(signal.SIGUSR1)).options(max_retries=0).remote())


@pytest.mark.parametrize("local_mode", [False, True])
def test_a_tasks_own_sigint_does_nothing(session: None, local_mode: bool):
    """It is blocked in every worker. In local_mode it used to end the task as if its worker had died."""
    ray.shutdown()

    @ray.remote(max_retries=0)
    def survives() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return "alive"

    with ray.init(num_cpus=1, local_mode=local_mode):
        assert ray.get(survives.remote()) == "alive"
