"""Signals, wherever the main thread is. Ctrl-C ends what the program is doing, and the session goes on."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import sys
import threading
import time
from contextlib import contextmanager

import pytest

import miniray as ray
from miniray.process import context, signal_handlers
from tests.runtime.several_nodes import until

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="there is no way to send a signal to a thread"
)
ASYNCIO_HANDLES_IT = pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.run has no handler of its own")


@pytest.fixture(autouse=True)
def session():
    """Two CPUs. Python's own handler is in place before the session, as in a program, and again after it."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    before_usr1 = signal.signal(signal.SIGUSR1, lambda number, frame: None)  # see Press
    ray.init(num_cpus=2, log_to_driver=False)
    yield
    assert ray.get(one.remote()) == 1, "the session goes on"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ray.shutdown()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGUSR1, before_usr1)


@ray.remote(num_cpus=0)
def one():
    return 1


@ray.remote(num_cpus=0)
def endless(here=None):
    """Never ends. here: a pipe to write to when the task runs."""
    if here is not None:
        os.write(here, b"!")
    time.sleep(1000)


class Press(threading.Thread):
    """A thread that presses Ctrl-C as soon as `awaited()` has returned in it.

    A signal that arrives just before the main thread falls asleep does not wake it, and Python runs the handler only
    when the main thread is awake. So a second, harmless signal is sent after a while, until the main thread has called
    `noticed`.
    """

    def __init__(self, awaited, times=1):
        super().__init__()
        self.awaited, self.times, self.main = awaited, times, threading.main_thread().ident
        self.notices = queue.SimpleQueue()
        self.start()

    def run(self):
        self.awaited()
        for _ in range(self.times):
            signal.pthread_kill(self.main, signal.SIGINT)
        while True:
            try:
                return self.notices.get(timeout=0.01)
            except queue.Empty:
                signal.pthread_kill(self.main, signal.SIGUSR1)

    def noticed(self):
        """The interrupt has had its effect: end the thread."""
        self.notices.put(None)
        self.join()


@contextmanager
def interrupted_after(awaited):
    """The block ends by KeyboardInterrupt, since Ctrl-C is pressed when `awaited()` has returned in another thread."""
    press = Press(awaited)
    with pytest.raises(KeyboardInterrupt):
        yield
    press.noticed()


def undisturbed(run):
    """Return run(), and call it again if one more Ctrl-C has ended it."""
    while True:
        try:
            return run()
        except KeyboardInterrupt:
            continue


def the_driver_waits():
    """Return when a thread of the driver is in get or wait."""
    assert until(lambda: bool(context.running().driver_waiters))


class AnnouncedEvent(threading.Event):
    """An event that tells when a thread begins to wait for it."""

    def __init__(self):
        super().__init__()
        self.is_awaited = threading.Semaphore(0)

    def wait(self, timeout=None):
        self.is_awaited.release()
        return super().wait(timeout)


@pytest.mark.parametrize(
    "way",
    [
        lambda ref: ray.get(ref),
        lambda ref: ray.wait([ref]),
        lambda ref: ray.get([ref], timeout=1000),
        lambda ref: list(ray.util.as_completed([ref])),
    ],
    ids=["get", "wait", "timed", "as_completed"],
)
def test_it_ends_a_wait(way):
    """Immediately."""
    ref = endless.remote()
    with interrupted_after(the_driver_waits):
        way(ref)


def test_it_ends_a_program_that_waits_for_a_thread():
    """The main thread waits for another thread, which is in get, as in some notebook kernels. The other thread goes on
    until the value that it waits for is ready."""
    ref, errors, ended = endless.remote(), [], AnnouncedEvent()

    def cell():
        try:
            ray.get(ref)
        except ray.exceptions.TaskCancelledError as error:
            errors.append(error)
        ended.set()

    cells_thread = threading.Thread(target=cell)
    cells_thread.start()
    with interrupted_after(lambda: ended.is_awaited.acquire(timeout=20)):
        ended.wait()
    ray.cancel(ref)
    cells_thread.join(20)
    assert len(errors) == 1


