"""`_next_sync` and `_next_async`, which Ray's libraries call, take a time limit, and return a nil reference after it."""


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def count(n):
        for item in range(n):
            yield item
        if n == 1:
            raise ValueError(n)

    @ray.remote
    class Reader:
        async def read(self, n):
            stream, found = count.remote(n), []
            while True:
                try:
                    found.append(await (await stream._next_async(20)))
                except StopAsyncIteration:
                    return found
                except ValueError as error:
                    found.append(type(error).__name__)

    stream = count.remote(2)
    ctx.show(ray.get(stream._next_sync(20)), ray.get(stream._next_sync()))
    ctx.raises(lambda: stream._next_sync(20))
    ctx.raises(lambda: stream._next_sync())
    ctx.raises(lambda: stream._next_sync(-1))
    stream = count.remote(1)
    ctx.show(ray.get(stream._next_sync(20)))
    ctx.raises(lambda: ray.get(stream._next_sync(20)), "ValueError")
    ctx.raises(lambda: stream._next_sync(20))
    ctx.show(ray.get(Reader.remote().read.remote(2)), ray.get(Reader.remote().read.remote(1)))
