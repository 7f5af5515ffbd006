"""A streaming generator: a task that yields delivers its values one by one, before it has ended.

The caller gets an iterator of references. It can use and drop the first values while later ones do not exist yet, so a
stream may be larger than memory. Here the task starts its second half only after the driver has seen the first. An
error ends the stream: the values before it are delivered, and then it is raised.

Prints:

    got page 0
    got page 1
    now the task may continue
    got page 2
    got page 3
    the stream is over
    2 values arrived before the error: ValueError
"""

import asyncio

import miniray as ray


@ray.remote
class Gate:
    def __init__(self):
        self.opened = asyncio.Event()

    async def open(self):
        self.opened.set()

    async def passed(self):
        await self.opened.wait()


@ray.remote
def pages(gate):
    yield "page 0"
    yield "page 1"
    ray.get(gate.passed.remote())
    yield "page 2"
    yield "page 3"


@ray.remote(max_retries=0)
def breaks():
    yield 1
    yield 2
    raise ValueError("no more")


ray.init(num_cpus=2)

gate = Gate.remote()
for count, ref in enumerate(pages.remote(gate), 1):
    print("got", ray.get(ref))
    if count == 2:
        print("now the task may continue")
        gate.open.remote()
print("the stream is over")

values = []
try:
    for ref in breaks.remote():
        values.append(ray.get(ref))
except ValueError:
    print(len(values), "values arrived before the error: ValueError")

ray.shutdown()
