"""@method looks at the values it is given as soon as it decorates; unknown names are AssertionErrors."""
import functools


def run(ctx):
    ray = ctx.ray

    def plain(self):
        return 1

    def stream(self):
        yield 1

    @functools.wraps(stream)
    def wrapped(self):
        return stream(self)

    for options in ({"num_returns": "streaming"}, {"num_returns": -1}, {"num_returns": 2}, {"_num_objects_per_yield": 0},
                    {"tensor_transport": "object_store"}, {"nope": 1}, {"concurrency_group": "any"}, {"max_task_retries": "many"}):
        ctx.show(options)
        for function in plain, stream, wrapped:
            ctx.raises(lambda: ray.method(**options)(function).__name__)
    ctx.raises(lambda: ray.method(plain).__name__)
    ctx.raises(lambda: ray.method(plain, num_returns=2))
    ctx.raises(lambda: ray.method("plain"))
    ctx.show(callable(ray.method()))
