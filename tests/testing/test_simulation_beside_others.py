"""A simulation beside forked children, other threads of the program, other simulations, and statements of SQL."""

from __future__ import annotations

import concurrent.futures
import gc
import os
import queue
import sys
import threading
import time

import pytest

import miniray as ray
from miniray.testing import explore, simulate


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it needs os.fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_inherited_locks_are_real_in_a_forked_child():
    """Two threads of the child want one at the same time. The second used to get an error."""

    def child(condition: threading.Condition, held: threading.Lock, work: queue.Queue[int]) -> int:
        seen: list[object] = []

        def waits() -> None:
            with condition:
                seen.append(condition.wait_for(lambda: "go" in seen, timeout=50))
            work.put(1)

        thread = threading.Thread(target=waits)
        with condition:
            thread.start()
            seen.append(held.locked() and not held.acquire(timeout=0.05))
            held.release()
            seen.append("go")
            condition.notify_all()
        if work.get(timeout=50) != 1:
            return 1
        thread.join(50)
        return 7 if seen == [True, "go", True] and held.acquire(False) and gc.isenabled() else 2

    def program() -> int:
        condition, held, work = threading.Condition(), threading.Lock(), queue.Queue()  # type: ignore[var-annotated]
        held.acquire()
        process = os.fork()
        if not process:
            try:
                os._exit(child(condition, held, work))
            finally:
                os._exit(3)
        assert held.locked()
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    assert [simulate(program, seed) for seed in range(3)] == [7, 7, 7]


def test_several_threads_may_simulate():
    """One after the other, since a process can have only one simulation. They used to get errors of all kinds."""
    results: list[object] = []

    def work() -> None:
        results.append(simulate(lambda: ray.get(ray.put(time.time())), 1))
        results.append(explore(lambda: print(ray.get(ray.put(2))), 5).runs)

    threads = [threading.Thread(target=work) for _ in range(4)]
    output = sys.stdout
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [5] * 4 + [1767225600.0] * 4
    assert sys.stdout is output


@pytest.mark.parametrize("run", [simulate, explore])
def test_a_simulation_in_a_simulation_is_refused(run):
    """By the driver, by a task, and by a thread."""

    def within() -> str:
        with pytest.raises(RuntimeError, match="simulation is running|session is running") as caught:
            run(lambda: 1)
        return str(caught.value)

    @ray.remote
    def task() -> str:
        return within()

    def program() -> None:
        within()
        assert "part of it" in ray.get(task.remote())
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            assert "part of it" in pool.submit(within).result()

    simulate(program)


@pytest.mark.parametrize("statement", ["endless", "function"])
def test_the_time_limit_of_a_statement_is_real(statement):
    """A statement takes real time, while the virtual clock stands still. The limit used to have no effect."""
    text = "replace(hex(zeroblob(100000)), '0', 'a')"
    statements = {
        "endless": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n",
        "function": f"SELECT instr({text}, substr({text}, 1, 100000) || 'b')",
    }

    def program() -> None:
        ray.put(1)
        with pytest.raises(Exception, match=r"longer than timeout_s=0\.1"):
            ray.sql(statements[statement], timeout_s=0.1)
        assert ray.sql("SELECT 1 AS n").rows == [{"n": 1}]

    simulate(program)
