"""What pickle sends by its name alone is found in the driver's `__main__` only: a worker on Ray has one of its own."""

import os
import pathlib
import subprocess
import sys

import miniray

PROGRAM = """
import functools
import miniray as ray

ray.init(num_cpus=1, log_to_driver=False, local_mode=LOCAL_MODE)

@functools.lru_cache
def cached(x):
    return x + 1

class Holder:
    @staticmethod
    @functools.cache
    def cached(x):
        return x + 2

class Single:
    def __reduce__(self):
        return "SINGLE"

class Pair:
    def __init__(self, a):
        self.a = a
    def __reduce__(self):
        return Pair, (self.a,)

SINGLE = Single()

@ray.remote
def kind(value):
    return type(value).__name__

@ray.remote
def uses():
    return cached(1)

@ray.remote
class Actor:
    def kind(self, value):
        return type(value).__name__
    def module(self):
        return type(self).__module__, type(self).__mro__[1].__module__, repr(self).split(" ")[0]

def attempt(call):
    try:
        print(call())
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[-1].split(" on <module")[0])

for value in cached, Holder.cached, SINGLE, Pair(1), functools.lru_cache(len):
    attempt(lambda: ray.get(kind.remote(value)))
    attempt(lambda: ray.get(Actor.remote().kind.remote([value])))
    attempt(lambda: ray.get(ray.put([value]))[0] is value)
attempt(lambda: ray.get(uses.remote()))
attempt(lambda: ray.get(ray.remote(lambda: SINGLE is None).remote()))
attempt(lambda: ray.get(Actor.remote().module.remote()))
"""
# Recorded from Ray 2.60, but for the address of the last cached function.
MISSING = "RayTaskError(RaySystemError) AttributeError: Can't get attribute"
EXPECTED = f"""\
{MISSING} 'cached'
{MISSING} 'cached'
True
{MISSING} 'Holder.cached'
{MISSING} 'Holder.cached'
True
{MISSING} 'SINGLE'
{MISSING} 'SINGLE'
True
Pair
list
False
PicklingError
PicklingError
PicklingError
RayTaskError(RuntimeError) AttributeError: Can't get attribute 'cached'
RayTaskError(RuntimeError) AttributeError: Can't get attribute 'SINGLE'
('program', '__main__', '<program.Actor')
"""


def run(tmp_path, local_mode):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("LOCAL_MODE", str(local_mode)))
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(miniray.__file__).parents[1])}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True, env=environment)
    return "".join(
        "PicklingError\n" if line.startswith("Pickling") else line + "\n" for line in done.stdout.splitlines()
    )


def test_a_worker_does_not_find_the_names_of_the_drivers_main(tmp_path):
    """It used to find the driver's objects, and shared them. The actor's class is in the module that the file would
    be."""
    assert run(tmp_path, local_mode=False) == EXPECTED


def test_nor_does_a_task_in_local_mode(tmp_path):
    """The answers are the same."""
    assert run(tmp_path, local_mode=True) == EXPECTED
