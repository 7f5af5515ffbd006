"""Programs whose answers are known, to be run under many seeds while a mistake is planted in the core.

`hunt` runs each of them under one seed after the other, and tells which seed is the first that notices something: a wrong
result, an error, a deadlock, a table of the core that contradicts another, or something that is left at the end.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import json
import sys
import time
from typing import Any, Callable

import miniray as ray
from miniray import state
from miniray.core.invariants import check
from miniray.process import context
from miniray.testing import FaultPlan
from miniray.testing.exploring.simulation import Run
from tests.runtime import chaos

LARGE = bytes(150_000)


@ray.remote(max_retries=3)
def make(number: int) -> tuple[int, bytes]:
    """A value that is large enough for the object store."""
    return number, LARGE


@ray.remote(max_retries=3)
def add(one: tuple[int, bytes], other: tuple[int, bytes]) -> tuple[int, bytes]:
    """Another one, from two."""
    return one[0] + other[0], LARGE


@ray.remote(max_retries=3)
def total(refs: list[Any], more: int) -> int:
    """The sum of these values and of some that are made on the way. Waits inside a task."""
    return sum(value[0] for value in ray.get(refs)) + sum(
        value[0] for value in ray.get([make.remote(number) for number in range(more)])
    )


@ray.remote
class Log:
    """A list that several callers append to."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def put(self, item: Any, after: Any = None) -> Any:
        """Append an item. after: something to wait for."""
        self.items.append(item)
        return after

    def all(self) -> list[Any]:
        """The items."""
        return self.items


@ray.remote
def slow(number: int) -> int:
    """Takes a while."""
    time.sleep(0.01 * number)
    return number


@ray.remote
def writer(log: Any, base: int) -> None:
    """Four calls of one caller; every second one waits for a value first."""
    ray.get(
        [
            log.put.remote(base + number) if number % 2 else log.put.remote(base + number, slow.remote(number))
            for number in range(4)
        ]
    )


@ray.remote(max_retries=0)
def fails() -> None:
    """Fails."""
    raise ValueError


@ray.remote
def use(value: Any) -> Any:
    """Returns its argument."""
    return value


@ray.remote(max_retries=2, retry_exceptions=True)
def fails_thrice(log: Any) -> None:
    """Fails in each attempt, and leaves a note."""
    ray.get(log.put.remote("an attempt"))
    raise OSError


@ray.remote
def outer(number: int) -> list[int]:
    """Lends its CPU while it waits for two others."""
    return ray.get([slow.remote(number), slow.remote(number + 1)])


@ray.remote
def busy(number: int) -> int:
    """Holds its CPU for a while, with a call of miniray in the middle."""
    time.sleep(0.03)
    ray.put(1)
    time.sleep(0.03)
    return number


@ray.remote
def three() -> Any:
    """A stream of three values."""
    yield 1
    yield 2
    yield 3


def several_nodes() -> None:
    """Values that depend on each other, on two nodes; an actor with two callers; errors, and retries."""
    ray.init(num_cpus=2, num_nodes=2)
    look_after_each_event()
    made = [make.remote(number) for number in range(4)]
    sums = [add.remote(made[number], made[number + 1]) for number in range(3)]
    everything = total.remote(sums, 3)
    log = Log.remote()
    writers = [writer.remote(log, base) for base in (10, 20)]
    ready, _ = ray.wait(made + sums, num_returns=3)
    assert len(ready) == 3
    failed = fails.remote()
    raises(ValueError, use.remote(failed))
    raises(ValueError, use.remote(failed))  # now it is known that the argument has failed
    raises(ValueError, log.put.remote("never", failed))
    rows = state.list_tasks(filters=[("name", "=", "use")], detail=True)
    assert not any(row["worker_id"] for row in rows), "a task got a worker though its argument had failed"
    assert ray.get(everything) == 1 + 3 + 5 + 3
    ray.get(writers)
    items = ray.get(log.all.remote())
    for base in (10, 20):
        assert [item for item in items if base <= item < base + 10] == [base + number for number in range(4)], items
    other = Log.remote()
    raises(OSError, fails_thrice.remote(other))
    assert ray.get(other.all.remote()) == ["an attempt"] * 3
    assert ray.get(Log.remote().put.remote(1, 2)) == 2  # the only handle is gone before the call has run
    assert [ray.get(ref) for ref in three.options(num_returns="streaming").remote()] == [1, 2, 3]
    del made, sums, everything, log, writers, ready, _, failed, other
    nothing_is_left({"CPU": 4.0})


