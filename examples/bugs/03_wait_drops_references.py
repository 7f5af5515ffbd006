"""`wait` returns more references than the loop expects, and the loop drops the others.

`num_returns` is all of them, so that one call after a timeout may return several; the loop looks at the first only. The
fix looks at all that are ready.

Prints:

    fixed: 100 runs passed
    buggy: AssertionError
"""

import random
import time

import miniray as ray
from miniray.testing import ExplorationFailure, explore


@ray.remote
def measure(sensor):
    time.sleep(random.random())
    return sensor


def run(take):
    left = [measure.remote(sensor) for sensor in range(4)]
    measured = []
    while left:
        ready, left = ray.wait(left, num_returns=len(left), timeout=0.1)
        measured += [ray.get(ref) for ref in take(ready)]
    assert sorted(measured) == [0, 1, 2, 3]


def buggy():
    run(lambda ready: ready[:1])


def fixed():
    run(lambda ready: ready)


if __name__ == "__main__":
    found = explore(fixed, seeds=range(100))
    print(f"fixed: {found.runs} runs passed")
    try:
        explore(buggy)
    except ExplorationFailure as failure:
        print("buggy:", type(failure.__cause__).__name__)
