"""The future of a reference is not running until the value is there: it can be cancelled, which leaves the task alone."""


def run(ctx):
    ray = ctx.ray

    @ray.remote(num_cpus=0)
    class Gate:
        def __init__(self):
            import asyncio
            self.event = asyncio.Event()

        async def wait(self):
            await self.event.wait()
            return "went through"

        async def open(self):
            self.event.set()

    gate = Gate.remote()
    waiting = gate.wait.remote()
    future = waiting.future()
    ctx.show(future.running(), future.done(), future.cancel(), future.cancelled())
    ctx.raises(lambda: future.result(1), "CancelledError")
    other = waiting.future()
    ctx.show(ray.get(gate.open.remote()), ray.get(waiting), other.result(10), other.cancel(), other.done())
