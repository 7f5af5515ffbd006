"""Functions of the standard library travel by name: as an argument, inside a value, and as a name that a function refers to."""
import math
import os
import time
from time import sleep as nap


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def call(function, *args):
        return function(*args)

    @ray.remote
    def rest():
        return nap(0)

    ctx.show(ray.get([call.remote(nap, 0), call.remote(time.sleep, 0), call.remote(math.floor, 2.5), rest.remote()]))
    kept = ray.get(ray.put({"nap": nap, "exit": os._exit, "join": os.path.join}))
    ctx.show(kept["nap"] is time.sleep, kept["exit"] is os._exit, kept["join"]("a", "b"))
    ctx.show(time.sleep.__name__, time.sleep.__module__, os._exit.__name__)
    ctx.raises(lambda: ray.remote(time.sleep))
    ctx.raises(lambda: ray.remote(math.floor))
