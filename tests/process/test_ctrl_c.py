"""Ctrl-C, wherever the program stands: it ends what the program does, and the session goes on."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import miniray as ray
from miniray import state
from miniray.process import ctrl_c

pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no way to send a signal to a thread")
ASYNCIO_HANDLES_IT = pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.run has no handler of its own")


@pytest.fixture(autouse=True)
def session():
    """With Python's own handler in place before, as in a program, and after."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    ray.init(num_cpus=2, log_to_driver=False)
    yield
    assert ray.get(one.remote()) == 1, "the session goes on"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ray.shutdown()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@ray.remote(num_cpus=0)
def one():
    return 1


@ray.remote(num_cpus=0)
def endless():
    time.sleep(1000)


def press_when(ready, times=1):
    """Press Ctrl-C as soon as `ready()`, from another thread."""
    main = threading.main_thread().ident

    def run():
        deadline = time.monotonic() + 20
        while not ready() and time.monotonic() < deadline:
            time.sleep(0.001)
        for _ in range(times):
            signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def undisturbed(run):
    """What `run()` returns, tried again when one more Ctrl-C has ended it."""
    while True:
        try:
            return run()
        except KeyboardInterrupt:
            continue


def main_waits(where="wait_for"):
    """Whether the main thread stands in a function of this name: that of every get and wait, if no other is given."""
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None and frame.f_code.co_name != where:
        frame = frame.f_back
    return frame is not None


def it_runs():
    """Whether the endless task runs."""
    return any(row["state"] == "RUNNING" for row in state.list_tasks(filters=[("name", "=", "endless")]))


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
    """At once."""
    ref = endless.remote()
    thread = press_when(main_waits)
    with pytest.raises(KeyboardInterrupt):
        way(ref)
    thread.join()


def test_it_ends_a_program_that_waits_for_a_thread():
    """As a notebook's kernel may: the cell runs in a thread, and the main thread waits for it. The thread goes on until what it
    waits for is there."""
    ref = endless.remote()
    with ThreadPoolExecutor(1) as pool:
        cell = pool.submit(ray.get, ref)
        thread = press_when(lambda: main_waits("result"))
        with pytest.raises(KeyboardInterrupt):
            cell.result()
        thread.join()
        ray.cancel(ref)
        assert isinstance(cell.exception(), ray.exceptions.TaskCancelledError)


@ASYNCIO_HANDLES_IT
def test_asyncio_run_has_its_own_handler():
    """It cancels the main coroutine, which may clean up and go on waiting, and then raises. Python's handler is back after that."""
    seen = []

    async def main():
        seen.append(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)
        try:
            await endless.remote()
        except asyncio.CancelledError:
            seen.append(await one.remote())
            raise

    thread = press_when(it_runs)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    thread.join()
    assert seen == [True, 1]


@ASYNCIO_HANDLES_IT
def test_a_session_that_starts_in_a_coroutine_is_looked_after_when_it_has_ended():
    """asyncio.run puts Python's handler back, and with it ours."""
    ray.shutdown()

    async def main():
        ray.init(num_cpus=1, log_to_driver=False)
        return await one.remote()

    assert asyncio.run(main()) == 1
    test_it_ends_a_wait(lambda ref: ray.get(ref))


def test_it_ends_a_get_that_blocks_a_loop():
    """There asyncio's handler alone would be heard of only when the get is over."""

    async def main():
        ray.get(endless.remote())

    thread = press_when(main_waits)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    thread.join()


def test_pressed_again_and_again_while_coroutines_submit():
    """The second time asyncio raises wherever the program stands: not in the middle of an event of the core."""
    for turn in range(20):
        rounds = []

        async def main(rounds=rounds):
            while True:
                await asyncio.gather(*[one.remote() for _ in range(5)])
                rounds.append(1)

        thread = press_when(lambda rounds=rounds, n=turn % 7: len(rounds) > n, times=3)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
        undisturbed(thread.join)
        assert undisturbed(lambda: ray.get(one.remote(), timeout=20)) == 1


def test_a_handler_of_the_program_s_own_is_called_at_once_and_can_be_taken_back():
    """Also while the program is inside a call of ours: it raises nothing. `signal.signal` returns what the program had."""
    calls = []
    before = signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    assert before is signal.default_int_handler
    ref = endless.remote()
    thread = press_when(main_waits)
    ready, _ = ray.wait([ref], timeout=0.2)
    thread.join()
    assert (ready, calls) == ([], [signal.SIGINT])
    mine = signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert mine(2, None) is None and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN
    assert signal.signal(signal.SIGTERM, signal.SIG_DFL) is signal.SIG_DFL


def test_one_press_is_one_interrupt_also_where_the_main_thread_comes_late(monkeypatch):
    """What was put off is sent again, but not before the main thread has heard of the last time; and what is raised while it is on
    its way is not raised twice. On a loaded machine one press became several."""
    sent, answered = [], threading.Semaphore(0)
    monkeypatch.setattr(ctrl_c, "_interrupt", lambda ident: (sent.append(ident), answered.release()))
    monkeypatch.setattr(ctrl_c, "_getsignal", lambda number: ctrl_c._on_interrupt)
    monkeypatch.setattr(ctrl_c, "RETRY_S", 0.0001)
    ctrl_c.put_off = this = object()
    again = threading.Thread(target=ctrl_c._again, args=(1, this), daemon=True)
    again.start()
    assert answered.acquire(timeout=20) and not answered.acquire(timeout=0.02) and sent == [1]
    with pytest.raises(KeyboardInterrupt):
        ctrl_c.interrupt()  # as by a task that ends in local_mode
    ctrl_c._on_interrupt(signal.SIGINT, None)  # what was on its way
    again.join(20)
    with pytest.raises(KeyboardInterrupt):  # the next press
        ctrl_c._on_interrupt(signal.SIGINT, None)
    assert sent == [1] and ctrl_c.put_off is None
