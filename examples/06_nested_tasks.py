"""Tasks that call tasks: divide the work, let other tasks do the parts, combine the results.

A task that waits in `get` releases its CPU meanwhile, so a tree of tasks deeper and wider than the machine still runs
to completion. A task may also return a reference without waiting for it. The caller then gets a reference to a
reference, and each `get` removes one level.

Prints:

    sorted: [1, 2, 3, 4, 5, 6, 7, 8]
    on 1 CPU: 15 tasks, nested up to 4 deep
    a task returned an ObjectRef to 42
"""

import miniray as ray


@ray.remote
def merge_sort(numbers):
    """Return the sorted numbers, the number of tasks used, and the depth of their nesting."""
    if len(numbers) < 2:
        return numbers, 1, 1
    middle = len(numbers) // 2
    halves = [merge_sort.remote(numbers[:middle]), merge_sort.remote(numbers[middle:])]
    (left, left_tasks, left_depth), (right, right_tasks, right_depth) = ray.get(halves)
    merged = []
    while left and right:
        merged.append(left.pop(0) if left[0] <= right[0] else right.pop(0))
    return merged + left + right, left_tasks + right_tasks + 1, max(left_depth, right_depth) + 1


@ray.remote
def answer():
    return 42


@ray.remote
def ask():
    return answer.remote()


ray.init(num_cpus=1)

numbers, tasks, depth = ray.get(merge_sort.remote([5, 2, 8, 1, 7, 3, 6, 4]))
print("sorted:", numbers)
print(f"on 1 CPU: {tasks} tasks, nested up to {depth} deep")

inner = ray.get(ask.remote())
print("a task returned an", type(inner).__name__, "to", ray.get(inner))

ray.shutdown()
