"""Programs whose functions and classes are defined anew again and again, as the cells of a notebook are."""

from __future__ import annotations

import gc
import sys
import time
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
    """Run source as a cell of the main program: `cells(source)`; its names are attributes of `cells.main`."""
    main = types.ModuleType("__main__")
    main.ray = ray
    monkeypatch.setitem(sys.modules, "__main__", main)

    def run(source):
        exec(compile(source, "<cell>", "exec"), vars(main))

    run.main = main
    gc.freeze()  # what other tests have left is not looked at
    with ray.init(num_cpus=2, local_mode=request.param == "local_mode", log_to_driver=False):
        yield run
    gc.unfreeze()


def test_each_cell_uses_what_was_defined_last(cells):
    """Functions, classes and what they refer to; an object of an older class is one of that class still."""
    cells(CELL.format(n=1))
    old = cells.main.Point(1)
    for n in (2, 3):
        cells(CELL.format(n=n))
        cells(USE)
    assert type(ray.get(ray.put(old))) is type(old) is not cells.main.Point


@frees_memory
def test_what_was_defined_anew_goes(cells):
    """The classes with the actors made of them, the functions, what their closures hold, and every copy of them in a worker: only
    the records of what ran are kept, up to their bound."""
    gone = []

    class Big:
        """What a function holds."""

    for n in range(3):
        cells(CELL.format(n=n))
        cells(USE)
        cells.main.f._function.held = Big()
        gone += [
            weakref.ref(thing)
            for thing in (
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

    def left():
        gc.collect()
        ray.get(one.remote())  # what was let go of is taken note of at the next call
        return [ref() for ref in gone if ref() is not None] or [
            kind
            for kind in gc.get_objects()
            if isinstance(kind, type)
            and kind.__module__ == "__main__"
            and kind.__name__ in ("Point", "Counter", "Async")
        ]

    deadline = time.monotonic() + 20
    while left() and time.monotonic() < deadline:  # the threads of the actors end by themselves
        time.sleep(0.001)
    assert left() == []


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


def test_what_a_function_had_captured_goes_when_no_task_will_call_it_again(cells):
    """Though the records of its tasks are kept. One that is still to run, or an actor that may be made anew, keeps its own."""

    def captured(thing):
        return weakref.ref(
            (thing._source if hasattr(thing, "_source") else thing.__ray_metadata__).capture(ray.api.session)
        )

    gone = []
    for n in range(4):
        cells(BIG.format(n=n))
        counter = cells.main.Counter.remote()
        assert ray.get([cells.main.f.remote(), counter.get.remote()]) == [n, n]
        gone += [captured(cells.main.f), captured(cells.main.Counter)]
        ray.kill(counter)
    bell, counter = cells.main.Bell.remote(), cells.main.Counter.remote()
    waits = cells.main.f.remote(bell.wait.remote())
    kept = captured(cells.main.f), captured(cells.main.Counter)
    for n in range(4, 7):
        cells(BIG.format(n=n))
        assert ray.get(cells.main.f.remote()) == n
    assert [ref() for ref in gone[:-2]] == [None] * 6 and None not in [ref() for ref in kept]
    ray.get(bell.ring.remote())
    assert ray.get(waits) == 3
    ray.kill(counter, no_restart=False)
    assert ray.get(counter.get.remote()) == 3
