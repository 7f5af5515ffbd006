"""The nil reference can be made and compared, and is refused by everything that wants an object."""


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def same(x):
        return x

    nil = ray.ObjectRef.nil()
    ctx.show(nil, nil.is_nil(), nil == ray.ObjectRef.nil(), nil == ray.ObjectRef(b"\xff" * 28))
    ctx.show(hash(nil) == hash(ray.ObjectRef.nil()), len(nil.binary()), ray.ObjectRef.size())
    ctx.raises(lambda: ray.get(nil, timeout=1))
    ctx.raises(lambda: ray.wait([nil], timeout=0))
    ctx.raises(lambda: ray.wait([nil], timeout=0.1))
    ctx.raises(lambda: same.remote(nil))
    ctx.raises(lambda: same.remote([nil]))
    ctx.raises(lambda: ray.ObjectRef.from_hex("ff" * 28))
    ctx.show(ray.ObjectRef.from_random().is_nil(), type(ray.ObjectRef.from_random()).__name__)
