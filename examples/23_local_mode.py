"""local_mode: each task runs at once, on the thread of its caller, while `.remote()` is being called.

So a debugger stops inside of a task, a stack shows who called it, and what comes first in the program happens first.
Values are still copied, as for any task, and errors still wait until somebody asks for the value.

Only on miniray: Ray has given up its local_mode.

Prints:

    a task's stack has the line that called it: True
    before 1
    task 1
    after 1
    before 2
    task 2
    after 2
    the task changed a copy: [1, 2, 3]
    the error came with get, not with .remote(): ZeroDivisionError
"""
import traceback

import miniray as ray


@ray.remote
def say(n):
    print("task", n)


@ray.remote
def stack():
    return [frame.name for frame in traceback.extract_stack()]


@ray.remote
def change(numbers):
    numbers.append("changed")


@ray.remote
def divide(a, b):
    return a / b


def caller():
    return ray.get(stack.remote())


ray.init(num_cpus=1, local_mode=True)

print("a task's stack has the line that called it:", "caller" in caller())

for n in 1, 2:
    print("before", n)
    say.remote(n)
    print("after", n)

numbers = [1, 2, 3]
change.remote(numbers)
print("the task changed a copy:", numbers)

failed = divide.remote(1, 0)
try:
    ray.get(failed)
except ZeroDivisionError:
    print("the error came with get, not with .remote(): ZeroDivisionError")

ray.shutdown()