def one_cpu() -> None:
    """Tasks that wait for each other on a single CPU; time limits; references inside of values."""
    ray.init(num_cpus=1)
    look_after_each_event()
    refs = [outer.remote(number * 10) for number in range(3)] + [busy.remote(number) for number in range(4)]
    with contextlib.suppress(ray.exceptions.GetTimeoutError):
        ray.get(refs, timeout=0.02)
    assert not any(ref._record.waiters for ref in refs), "who has given up still waits"
    ready, _ = ray.wait(refs, num_returns=3, timeout=0.2)
    assert ray.get(refs) == [[0, 1], [10, 11], [20, 21], 0, 1, 2, 3]
    box = ray.put([ray.put(5)])
    back = ray.get(use.remote([box]))
    assert ray.get(ray.get(back[0])[0]) == 5
    log = Log.remote()
    ray.get(log.put.remote([ray.put(6)]))
    assert ray.get(ray.get(log.all.remote())[0][0]) == 6
    del refs, ready, _, box, back, log
    nothing_is_left({"CPU": 1.0})


def raises(error: type[Exception], ref: Any) -> None:
    """The reference's task fails with this error."""
    try:
        value = ray.get(ref)
    except error:
        return
    raise AssertionError(f"{error.__name__} was expected, not {value!r}")


problems: list[Exception] = []


def look_after_each_event() -> None:
    """Check the tables of the core against each other after each event. `nothing_is_left` raises what was found."""
    cluster = context.running().cluster
    problems.clear()

    def look(now: float) -> list[Any]:
        reporting, cluster.scheduler.reporting = cluster.scheduler.reporting, None  # the event's last step undoes it
        try:
            check(cluster)
        except Exception as problem:
            problems.append(problem)
        cluster.scheduler.reporting = reporting
        return []

    cluster.after_event.append(look)


def nothing_is_left(resources: dict[str, float]) -> None:
    """All objects are gone, and all resources are free. Raises the first problem that an event has left."""
    time.sleep(1)
    gc.collect()  # without the GIL, what another thread has dropped may wait for a thread that is parked now
    ray.get(ray.put(1))  # an event, with which dropped references are reported
    if problems:
        raise problems[0]
    left = list(state.list_objects())
    assert not left, left[:3]
    free = ray.available_resources()
    assert {name: free.get(name) for name in resources} == resources, free


PROGRAMS: dict[str, tuple[Callable[[int], Any], FaultPlan | None]] = {
    "one CPU": (lambda seed: one_cpu(), None),
    "two nodes": (lambda seed: several_nodes(), None),
    "two nodes, values are lost": (lambda seed: several_nodes(), FaultPlan(lose_object=0.2)),
    "chaos": (lambda seed: chaos.play(seed, chaos.SMALL), None),
}


def first_seed(name: str, seeds: int) -> tuple[int, str] | None:
    """How many seeds it takes until one notices something, and what; None if none of them does."""
    program, faults = PROGRAMS[name]
    for seed in range(seeds):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run = Run(
                functools.partial(program, seed), seed, faults=faults, max_steps=4_000, max_virtual_s=1e5, watchdog_s=0
            ).go()
        if run.error is not None:
            error = run.error
            while error.__cause__ is not None and type(error) is AssertionError:  # chaos tells its story first
                error = error.__cause__
            return seed + 1, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:110]
    return None


def hunt(seeds: int) -> None:
    """Run the programs, and print for each one a line of JSON: its name, and what `first_seed` says."""
    for name in PROGRAMS:
        sys.stdout.write(json.dumps([name, first_seed(name, seeds)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    hunt(int(sys.argv[1]))
