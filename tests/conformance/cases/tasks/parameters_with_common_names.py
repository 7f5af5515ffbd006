"""Parameters may be called self, args, kwargs, name or options: they do not collide with those of .remote()."""


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def names(self=1, args=2, kwargs=3, name=4, options=5, remote=6):
        return self, args, kwargs, name, options, remote

    @ray.remote
    def any_names(**keywords):
        return sorted(keywords)

    @ray.remote
    class Named:
        def call(self, args=1, kwargs=2, name=3, method=4):
            return args, kwargs, name, method

    ctx.show(ray.get(names.remote(self=10, args=20, kwargs=30, name=40, options=50, remote=60)))
    ctx.show(ray.get(any_names.remote(self=1, args=2, **{"a b": 3, "": 4, "class": 5})))
    ctx.show(ray.get(Named.remote().call.remote(args=10, kwargs=20, name=30, method=40)))
