"""force is refused for an actor's call that has not finished, and does nothing to one that has."""


def run(ctx):
    ray = ctx.ray

    @ray.remote(num_cpus=0)
    class Gate:
        def __init__(self):
            import asyncio
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "waited"

        async def open(self):
            self.event.set()

        async def stream(self):
            yield 1

    gate = Gate.remote()
    waiting = gate.wait.remote()
    ctx.raises(lambda: ray.cancel(waiting, force=True))
    ctx.show(ray.get([gate.open.remote(), waiting]))
    ctx.show(ray.cancel(waiting, force=True), ray.cancel(waiting), ray.get(waiting))
    stream = gate.stream.remote()
    ray.get(stream.completed())
    first = next(stream)
    ctx.show(ray.cancel(stream, force=True), ray.cancel(first, force=True), ray.get(first))
