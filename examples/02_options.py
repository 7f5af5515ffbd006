"""Options: what a task needs and how many values it returns, in the decorator or for one call with `.options()`.

Resources are a promise to the scheduler, not an enforced limit: a task that asks for 2 of a node's 4 CPUs leaves 2 for
others. `.options()` returns a changed copy and leaves the function unchanged. With `num_returns`, a call returns that
many references; the program can wait for each of them, or pass it on, separately.

Prints:

    with the decorator's 2 CPUs: {'CPU': 2.0}
    with other options: {'CPU': 0.5, 'license': 1.0}
    the function itself is unchanged: {'CPU': 2.0}
    quotient 5, remainder 2
    a task that returned 3 values instead of 2: ValueError
"""

import miniray as ray


@ray.remote(num_cpus=2)
def assigned_resources():
    return ray.get_runtime_context().get_assigned_resources()


@ray.remote(num_returns=2)
def divide(a, b):
    return a // b, a % b


@ray.remote(num_returns=2, max_retries=0)
def one_too_many():
    return 1, 2, 3


ray.init(num_cpus=4, resources={"license": 1})

print("with the decorator's 2 CPUs:", ray.get(assigned_resources.remote()))
cheap = assigned_resources.options(num_cpus=0.5, resources={"license": 1})
print("with other options:", dict(sorted(ray.get(cheap.remote()).items())))
print("the function itself is unchanged:", ray.get(assigned_resources.remote()))

quotient, remainder = divide.remote(17, 3)
print(f"quotient {ray.get(quotient)}, remainder {ray.get(remainder)}")

first, second = one_too_many.remote()
try:
    ray.get(first)
except ValueError as error:
    print("a task that returned 3 values instead of 2:", type(error.cause).__name__)

ray.shutdown()
