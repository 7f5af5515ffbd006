"""A call of an async actor is retried as its options say, whether it is a coroutine, a plain method or a generator."""


def run(ctx):
    import asyncio

    ray = ctx.ray

    @ray.remote(max_task_retries=3)
    class Shaky:
        def __init__(self):
            self.calls = {}

        def count(self, name):
            self.calls[name] = self.calls.get(name, 0) + 1
            return self.calls[name]

        @ray.method(retry_exceptions=[ValueError])
        async def at_once(self):
            if self.count("at once") < 3:
                raise ValueError
            return self.calls["at once"]

        @ray.method(retry_exceptions=True)
        async def after_a_while(self, name):
            number = self.count(name)
            await asyncio.sleep(0.01)
            if number < 3:
                raise ValueError
            return number

        @ray.method(retry_exceptions=True)
        def plain(self):
            if self.count("plain") < 3:
                raise ValueError
            return self.calls["plain"]

        @ray.method(retry_exceptions=True)
        async def items(self):
            number = self.count("items")
            yield number
            if number < 3:
                raise ValueError
            yield number

        @ray.method(retry_exceptions=True)
        async def always(self):
            raise ValueError(self.count("always"))

        @ray.method(retry_exceptions=[KeyError])
        async def of_another_class(self):
            raise ValueError(self.count("of another class"))

        @ray.method(retry_exceptions=True)
        async def raises_cancelled(self):
            if self.count("raises cancelled") < 3:
                raise asyncio.CancelledError
            return self.calls["raises cancelled"]

        async def numbers(self):
            return dict(sorted(self.calls.items()))

    shaky = Shaky.remote()
    ctx.show(ray.get(shaky.at_once.remote()))
    ctx.show(ray.get([shaky.after_a_while.remote(f"while {i}") for i in range(4)]))
    ctx.show(ray.get(shaky.plain.remote()))
    ctx.show([ray.get(ref) for ref in shaky.items.remote()])
    ctx.show(ray.get(shaky.raises_cancelled.remote()))
    ctx.raises(lambda: ray.get(shaky.always.remote()), "ValueError")
    ctx.raises(lambda: ray.get(shaky.of_another_class.remote()), "ValueError")
    ctx.show(ray.get(shaky.numbers.remote()))
