"""`.options(...)` of a method, a function or a class gives a thing that can be called or bound, and has no options again."""


def run(ctx):
    ray = ctx.ray

    @ray.remote
    class Counter:
        def one(self, x=1):
            return x

        @ray.method(num_returns=2)
        def two(self):
            return 1, 2

        def each(self):
            yield 1
            yield 2

    @ray.remote
    def task(x=1):
        return x

    counter = Counter.remote()
    for made in counter.one.options(name="n"), task.options(num_cpus=0), Counter.options(num_cpus=0):
        ctx.show(sorted(name for name in dir(made) if not name.startswith("_")))
        ctx.raises(lambda: made.options(name="m"), "AttributeError")
        ctx.raises(lambda: made(), "TypeError")
    ctx.show(ray.get(counter.one.options(name="n").remote(5)), ray.get(counter.one.options().remote()))
    ctx.show(ray.get(counter.two.options(num_returns=1).remote()), ray.get(counter.two.options(name="n").remote()))
    ctx.show([ray.get(ref) for ref in counter.each.options(name="n").remote()])
    ctx.show(ray.get(counter.one.options(name="n").bind(7).execute()))
    ctx.show(ray.get(ray.remote(lambda method: ray.get(method.remote(8))).remote(counter.one)))
