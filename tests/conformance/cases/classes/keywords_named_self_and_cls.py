"""Keyword arguments named like the parameters of `.remote` itself."""


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def names(**kwargs):
        return sorted(kwargs)

    @ray.remote
    def this(self, cls=0):
        return self, cls

    @ray.remote
    class Actor:
        def __init__(own, **kwargs):
            own.kwargs = sorted(kwargs)

        def made(own):
            return own.kwargs

        def names(own, **kwargs):
            return sorted(kwargs)

        @classmethod
        def of_class(own, **kwargs):
            return sorted(kwargs)

    actor = Actor.remote()
    for kwargs in ({"self": 1}, {"cls": 1}, {"args": 1, "kwargs": 2}, {"func": 1, "function": 2, "name": 3, "own": 4}):
        ctx.show(sorted(kwargs))
        for call in (
            lambda: ray.get(names.remote(**kwargs)),
            lambda: ray.get(names.options(num_cpus=0).remote(**kwargs)),
            lambda: ray.get(actor.names.remote(**kwargs)),
            lambda: ray.get(actor.names.options(name="n").remote(**kwargs)),
            lambda: ray.get(actor.of_class.remote(**kwargs)),
            lambda: ray.get(Actor.remote(**kwargs).made.remote()),
            lambda: ray.get(Actor.options(num_cpus=0).remote(**kwargs).made.remote()),
            lambda: ray.get(names.bind(**kwargs).execute()),
            lambda: type(Actor.bind(**kwargs)).__name__,
            lambda: type(Actor.options(num_cpus=0).bind(**kwargs)).__name__,
            lambda: type(names.options(num_cpus=0).bind(**kwargs)).__name__,
            lambda: type(actor.names.bind(**kwargs)).__name__,
        ):
            ctx.raises(call, "TypeError")
    ctx.raises(lambda: ray.get(this.remote(self=1)), "TypeError")
    ctx.raises(lambda: ray.get(this.remote(1, cls=2)), "TypeError")
    ctx.raises(lambda: ray.get(this.options(num_cpus=0).remote(1, cls=2)), "TypeError")
    ctx.raises(lambda: ray.get(this.options(num_cpus=0).remote(self=1)), "TypeError")
