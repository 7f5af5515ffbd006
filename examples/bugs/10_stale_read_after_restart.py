"""A stale read: an actor confirms a write, crashes, is restarted, and has forgotten the write.

`max_restarts` restarts the process, not the state. The fix keeps the state with another actor, and reads it when it
starts.

Prints:

    fixed: 100 runs passed
    buggy: AssertionError
"""

import miniray as ray
from miniray.testing import ExplorationFailure, FaultPlan, explore

FAULTS = FaultPlan(crash=0.1)


class Disk:
    def __init__(self):
        self.value = 0

    def load(self):
        return self.value

    def save(self, value):
        self.value = value


@ray.remote(max_restarts=-1, max_task_retries=-1)
class Store:
    def __init__(self, disk):
        self.disk = disk
        self.value = ray.get(disk.load.remote()) if disk is not None else 0

    def write(self, value):
        if self.disk is not None:
            ray.get(self.disk.save.remote(value))
        self.value = value

    def read(self):
        return self.value


def run(disk):
    store = Store.remote(disk)
    for value in 1, 2, 3:
        ray.get(store.write.remote(value))
        assert ray.get(store.read.remote()) == value


def buggy():
    run(None)


def fixed():
    run(ray.remote(Disk).remote())


if __name__ == "__main__":
    found = explore(fixed, seeds=range(100), faults=FAULTS)
    print(f"fixed: {found.runs} runs passed")
    try:
        explore(buggy, faults=FAULTS)
    except ExplorationFailure as failure:
        print("buggy:", type(failure.__cause__).__name__)
