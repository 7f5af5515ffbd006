"""Simulation: a seed decides who goes on, the clock is virtual, and the same seed gives the same run."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import datetime
import multiprocessing.pool
import os
import pathlib
import queue
import random
import sched
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import pytest

import miniray as ray
from miniray.testing import ExplorationFailure, explore, simulate
from miniray.testing.exploring.simulation import Run
from miniray.util.placement_group import placement_group
from tests.testing.account import Account

ROOT = pathlib.Path(__file__).resolve().parents[2]


# ---------------------------------------------------------------- one run


def test_a_session_is_simulated_on_request():
    """`init(runtime="simulated", seed=...)` needs nothing else. Its hour takes no time."""
    started = time.perf_counter()
    ray.init(runtime="simulated", seed=3)
    try:
        before = time.time()
        account = Account.remote(1)
        assert ray.get(account.pay_in.remote(1)) == 2
        time.sleep(3600)
        assert time.time() == before + 3600
    finally:
        ray.shutdown()
    assert time.perf_counter() - started < 60
    assert "Sim" not in type(threading.Lock()).__name__


def test_simulate_returns_what_the_function_returns():
    """The function's session starts by itself and ends with the run."""
    assert simulate(lambda: ray.get(ray.put(7)), seed=1) == 7
    assert not ray.is_initialized()


def test_simulate_raises_what_the_function_raises():
    """And what it raises passes through."""
    with pytest.raises(ZeroDivisionError):
        simulate(lambda: 1 // 0)
    assert not ray.is_initialized()


def test_simulate_refuses_a_running_session():
    """The session's threads would not take part."""
    ray.init(num_cpus=1)
    try:
        with pytest.raises(RuntimeError, match="shutdown"):
            simulate(lambda: None)
    finally:
        ray.shutdown()


def everything() -> list[object]:
    """Uses everything that a simulation controls."""
    seen: list[object] = []

    @ray.remote(max_retries=5, retry_exceptions=True)
    def flaky(x: int) -> tuple[int, str]:
        time.sleep(3600)
        if random.random() < 0.5:
            raise OSError("try again")
        return x, uuid.uuid4().hex

    @ray.remote
    class Meeting:
        def __init__(self) -> None:
            self.begun = asyncio.Event()

        async def attend(self) -> float:
            await self.begun.wait()
            return time.time()

        async def begin(self, refs: list[object]) -> object:
            await asyncio.sleep(1800)
            self.begun.set()
            return await refs[0]

    meeting = Meeting.remote()
    refs = [flaky.remote(x) for x in range(5)]
    attending = meeting.attend.remote()
    seen.append(ray.get(meeting.begin.remote(refs[:1])))
    seen.append(ray.get([attending, *refs]))
    work: queue.Queue[object] = queue.Queue()

    def serve() -> None:
        while (item := work.get()) is not None:
            time.sleep(random.random())
            seen.append(item)

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    for item in [*range(6), None, None, None]:
        work.put(item)
    for thread in threads:
        thread.join()
    seen.append([threading.Event().wait(5), datetime.datetime.now(), os.urandom(4), time.strftime("%c")])

    async def main() -> object:
        await asyncio.sleep(100)
        return await asyncio.wait_for(flaky.remote(9), 100_000)

    seen.append(asyncio.run(main()))
    seen.append(sets())
    return seen


def sets() -> list[object]:
    """The orders of sets, as programs come by them."""

    async def named(name: int) -> int:
        return name

    async def wait() -> list[int]:
        done, _ = await asyncio.wait([asyncio.ensure_future(named(name)) for name in range(20)])
        return [task.result() for task in done]

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        futures = [pool.submit(int, name) for name in range(20)]
        concurrent.futures.wait(futures)
        finished = [future.result() for future in concurrent.futures.as_completed(futures)]
    threads = {threading.Thread(name=str(name)) for name in range(20)}
    actors = {Account.remote(number) for number in range(4)}
    balances = ray.get([actor.balance.remote() for actor in actors])
    return [asyncio.run(wait()), finished, [thread.name for thread in threads], balances]


def log_of(seed: int) -> str:
    """The event log and the results of `everything`."""
    run = Run(everything, seed, keep_log=True).go()
    assert run.error is None, run.error
    return f"{run.log}{run.result}\n"


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_gives_the_same_log_in_two_processes(seed):
    """Byte for byte, under two hash seeds. Starts two programs."""
    code = f"import sys, tests.testing.test_simulation as t; sys.stdout.write(t.log_of({seed}))"
    logs = []
    for hash_seed in "1", "2":
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, cwd=ROOT)
        assert done.returncode == 0, done.stderr.decode()
        logs.append(done.stdout)
    assert logs[0] == logs[1]
    assert len(logs[0]) > 10_000