@ASYNCIO_HANDLES_IT
def test_asyncio_run_has_its_own_handler():
    """The handler cancels the main coroutine, which may still clean up and wait, and then asyncio.run raises.
    Afterwards Python's handler is back."""
    seen, (running, here) = [], os.pipe()

    async def main():
        seen.append(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)
        try:
            await endless.remote(here)
        except asyncio.CancelledError:
            seen.append(await one.remote())
            raise

    with interrupted_after(lambda: os.read(running, 1)):
        asyncio.run(main())
    os.close(running)
    os.close(here)
    assert seen == [True, 1]


@ASYNCIO_HANDLES_IT
def test_a_session_that_starts_in_a_coroutine_keeps_its_handler_afterwards():
    """asyncio.run restores Python's handler when it ends, and ours with it."""
    ray.shutdown()

    async def main():
        ray.init(num_cpus=1, log_to_driver=False)
        return await one.remote()

    assert asyncio.run(main()) == 1
    test_it_ends_a_wait(lambda ref: ray.get(ref))


def test_it_ends_a_get_that_blocks_a_loop():
    """asyncio's own handler alone would have no effect before the get is over."""

    async def main():
        ray.get(endless.remote())

    with interrupted_after(the_driver_waits):
        asyncio.run(main())


def test_pressed_again_and_again_while_coroutines_submit():
    """From the second time on, asyncio's handler raises wherever the main thread is, but not in the middle of an event
    of the core."""
    for turn in range(20):
        rounds = queue.SimpleQueue()

        async def main(rounds=rounds):
            while True:
                await asyncio.gather(*[one.remote() for _ in range(5)])
                rounds.put(None)

        def some_rounds(rounds=rounds, number=turn % 7 + 1):
            for _ in range(number):
                rounds.get(timeout=20)

        press = Press(some_rounds, times=3)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
        undisturbed(press.noticed)
        assert undisturbed(lambda: ray.get(one.remote(), timeout=20)) == 1


def test_the_program_s_own_handler_is_called_at_once_and_can_be_removed():
    """It is called even inside a call of ours, since it raises nothing. `signal.signal` returns the last one."""
    calls = []
    before = signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    assert before is signal.default_int_handler
    ref = endless.remote()
    press = Press(the_driver_waits)
    ready, _ = ray.wait([ref], timeout=0.2)
    press.noticed()
    assert (ready, calls) == ([], [signal.SIGINT])
    mine = signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert mine(2, None) is None and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN
    assert signal.signal(signal.SIGHUP, signal.SIG_DFL) is signal.SIG_DFL


def test_one_press_is_one_interrupt_even_if_the_main_thread_is_slow(monkeypatch):
    """A postponed interrupt is sent again, but not before the main thread has handled the last signal. If the interrupt
    is raised while the signal is on its way, it is not raised twice. One press used to become several on a loaded
    machine."""
    sent, answered = [], threading.Semaphore(0)
    monkeypatch.setattr(signal_handlers, "_send", lambda ident, number: (sent.append(number), answered.release()))
    monkeypatch.setattr(signal_handlers, "RETRY_S", 0.0001)
    state = signal_handlers.watched[signal.SIGINT]
    signal_handlers._postpone(state)
    assert answered.acquire(timeout=20) and not answered.acquire(timeout=0.02) and sent == [signal.SIGINT]
    with pytest.raises(KeyboardInterrupt):
        signal_handlers.call_postponed()  # as when a task ends in local_mode
    signal_handlers._on_signal(signal.SIGINT, None)  # the signal that was on its way
    with pytest.raises(KeyboardInterrupt):  # the next press
        signal_handlers._on_signal(signal.SIGINT, None)
    assert sent == [signal.SIGINT] and not signal_handlers.postponed
