"""Code of the program never runs under the core's lock: finalisers, callbacks of weak references, signal handlers."""

from __future__ import annotations

import collections
import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest

import miniray as ray
from miniray.core.records import NORMAL_TASK, TaskSpec
from miniray.process import context
from miniray.runtime.core_lock import CoreLock, core_lock
from tests.runtime.several_nodes import until


def ran(*command, timeout=55):
    """What a program printed. It must end in order, and in time."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=timeout, env=env)
    assert run.returncode == 0 and not run.stderr, run.stderr
    return run.stdout


@pytest.mark.watchdog(0)
@pytest.mark.parametrize("per_second", [0, 1000])
def test_it_calls_everything_all_the_time(request, per_second):
    """With --foreign-rounds N it does so for longer."""
    rounds = request.config.getoption("--foreign-rounds")
    seen = eval(ran("-m", "tests.runtime.foreign_code", str(rounds), str(per_second), timeout=max(200, 5 * rounds)))
    assert seen["callback"] > 10 and seen["finalize"] > 10 and seen["__del__ of cycle"] > 10
    assert seen.get("signal", 0) > 10 or not (per_second and hasattr(os, "fork"))


CLIENTS = """
import gc, sys
import miniray as ray

@ray.remote(num_cpus=0)
class Server:
    def ask(self, x):
        return x

class Client:
    def __init__(self):
        self.server = Server.remote()
        self.handlers = {"ask": self.ask}           # a bound method: a cycle
    def ask(self, x):
        return ray.get(self.server.ask.remote(x))
    def __del__(self):
        ray.kill(self.server)
        ray.put(2)

gc.set_threshold(30, 1, 1)                          # it used to hang after 200 clients, with the usual thresholds
ray.init(num_cpus=2, log_to_driver=False)
for i in range(150):
    assert Client().ask(i) == i
gc.collect()
ray.shutdown()
print(gc.isenabled())
"""


def test_clients_that_kill_their_actor_when_they_are_collected(tmp_path):
    """The collector finds them in the middle of a submission."""
    program = tmp_path / "clients.py"
    program.write_text(CLIENTS)
    assert ran(str(program)) == "True\n"


# ---------------------------------------------------------------- the collector


class Trap:
    """Becomes a cycle that nobody holds. looks: whether somebody was inside when it was collected."""

    looks: list[bool] = []

    def __init__(self):
        self.me = self

    def __del__(self):
        self.looks.append(core_lock.locked())


class Line(collections.deque):
    """The line of a lock. It tells when a thread has joined."""

    def __init__(self):
        super().__init__()
        self.joined = threading.Semaphore(0)

    def append(self, sleeper):
        super().append(sleeper)
        self.joined.release()


def test_it_is_off_exactly_while_a_thread_is_inside():
    """Also for a lock of one's own, without a session: it restores what it finds."""
    lock = CoreLock()
    for wanted in True, False, True:
        (gc.enable if wanted else gc.disable)()
        for _ in range(2):
            with lock:
                assert not gc.isenabled() and lock.locked()
            assert gc.isenabled() is wanted and not lock.locked()
        with pytest.raises(ZeroDivisionError), lock:
            raise ZeroDivisionError
        assert gc.isenabled() is wanted


