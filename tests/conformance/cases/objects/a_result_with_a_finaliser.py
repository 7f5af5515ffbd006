"""A returned value is dropped before its result is delivered: its finaliser may wait for tasks and may take its time."""
import time


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def plus_one(x):
        return x + 1

    class Asks:
        def __del__(self):
            if ray.is_initialized():
                ray.get(plus_one.remote(1))

    class Slow:
        def __del__(self):
            time.sleep(0.6)

    class Holds:
        def __init__(self):
            self.refs = [ray.put("inside"), plus_one.remote(41)]

        def __reduce__(self):
            return list, (self.refs,)

        def __del__(self):
            time.sleep(0.1)

    @ray.remote
    def returns(kind):
        return kind()

    @ray.remote(num_returns=2)
    def returns_two(kind):
        return kind(), kind()

    @ray.remote
    class Actor:
        def returns(self, kind):
            return kind()

    @ray.remote
    class AsyncActor:
        async def returns(self, kind):
            return kind()

    actor, async_actor = Actor.remote(), AsyncActor.remote()
    ray.get([actor.returns.remote(int), async_actor.returns.remote(int), returns.remote(int)])
    for _ in range(3):
        ray.wait([returns.remote(Asks)])
        ctx.show("then", ray.get(plus_one.remote(1)))
    ray.wait(returns_two.remote(Asks), num_returns=2)
    ray.wait([actor.returns.remote(Asks)])
    ctx.show("then", ray.get(plus_one.remote(1)))
    for submit in returns.remote, actor.returns.remote:
        begin = time.monotonic()
        ray.wait([submit(Slow)])
        ctx.show("delivered after its finaliser", time.monotonic() - begin > 0.5)
    for submit in returns.remote, actor.returns.remote, async_actor.returns.remote:
        ctx.show("the references in it are kept", ray.get(ray.get(submit(Holds))))
