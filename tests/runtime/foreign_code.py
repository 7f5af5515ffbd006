"""A program in which code of its own runs at every possible moment, and calls everything: the cyclic collector runs all
the time and finds finalisers, callbacks of weak references and `weakref.finalize` (traps.py); a signal comes a thousand
times a second and its handler calls, too; and threads submit meanwhile.

    python -m tests.runtime.foreign_code ROUNDS [SIGNALS_PER_SECOND] [SEED]

It prints how often code of each kind was called, and ends. If any of it ran under the core's lock, it would hang.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
import time

import miniray as ray
from miniray.util.queue import Queue
from tests.runtime import traps
from tests.runtime.traps import Counter, Trap, double, ran

THREADS = 3
ENOUGH, FURTHER_S = 10, 100  # how often code of each kind is called at least; for so long the work goes on for that


@ray.remote(num_cpus=0)
def returns_a_trap():
    return Trap("result")


def work(rounds, seed):
    mine, refs = random.Random(seed), []
    steps = [
        lambda: refs.append(double.remote(mine.random())),
        lambda: refs.append(kept.add.remote()),
        lambda: refs.append(ray.put([mine.random()])),
        lambda: ray.wait(refs, timeout=0),
        lambda: ray.get(refs),
        lambda: refs.append(returns_a_trap.remote()),
        refs.clear,
    ]
    try:
        for _ in range(rounds):
            for step in steps:
                Trap("cycle")
                traps.collect_soon(mine)
                step()
    except BaseException as error:
        traps.problems.append(error)


def main():
    global kept
    rounds, per_second, seed = (int(value) for value in [*sys.argv[1:], *("1000", "0")[len(sys.argv) - 2 :]])
    traps.chance.seed(seed)
    sys.setswitchinterval(1e-5)
    if hasattr(signal, "setitimer") and per_second:
        signal.signal(signal.SIGALRM, lambda number, frame: traps.call_something("signal"))  # before the session
    ray.init(num_cpus=2, log_to_driver=False)
    kept = Counter.options(name="kept").remote()
    traps.calls.extend([*traps.calls_of(Queue(), kept), traps.new_metric])
    ray.get(kept.add.remote())
    threads = [threading.Thread(target=work, args=(rounds, seed + number)) for number in range(1, THREADS)]
    with traps.signals(per_second):
        for thread in threads:
            thread.start()
        work(rounds, seed)
        for thread in threads:
            thread.join()
        # A collection calls all callbacks before the first `__del__`, and while it goes on, no other one starts.
        deadline = time.monotonic() + FURTHER_S
        while min(ran[kind] for kind in ("callback", "finalize", "__del__ of cycle")) <= ENOUGH:
            assert time.monotonic() < deadline, dict(ran)
            work(1, seed)
        assert gc.isenabled()
    gc.set_threshold(700, 10, 10)
    ray.get(kept.add.remote())
    traps.ending.append(True)
    ray.shutdown()
    assert gc.isenabled()
    for problem in traps.problems[:3]:
        raise problem
    print(dict(sorted(ran.items())))


if __name__ == "__main__":
    # Not by the name __main__: what is defined there travels by value, and tasks would have copies of everything.
    from tests.runtime import foreign_code

    foreign_code.main()
