"""In an async actor a plain method's value is what it returns: a coroutine is not awaited, and cannot be sent."""


def run(ctx):
    import asyncio
    import functools
    ray = ctx.ray

    def through(function):
        @functools.wraps(function)
        def call(*args):
            return function(*args)
        return call

    @ray.remote
    class Worker:
        async def work(self):
            await asyncio.sleep(0)
            return "worked"

        def plain(self):
            return "plain"

        def hands_over(self):
            return self.work()

        @through
        async def decorated(self):
            return "decorated"

        async def future(self):
            return asyncio.get_running_loop().create_future()

        async def coroutine(self):
            return self.work()

        async def in_thread(self):
            return await asyncio.to_thread(self.plain)

    worker = Worker.remote()
    for name in "work", "plain", "hands_over", "decorated", "future", "coroutine", "in_thread":
        ctx.show(name)
        ctx.raises(lambda: ray.get(getattr(worker, name).remote()), "TypeError")
