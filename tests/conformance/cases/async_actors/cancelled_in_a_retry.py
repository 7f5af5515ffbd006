"""`cancel` ends the attempt of an async call that runs now, and the call is not retried again."""


def run(ctx):
    import asyncio

    ray = ctx.ray

    @ray.remote(max_task_retries=-1)
    class Shaky:
        def __init__(self):
            self.number, self.second = 0, asyncio.Event()

        @ray.method(retry_exceptions=True)
        async def work(self):
            self.number += 1
            if self.number == 1:
                raise ValueError
            self.second.set()
            await asyncio.sleep(100)

        async def in_second(self):
            await self.second.wait()
            return self.number

    shaky = Shaky.remote()
    ref = shaky.work.remote()
    ctx.show(ray.get(shaky.in_second.remote()))
    ray.cancel(ref)
    ctx.raises(lambda: ray.get(ref), "TaskCancelledError")
    ctx.show(ray.get(shaky.in_second.remote()))
