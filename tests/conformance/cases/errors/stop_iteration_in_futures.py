"""A future or an `await` of a task that raised StopIteration or StopAsyncIteration raises RuntimeError; `get` does not."""

import asyncio


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def stop():
        raise StopIteration(5)

    @ray.remote
    def stop_async():
        raise StopAsyncIteration(5)

    @ray.remote
    def leave():
        raise GeneratorExit

    def show(label, function):
        try:
            ctx.show(label, "returns", function())
        except BaseException as error:
            cause = error.__cause__
            ctx.show(label, "raises", type(error).__name__, str(error).splitlines()[-1:], type(cause).__name__, isinstance(cause, ray.exceptions.RayTaskError))

    async def awaited(ref):
        return await ref

    async def gathered(*refs):
        return [type(error).__name__ for error in await asyncio.gather(*refs, return_exceptions=True)]

    async def wrapped(ref):
        return await asyncio.wrap_future(ref.future())

    for function in (stop, stop_async, leave):
        ref = function.remote()
        show("get", lambda: ray.get(ref))
        show("future", lambda: ref.future().result(20))
        show("exception", lambda: repr(ref.future().exception(20))[:60])
        show("await", lambda: asyncio.run(awaited(ref)))
        show("await, not ready yet", lambda: asyncio.run(awaited(function.remote())))
        show("gather", lambda: asyncio.run(gathered(ref, function.remote())))
        show("wrap", lambda: asyncio.run(wrapped(ref)))

    @ray.remote
    class Waiter:
        async def wait_for(self, refs):
            return await refs[0]

    waiter = Waiter.remote()
    show("an async actor", lambda: ray.get(waiter.wait_for.remote([stop.remote()])))
