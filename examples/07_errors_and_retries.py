"""Errors travel: `get` raises what the task raised, and what depends on a failed value fails with it.

The error is an instance both of the class that was raised and of RayTaskError. It is a value like any other: nothing is
raised before somebody asks. A task whose own error is to be retried says so with `retry_exceptions`; a worker that dies
is retried anyway, `max_retries` times.

Prints:

    ZeroDivisionError: a RayTaskError too? True
    it reached the task that used its result: ZeroDivisionError
    the third attempt of the shaky task came back: ready
    a worker that died twice of one allowed retry: WorkerCrashedError
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
        raise ConnectionError("the line was bad")
    return "ready"


@ray.remote(max_retries=1)
def crash():
    os._exit(1)


ray.init(num_cpus=2)

bad = divide.remote(1, 0)
try:
    ray.get(bad)
except ZeroDivisionError as error:
    print("ZeroDivisionError: a RayTaskError too?", isinstance(error, ray.exceptions.RayTaskError))
try:
    ray.get(divide.remote(bad, 2))
except ZeroDivisionError:
    print("it reached the task that used its result: ZeroDivisionError")

print("the third attempt of the shaky task came back:", ray.get(shaky.remote(Counter.remote())))
try:
    ray.get(crash.remote())
except ray.exceptions.WorkerCrashedError as error:
    print("a worker that died twice of one allowed retry:", type(error).__name__)

ray.shutdown()
