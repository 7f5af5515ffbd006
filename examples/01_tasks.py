"""A remote function: `.remote()` requests a call and returns a reference at once; `get` waits for the value.

A reference may be an argument of another call. That call waits until the value exists. The program does not wait, and
the value goes from task to task without passing through the program.

Prints:

    add.remote() returned an ObjectRef
    1 + 2 = 3
    the squares are [0, 1, 4, 9, 16]
    their sum, computed by a chain of tasks: 30
"""

import miniray as ray


@ray.remote
def add(a, b):
    return a + b


@ray.remote
def square(n):
    return n * n


ray.init(num_cpus=2)

ref = add.remote(1, 2)
print("add.remote() returned an", type(ref).__name__)
print("1 + 2 =", ray.get(ref))

squares = [square.remote(n) for n in range(5)]  # five calls that may run at the same time
print("the squares are", ray.get(squares))

total = squares[0]
for ref in squares[1:]:
    total = add.remote(total, ref)  # references in, a reference out: nothing waits here
print("their sum, computed by a chain of tasks:", ray.get(total))

ray.shutdown()
