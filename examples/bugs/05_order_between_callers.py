"""Order that nobody promises: the driver calls an actor, then starts a task that calls the same actor.

Ray keeps the order of the calls of one caller, not between two callers: the driver's message may still be on its way.
The fix waits for the first call before it starts the second caller.

Prints:

    fixed: 100 runs passed
    buggy: AssertionError
"""

import miniray as ray
from miniray.testing import ExplorationFailure, FaultPlan, explore

FAULTS = FaultPlan(delay=0.2)


@ray.remote
class Settings:
    def __init__(self):
        self.level = None

    def set_level(self, level):
        self.level = level

    def get_level(self):
        return self.level


@ray.remote
def work(settings):
    return ray.get(settings.get_level.remote())


def buggy():
    settings = Settings.remote()
    settings.set_level.remote(3)
    assert ray.get(work.remote(settings)) == 3


def fixed():
    settings = Settings.remote()
    ray.get(settings.set_level.remote(3))
    assert ray.get(work.remote(settings)) == 3


if __name__ == "__main__":
    found = explore(fixed, seeds=range(100), faults=FAULTS)
    print(f"fixed: {found.runs} runs passed")
    try:
        explore(buggy, faults=FAULTS)
    except ExplorationFailure as failure:
        print("buggy:", type(failure.__cause__).__name__)
