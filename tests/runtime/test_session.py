"""Sessions begin and end: nothing of them is left, however many there were, and an idle session does nothing."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import miniray as ray
from miniray import session as sessions
from miniray.process import context, guards
from miniray.runtime import inbox, interrupts
from tests.interpreter import frees_memory
from tests.runtime.several_nodes import Threads

MODES = pytest.mark.parametrize("local_mode", [False, True], ids=["threaded", "local_mode"])
needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads and files are counted in /proc")
PATIENCE_S = 30


@ray.remote
def double(x: int) -> int:
    """A task."""
    return 2 * x


@ray.remote
def items(length: int) -> Iterator[int]:
    """A generator."""
    for x in range(length):
        yield x


@ray.remote(num_cpus=0)
class Cell:
    """An actor."""

    def __init__(self) -> None:
        self.value = 0

    def put(self, value: Any) -> Any:
        """Keep a value, and return it."""
        self.value = value
        return value


@ray.remote(num_cpus=0)
class Loop:
    """An async actor."""

    async def echo(self, x: int) -> int:
        """The same."""
        return x


def use(local_mode: bool) -> None:
    """Run a session in which a little of everything happens, and some of it is unfinished at the end."""
    ray.init(num_cpus=2, local_mode=local_mode, log_to_driver=False)
    runtime = context.running()
    if not local_mode:
        runtime.threads = left = Threads(runtime.threads)
    refs = [double.remote(x) for x in range(3)]
    cell, loop = Cell.remote(), Loop.options(name="loop").remote()
    assert ray.get([*refs, cell.put.remote([1]), loop.echo.remote(5), ray.put(bytes(200_000))])[:5] == [0, 2, 4, [1], 5]
    stream = items.remote(3)
    assert ray.get(next(stream)) == 0
    double.remote(refs[0])
    ray.shutdown()
    if not local_mode:
        assert left.empty.wait(PATIENCE_S)


def held() -> dict[str, int]:
    """Counts of everything that a session might leave behind in the process."""
    gc.collect()
    kinds = [type(thing).__module__ for thing in gc.get_objects()]
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
        "records": sum(isinstance(kind, str) and kind.startswith("miniray") for kind in kinds),
        "pipes": len(inbox._pipes),
        "known threads": threading.active_count(),
        "looks at the end": len(sessions.before_end),
    }


def threads_are(number: int) -> None:
    """Wait until the system has removed the threads that have reported their end."""
    deadline = time.monotonic() + PATIENCE_S
    while len(os.listdir("/proc/self/task")) > number and time.monotonic() < deadline:
        os.sched_yield()


@needs_proc
@frees_memory
@MODES
@pytest.mark.slow
def test_hundreds_of_sessions_leave_nothing_behind(local_mode: bool):
    """There are as many threads, files, records and guards afterwards as after the first few sessions. Slow because
    there are many sessions."""
    for _ in range(5):
        use(local_mode)
    before = held()
    for _ in range(150):
        use(local_mode)
    threads_are(before["threads"])
    after = held()
    assert after == before | {"records": after["records"], "threads": after["threads"]}
    assert after["records"] <= before["records"] + 20 and after["threads"] <= before["threads"]
    assert not guards._users


@needs_proc
@frees_memory
@pytest.mark.slow
def test_a_thousand_empty_sessions_take_no_memory():
    """Memory that one session allocates is free again for the next. Slow because there are a thousand sessions."""

    def cycle(times: int) -> None:
        for _ in range(times):
            ray.init(num_cpus=1, log_to_driver=False)
            ray.shutdown()

    cycle(50)
    before = resident_bytes()
    cycle(1_000)
    assert resident_bytes() - before < 2_000_000


def resident_bytes() -> int:
    """The resident memory of this process."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@MODES
