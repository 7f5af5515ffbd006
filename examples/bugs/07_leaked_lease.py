"""A leaked lease: a task takes one of four seats, its worker crashes, and nobody gives the seat back.

The retry takes another seat. The fix lends a seat to a name, and a retry with the same name gets the same seat.

Prints:

    fixed: 100 runs passed
    buggy: AssertionError
"""

import time
import uuid

import miniray as ray
from miniray.testing import ExplorationFailure, FaultPlan, explore

FAULTS = FaultPlan(crash=0.1)


@ray.remote
class Seats:
    def __init__(self):
        self.free, self.taken = [1, 2, 3, 4], {}

    def take(self, name):
        if name not in self.taken:
            self.taken[name] = self.free.pop()
        return self.taken[name]

    def give_back(self, name):
        if name in self.taken:
            self.free.append(self.taken.pop(name))

    def count(self):
        return len(self.free)


@ray.remote(max_retries=3)
def sit(seats, name=None):
    name = name or uuid.uuid4().hex
    ray.get(seats.take.remote(name))
    time.sleep(1)
    ray.get(seats.give_back.remote(name))


def crowd(names):
    seats = Seats.remote()
    ray.get([sit.remote(seats, name) for name in names])
    assert ray.get(seats.count.remote()) == 4


def buggy():
    crowd([None, None])


def fixed():
    crowd(["Ada", "Bob"])


if __name__ == "__main__":
    found = explore(fixed, seeds=range(100), faults=FAULTS)
    print(f"fixed: {found.runs} runs passed")
    try:
        explore(buggy, faults=FAULTS)
    except ExplorationFailure as failure:
        print("buggy:", type(failure.__cause__).__name__)
