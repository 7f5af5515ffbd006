"""Traps: cycles that nobody holds. The cyclic collector finds one at some allocation, on whichever thread makes it, and
then calls code of three kinds: `__del__`, the callback of a weak reference, and `weakref.finalize`. All of this code
calls the API, and so does a signal handler, a thousand times a second.

`foreign_code.py` is a program that does little else. `everywhere` adds the same to any other program (chaos, soak), with
calls that do not change what that program checks.

A wait for a task or an actor has a timeout. The collector runs a finaliser on any thread, also on that of the worker
that the call needs, and there the wait can only end in this way. If that worker's task is cancelled, the wait is
interrupted. If that worker is dead, the call is refused.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import os
import queue
import random
import signal
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import miniray as ray
from miniray import state
from miniray.experimental import internal_kv
from miniray.core.transitions import WorkerStatus
from miniray.process import context
from miniray.process.exits import WorkerExit
from miniray.runtime.core_lock import HAS_GIL
from miniray.util import metrics
from miniray.util import state as util_state
from miniray.util.queue import Queue

TIMEOUT = 0.02
SECOND = 1 if HAS_GIL else 0  # without the GIL, 0 means: do not wait for a quarter of all objects to be new
PER_SECOND = 1000  # signals
NESTED = 3  # a signal handler is interrupted by the next signal; so many may run at a time
SET_AT_ONCE = 10  # so many traps of `everywhere` wait for the collector at a time
PATIENCE_S = 60  # a call takes a fraction of a second
DEATHS = (  # what a call may meet if workers and nodes die and values are lost
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.NodeDiedError,
    ray.exceptions.RayActorError,
    ray.exceptions.ObjectLostError,
)

ran: collections.Counter[str] = collections.Counter()
problems: list[BaseException] = []
chance = random.Random(0)
calls: list[Callable[[], Any]] = []  # if there is none, nothing is called
tolerated: tuple[type[BaseException], ...] = ()
again: list[bool] = []  # a trap that has been found sets another one
ending: list[bool] = []  # the session is ending: calls that are going on raise SessionEnded
going_on: dict[object, None] = {}  # an item for each call
over: queue.SimpleQueue[None] = (
    queue.SimpleQueue()
)  # told by calls that end when no more shall begin; `put` is reentrant


@ray.remote(num_cpus=0)
def double(x):
    return 2 * x


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
        ran["(kept is gone)"] += 1


def uses_queue(queue):
    wait_for(queue.actor.put_nowait.remote(1))
    try:
        wait_for(queue.actor.get_nowait.remote())
    except asyncio.QueueEmpty:
        ran["(queue was empty)"] += 1


def new_metric():
    metrics.Counter(f"calls{random.randrange(10**12)}", tag_keys=("kind",)).inc(1, {"kind": "a"})


def wait_for(ref):
    try:
        ray.get(ref, timeout=TIMEOUT)
    except ray.exceptions.GetTimeoutError:
        ran["(timeouts)"] += 1


def calls_of(queue, kept):
    """Calls of many kinds. None changes anything but what this module has made, and none needs more and more memory."""
    counted = metrics.Counter("calls", tag_keys=("kind",))
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
        lambda: counted.inc(1, {"kind": "a"}),
        lambda: chance.random() < 0.02 and ray.timeline(),
        lambda: util_state.list_tasks(limit=10, raise_on_missing_output=False),
        lambda: util_state.list_actors(limit=10, raise_on_missing_output=False),
        lambda: util_state.list_objects(limit=10, raise_on_missing_output=False),
        lambda: util_state.summarize_tasks(raise_on_missing_output=False),
        lambda: state.list_workers(),
        lambda: ray.nodes() and ray.available_resources(),
        lambda: ray.get_runtime_context().get_job_id(),
        lambda: internal_kv._internal_kv_put(b"a", b"b"),
    ]


def call_something(kind):
    """One call of the API, whatever it is. Nothing outside a session, and nothing if there are no calls."""
    mine = object()
    going_on[mine] = None
    try:
        if calls and ray.is_initialized():
            _call(chance.choice(calls), kind)
    except IndexError:  # the last call has gone in this moment
        ran["(too late)"] += 1
    finally:
        going_on.pop(mine)
        if not calls:
            over.put(None)


def _call(call, kind):
    try:
        call()
        ran[kind] += 1
    except (ray.exceptions.TaskCancelledError, ray.exceptions.RaySystemError, *tolerated):
        ran["(errors)"] += 1
    except KeyboardInterrupt as error:
        if threading.get_native_id() == os.getpid():  # a worker's thread is the main thread to its task
            problems.append(error)
        ran["(interrupted)"] += 1
    except WorkerExit:
        ran["(on a dead worker)"] += 1
    except BaseException as error:
        here = context.current.get()
        if here is not None and here.worker.status is WorkerStatus.DEAD:  # what it owned has ended with it
            ran["(on a dead worker)"] += 1
        elif not ending:
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
        if again:
            set_again()

    def __reduce__(self):
        return Trap, (self.kind,)


class Watched:
    def __init__(self):
        self.me = self


def set_again():
    """Set a trap for the next collection, unless enough of them are set."""
    if calls and len(refs_with_callback) < SET_AT_ONCE:
        Trap("cycle")
        collect_soon(chance)


def collect_soon(chance):
    """The collector finds the traps after so many further allocations."""
    gc.set_threshold(chance.choice((1, chance.randrange(1, 100))), SECOND, 2)


def num_calls() -> int:
    """The number of calls that were made and returned."""
    return sum(count for kind, count in ran.items() if not kind.startswith("("))


@contextlib.contextmanager
def signals(per_second):
    """Call the handler of SIGALRM, which the program has set, so often."""
    if hasattr(signal, "setitimer") and per_second:
        signal.setitimer(signal.ITIMER_REAL, 1 / per_second, 1 / per_second)
    try:
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)


def no_more_calls():
    """Call nothing from now on. Returns when the calls that are going on have ended."""
    calls.clear()
    deadline = time.monotonic() + PATIENCE_S
    while going_on:
        assert time.monotonic() < deadline, f"{len(going_on)} calls do not end"
        with contextlib.suppress(
            queue.Empty
        ):  # a call whose task was cancelled may have been interrupted before it told
            over.get(timeout=1)


class Everywhere:
    """The stress of a program that goes on meanwhile. pause: without calls, until the block ends."""

    def __init__(self, seed: int):
        chance.seed(seed)
        self.running = 0
        kept = Counter.options(name="kept", max_restarts=-1).remote()
        queue = Queue(actor_options={"num_cpus": 0, "max_restarts": -1})
        ray.get(kept.add.remote())
        self.calls = calls_of(queue, kept)

    def on_signal(self, number: int, frame: object) -> None:
        """Make a call, and set a trap unless enough of them wait for the collector."""
        if self.running == NESTED:
            return
        self.running += 1  # on the main thread only
        try:
            set_again()
            call_something("signal")
        finally:
            self.running -= 1

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Without calls, and with the usual thresholds. The calls that were going on have ended."""
        no_more_calls()
        gc.set_threshold(700, 10, 10)
        gc.collect()  # errors that the calls have met hold frames, and these hold references
        try:
            yield
        finally:
            calls.extend(self.calls)
            set_again()


@contextlib.contextmanager
def everywhere(seed: int, tolerate: tuple[type[BaseException], ...] = ()) -> Iterator[Everywhere]:
    """During the block, the collector and signals call the API at every moment, on all threads. Needs a session, and the
    main thread. Afterwards nothing of this is left, and the first problem that a call has met is raised.
    """
    global tolerated
    for full in "Failed to retrieve all", ".* are missing: they were dropped":  # a table is full
        warnings.filterwarnings("ignore", full)
    ran.clear()
    problems.clear()
    tolerated = tolerate
    stress = Everywhere(seed)
    before = signal.signal(signal.SIGALRM, stress.on_signal)
    calls.extend(stress.calls)
    again.append(True)
    set_again()
    try:
        with signals(PER_SECOND):
            yield stress
    finally:
        again.clear()
        no_more_calls()
        signal.signal(signal.SIGALRM, before)
        gc.set_threshold(700, 10, 10)
        stress.calls.clear()  # they hold the actors
        gc.collect()
    for problem in problems[:1]:
        raise problem
