"""Options: what a task needs and how many values it returns, in the decorator or for one call with `.options()`.

Resources are a promise for the scheduler, not a fence: a task that asks for 2 of a node's 4 CPUs leaves 2 for others.
`.options()` returns a changed copy and leaves the function as it was. With `num_returns` a call gives so many
references, each of which can be waited for and passed on alone.

Prints:

    decorated with 2 CPUs: {'CPU': 2.0}
    asked for differently: {'CPU': 0.5, 'license': 1.0}
    and as before again: {'CPU': 2.0}
    quotient 5, remainder 2
    returning 3 values from a task that should return 2: ValueError
"""
import miniray as ray


@ray.remote(num_cpus=2)
def what_was_given():
    return ray.get_runtime_context().get_assigned_resources()


@ray.remote(num_returns=2)
def divide(a, b):
    return a // b, a % b


@ray.remote(num_returns=2, max_retries=0)
def one_too_many():
    return 1, 2, 3


ray.init(num_cpus=4, resources={"license": 1})

print("decorated with 2 CPUs:", ray.get(what_was_given.remote()))
cheap = what_was_given.options(num_cpus=0.5, resources={"license": 1})
print("asked for differently:", dict(sorted(ray.get(cheap.remote()).items())))
print("and as before again:", ray.get(what_was_given.remote()))

quotient, remainder = divide.remote(17, 3)
print(f"quotient {ray.get(quotient)}, remainder {ray.get(remainder)}")

first, second = one_too_many.remote()
try:
    ray.get(first)
except ValueError as error:
    print("returning 3 values from a task that should return 2:", type(error.cause).__name__)

ray.shutdown()