def test_other_seeds_give_other_runs():
    """The schedule and the random numbers both differ."""
    assert log_of(1) == log_of(1) != log_of(2)


def test_temporary_files_of_earlier_runs_are_not_in_the_way(monkeypatch, tmp_path):
    """Each run has a folder of its own, in which the seed decides the names. An empty one is removed."""
    monkeypatch.setattr(tempfile, "TMP_MAX", 1)  # so many names are tried
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = [pathlib.Path(simulate(tempfile.mkdtemp, 1)) for _ in range(3)]
    assert len({path.name for path in left}) == 1 and {path.parent.parent for path in left} == {tmp_path}
    simulate(lambda: os.rmdir(tempfile.mkdtemp()), 1)
    assert sorted(tmp_path.iterdir()) == sorted(path.parent for path in left)
    assert tempfile.gettempdir() == str(tmp_path)


def test_a_module_that_imported_a_clock_by_name_has_the_virtual_one():
    """The globals of the function are searched for the originals."""
    names: dict[str, object] = {}
    exec("from time import time, sleep\ndef late():\n    sleep(86000)\n    return time()", names)
    assert simulate(names["late"]) == 1767225600.0 + 86000
    assert names["time"] is time.time


def test_time_limits_of_the_standard_library_are_virtual():
    """Its modules have imported the clock by name: a `get` of a queue with a time limit used to run until `max_steps`,
    since its clock was real and its waits were virtual."""

    def program() -> list[float]:
        took = []
        for wait in (
            lambda: queue.Queue().get(timeout=1),
            lambda: queue.SimpleQueue().get(timeout=2),
            lambda: threading.Semaphore(0).acquire(timeout=3),
            lambda: wait_for_nothing(threading.Condition(), 4),
            lambda: threading.Barrier(2).wait(timeout=5),
            alarm_clock,
        ):
            began = time.monotonic()
            with contextlib.suppress(queue.Empty, threading.BrokenBarrierError):
                wait()
            took.append(time.monotonic() - began)
        return took

    def wait_for_nothing(condition: threading.Condition, seconds: float) -> None:
        with condition:
            condition.wait_for(lambda: False, timeout=seconds)

    def alarm_clock() -> None:
        clock = sched.scheduler()
        clock.enter(6, 1, int)
        clock.run()

    assert simulate(program) == [1, 2, 3, 4, 5, 6]
    assert queue.time is time.monotonic


def pipe() -> object:
    """A pipe between two threads."""
    ends = os.pipe()
    threading.Timer(5, os.write, (ends[1], b"x")).start()
    return os.read(ends[0], 1), time.monotonic()


def limited_select() -> object:
    """Two waits that nobody ends."""
    ends = os.pipe()
    return select.select([ends[0]], [], [], 2), select.select([], [], [], 3), time.monotonic()


def limited_socket() -> object:
    """A socket with a time limit, and then the answer."""
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(4)
        with pytest.raises(TimeoutError):
            one.recv(1)
        threading.Timer(3, other.send, (b"x",)).start()
        return one.recv(1), time.monotonic()


def pool() -> object:
    """The threads of a pool of multiprocessing, which waits for pipes."""
    with multiprocessing.pool.ThreadPool(2) as threads:
        return threads.map(abs, [-1, -2]), threads.apply_async(time.sleep, (5,)).get()


