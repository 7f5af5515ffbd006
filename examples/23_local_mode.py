"""local_mode: each task runs immediately, on its caller's thread, during the call of `.remote()`.

So a debugger stops inside a task, a stack trace shows who called it, and everything happens in program order. Values
are still copied, as for any task, and an error is still raised only by `get`.

Only on miniray: Ray has removed its local_mode.

Prints:

    a task's stack contains its caller: True
    before 1
    task 1
    after 1
    before 2
    task 2
    after 2
    the task changed a copy: [1, 2, 3]
    get raised the error, .remote() did not: ZeroDivisionError
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

print("a task's stack contains its caller:", "caller" in caller())

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
    print("get raised the error, .remote() did not: ZeroDivisionError")

ray.shutdown()