def test_the_tables_are_empty_when_the_program_has_dropped_everything(local_mode: bool):
    """Even before the session ends. Only the records that the state API shows are left."""
    ray.init(num_cpus=2, local_mode=local_mode, log_to_driver=False)
    try:
        refs = [double.remote(x) for x in range(10)]
        cell = Cell.remote()
        nested = ray.put([cell.put.remote(ray.put(1)), *refs])
        assert len(ray.get(ray.get(nested))) == 11
        del refs, cell, nested
        gc.collect()
        with context.running().locked():
            pass
        with context.running().locked() as cluster:
            assert not cluster.objects and not context.running().driver_waiters
            assert all(task.args is None for task in cluster.tasks.values())
            assert all(node.available == node.total for node in cluster.nodes.values())
    finally:
        ray.shutdown()


def switches() -> int:
    """How often the threads of this process, except this one, have been given a processor."""
    total = 0
    for thread in os.listdir("/proc/self/task"):
        if int(thread) != threading.get_native_id():
            with open(f"/proc/self/task/{thread}/status", encoding="ascii") as file:
                total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    return total


@needs_proc
def test_a_session_with_nothing_to_do_does_nothing():
    """Idle workers, actors and an event loop: none of their threads runs even once."""
    ray.init(num_cpus=4, log_to_driver=False)
    try:
        cell, loop = Cell.remote(), Loop.remote()
        ray.get([*(double.remote(x) for x in range(8)), cell.put.remote(1), loop.echo.remote(1)])
        came = came_to_rest()
        before, cpu_s = switches(), time.process_time()
        assert not threading.Event().wait(0.2)  # the test measures a time in which nothing happens
        assert (switches() - before, came) == (0, True)
        assert time.process_time() - cpu_s < 0.02
    finally:
        ray.shutdown()


def came_to_rest(looks: int = 1_000) -> bool:
    """Wait until all threads but this one sleep. Returns whether they do."""
    for _ in range(looks):
        states = []
        for thread in os.listdir("/proc/self/task"):
            if int(thread) != threading.get_native_id():
                with open(f"/proc/self/task/{thread}/stat", encoding="ascii") as file:
                    states.append(file.read().rpartition(")")[2].split()[0])
        if set(states) <= {"S"}:
            return True
        os.sched_yield()
    return False


@MODES
def test_what_belongs_to_an_ended_session_says_so(local_mode: bool):
    """The next session refuses references, actors and generators of the last one, and does not confuse them with its
    own of the same numbers."""
    ray.init(num_cpus=2, local_mode=local_mode, log_to_driver=False)
    old = [double.remote(1), Cell.remote(), items.remote(2)]
    ray.shutdown()
    ray.init(num_cpus=2, local_mode=local_mode, log_to_driver=False)
    try:
        same_numbers = [double.remote(5), Cell.remote(), items.remote(2)]
        for use_it in (lambda: ray.get(old[0]), lambda: ray.get(old[1].put.remote(1)), lambda: next(old[2])):
            with pytest.raises(Exception, match="shut down"):
                use_it()
        old.clear()
        gc.collect()
        assert ray.get(same_numbers[0]) == 10 and ray.get(same_numbers[1].put.remote(3)) == 3
        assert ray.get(list(same_numbers[2])) == [0, 1]
    finally:
        ray.shutdown()


@MODES
@pytest.mark.parametrize(
    "call",
    [lambda: ray.get(double.remote(4)), lambda: ray.get(Cell.remote().put.remote(8)), lambda: ray.get(ray.put(8))],
    ids=["task", "actor", "put"],
)
def test_a_remote_function_serves_one_session_after_the_other(local_mode: bool, call: Callable[[], Any]):
    """The function is captured again in each session."""
    for _ in range(3):
        ray.init(num_cpus=1, local_mode=local_mode, log_to_driver=False)
        assert call() == 8
        ray.shutdown()


@pytest.mark.skipif(inbox.HAS_GIL, reason="with the GIL the import takes milliseconds, whatever else runs")
def test_without_the_gil_a_session_imports_what_interrupts_need_before_any_task_runs():
    """Beside busy tasks this import takes seconds, and the core's lock used to be held."""
    program = "import sys, miniray; miniray.init(num_cpus=1); print('ctypes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr


def test_the_file_of_logging_is_known_without_an_import():
    """A handler's lock is acquired in it, and no cancellation may interrupt that."""
    assert logging.Handler.acquire.__code__.co_filename in interrupts.FILES_THAT_ACQUIRE
