"""A reference of a session that has ended cannot be put or passed inside a value either."""
INIT = None


def run(ctx):
    ray = ctx.ray
    extra = {"include_dashboard": False, "log_to_driver": False} if ray.__name__ == "ray" else {}
    ray.init(num_cpus=2, **extra)

    @ray.remote
    def same(x):
        return x

    old = same.remote(1)
    ray.get(old)
    ray.shutdown()
    ray.init(num_cpus=2, **extra)
    ctx.raises(lambda: same.remote(old))
    ctx.raises(lambda: same.remote([old]))
    ctx.raises(lambda: ray.put({"a": old}))
    ctx.raises(lambda: ray.put(old))
    ctx.raises(lambda: ray.cancel(old))
    ctx.raises(lambda: ray.wait([old], timeout=0))
    ctx.show([len(part) for part in ray.wait([ray.put(1), old])], ray.get(same.remote(2)))