def child() -> object:
    """A child process: it takes real time, and none on the virtual clock."""
    with subprocess.Popen(["sleep", "0.3"]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
        waited = process.wait(100)
    return waited, subprocess.run(["cat"], input=b"x", capture_output=True, timeout=100).stdout, time.monotonic() < 1001


def loop() -> object:
    """An event loop that waits for a socket only, whose other end is a child process."""

    async def main() -> bytes:
        one, other = socket.socketpair()
        with other:
            process = subprocess.Popen(["sh", "-c", "sleep 0.2; echo x"], stdout=other)
        reader, writer = await asyncio.open_connection(sock=one)
        line = await reader.readline()
        writer.close()
        return line, process.wait()

    return asyncio.run(main())


OUTSIDE = {
    pipe: (b"x", 1005.0),
    limited_select: (([], [], []), ([], [], []), 1005.0),
    limited_socket: (b"x", 1007.0),
    pool: ([1, 2], None),
    child: (0, b"x", True),
    loop: (b"x\n", 0),
}


@pytest.mark.parametrize("program", OUTSIDE, ids=[program.__name__ for program in OUTSIDE])
def test_a_wait_for_something_outside_lets_others_go_on(program):
    """In a task, beside another one that ends meanwhile."""

    @ray.remote
    def task() -> object:
        return program()

    @ray.remote
    def other() -> int:
        time.sleep(1)
        return 1

    assert simulate(lambda: ray.get([other.remote(), task.remote()])) == [1, OUTSIDE[program]]


def test_who_waits_outside_is_reported(capfd):
    """With the stack, if it takes long."""

    def program() -> None:
        with subprocess.Popen(["sleep", "0.5"]) as process:
            process.wait()

    Run(program, 1, watchdog_s=0.1).go()
    report = capfd.readouterr().err
    assert "These threads wait for something outside of it" in report
    assert "driver, for the process" in report
    assert "process.wait()" in report


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it needs os.fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_takes_no_part():
    """It has no other thread, to which it could give the baton. In some schedules it used to wait for it forever, in
    the lock that `threading` takes after a fork."""

    @ray.remote
    def forks() -> int:
        child = os.fork()
        if not child:
            began = time.time()
            threading.Thread(target=threading.Lock().acquire).start()
            os._exit(7 if began != 1767225600.0 else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def program() -> tuple[list[int], float]:
        return ray.get([forks.remote() for _ in range(3)]), time.time()

    for seed in range(10):
        assert simulate(program, seed) == ([7, 7, 7], 1767225600.0)


# ---------------------------------------------------------------- the end of a run


@ray.remote
class Partner:
    """Calls its partner, which may call back."""

    def meet(self, partner):
        """Get to know the partner."""
        self.partner = partner

    def call(self):
        """Ask the partner, and wait for the answer."""
        return ray.get(self.partner.answer.remote())

    def answer(self):
        """The answer."""
        return 1


def mutual_calls():
    """Two actors that wait for each other."""
    one, other = Partner.remote(), Partner.remote()
    ray.get([one.meet.remote(other), other.meet.remote(one)])
    ray.get([one.call.remote(), other.call.remote()])


def test_a_deadlock_is_found_at_once_and_names_the_circle():
    """Two of the schedules of mutual calls end in one."""
    with pytest.raises(ExplorationFailure) as caught:
        explore(mutual_calls, seeds=range(100))
    error = caught.value.__cause__
    assert isinstance(error, ray.exceptions.DeadlockError)
    assert "Partner (actor 1) -> Partner (actor 3) -> Partner (actor 1)" in str(error)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # both threads get the error
def test_a_deadlock_of_locks():
    """Locks that are made inside the simulation take part."""

    def program() -> None:
        locks = [threading.Lock(), threading.Lock()]

        def take(first, second) -> None:
            with first, second:
                pass

        thread = threading.Thread(target=take, args=locks, daemon=True)
        thread.start()
        take(*reversed(locks))
        thread.join()

    with pytest.raises(ExplorationFailure) as caught:
        explore(program, seeds=range(100))
    assert isinstance(caught.value.__cause__, ray.exceptions.DeadlockError)
    assert "has" in str(caught.value.__cause__)


def test_a_task_that_fits_nowhere_is_a_deadlock():
    """The error says why."""

    @ray.remote(resources={"gold": 1})
    def dig() -> None:
        """Never runs."""

    with pytest.raises(ray.exceptions.DeadlockError, match="no node has that much"):
        simulate(lambda: ray.get(dig.remote()))


@pytest.mark.parametrize("limit", ["max_steps", "max_virtual_s"])
def test_a_run_without_end_exceeds_a_limit(limit):
    """The failure shows the last steps."""

    @ray.remote
    def tick() -> None:
        while True:
            time.sleep(600)

    with pytest.raises(ExplorationFailure, match=limit) as caught:
        explore(lambda: ray.get(tick.remote()), seeds=[0], **{limit: 3600})
    assert "sleeps" in caught.value.story


def test_a_loop_that_only_looks_at_the_clock_ends():
    """So does a loop that polls: after many looks in a row the clock advances."""

    @ray.remote
    def late() -> int:
        time.sleep(2)
        return 1

    def program() -> int:
        end = time.monotonic() + 1
        while time.monotonic() < end:
            continue
        ref = late.remote()
        while not ray.wait([ref], timeout=0)[0]:
            continue
        return ray.get(ref)

    assert simulate(program) == 1


def test_cancel_and_kill_reach_a_task_at_its_next_step():
    """Whether it sleeps, waits for a lock or calls the runtime."""

    @ray.remote
    def sleeps() -> str:
        try:
            time.sleep(1000)
        except KeyboardInterrupt:
            return "interrupted"
        return "slept"

    @ray.remote
    def puts() -> None:
        while True:
            ray.put(1)

    @ray.remote
    def locked() -> None:
        lock = threading.Lock()
        lock.acquire()
        lock.acquire(timeout=500)

    def program() -> float:
        refs = [sleeps.remote(), puts.remote(), locked.remote()]
        time.sleep(0.1) if random.random() < 0.5 else ray.get(ray.put(1))
        for ref in refs:
            ray.cancel(ref)
        for ref in refs[1:]:
            with pytest.raises(ray.exceptions.TaskCancelledError):
                ray.get(ref)
        with contextlib.suppress(ray.exceptions.TaskCancelledError):  # raised if it was cancelled before it began
            assert ray.get(refs[0]) == "interrupted"
        return time.monotonic()

    assert all(simulate(program, seed) < 1010 for seed in range(30))


def test_threads_end_with_their_run():
    """Also those that nobody joins, and those that wait."""

    def program() -> None:
        for _ in range(3):
            threading.Thread(target=queue.Queue().get).start()
        threading.Timer(1e6, print).start()

    before = threading.active_count()
    for seed in range(5):
        simulate(program, seed)
    assert threading.active_count() == before


def test_a_thread_from_outside_may_start_threads():
    """It takes no part, and neither do they."""
    begins, seen = threading.Event(), []

    def outside():
        begins.wait()
        inner = threading.Thread(target=seen.append, args=(1,))
        inner.start()
        inner.join()

    thread = threading.Thread(target=outside)
    thread.start()

    def program():
        begins.set()
        thread.join()

    simulate(program, 1)
    assert seen == [1]


def test_a_thread_from_outside_is_refused():
    """The simulation cannot decide when it runs."""
    begin, errors = threading.Event(), []

    def outside() -> None:
        begin.wait()
        try:
            ray.put(1)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=outside)
    thread.start()

    def program() -> None:
        ray.put(1)
        begin.set()
        thread.join()

    simulate(program)
    assert "inside the simulation" in errors[0]


def test_a_foreign_wait_is_reported_with_its_stack(capfd):
    """A real lock, made before the simulation, is released by a real thread. Takes as long as the watchdog waits."""
    lock = threading.Lock()
    lock.acquire()
    release = threading.Event()

    def later() -> None:
        release.wait()
        lock.release()

    threading.Thread(target=later).start()
    real_timer = threading.Timer(0.5, release.set)
    real_timer.start()
    Run(lambda: lock.acquire(), 1, watchdog_s=0.1).go()
    assert "waits for something outside" in capfd.readouterr().err


ENDS = """
import time
import miniray as ray

ray.init(runtime="simulated", seed=1, num_cpus=2)

@ray.remote
def slow():
    time.sleep(5)

@ray.remote
class Waits:
    async def for_value(self, refs):
        return await refs[0]

    async def ready(self):
        return 1

waits, ref = Waits.remote(), slow.remote()
refs = [waits.for_value.remote([ref]) for _ in range(3)]
print(ray.get(waits.ready.remote()))
"""


def test_a_program_that_ends_while_coroutines_wait_says_nothing():
    """They are closed when their loop has ended, and report nothing then."""
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, cwd=ROOT, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_deadlock_names_the_placement_group_that_finds_no_room():
    def program() -> None:
        ray.init(num_cpus=2)
        ray.get(placement_group([{"CPU": 99}]).ready())

    with pytest.raises(
        ray.exceptions.DeadlockError, match="driver waits for an object .placement group .* needs 1 bundle of 99 CPU"
    ):
        simulate(program, 1)
