"""After its cancellation, each get and wait of a task or an actor's call that would block raises KeyboardInterrupt."""

import asyncio
import time


def run(ctx):
    ray = ctx.ray

    @ray.remote(num_cpus=0)
    class Gate:
        def __init__(self):
            self.entered, self.never, self.seen = asyncio.Event(), asyncio.Event(), []

        async def enter(self):
            self.entered.set()

        async def reached(self):
            await self.entered.wait()

        async def forever(self):
            await self.never.wait()

        async def note(self, what):
            self.seen.append(what)

        async def noted(self, number):
            while len(self.seen) < number:
                await asyncio.sleep(0.05)
            return self.seen

    def body(gate, held):
        def note(call):
            try:
                found = call()
            except BaseException as error:
                found = type(error).__name__
            gate.note.remote(found)

        gate.enter.remote()
        note(lambda: ray.get(held[0]))
        note(lambda: ray.get(held[0]))
        note(lambda: ray.get(held[0], timeout=60))
        note(lambda: len(ray.wait(held, timeout=60)[0]))
        note(lambda: ray.get(ray.put("a value that is there")))
        note(lambda: time.sleep(0.2) or "slept")

    @ray.remote
    class Actor:
        def run(self, gate, held):
            body(gate, held)

        def stream(self, gate, held):
            body(gate, held)
            yield 1

    alone, several = Actor.remote(), Actor.options(max_concurrency=2).remote()
    starts = {
        "task": ray.remote(body).remote,
        "actor": alone.run.remote,
        "stream": alone.stream.remote,
        "several": several.run.remote,
    }
    for name, start in starts.items():
        gate = Gate.remote()
        ref = start(gate, [gate.forever.remote()])
        ray.get(gate.reached.remote())
        time.sleep(1)
        ray.cancel(ref)
        ctx.show(name, ray.get(gate.noted.remote(6)))
        if name != "stream":
            ctx.raises(lambda: ray.get(ref, timeout=60), "TaskCancelledError")
