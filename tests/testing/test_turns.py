"""The locks of miniray that outlive a simulation: a thread that wants one lets the others go on."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import miniray as ray
from miniray.experimental import tqdm_ray
from miniray.testing import explore, faults, simulate
from miniray.util import placement_group

ROOT = Path(__file__).resolve().parents[2]
STRATEGIES = [("random", {"seeds": 40}), ("pct", {"seeds": 40}), ("exhaustive", {"max_schedules": 300})]


def both(function):
    """Call a function in two threads."""
    threads = [threading.Thread(target=function) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@ray.remote
def one():
    return 1


@pytest.mark.parametrize(("strategy", "options"), STRATEGIES, ids=lambda value: value if type(value) is str else "")
@pytest.mark.parametrize(
    "first_call",
    [
        lambda: ray.get(one.remote()),
        lambda: ray.get(ray.put(1)),
        lambda: placement_group([{"CPU": 1}]).ready(),
        lambda: ray.init(ignore_reinit_error=True),
    ],
    ids=["remote", "put", "placement_group", "init"],
)
def test_two_threads_make_the_first_call(strategy, options, first_call):
    """One of them starts the session, and the other waits for it. It used to wait forever, with the baton."""
    explore(lambda: both(first_call), strategy=strategy, watchdog_s=2, **options)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_two_threads_end_and_start_the_session():
    """One may take the session away from the other."""

    def program():
        def ends() -> None:
            ray.init(ignore_reinit_error=True)
            one.remote()
            ray.shutdown()

        both(ends)

    explore(program, 60, watchdog_s=2)
    explore(program, strategy="exhaustive", max_schedules=300, watchdog_s=2)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_first_call_while_the_run_ends():
    """The driver returns, or fails, while threads start the session. Then the session is taken away from them."""

    def program(fails: bool) -> None:
        for _ in range(2):
            threading.Thread(target=lambda: ray.get(one.remote())).start()
        assert not fails, "the driver fails"

    explore(lambda: program(False), 60, watchdog_s=2)
    explore(lambda: program(False), strategy="exhaustive", max_schedules=300, watchdog_s=2)
    for seed in range(30):
        with pytest.raises(AssertionError, match="the driver fails"):
            simulate(lambda: program(True), seed)
    assert not ray.is_initialized()


def test_a_thread_that_has_its_session_taken_away_by_the_end_says_nothing(monkeypatch):
    """A search ends a run as soon as its rest cannot differ from an earlier one. The errors of threads are no news."""
    told: list[object] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    explore(lambda: both(lambda: ray.get(one.remote())), strategy="exhaustive", max_schedules=300)
    assert not told


class SlowTerminal(io.StringIO):
    """A stream of the program: writing to it takes a lock, so another thread may go on meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self.lock:
            return super().write(text)


def test_two_threads_draw_bars_on_a_stream_with_a_lock(monkeypatch):
    def program() -> None:
        screen = SlowTerminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", screen)
            both(lambda: list(tqdm_ray.tqdm(range(2), desc="bar")))
        assert "2/2" in screen.getvalue()

    explore(program, 40, watchdog_s=2)


@pytest.mark.filterwarnings("ignore::miniray.testing.faults.FaultNeverStruckWarning")
def test_two_threads_begin_faults():
    def program() -> None:
        ray.init(num_cpus=2)

        def strikes() -> None:
            with faults.lose_object(one.remote(), when=faults.finished("one")):
                ray.get(one.remote())

        both(strikes)

    explore(program, 60, watchdog_s=2)


@pytest.mark.parametrize("running", [False, True])
def test_a_thread_from_outside_neither_starts_nor_ends_a_session(running):
    """It used to do both, beside the thread that had the baton."""
    begin, errors = threading.Event(), []

    def outside() -> None:
        begin.wait()
        for call in (lambda: ray.put(1), ray.init, lambda: ray.init(local_mode=True), ray.shutdown):
            try:
                call()
            except RuntimeError as error:
                errors.append("inside the simulation" in str(error))

    thread = threading.Thread(target=outside)
    thread.start()

    def program() -> bool:
        if running:
            ray.put(1)
        begin.set()
        thread.join()
        return ray.is_initialized()

    assert simulate(program) is running
    assert errors == [True] * (4 if running else 3)  # without a session, `shutdown` does nothing


def test_another_thread_ends_the_session_of_a_driver_whose_thread_has_ended():
    thread = threading.Thread(target=lambda: ray.init(runtime="simulated", seed=1))
    thread.start()
    thread.join()
    ray.shutdown()
    assert not ray.is_initialized()
    assert simulate(lambda: ray.get(one.remote())) == 1


HELD = """
import sys, threading, warnings, _thread

real = threading.RLock
held = {}


class Watched:
    def __init__(self):
        self.lock, self.made_by = real(), sys._getframe(1).f_globals["__name__"]

    def acquire(self, blocking=True, timeout=-1):
        taken = self.lock.acquire(blocking, timeout)
        if taken:
            held.setdefault(_thread.get_ident(), []).append(self)
        return taken

    def release(self):
        self.lock.release()
        held[_thread.get_ident()].remove(self)

    __enter__ = acquire

    def __exit__(self, *error):
        self.release()


threading.RLock = _thread.RLock = Watched
import miniray as ray
from miniray.experimental import tqdm_ray
from miniray.observe.metrics import registry
from miniray.process import context
from miniray.runtime.simulated import baton
from miniray.testing import explore, faults
from miniray.testing.exploring import simulation as exploring
from miniray.util import debug
from miniray.util.metrics import Counter
threading.RLock = _thread.RLock = real

found, with_turns, handed_over = set(), set(), baton.Baton._hand_over


def hand_over(self, fiber, chosen):
    turns = context.simulation._turns
    mine = {lock for lock in held.get(_thread.get_ident(), ()) if lock.made_by.startswith("miniray")}
    found.update(lock.made_by for lock in mine - turns.keys() if lock is not exploring._running)  # held by the driver
    with_turns.update(lock.made_by for lock in mine & turns.keys())
    handed_over(self, fiber, chosen)


baton.Baton._hand_over = hand_over


@ray.remote
class Worker:
    def work(self, number):
        print("works", flush=True)
        debug.log_once("works")
        Counter("works").inc()
        with ray.profile("span"):
            return list(tqdm_ray.tqdm(range(number), desc="bar"))


def program():
    def first():
        worker = Worker.remote()
        refs = [worker.work.remote(number) for number in range(3)]
        with faults.lose_object(refs[0], when=faults.finished("Worker.work")):
            ray.get(refs)
        for _ in range(200):
            debug.log_once("here")
        registry.snapshot()
        ray.timeline()
        ray.sql("select * from tasks")

    threads = [threading.Thread(target=first) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


warnings.simplefilter("ignore")
debug.enable_periodic_logging()
explore(program, int(sys.argv[1]), watchdog_s=5)
print(sorted(found), sorted(with_turns), file=sys.stderr)
"""


def test_no_thread_gives_the_baton_away_with_a_lock_that_has_no_turns():
    """Another thread that wanted the lock would wait forever, with the baton."""
    done = subprocess.run([sys.executable, "-c", HELD, "10"], capture_output=True, text=True, cwd=ROOT, timeout=100)
    held_without, held_with = done.stderr.splitlines()[-1].split("] [")
    assert held_without == "[", done.stderr
    assert "miniray.session" in held_with
