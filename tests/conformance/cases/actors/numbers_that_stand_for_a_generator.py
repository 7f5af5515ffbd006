"""A method that is told by a number to stream must return a generator: an iterator or a list is a ValueError."""
from decimal import Decimal


def run(ctx):
    ray = ctx.ray

    class Plain:
        def returns(self, kind):
            return iter([1, 2]) if kind == "iterator" else [1, 2]

        def yields(self):
            yield 1
            yield 2

    class Async(Plain):
        async def later(self, kind):
            return self.returns(kind)

    def tried(method, number, *args):
        try:
            made = method.options(num_returns=Decimal(number)).remote(*args)
            items = made if number == -2 else ray.get(made)
            return [ray.get(item) for item in items]
        except ValueError as error:
            return type(error).__name__

    for cls in Plain, Async:
        actor = ray.remote(cls).remote()
        for number in -1, -2:
            ctx.show(cls.__name__, number, tried(actor.yields, number))
            for kind in "iterator", "list":
                ctx.show(kind, tried(actor.returns, number, kind))
                if cls is Async:
                    ctx.show(kind, tried(actor.later, number, kind))