def test_a_thread_that_does_not_get_in_leaves_it_alone():
    """And while it waits, only the thread that is inside decides."""
    lock, entered = CoreLock(), []
    lock.line = Line()

    def enter():
        with lock:
            entered.append(gc.isenabled())

    with lock:
        assert not lock.try_enter()
        threads = [threading.Thread(target=enter) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert lock.line.joined.acquire(timeout=20)
        assert not gc.isenabled()
    for thread in threads:
        thread.join(20)
    assert entered == [False] * 3 and gc.isenabled()


def test_many_threads_never_find_it_on_inside():
    """Their sections interleave, and the program turns it on and off meanwhile."""
    ray.init(num_cpus=1, log_to_driver=False)
    found, interval = [], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:

        def sections():
            for _ in range(3000):
                with core_lock:
                    found.append(gc.isenabled.__wrapped__())

        def switches():
            for _ in range(300):
                gc.disable()
                gc.enable()

        threads = [threading.Thread(target=run) for run in (sections, sections, switches)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(found) == 6000 and not any(found)
        assert gc.isenabled() and gc.isenabled.__wrapped__()
    finally:
        sys.setswitchinterval(interval)
        ray.shutdown()


def test_the_program_s_wish_holds_although_a_thread_is_inside():
    """gc.disable of another thread waits until nobody is inside, and then it stays off. gc.isenabled answers at once,
    and does not tell of our own switching.
    """
    ray.init(num_cpus=1, log_to_driver=False)
    line = core_lock.line = Line()
    try:
        with core_lock:
            assert gc.isenabled() and not gc.isenabled.__wrapped__()
            switch = threading.Thread(target=gc.disable)
            switch.start()
            assert line.joined.acquire(timeout=20)
        switch.join(20)
        assert not gc.isenabled() and not gc.isenabled.__wrapped__()
        ray.put(1)
        assert not gc.isenabled() and not gc.isenabled.__wrapped__()
    finally:
        gc.enable()
        assert gc.isenabled() and gc.isenabled.__wrapped__()
        ray.shutdown()
    assert gc.isenabled() and not hasattr(gc.isenabled, "__wrapped__")


def test_it_is_off_before_and_after_a_session_if_it_was():
    """A session changes nothing."""
    gc.disable()
    try:
        with ray.init(num_cpus=1, log_to_driver=False):
            assert not gc.isenabled() and ray.get(ray.put(1)) == 1 and not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_that_is_forked_while_a_thread_is_inside():
    """The thread is not there in the child: the collector is on again, and the lock is free."""
    ray.init(num_cpus=1, log_to_driver=False)
    inside, done = threading.Event(), threading.Event()

    def stay():
        with core_lock:
            inside.set()
            done.wait(20)

    thread = threading.Thread(target=stay)
    try:
        thread.start()
        assert inside.wait(20)
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() and core_lock.try_enter() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        done.set()
        thread.join(20)
        ray.shutdown()


# ---------------------------------------------------------------- what records hold


def test_what_an_evicted_record_held_is_dropped_outside():
    """A function whose last record leaves the history; a class whose last handle goes; a kept exception."""
    Trap.looks.clear()
    ray.init(num_cpus=1, log_to_driver=False)
    try:
        runtime = context.running()
        runtime.cluster.history.limit = 3

        @ray.remote
        def tick():
            return None

        def call_once():
            captured = Trap()
            captured.me = None  # reference counting alone drops it

            @ray.remote(runtime_env={"env_vars": {"A": "1"}})
            def function(trap=captured):
                return None

            ray.get(function.remote())
            function._variant._spec.options["trap"] = captured

        call_once()
        gc.collect()
        seen = []
        for _ in range(10):
            ray.get(tick.remote())
            seen.append(len(Trap.looks))
        assert until(lambda: bool(Trap.looks)), seen
        assert not any(Trap.looks)
    finally:
        ray.shutdown()
        assert not any(Trap.looks)


def record_with_a_trap():
    """A record that holds the last reference to a trap."""
    trap, spec = Trap(), TaskSpec(NORMAL_TASK, "f", "f")
    trap.me = None  # reference counting alone drops it
    spec.options["trap"] = trap
    return spec


@pytest.mark.parametrize("written_out", [False, True])
def test_what_a_record_held_waits_only_for_its_own_thread(written_out):
    """Another thread is inside: it is dropped at once, since nobody may come who would drop it later."""
    ray.init(num_cpus=1, log_to_driver=False)
    inside, done = threading.Event(), threading.Event()

    def stay():
        if written_out:
            next(core_lock.enter)
            inside.set()
            done.wait(20)
            next(core_lock.leave)
        else:
            with core_lock:
                inside.set()
                done.wait(20)

    thread = threading.Thread(target=stay)
    try:
        spec = record_with_a_trap()
        Trap.looks.clear()
        thread.start()
        assert inside.wait(20)
        del spec
        assert len(Trap.looks) == 1
    finally:
        done.set()
        thread.join(20)
        ray.shutdown()


def test_what_a_record_held_is_dropped_when_its_thread_has_left():
    """Its own thread is inside: it is dropped when the thread has left, and what it referred to is reported then."""
    ray.init(num_cpus=1, log_to_driver=False)
    try:
        runtime, spec = context.running(), record_with_a_trap()
        spec.options["reference"] = ray.put([1])
        Trap.looks.clear()
        with runtime.locked() as cluster:
            del spec
            assert not Trap.looks and len(cluster.objects) == 1
        assert Trap.looks == [False] and not runtime.cluster.objects
    finally:
        ray.shutdown()


def test_a_session_that_has_ended_keeps_nothing():
    """The hook for what records hold does not hold the session itself."""
    ray.init(num_cpus=1, log_to_driver=False)
    runtime = weakref.ref(context.running())
    ray.shutdown()
    gc.collect()
    assert runtime() is None
