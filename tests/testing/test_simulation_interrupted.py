"""A signal's handler raises while a simulation begins or ends: the process is as before, and the error is not lost."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

import pytest

import miniray as ray
from miniray import session
from miniray.process import guards, held_signals, signal_handlers
from miniray.process.held_signals import HeldSignals
from miniray.runtime.simulated import replacing
from miniray.runtime.simulated.baton import Baton
from miniray.runtime.simulated.simulation import Simulation
from miniray.runtime.simulated.watchdog import Watchdog
from miniray.testing import FaultPlan, explore, simulate

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs signals of POSIX")


class Limit(Exception):
    """The handler raises it."""


@pytest.fixture
def handler():
    """A handler of SIGALRM that raises."""

    def raises(*ignored: object) -> None:
        raise Limit

    before = signal.signal(signal.SIGALRM, raises)
    before_int = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    yield raises
    assert signal.getsignal(signal.SIGALRM) is raises
    signal.signal(signal.SIGALRM, before)
    signal.signal(signal.SIGINT, before_int)


PLACES = [
    (replacing, "install"),
    (replacing, "uninstall"),
    (Simulation, "close"),
    (Baton, "close"),
    (Watchdog, "stop"),
    (session, "shutdown"),
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("owner", "name"), PLACES, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("number", ["SIGALRM", "SIGINT"])
def test_the_process_is_as_before(monkeypatch, handler, owner, name, when, number):
    """It used to stay inside of the simulation, with its clocks, and refused every later one."""
    clock, sleep, output, threads = time.monotonic, time.sleep, sys.stdout, threading.active_count()
    original = getattr(owner, name)

    def struck(*args: Any, **options: Any) -> Any:
        if when == "before":
            os.kill(os.getpid(), getattr(signal, number))
        result = original(*args, **options)
        if when == "after":
            os.kill(os.getpid(), getattr(signal, number))
        return result

    monkeypatch.setattr(owner, name, struck)
    with pytest.raises(KeyboardInterrupt if number == "SIGINT" else Limit):
        explore(lambda: ray.get(ray.put(1)), 3)
    monkeypatch.undo()
    assert (time.monotonic, time.sleep, sys.stdout, threading.active_count()) == (clock, sleep, output, threads)
    assert not ray.is_initialized()
    assert simulate(lambda: ray.get(ray.put(2))) == 2


def test_a_signal_that_comes_again_later_is_not_held(monkeypatch, handler):
    """The work during which the first one was held may hang."""
    monkeypatch.setattr(held_signals, "AGAIN_S", -1.0)
    signals = HeldSignals()
    signals.hold()
    with pytest.raises(Limit):
        os.kill(os.getpid(), signal.SIGALRM)
    signals.release()


def test_a_signal_that_comes_while_a_session_starts_is_held_until_it_runs(monkeypatch, handler):
    """It used to leave the guards counted, so that no later session stood in front of the program's handlers."""
    original = guards.install

    def struck(lock: Any) -> None:
        os.kill(os.getpid(), signal.SIGALRM)
        original(lock)

    monkeypatch.setattr(guards, "install", struck)
    with pytest.raises(Limit):
        ray.init(num_cpus=1)
    monkeypatch.undo()
    assert ray.is_initialized()
    assert signal_handlers.watched[signal.SIGALRM].handler is handler
    ray.shutdown()
    assert not signal_handlers.watched


def test_the_program_s_handler_of_sigterm_is_there_after_a_session(handler):
    before = signal.signal(signal.SIGTERM, handler)
    try:
        ray.init(num_cpus=1)
        ray.shutdown()
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_no_signal_is_lost_if_the_way_back_was_interrupted(handler):
    """What stands in front of a handler calls it when nobody holds the signals."""
    signals = HeldSignals()
    signals.hold()
    assert signal.getsignal(signal.SIGALRM) is held_signals._note
    signals.release()
    signal.signal(signal.SIGALRM, held_signals._note)
    with pytest.raises(Limit):
        os.kill(os.getpid(), signal.SIGALRM)
    HeldSignals().hold()
    held_signals._holder.release()
    assert signal.getsignal(signal.SIGALRM) is handler


def test_one_inside_another_does_nothing(handler):
    outer, inner = HeldSignals(), HeldSignals()
    outer.hold()
    inner.hold()
    os.kill(os.getpid(), signal.SIGALRM)
    inner.release()
    with pytest.raises(Limit):
        outer.release()


@ray.remote
def one() -> int:
    """1."""
    return 1


@pytest.mark.parametrize("late", [1, 2])
@pytest.mark.parametrize("faults", [None, FaultPlan(slow=0.2)], ids=["no faults", "faults"])
def test_an_interrupt_while_a_failure_is_made_smaller_ends_the_exploration(handler, late, faults):
    """It comes in one of the runs after the one that has failed. It used to count as a run that fails in another way."""
    runs_after_the_failure = 0
    failed = False

    def program() -> None:
        nonlocal runs_after_the_failure, failed
        runs_after_the_failure += failed
        if runs_after_the_failure == late:
            os.kill(os.getpid(), signal.SIGALRM)
        refs = [one.remote() for _ in range(4)]
        if ray.wait(refs)[0][0] != refs[0]:
            failed = True
            raise ValueError("in another order")

    with pytest.raises(Limit):
        explore(program, 100, faults=faults)
    assert runs_after_the_failure == late
