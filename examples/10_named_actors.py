"""Named actors: found by name instead of by handle; detached ones outlive the last handle.

An actor ends when its last handle is dropped, unless it is detached: then it lives until it is killed. `get_if_exists`
finds the actor if it already exists and creates it otherwise, so callers need not agree on who is first.

Prints:

    a task found it by name: hello from the registry
    get_if_exists returned the same actor: True
    no handle is left, but the detached actor lives: ['registry']
    killed, so the name is free: ValueError
"""

import miniray as ray


@ray.remote
class Registry:
    def __init__(self):
        self.words = {}

    def set(self, key, value):
        self.words[key] = value

    def get(self, key):
        return self.words[key]


@ray.remote
def read(key):
    return ray.get(ray.get_actor("registry").get.remote(key))


ray.init(num_cpus=2, namespace="demo")

registry = Registry.options(name="registry", lifetime="detached").remote()
ray.get(registry.set.remote("greeting", "hello from the registry"))
print("a task found it by name:", ray.get(read.remote("greeting")))

again = Registry.options(name="registry", lifetime="detached", get_if_exists=True).remote()
print("get_if_exists returned the same actor:", again == registry)

del registry, again
print("no handle is left, but the detached actor lives:", ray.util.list_named_actors())

ray.kill(ray.get_actor("registry"))
try:
    ray.get_actor("registry")
except ValueError as error:
    print("killed, so the name is free:", type(error).__name__)

ray.shutdown()
