"""What a simulation replaces in the standard library is like the original: classes stay classes, and wrong arguments
are refused."""

from __future__ import annotations

import _thread
import copy
import datetime
import math
import os
import pathlib
import pickle
import queue
import subprocess
import sys
import threading
import time
import uuid
from typing import Any

import pytest

import miniray as ray
from miniray.testing import simulate

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_classes_derived_from_a_date_are_classes_of_their_own():
    """Their constructors used to return a plain datetime."""

    def program() -> None:
        class Moment(datetime.datetime):
            def name(self) -> str:
                return "moment"

        class Day(datetime.date):
            pass

        for moment in (
            Moment(2020, 1, 1),
            Moment.now(),
            Moment.now(datetime.timezone.utc),
            ray.get(ray.put(Moment.now())),
        ):
            assert moment.name() == "moment"
        assert Moment.now().timestamp() == time.time() == 1767225600.0
        assert type(Day.today()) is Day and type(Day(2020, 1, 1)) is Day
        assert isinstance(Moment.now(), datetime.datetime) and not isinstance(datetime.datetime.now(), Moment)
        assert issubclass(Moment, datetime.datetime) and not issubclass(datetime.datetime, Moment)
        assert "simulated" not in type(datetime.datetime.now()).__module__

    simulate(program)


def test_queues_and_locks_have_the_same_types_as_before():
    """`SimpleQueue` is a class, and so is `Lock` since Python 3.13. Both used to be functions."""
    real_queue, real_lock = queue.SimpleQueue(), threading.Lock()  # type: ignore[var-annotated]

    def program() -> None:
        class Mailbox(queue.SimpleQueue):  # type: ignore[type-arg]
            pass

        mailbox = Mailbox()
        threading.Timer(5, mailbox.put, (1,)).start()
        assert mailbox.get() == 1 and time.monotonic() == 1005.0
        assert isinstance(mailbox, queue.SimpleQueue) and isinstance(real_queue, queue.SimpleQueue)
        assert isinstance(queue.SimpleQueue(), queue.SimpleQueue) and not isinstance(queue.SimpleQueue(), Mailbox)
        assert queue.SimpleQueue[int] and not isinstance(1, queue.SimpleQueue)
        if sys.version_info >= (3, 13):
            assert isinstance(threading.Lock(), threading.Lock) and isinstance(real_lock, threading.Lock)
            assert threading.Lock | None
            with pytest.raises(TypeError, match="base type"):
                type("Own", (threading.Lock,), {})
        lock = threading.Lock()
        assert lock.acquire_lock() and lock.locked_lock()  # type: ignore[attr-defined]
        lock.release_lock()  # type: ignore[attr-defined]

    simulate(program)


def test_a_lock_refuses_what_a_real_one_refuses():
    """A negative time limit used to wait forever."""

    def program() -> None:
        lock = threading.Lock()
        for given in ({"timeout": -2}, {"timeout": math.nan}, {"blocking": False, "timeout": 3}):
            with pytest.raises(ValueError):
                lock.acquire(**given)
        assert lock.acquire(timeout=-1) and not lock.acquire(timeout=0)

    simulate(program)


def test_a_thread_gets_its_keywords():
    """`start_new_thread` used to drop them."""

    def program() -> object:
        work: queue.Queue[object] = queue.Queue()
        _thread.start_new_thread(lambda one, *, two: work.put((one, two)), (1,), {"two": 2})
        return work.get()

    assert simulate(program) == (1, 2)


@pytest.mark.skipif(not hasattr(time, "clock_gettime"), reason="the system has no such clocks")
def test_clocks_with_numbers_are_virtual():
    """They are the same clocks."""

    def program() -> None:
        time.sleep(50)
        assert time.clock_gettime(time.CLOCK_MONOTONIC) == time.monotonic() == 1050.0
        assert time.clock_gettime_ns(time.CLOCK_REALTIME) == time.time_ns() == 1767225650 * 10**9
        assert time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID) != 1050.0

    simulate(program)


def test_a_clock_may_be_the_attribute_of_a_class():
    """As a built-in function may. It used to be called with `self`, which it does not take."""

    class Watch:
        clock, now, pause = time.monotonic, time.time, time.sleep

    def program() -> list[float]:
        class Inner:
            clock, now, pause = time.monotonic, time.time, time.sleep

        @ray.remote
        def task(*clocks: Any) -> list[float]:
            return [clock() for clock in clocks]

        watch = Inner()
        watch.pause(5)
        Watch().pause(0)
        assert pickle.loads(pickle.dumps(watch.clock))() == watch.clock() == copy.deepcopy(watch.clock)() == 1005.0
        clock = time.monotonic
        by_cell = ray.remote(lambda: clock()).remote()
        return [*ray.get(task.remote(watch.clock, watch.now, time.perf_counter)), ray.get(by_cell)]

    assert simulate(program) == [1005.0, 1767225605.0, 1005.0, 1005.0]


def test_all_random_bits_come_from_the_seed():
    """Also those of the system call, and ids that avoid the ids of an earlier run."""

    def program() -> list[object]:
        bits: list[object] = [os.urandom(8), uuid.uuid4()]
        if hasattr(os, "getrandom"):
            bits.append(os.getrandom(8))
        if hasattr(uuid, "uuid7"):
            bits += [uuid.uuid7(), uuid.uuid7()]
        return bits

    assert simulate(program, 1) == simulate(program, 1) != simulate(program, 2)


def test_warnings_may_be_errors():
    """On Python 3.14, a name of asyncio used to give one. Starts a program."""
    code = "from miniray.testing import simulate; import asyncio; simulate(lambda: asyncio.sleep(5)); print('passed')"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("passed\n", "")
