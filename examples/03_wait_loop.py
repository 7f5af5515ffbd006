"""`wait`: take results as they become ready, in whatever order that is.

`get` on a list waits for the slowest task. `wait` returns two lists, the references that are ready and the rest, and a
loop continues with the rest. With a timeout it may return fewer, or none, so a program can check without waiting.

Prints:

    nothing is ready yet: 0 ready, 4 pending
    round 1: 1 ready, 3 pending
    round 2: 1 ready, 2 pending
    round 3: 1 ready, 1 pending
    round 4: 1 ready, 0 pending
    all results: [0, 10, 20, 30]
"""

import asyncio

import miniray as ray


@ray.remote
class Gate:
    """Callers of `passed` wait until the gate is open."""

    def __init__(self):
        self.opened = asyncio.Event()

    async def open(self):
        self.opened.set()

    async def passed(self):
        await self.opened.wait()


@ray.remote
def work(gate, n):
    ray.get(gate.passed.remote())
    return n * 10


ray.init(num_cpus=4)
gate = Gate.remote()
pending = [work.remote(gate, n) for n in range(4)]

ready, pending = ray.wait(pending, timeout=0)
print(f"nothing is ready yet: {len(ready)} ready, {len(pending)} pending")

gate.open.remote()
results = []
rounds = 0
while pending:
    ready, pending = ray.wait(pending, num_returns=1)
    rounds += 1
    results += ray.get(ready)
    print(f"round {rounds}: {len(ready)} ready, {len(pending)} pending")
print("all results:", sorted(results))

ray.shutdown()
