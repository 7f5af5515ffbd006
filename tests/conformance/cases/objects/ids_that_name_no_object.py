"""A reference made of bytes that nothing has: it keeps them, never gets a value, and cannot be passed on."""


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def same(x):
        return x

    unknown = ray.ObjectRef(bytes(range(28)))
    ctx.show(unknown, unknown.binary() == bytes(range(28)), unknown == ray.ObjectRef(bytes(range(28))))
    gone = ray.put(5).binary()
    for ref in (unknown, ray.ObjectRef(gone)):
        ctx.raises(lambda: ray.get(ref, timeout=0.2), "GetTimeoutError")
        ctx.show([len(part) for part in ray.wait([ref], timeout=0.1)])
        ctx.raises(lambda: same.remote(ref))
        ctx.raises(lambda: same.remote([ref]))
        ctx.raises(lambda: ray.put({"ref": ref}))
        ctx.raises(lambda: ray.cancel(ref))
    alive = ray.put(6)
    ctx.show(ray.get(ray.ObjectRef(alive.binary())), ray.ObjectRef(alive.binary()) == alive)
