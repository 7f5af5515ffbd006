"""What `.remote` itself is: its name, signature and documentation, and its use as an ordinary function."""

import functools
import inspect


def plain(x: int, y=2) -> int:
    """Adds."""
    return x + y


def run(ctx):
    ray = ctx.ray

    class Plain:
        """A counter."""

        def __init__(self, start: int = 0):
            """Start."""
            self.n = start

        def add(self, k: int = 1) -> int:
            """Add."""
            self.n += k
            return self.n

        def twice(self, k):
            return k * 2

    def words(thing):
        def attribute(name):
            found = getattr(thing, name, "none")
            return found if isinstance(found, (str, type(None))) else type(found).__name__

        return [attribute(name) for name in ("__name__", "__wrapped__")]

    def shape(thing):
        parameters = inspect.signature(thing).parameters.values()
        return [(p.name, p.kind.name, p.default is p.empty) for p in parameters]

    @functools.wraps(plain)
    def wrapped(*args, **kwargs):
        return plain(*args, **kwargs)

    def many(a, /, b, *c, d, e=1, **f):
        return a, b, c, d, e, f

    for function in (plain, lambda x: x, wrapped, many):
        f = ray.remote(function)
        ctx.show(f.remote.__name__.replace("<", "("), f.remote.__doc__, f.remote.__wrapped__ is function)
        ctx.show(f.remote.__qualname__ == function.__qualname__, f.remote.__module__ == function.__module__)
        ctx.show(inspect.signature(f.remote) == inspect.signature(function), f.remote.__annotations__ == function.__annotations__)
        ctx.show(inspect.isfunction(f.remote), inspect.ismethod(f.remote), f.remote is f.remote, f.remote == f.remote)
        wider = f.options(num_cpus=0)
        ctx.show(wider.remote.__name__, shape(wider.remote), hasattr(wider.remote, "__wrapped__"))
    Actor = ray.remote(Plain)
    actor = Actor.remote()
    for thing in (Actor, Actor.options(num_cpus=0), actor.add, actor.add.options(name="n"), actor.twice):
        ctx.show(words(thing.remote), shape(thing.remote))
    ctx.show(words(actor.add), hasattr(actor.add, "__name__"))
    ctx.show(words(ray.remote(plain)))
    ctx.show(shape(ray.remote(plain).options), shape(Actor.options), shape(actor.add.options))

    f = ray.remote(plain)
    ctx.show(ray.get(list(map(f.remote, range(3)))), ray.get(functools.partial(f.remote, y=5)(1)))
    ctx.show(ray.get(list(map(actor.add.remote, [1, 2]))))
    kept, f = f.remote, None
    ctx.show(ray.get(kept(4)))

    @ray.remote
    def call(function, *args):
        return ray.get(function(*args))

    ctx.raises(lambda: ray.get(call.remote(kept, 7)))
    ctx.raises(lambda: ray.get(call.remote(ray.remote(plain).options(num_cpus=0).remote, 7)))
    ctx.raises(lambda: ray.get(call.remote(actor.add.remote, 7)))
    ctx.raises(lambda: setattr(ray.remote(plain), "other", 1))
    changed = ray.remote(plain)
    ctx.raises(lambda: setattr(changed, "remote", lambda: "mine"))
    ctx.raises(changed.remote)
    ctx.raises(lambda: ray.remote(plain)(1), "TypeError")
