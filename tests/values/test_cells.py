"""Programs that define their functions and classes again and again, as the cells of a notebook do."""

from __future__ import annotations

import gc
import sys
import types
import weakref

import pytest

import miniray as ray
from tests.interpreter import frees_memory

CELL = """
import dataclasses, enum
LIMIT = {n}

@dataclasses.dataclass
class Point:
    x: int

    def moved(self):
        return Point(self.x + LIMIT)

class Colour(enum.Enum):
    RED = {n}

def helper(n):
    return n + LIMIT

@ray.remote
def f(n, point=None):
    return helper(n), point and point.moved(), Colour.RED

@ray.remote
class Counter:
    def __init__(self):
        self.n = LIMIT

    def get(self, point):
        return self.n, isinstance(point, Point), point.moved().x

@ray.remote
class Async:
    async def get(self):
        return LIMIT
"""
USE = """
number, point, colour = ray.get(f.remote(1, Point(5)))
assert (number, point.x, type(point), colour) == (1 + LIMIT, 5 + LIMIT, Point, Colour.RED)
counter, waits = Counter.remote(), Async.remote()
assert ray.get(counter.get.remote(Point(3))) == (LIMIT, True, 3 + LIMIT)
assert ray.get(waits.get.remote()) == LIMIT
"""


@pytest.fixture(params=["threaded", "local_mode"])
def cells(request, monkeypatch):
    """A function that runs a source as a cell of the main program. The names that it defines are in `cells.main`."""
    main = types.ModuleType("__main__")
    main.ray = ray
    monkeypatch.setitem(sys.modules, "__main__", main)

    def run(source):
        exec(compile(source, "<cell>", "exec"), vars(main))

    run.main = main
    gc.freeze()  # so that the collector does not visit what other tests have left
    with ray.init(num_cpus=2, local_mode=request.param == "local_mode", log_to_driver=False):
        yield run
    gc.unfreeze()


def test_each_cell_uses_what_was_defined_last(cells):
    """Its functions, its classes, and the globals these use. An object of an older class keeps its class."""
    cells(CELL.format(n=1))
    old = cells.main.Point(1)
    for n in (2, 3):
        cells(CELL.format(n=n))
        cells(USE)
    assert type(ray.get(ray.put(old))) is type(old) is not cells.main.Point


@frees_memory
def test_definitions_that_were_replaced_are_freed(cells):
    """The classes and their actors, the functions and what they hold, and every copy in a worker.

    Only the records of what ran are kept, up to their limit.
    """
    replaced, threads = [], []

    class Big:
        """A value that a function holds."""

    for n in range(3):
        cells(CELL.format(n=n))
        cells(USE)
        cells.main.f._function.held = Big()
        threads += [actor._record.actor.worker.handle.done for actor in (cells.main.counter, cells.main.waits)]
        replaced += [
            weakref.ref(definition)
            for definition in (
                cells.main.Point,
                cells.main.f,
                cells.main.f._function,
                cells.main.f._function.held,
                cells.main.Counter,
                cells.main.Counter.__ray_metadata__.modified_class,
                cells.main.Async.__ray_metadata__.modified_class,
            )
        ]
    vars(cells.main).clear()

    one = ray.remote(lambda: 1)
    gc.collect()
    ray.get(one.remote())  # a call processes the references that the program has dropped, so the actors die
    for ended in threads:
        assert ended is None or ended.acquire(timeout=20), "the thread of an actor ends by itself"  # None: local_mode
    gc.collect()
    ray.get(one.remote())  # and drops the snapshots of functions that no task will call again
    gc.collect()
    assert [ref() for ref in replaced if ref() is not None] == []
    assert [
        cls
        for cls in gc.get_objects()
        if isinstance(cls, type) and cls.__module__ == "__main__" and cls.__name__ in ("Point", "Counter", "Async")
    ] == []


BIG = """
data = bytes([{n}]) * 1_500_000

@ray.remote
def f(after=None):
    return data[0]

@ray.remote(max_restarts=1)
class Counter:
    def get(self):
        return data[0]

@ray.remote
class Bell:
    def __init__(self):
        import asyncio
        self.rung = asyncio.Event()

    async def wait(self):
        await self.rung.wait()

    async def ring(self):
        self.rung.set()
"""


def test_the_snapshot_of_a_function_is_dropped_when_no_task_will_call_it_again(cells):
    """Although the records of its tasks are kept. A task that is still to run keeps its snapshot, and so does an actor
    that may be restarted.
    """

    def snapshot(remote):
        source = remote._variant._source if hasattr(remote, "_variant") else remote.__ray_metadata__
        return weakref.ref(source.capture(ray.api.session))

    dropped = []
    for n in range(4):
        cells(BIG.format(n=n))
        counter = cells.main.Counter.remote()
        assert ray.get([cells.main.f.remote(), counter.get.remote()]) == [n, n]
        dropped += [snapshot(cells.main.f), snapshot(cells.main.Counter)]
        ray.kill(counter)
    bell, counter = cells.main.Bell.remote(), cells.main.Counter.remote()
    waits = cells.main.f.remote(bell.wait.remote())
    kept = snapshot(cells.main.f), snapshot(cells.main.Counter)
    for n in range(4, 7):
        cells(BIG.format(n=n))
        assert ray.get(cells.main.f.remote()) == n
    assert [ref() for ref in dropped[:-2]] == [None] * 6 and None not in [ref() for ref in kept]
    ray.get(bell.ring.remote())
    assert ray.get(waits) == 3
    ray.kill(counter, no_restart=False)
    assert ray.get(counter.get.remote()) == 3
