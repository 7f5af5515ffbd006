"""Queue: a first-in-first-out queue between tasks and actors that do not know each other.

Producers wait while the queue is full, and consumers while it is empty. With a timeout they give up and raise Full or
Empty, as with Python's own queue. The queue is an actor: a task gets it as an argument like any other value.

Prints:

    consumed 10 items from 2 producers, their sum is 90
    each producer's items arrived in order: True
    the queue is empty: Empty
    there is no room for a third item: Full
"""

import miniray as ray
from miniray.util.queue import Empty, Full, Queue


@ray.remote
def produce(queue, name, items):
    for item in items:
        queue.put((name, item))


@ray.remote
def consume(queue, count):
    return [queue.get() for _ in range(count)]


ray.init(num_cpus=3)

queue = Queue(maxsize=2)
produce.remote(queue, "even", [0, 2, 4, 6, 8])
produce.remote(queue, "tens", [0, 10, 20, 30, 10])
items = ray.get(consume.remote(queue, 10))
print(f"consumed {len(items)} items from 2 producers, their sum is {sum(item for _, item in items)}")
print(
    "each producer's items arrived in order:",
    [i for name, i in items if name == "even"] == [0, 2, 4, 6, 8]
    and [i for name, i in items if name == "tens"] == [0, 10, 20, 30, 10],
)

try:
    queue.get_nowait()
except Empty:
    print("the queue is empty: Empty")

queue.put_nowait("first")
queue.put_nowait("second")
try:
    queue.put("third", timeout=0.01)
except Full:
    print("there is no room for a third item: Full")

ray.shutdown()
