"""What the runs of an exploration print is dropped, and so is what comes of ending a run early."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import miniray as ray
from miniray.runtime.core_lock import HAS_GIL
from miniray.testing import explore


@ray.remote
def one() -> int:
    """1."""
    return 1


def loops() -> None:
    """The search leaves some of its runs where they wait in a loop, with other tasks beside them."""

    async def wait() -> int:
        return int(await one.remote())

    async def main() -> None:
        other = asyncio.create_task(wait())
        assert await asyncio.gather(wait(), wait()) == [1, 1]
        assert await other == 1

    asyncio.run(main())


def threads() -> None:
    """Their calls fail when the run ends before them."""
    ray.init()
    lock = threading.Lock()

    def work() -> None:
        if lock.acquire(blocking=False):
            ray.get(one.remote())
            lock.release()

    started = [threading.Thread(target=work) for _ in range(2)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def daemons() -> None:
    """So do those that the program leaves behind."""
    ray.init()
    for _ in range(2):
        threading.Thread(target=lambda: [ray.get(one.remote()) for _ in range(100)], daemon=True).start()
    ray.get(one.remote())


def callbacks() -> None:
    """So do the functions that a future calls."""
    for ref in (one.remote(), one.remote()):
        ref.future().add_done_callback(lambda future: future.result())
    ray.get(one.remote())
    time.sleep(0.1)


def executors() -> None:
    """So does what an executor runs."""
    ray.init()
    with ThreadPoolExecutor(2) as executor:
        list(executor.map(lambda _: ray.get(one.remote()), range(2)))


def cycles() -> None:
    """So do finalisers, which run after the session has ended."""

    class Leaves:
        def __init__(self, ref: ray.ObjectRef[int]) -> None:
            self.me, self.ref = self, ref

        def __del__(self) -> None:
            ray.get(self.ref)

    Leaves(one.remote())


with_gil = pytest.mark.skipif(not HAS_GIL, reason="the collector does not run at the end of a run")


@pytest.mark.parametrize(
    "program", [loops, threads, daemons, callbacks, executors, pytest.param(cycles, marks=with_gil)]
)
@pytest.mark.filterwarnings("error")
def test_the_end_of_a_run_prints_nothing(program, capfd, caplog):
    """Runs that the search gave up used to print the errors of their threads, hundreds of them, and asyncio those of
    tasks that were collected later. `quiet=False` shows what the program prints, and nothing else."""
    explore(program, strategy="exhaustive", max_schedules=60, quiet=False)
    gc.collect()
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_drops_both_streams(quiet, capsys):
    """What goes to stderr used to be printed."""

    def program() -> None:
        print("out")
        print("err", file=sys.stderr)

    explore(program, 2, quiet=quiet)
    assert capsys.readouterr() == (("", "") if quiet else ("out\nout\n", "err\nerr\n"))


def test_a_thread_that_fails_by_itself_is_reported(monkeypatch):
    """Its run has not ended."""
    told = []
    monkeypatch.setattr(threading, "excepthook", lambda event: told.append(event.exc_type))

    def program() -> None:
        thread = threading.Thread(target=lambda: 1 // 0)
        thread.start()
        thread.join()

    explore(program, 2)
    assert told == [ZeroDivisionError] * 2
