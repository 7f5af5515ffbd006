"""Errors travel: `get` raises what the task raised, and a task that depends on a failed value fails with it.

The error is an instance both of the class that was raised and of RayTaskError. It is a value like any other: nothing is
raised until somebody calls `get`. To retry a task after an exception of its own, set `retry_exceptions`. If the worker
dies, the task is retried anyway. `max_retries` limits both.

Prints:

    ZeroDivisionError, and a RayTaskError too? True
    it reached the task that used its result: ZeroDivisionError
    the third attempt of the shaky task returned: ready
    the worker died twice, with one retry allowed: WorkerCrashedError
"""

import os

import miniray as ray


@ray.remote
def divide(a, b):
    return a // b


@ray.remote
class Counter:
    def __init__(self):
        self.n = 0

    def next(self):
        self.n += 1
        return self.n


@ray.remote(max_retries=2, retry_exceptions=[ConnectionError])
def shaky(counter):
    if ray.get(counter.next.remote()) < 3:
        raise ConnectionError("the connection dropped")
    return "ready"


@ray.remote(max_retries=1)
def crash():
    os._exit(1)


ray.init(num_cpus=2)

bad = divide.remote(1, 0)
try:
    ray.get(bad)
except ZeroDivisionError as error:
    print("ZeroDivisionError, and a RayTaskError too?", isinstance(error, ray.exceptions.RayTaskError))
try:
    ray.get(divide.remote(bad, 2))
except ZeroDivisionError:
    print("it reached the task that used its result: ZeroDivisionError")

print("the third attempt of the shaky task returned:", ray.get(shaky.remote(Counter.remote())))
try:
    ray.get(crash.remote())
except ray.exceptions.WorkerCrashedError as error:
    print("the worker died twice, with one retry allowed:", type(error).__name__)

ray.shutdown()
