"""A program in which code of its own runs at every possible moment, and calls everything: the cyclic collector runs all
the time and finds finalisers, callbacks of weak references and `weakref.finalize`; a signal comes a thousand
times a second and its handler calls, too; and threads submit meanwhile.

    python -m tests.runtime.foreign_code ROUNDS [SIGNALS_PER_SECOND] [SEED]

It prints how often code of each kind was called, and ends. If any of it ran under the core's lock, it would hang.

A wait for a task or an actor has a timeout. The collector runs a finaliser on any thread, also on that of the worker
that the call needs, and there the wait can only end in this way. If that worker's task is cancelled, the wait is
interrupted. If that worker is dead, the call is refused.
"""

from __future__ import annotations

import asyncio
import collections
import gc
import os
import random
import signal
import sys
import threading
import time
import weakref

import miniray as ray
from miniray import state
from miniray.experimental import internal_kv
from miniray.process.exits import WorkerExit
from miniray.runtime.core_lock import HAS_GIL
from miniray.util import metrics
from miniray.util import state as util_state
from miniray.util.queue import Queue

THREADS = 3
ENOUGH, FURTHER_S = 10, 25  # how often code of each kind is called at least; for so long the work goes on for that
TIMEOUT = 0.02
SECOND = 1 if HAS_GIL else 0  # without the GIL, 0 means: do not wait for a quarter of all objects to be new
ran: collections.Counter[str] = collections.Counter()
problems: list[BaseException] = []
ending: list[bool] = []  # the session is ending: calls that are going on raise SessionEnded


@ray.remote(num_cpus=0)
def double(x):
    return 2 * x


@ray.remote(num_cpus=0)
def returns_a_trap():
    return Trap("result")


@ray.remote(num_cpus=0)
class Counter:
    def __init__(self):
        self.count = 0

    def add(self, by=1):
        self.count += by
        return self.count


def short_lived_actor():
    actor = Counter.options(name=f"short{random.random()}").remote()
    ref = actor.add.remote()
    ray.kill(actor)
    return ref


def cancels():
    ref = double.remote(1)
    ray.cancel(ref)


def looks_up():
    try:
        ray.get_actor("kept").add.remote()
    except ValueError:
        ran["kept is gone"] += 1


def uses_queue(queue):
    wait_for(queue.actor.put_nowait.remote(1))
    try:
        wait_for(queue.actor.get_nowait.remote())
    except asyncio.QueueEmpty:
        ran["queue was empty"] += 1


def records_metrics():
    metrics.Counter(f"calls{random.randrange(10**12)}", tag_keys=("kind",)).inc(1, {"kind": "a"})


def wait_for(ref):
    try:
        ray.get(ref, timeout=TIMEOUT)
    except ray.exceptions.GetTimeoutError:
        ran["(timeouts)"] += 1


def calls_of(queue, kept):
    return [
        lambda: ray.put([1, 2, 3]),
        lambda: ray.get(ray.put({"a": 1})),
        lambda: wait_for(double.remote(1)),
        lambda: double.remote([1]),
        lambda: ray.wait([double.remote(1), double.remote(2)], timeout=TIMEOUT),
        lambda: ray.wait([double.remote(1)], timeout=0),
        lambda: wait_for([double.remote(double.remote(n)) for n in range(3)]),
        lambda: kept.add.remote(2),
        lambda: wait_for(kept.add.remote(double.remote(1))),
        short_lived_actor,
        cancels,
        looks_up,
        lambda: uses_queue(queue),
        records_metrics,
        lambda: chance.random() < 0.1 and ray.timeline(),
        lambda: util_state.list_tasks(limit=10),
        lambda: util_state.list_actors(limit=10),
        lambda: util_state.list_objects(limit=10),
        lambda: util_state.summarize_tasks(),
        lambda: state.list_workers(),
        lambda: ray.nodes() and ray.available_resources(),
        lambda: ray.get_runtime_context().get_job_id(),
        lambda: internal_kv._internal_kv_put(b"a", b"b"),
    ]


def call_something(kind):
    """One call of the API, whatever it is. Once the session has ended, nothing."""
    if not ray.is_initialized():
        return
    call = chance.choice(calls)
    try:
        call()
        ran[kind] += 1
    except ray.exceptions.RayError as error:
        if not isinstance(error, (ray.exceptions.TaskCancelledError, ray.exceptions.RaySystemError)):
            problems.append(error)
    except KeyboardInterrupt as error:
        if threading.get_native_id() == os.getpid():  # a worker's thread is the main thread to its task
            problems.append(error)
        ran["(interrupted)"] += 1
    except WorkerExit:
        ran["(on a dead worker)"] += 1
    except BaseException as error:
        if not ending:
            problems.append(error)


refs_with_callback: dict[object, None] = {}  # a reference that dies together with its object calls nothing


def called_back(ref):
    refs_with_callback.pop(ref, None)
    call_something("callback")


class Trap:
    """A cycle. The collector finds it wherever the next allocation is made, and calls three kinds of code."""

    def __init__(self, kind):
        self.kind, self.me = kind, self
        self.watched = Watched()
        refs_with_callback[weakref.ref(self.watched, called_back)] = None
        weakref.finalize(self, call_something, "finalize")

    def __del__(self):
        call_something(f"__del__ of {self.kind}")

    def __reduce__(self):
        return Trap, (self.kind,)


class Watched:
    def __init__(self):
        self.me = self


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
                # The collector finds this trap after so many further allocations.
                gc.set_threshold(mine.choice((1, mine.randrange(1, 100))), SECOND, 2)
                step()
    except BaseException as error:
        problems.append(error)


def main():
    global chance, kept, calls
    rounds, per_second, seed = (int(value) for value in [*sys.argv[1:], *("1000", "0")[len(sys.argv) - 2 :]])
    chance = random.Random(seed)
    sys.setswitchinterval(1e-5)
    if hasattr(signal, "setitimer") and per_second:
        signal.signal(signal.SIGALRM, lambda number, frame: call_something("signal"))  # before the session
    ray.init(num_cpus=2, log_to_driver=False)
    kept = Counter.options(name="kept").remote()
    queue = Queue()
    calls = calls_of(queue, kept)
    ray.get(kept.add.remote())
    threads = [threading.Thread(target=work, args=(rounds, seed + number)) for number in range(1, THREADS)]
    if hasattr(signal, "setitimer") and per_second:
        signal.setitimer(signal.ITIMER_REAL, 1 / per_second, 1 / per_second)
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
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
    gc.set_threshold(700, 10, 10)
    ray.get(kept.add.remote())
    ending.append(True)
    ray.shutdown()
    assert gc.isenabled()
    for problem in problems[:3]:
        raise problem
    print(dict(sorted(ran.items())))


if __name__ == "__main__":
    # Not by the name __main__: what is defined there travels by value, and tasks would have copies of everything.
    from tests.runtime import foreign_code

    foreign_code.main()
