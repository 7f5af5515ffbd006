"""A deadlock: two actors call each other, and each waits for the other's answer.

An actor that waits inside a call runs no other call. If both are inside, nobody answers. The fix lets an actor run a
second call while the first one waits.

Prints:

    fixed: 100 runs passed
    buggy: DeadlockError
"""

import miniray as ray
from miniray.testing import ExplorationFailure, explore


class Clerk:
    def meet(self, other):
        self.other = other

    def ask(self):
        return ray.get(self.other.answer.remote())

    def answer(self):
        return "yes"


def run(clerk):
    one, other = clerk.remote(), clerk.remote()
    ray.get([one.meet.remote(other), other.meet.remote(one)])
    assert ray.get([one.ask.remote(), other.ask.remote()]) == ["yes", "yes"]


def buggy():
    run(ray.remote(Clerk))


def fixed():
    run(ray.remote(Clerk).options(max_concurrency=2))


if __name__ == "__main__":
    found = explore(fixed, seeds=range(100))
    print(f"fixed: {found.runs} runs passed")
    try:
        explore(buggy)
    except ExplorationFailure as failure:
        print("buggy:", type(failure.__cause__).__name__)
