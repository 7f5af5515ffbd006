"""`__ray_invocation_decorator__` of a function or a method stands around each call of its `remote`."""


def run(ctx):
    ray = ctx.ray

    def around(invocation):
        def call(args, kwargs):
            return invocation([args[0], args[0]], {}), (list(args), kwargs)

        return call

    def doubled(f):
        def execute(b, c):
            return f(b + c)

        execute.__ray_invocation_decorator__ = around
        return execute

    @ray.remote
    @doubled
    def f(x):
        return x + 1

    ref, extra = f.remote(3, kwarg=3)
    ctx.show(type(ref).__name__, ray.get(ref), extra)
    ref, extra = f.options(num_cpus=1).remote(4, a=1)
    ctx.show(ray.get(ref), extra)
    ref, extra = f._remote([5], {"b": 1})
    ctx.show(ray.get(ref), extra)
    ctx.raises(lambda: f.remote(), "IndexError")

    @ray.remote
    def in_a_task(g):
        ref, extra = g.remote(6, c=1)
        return ray.get(ref), extra

    ctx.show(ray.get(in_a_task.remote(f)))

    def doubled_method(f):
        def execute(self, b, c):
            return f(self, b + c)

        execute.__ray_invocation_decorator__ = around
        return execute

    @ray.remote
    class A:
        @doubled_method
        def m(self, x):
            return x + 1

        def plain(self, x):
            return x

    a = A.remote()
    ref, extra = a.m.remote(3, kwarg=3)
    ctx.show(type(ref).__name__, ray.get(ref), extra)
    ref, extra = a.m.options(name="n").remote(4, z=1)
    ctx.show(ray.get(ref), extra)
    ref, extra = a.m._remote([5], {"b": 1})
    ctx.show(ray.get(ref), extra)
    ctx.show(ray.get(a.plain.remote(1)))

    @ray.remote
    def with_handle(handle):
        ref, extra = handle.m.remote(7)
        return ray.get(ref), extra

    ctx.show(ray.get(with_handle.remote(a)))

    def strict(invocation):
        return lambda args, kwargs: invocation(args, kwargs)

    def g(x):
        return x

    g.__ray_invocation_decorator__ = strict
    g = ray.remote(g)
    ctx.show(ray.get(g.remote(1)), ray.get(g.remote(x=2)))
    ctx.raises(lambda: g.remote(1, 2), "TypeError")

    def h(x):
        return x

    h.__ray_invocation_decorator__ = None
    ctx.show(ray.get(ray.remote(h).remote(3)))

    h.__ray_invocation_decorator__ = around
    decorated = ray.remote(h)
    h.__ray_invocation_decorator__ = strict
    ctx.raises(lambda: decorated.remote(4), "TypeError")
    ref, extra = f.bind(8).execute()
    ctx.show(ray.get(ref), extra)
    ref, extra = a.m.bind(9, 0).execute()
    ctx.show(ray.get(ref), extra)
    ref, extra = ray.get(in_a_task.options(name="t").remote(f.options(num_cpus=0)))
    ctx.show(ref, extra)

    @ray.remote
    def with_method(m):
        ref, extra = m.remote(10)
        return ray.get(ref), extra

    ctx.show(ray.get(with_method.remote(a.m)), ray.get(with_method.remote(a.m.options(name="n"))))

    @ray.remote
    class Variadic:
        def m(*args):
            return len(args)

    v = Variadic.remote()
    ctx.raises(lambda: ray.get(v.m.remote(1)), "TypeError")
    ctx.raises(lambda: ray.get(v.m.remote()), "TypeError")
