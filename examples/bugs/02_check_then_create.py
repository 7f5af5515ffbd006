"""Check, then create: two tasks look for a named actor, and create it if there is none.

If both look before either creates it, the second creation fails, because the name is taken. The fix asks for both in
one step: `get_if_exists=True`.

Prints:

    fixed: 100 runs passed
    buggy: RayTaskError(ActorAlreadyExistsError)
"""

import miniray as ray
from miniray.testing import ExplorationFailure, explore


@ray.remote
class Registry:
    def ready(self):
        return True


@ray.remote
def look_then_create():
    try:
        registry = ray.get_actor("registry")
    except ValueError:
        registry = Registry.options(name="registry", lifetime="detached").remote()
    return ray.get(registry.ready.remote())


@ray.remote
def get_or_create():
    registry = Registry.options(name="registry", lifetime="detached", get_if_exists=True).remote()
    return ray.get(registry.ready.remote())


def run(find):
    assert ray.get([find.remote(), find.remote()]) == [True, True]


def buggy():
    run(look_then_create)


def fixed():
    run(get_or_create)


if __name__ == "__main__":
    found = explore(fixed, seeds=range(100))
    print(f"fixed: {found.runs} runs passed")
    try:
        explore(buggy)
    except ExplorationFailure as failure:
        print("buggy:", type(failure.__cause__).__name__)
