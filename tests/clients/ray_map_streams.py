"""ray-map: map and imap with back-pressure, checkpoints, timeouts for single items, and async variants.

Needs: cloudpickle==3.1.3
Needs alone: ray-map==1.0.3

Prints:

    in order: [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
    in any order, sorted: [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
    errors as results: [0, 1, ValueError, 9, 16]
    an error stops the map: ValueError
    slow items time out: [0, TimeoutError, 4]
    a stream of unknown length: 45
    read from the checkpoint, without a call: [0, 1, 4]
    awaited: [0, 1, 4]
"""

import asyncio
import os
import tempfile
import time

import ray
from ray_map import RayMap


def square(x):
    return x * x


def fragile(x):
    if x == 2:
        raise ValueError("two")
    return x * x


def slow(x):
    if x == 1:
        time.sleep(1)
    return x * x


def never(x):
    raise AssertionError("the result should come from the checkpoint")


def shown(results):
    return "[" + ", ".join(type(r).__name__ if isinstance(r, Exception) else str(r) for r in results) + "]"


ray.init(num_cpus=2)
print("in order:", list(RayMap(square, batch_size=3).imap(range(10))))
print("in any order, sorted:", sorted(RayMap(square, batch_size=2, max_pending=2).imap(range(10), keep_order=False)))
print("errors as results:", shown(RayMap(fragile).map(range(5), safe_exceptions=True)))
try:
    RayMap(fragile, batch_size=1).map(range(5))
except ValueError:
    print("an error stops the map: ValueError")
print("slow items time out:", shown(RayMap(slow).map(range(3), timeout=0.2, safe_exceptions=True)))
print("a stream of unknown length:", sum(RayMap(int).imap(iter(range(10)))))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "results.pkl")
    RayMap(square, checkpoint_path=path).map(range(3))
    print("read from the checkpoint, without a call:", RayMap(never, checkpoint_path=path).map(range(3)))
print("awaited:", asyncio.run(RayMap(square).map_async(range(3))))
ray.shutdown()
