"""`_remote` takes the arguments and the options in one call; an unknown option has no effect."""


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def f(*args, k=1):
        return args, k

    @ray.remote(num_returns=2, num_cpus=0.5)
    def two(*args):
        return 1, 2

    ctx.show(ray.get(f._remote([1, 2], {"k": 3})))
    ctx.show(ray.get(f._remote(args=(1,), num_cpus=1, name="x")))
    ctx.show(ray.get(f._remote()), ray.get(f._remote(None, None)))
    ctx.show(ray.get(f._remote([1], None, num_returns=2)))
    ctx.show(f._remote([1], num_returns=0))
    ctx.raises(lambda: f._remote(1), "TypeError")
    ctx.raises(lambda: f._remote(kwargs={"zz": 1}), "TypeError")
    ctx.show(ray.get(f._remote(nonsense=1)))
    ctx.raises(lambda: f._remote(num_cpus=-1), "ValueError")
    ctx.raises(lambda: f._remote(num_returns="many"), "ValueError", "TypeError")
    ctx.raises(lambda: ray.get(f._remote(max_retries="x")), "ValueError", "TypeError")
    found = two._remote([1])
    ctx.show(type(found).__name__)
    ctx.show(ray.get(found))
    ctx.raises(lambda: f.options(num_cpus=1)._remote([1]), "AttributeError")

    @ray.remote
    class A:
        def __init__(self, a=0, b=0):
            self.start = (a, b)

        def m(self, x=None, y=None):
            return self.start, x, y

        @ray.method(num_returns=2)
        def two(self):
            return 1, 2

        async def later(self, x=None):
            return x

    ctx.show(ray.get(A._remote([1], {"b": 2}).m.remote()))
    a = A._remote(args=[1], kwargs={"b": 2}, num_cpus=0, name="named")
    ctx.show(ray.get(a.m._remote([5], {"y": 6})))
    b = ray.get_actor("named")
    ctx.show(ray.get(b.m._remote(args=[5])), ray.get(b.m._remote((5,), num_returns=1, name="z")))
    ctx.show(ray.get(b.m._remote()))
    ctx.raises(lambda: ray.get(b.m._remote(nonsense=3)), "TypeError")
    ctx.show(len(b.two._remote()), ray.get(b.two._remote(num_returns=1)))
    ctx.raises(lambda: b.m._remote(1), "TypeError")
    ctx.raises(lambda: b.m._remote(kwargs={"q": 1}), "TypeError")
    ctx.raises(lambda: A.options(name="k")._remote([1]), "AttributeError")
    ctx.show(type(A._remote(nonsense=3)).__name__)
    ctx.raises(lambda: A._remote(num_cpus=-1), "ValueError")
    ctx.raises(lambda: A._remote([1, 2, 3]), "TypeError")
    ctx.raises(lambda: A._remote(name="named"), "ValueError")
    ctx.show(ray.get(A._remote(name="named", get_if_exists=True).m.remote()))
    ctx.show(ray.get(A.options(max_concurrency=2).remote().later._remote([7])))

    @ray.remote(num_cpus=0, max_restarts=1)
    class B:
        def options(self):
            return 1

        def resources(self):
            return ray.get_runtime_context().get_assigned_resources()

    ctx.show(ray.get(B._remote().resources.remote()), ray.get(B.remote().resources.remote()))
