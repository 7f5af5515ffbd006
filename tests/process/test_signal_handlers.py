"""Signals, wherever the main thread is. Ctrl-C ends what the program is doing, and the session goes on."""

from __future__ import annotations

import asyncio
import itertools
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
    `noticed`. Python drops what a handler raises inside of a finaliser, such as one of an asyncio task. So a thread that
    presses several times, which become one if they come fast, presses once more after each second.
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
        for tries in itertools.count(1):
            try:
                return self.notices.get(timeout=0.01)
            except queue.Empty:
                presses_again = self.times > 1 and tries % 100 == 0
                signal.pthread_kill(self.main, signal.SIGINT if presses_again else signal.SIGUSR1)

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


# ---------------------------------------------------------------- the handlers of other signals


class Signals:
    """In the block the program handles SIGUSR2, and a thread sends it about a thousand times a second."""

    def __init__(self, handler=None):
        self.handler, self.main = handler, threading.get_ident()
        self.enough = threading.Event()
        self.sender = threading.Thread(target=self.send)

    def send(self):
        while not self.enough.wait(0.001):
            signal.pthread_kill(self.main, signal.SIGUSR2)

    def __enter__(self):
        if self.handler is not None:
            signal.signal(signal.SIGUSR2, self.handler)
        self.sender.start()

    def __exit__(self, *error):
        self.enough.set()
        self.sender.join()
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)


@pytest.mark.parametrize("when", ["during the session", "before the session", "by an imported name"])
def test_a_handler_may_call_anything_wherever_the_main_thread_is(when):
    """A single signal in the middle of a call used to stop the program forever."""
    seen = []

    def handler(number, frame):
        seen.append(ray.get([one.remote(), ray.put(number)]))

    if when == "before the session":
        ray.shutdown()
    (IMPORTED if when == "by an imported name" else signal.signal)(signal.SIGUSR2, handler)
    if when == "before the session":
        ray.init(num_cpus=2, log_to_driver=False)
    assert signal.getsignal(signal.SIGUSR2) is handler
    with Signals():
        while len(seen) < 50:
            ray.get([one.remote() for _ in range(5)])
            ray.put(1)
    assert all(answer == [1, signal.SIGUSR2] for answer in seen)


def test_a_handler_that_waits_is_not_called_inside_itself():
    """Although further signals come faster than it ends. It used to end by RecursionError."""
    depth, deepest = [], []

    def handler(number, frame):
        depth.append(number)
        ray.wait([endless_ref], timeout=0.005)
        deepest.append(len(depth))
        depth.pop()

    endless_ref = endless.remote()
    with Signals(handler):
        while len(deepest) < 10:
            ray.get(one.remote())
    assert max(deepest) <= 3, "in its own code it may be called again, as everywhere"


IMPORTED = signal.signal  # as after `from signal import signal` before the session


class Alarm(Exception):
    pass


def test_what_a_handler_raises_comes_out_of_a_wait_or_of_the_program_s_own_code():
    """And never out of the middle of a call, which would leave the core's lock taken."""

    armed = []

    def handler(number, frame):
        if armed:
            armed.clear()
            raise Alarm

    def waits():
        armed.append(True)
        ray.get(endless.remote())

    def calls():
        armed.append(True)
        while True:
            ray.get(ray.put(1))

    with Signals(handler):
        for turn in range(30):
            with pytest.raises(Alarm):
                (calls if turn else waits)()
    assert ray.get(one.remote()) == 1


def test_the_loop_of_asyncio_hears_of_each_signal_once():
    """`add_signal_handler` installs an empty function, which is never postponed and so never sent again."""
    heard = []

    async def main():
        loop = asyncio.get_running_loop()
        enough = asyncio.Event()

        def hear():
            heard.append(1)
            if len(heard) == 5:
                enough.set()

        loop.add_signal_handler(signal.SIGUSR2, hear)
        for count in range(5):
            sender = threading.Thread(target=signal.pthread_kill, args=(threading.get_ident(), signal.SIGUSR2))
            sender.start()
            while len(heard) <= count:
                ray.put(1)
                await one.remote()
            sender.join()
        await enough.wait()
        for _ in range(5):
            await one.remote()
        assert loop.remove_signal_handler(signal.SIGUSR2)

    asyncio.run(main())
    assert len(heard) == 5


def test_constants_stay_what_they_are():
    """SIG_IGN and SIG_DFL are no handlers, and what is not a handler is refused as always."""
    for constant in signal.SIG_IGN, signal.SIG_DFL:
        signal.signal(signal.SIGUSR2, constant)
        assert signal.getsignal(signal.SIGUSR2) is constant
    with pytest.raises(TypeError):
        signal.signal(signal.SIGUSR2, "handler")
    with pytest.raises(ValueError):
        signal.signal(1000, lambda number, frame: None)
    refused = []

    def elsewhere():
        try:
            signal.signal(signal.SIGUSR2, lambda number, frame: None)
        except ValueError as error:
            refused.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert refused and signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL


def test_a_session_that_another_thread_starts_changes_no_handler():
    """Only the main thread can set handlers, as in Ray."""
    ray.shutdown()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)}
    thread = threading.Thread(target=ray.init, kwargs={"num_cpus": 1, "log_to_driver": False})
    thread.start()
    thread.join()
    assert before == {number: signal.getsignal(number) for number in before}
    ray.shutdown()
    ray.init(num_cpus=1, log_to_driver=False)
