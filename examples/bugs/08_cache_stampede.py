"""A cache stampede: two tasks miss the same entry of a cache, and both compute it.

Between the look and the store there is time for others to look. The fix lets the first one claim the entry, and the
others wait for the result of its computation.

Prints:

    fixed: 100 runs passed
    buggy: AssertionError
"""

import miniray as ray
from miniray.testing import ExplorationFailure, explore


@ray.remote
class Cache:
    def __init__(self):
        self.entries, self.computed = {}, 0

    def look(self, key):
        return self.entries.get(key)

    def store(self, key, value):
        self.entries[key] = value
        self.computed += 1

    def look_or_compute(self, key):
        if key not in self.entries:
            self.entries[key] = square.remote(key)
            self.computed += 1
        return self.entries[key]

    def count(self):
        return self.computed


@ray.remote
def square(key):
    return key * key


@ray.remote
def ask(cache, key):
    value = ray.get(cache.look.remote(key))
    if value is None:
        value = key * key
        ray.get(cache.store.remote(key, value))
    return value


@ray.remote
def ask_once(cache, key):
    return ray.get(ray.get(cache.look_or_compute.remote(key)))


def run(ask):
    cache = Cache.remote()
    assert ray.get([ask.remote(cache, 7), ask.remote(cache, 7)]) == [49, 49]
    assert ray.get(cache.count.remote()) == 1


def buggy():
    run(ask)


def fixed():
    run(ask_once)


if __name__ == "__main__":
    found = explore(fixed, seeds=range(100))
    print(f"fixed: {found.runs} runs passed")
    try:
        explore(buggy)
    except ExplorationFailure as failure:
        print("buggy:", type(failure.__cause__).__name__)
